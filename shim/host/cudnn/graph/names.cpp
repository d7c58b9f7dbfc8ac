#include "shim/host/cudnn/graph/names.h"

#include <span>

#include "shim/host/cudnn/api.h"

// The table also contains deprecated enumerators.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace hostgpu {
namespace {

struct Name {
  int value;
  const char* name;
};

#define HOSTGPU_NAME(enumerator) \
  { enumerator, #enumerator }

constexpr Name kDataTypes[] = {HOSTGPU_NAME(CUDNN_DATA_FLOAT),
                               HOSTGPU_NAME(CUDNN_DATA_DOUBLE),
                               HOSTGPU_NAME(CUDNN_DATA_HALF),
                               HOSTGPU_NAME(CUDNN_DATA_INT8),
                               HOSTGPU_NAME(CUDNN_DATA_INT32),
                               HOSTGPU_NAME(CUDNN_DATA_INT8x4),
                               HOSTGPU_NAME(CUDNN_DATA_UINT8),
                               HOSTGPU_NAME(CUDNN_DATA_UINT8x4),
                               HOSTGPU_NAME(CUDNN_DATA_INT8x32),
                               HOSTGPU_NAME(CUDNN_DATA_BFLOAT16),
                               HOSTGPU_NAME(CUDNN_DATA_INT64),
                               HOSTGPU_NAME(CUDNN_DATA_BOOLEAN),
                               HOSTGPU_NAME(CUDNN_DATA_FP8_E4M3),
                               HOSTGPU_NAME(CUDNN_DATA_FP8_E5M2),
                               HOSTGPU_NAME(CUDNN_DATA_FAST_FLOAT_FOR_FP8),
                               HOSTGPU_NAME(CUDNN_DATA_FP8_E8M0),
                               HOSTGPU_NAME(CUDNN_DATA_FP4_E2M1),
                               HOSTGPU_NAME(CUDNN_DATA_INT4),
                               HOSTGPU_NAME(CUDNN_DATA_UINT4),
                               HOSTGPU_NAME(CUDNN_DATA_UINT32),
                               HOSTGPU_NAME(CUDNN_DATA_COMPLEX_FP32),
                               HOSTGPU_NAME(CUDNN_DATA_COMPLEX_FP64)};

constexpr Name kPointwiseModes[] = {
    HOSTGPU_NAME(CUDNN_POINTWISE_ADD),          HOSTGPU_NAME(CUDNN_POINTWISE_ADD_SQUARE),
    HOSTGPU_NAME(CUDNN_POINTWISE_DIV),          HOSTGPU_NAME(CUDNN_POINTWISE_MAX),
    HOSTGPU_NAME(CUDNN_POINTWISE_MIN),          HOSTGPU_NAME(CUDNN_POINTWISE_MOD),
    HOSTGPU_NAME(CUDNN_POINTWISE_MUL),          HOSTGPU_NAME(CUDNN_POINTWISE_POW),
    HOSTGPU_NAME(CUDNN_POINTWISE_SUB),          HOSTGPU_NAME(CUDNN_POINTWISE_ABS),
    HOSTGPU_NAME(CUDNN_POINTWISE_CEIL),         HOSTGPU_NAME(CUDNN_POINTWISE_COS),
    HOSTGPU_NAME(CUDNN_POINTWISE_EXP),          HOSTGPU_NAME(CUDNN_POINTWISE_FLOOR),
    HOSTGPU_NAME(CUDNN_POINTWISE_LOG),          HOSTGPU_NAME(CUDNN_POINTWISE_NEG),
    HOSTGPU_NAME(CUDNN_POINTWISE_RSQRT),        HOSTGPU_NAME(CUDNN_POINTWISE_SIN),
    HOSTGPU_NAME(CUDNN_POINTWISE_SQRT),         HOSTGPU_NAME(CUDNN_POINTWISE_TAN),
    HOSTGPU_NAME(CUDNN_POINTWISE_ERF),          HOSTGPU_NAME(CUDNN_POINTWISE_IDENTITY),
    HOSTGPU_NAME(CUDNN_POINTWISE_RECIPROCAL),   HOSTGPU_NAME(CUDNN_POINTWISE_ATAN2),
    HOSTGPU_NAME(CUDNN_POINTWISE_RELU_FWD),     HOSTGPU_NAME(CUDNN_POINTWISE_TANH_FWD),
    HOSTGPU_NAME(CUDNN_POINTWISE_SIGMOID_FWD),  HOSTGPU_NAME(CUDNN_POINTWISE_ELU_FWD),
    HOSTGPU_NAME(CUDNN_POINTWISE_GELU_FWD),     HOSTGPU_NAME(CUDNN_POINTWISE_SOFTPLUS_FWD),
    HOSTGPU_NAME(CUDNN_POINTWISE_SWISH_FWD),    HOSTGPU_NAME(CUDNN_POINTWISE_GELU_APPROX_TANH_FWD),
    HOSTGPU_NAME(CUDNN_POINTWISE_RELU_BWD),     HOSTGPU_NAME(CUDNN_POINTWISE_TANH_BWD),
    HOSTGPU_NAME(CUDNN_POINTWISE_SIGMOID_BWD),  HOSTGPU_NAME(CUDNN_POINTWISE_ELU_BWD),
    HOSTGPU_NAME(CUDNN_POINTWISE_GELU_BWD),     HOSTGPU_NAME(CUDNN_POINTWISE_SOFTPLUS_BWD),
    HOSTGPU_NAME(CUDNN_POINTWISE_SWISH_BWD),    HOSTGPU_NAME(CUDNN_POINTWISE_GELU_APPROX_TANH_BWD),
    HOSTGPU_NAME(CUDNN_POINTWISE_CMP_EQ),       HOSTGPU_NAME(CUDNN_POINTWISE_CMP_NEQ),
    HOSTGPU_NAME(CUDNN_POINTWISE_CMP_GT),       HOSTGPU_NAME(CUDNN_POINTWISE_CMP_GE),
    HOSTGPU_NAME(CUDNN_POINTWISE_CMP_LT),       HOSTGPU_NAME(CUDNN_POINTWISE_CMP_LE),
    HOSTGPU_NAME(CUDNN_POINTWISE_LOGICAL_AND),  HOSTGPU_NAME(CUDNN_POINTWISE_LOGICAL_OR),
    HOSTGPU_NAME(CUDNN_POINTWISE_LOGICAL_NOT),  HOSTGPU_NAME(CUDNN_POINTWISE_GEN_INDEX),
    HOSTGPU_NAME(CUDNN_POINTWISE_BINARY_SELECT)};

constexpr Name kConvolutionModes[] = {HOSTGPU_NAME(CUDNN_CONVOLUTION),
                                      HOSTGPU_NAME(CUDNN_CROSS_CORRELATION)};

constexpr Name kReorderings[] = {
    HOSTGPU_NAME(CUDNN_TENSOR_REORDERING_NONE), HOSTGPU_NAME(CUDNN_TENSOR_REORDERING_INT8x32),
    HOSTGPU_NAME(CUDNN_TENSOR_REORDERING_F16x16), HOSTGPU_NAME(CUDNN_TENSOR_REORDERING_F8_128x4)};

// The stand-in's engines have no other knob.
constexpr Name kKnobTypes[] = {HOSTGPU_NAME(CUDNN_KNOB_TYPE_WORKSPACE)};

#undef HOSTGPU_NAME

std::span<const Name> NamesIn(NameSet set) {
  switch (set) {
    case NameSet::kDataType:
      return kDataTypes;
    case NameSet::kPointwiseMode:
      return kPointwiseModes;
    case NameSet::kKnobType:
      return kKnobTypes;
    case NameSet::kConvolutionMode:
      return kConvolutionModes;
    case NameSet::kReordering:
      break;
  }
  return kReorderings;
}

}  // namespace

const char* NameOf(NameSet set, int value) {
  for (const Name& name : NamesIn(set)) {
    if (name.value == value) return name.name;
  }
  return nullptr;
}

bool ValueOf(NameSet set, std::string_view text, int* value) {
  for (const Name& name : NamesIn(set)) {
    if (text != name.name) continue;
    *value = name.value;
    return true;
  }
  return false;
}

}  // namespace hostgpu
