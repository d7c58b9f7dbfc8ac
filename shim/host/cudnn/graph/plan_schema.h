// Names in a plan's JSON that PlanToJson and PlanFromJson share. TensorOperations() has the names
// for a TensorOperation.
#pragma once

#include <cstdint>

#include "shim/host/cudnn/graph/convolution_operation.h"
#include "shim/host/cudnn/graph/pointwise_operation.h"

namespace hostgpu {

constexpr int64_t kSchemaVersion = 4;
constexpr const char* kPointwiseOperation = "CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR";
// kFusedConvolution is the name for a forward convolution that is followed only by a residual, a
// bias and an activation, or by some of these. kConvolutionFusion is the name for a convolution
// with other operations after it.
constexpr const char* kFusedConvolution = "CONV_ADD_BIAS_ACT";
constexpr const char* kConvolutionFusion = "GENERIC_CONV_FUSION";
// The name for a convolution that is followed by statistics.
constexpr const char* kConvolutionStatistics = "SCALE_BIAS_ADD_RELU_CONV_STATS";
constexpr const char* kPointwiseFusion = "GENERIC_POINTWISE_FUSION";

struct ConvolutionSchema {
  const char* operation;
  const char* finalize_mode;
  const char *x, *w, *y;
  cudnnBackendDescriptorType_t kind;
};

constexpr ConvolutionSchema kConvolutions[] = {
    {"CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR", "CONV_FORWARD", "X", "W", "Y",
     CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR},
    {"CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR", "CONV_BWD_DATA", "dX", "W",
     "dY", CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR},
    {"CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR", "CONV_BWD_FILTER", "X", "dW",
     "dY", CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR},
};

inline const ConvolutionSchema& SchemaOf(Operation operation) {
  return kConvolutions[static_cast<int>(operation)];
}

// The parameters of a pointwise mode and of its backward mode, other than operands. `key` is the
// real library's name for the parameter.
struct ParameterSchema {
  int forward, backward;
  const char* key;
  double GraphPointwise::*field;
};

constexpr ParameterSchema kParameters[] = {
    {CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_RELU_BWD, "upperClip", &GraphPointwise::upper_clip},
    {CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_RELU_BWD, "lowerClip", &GraphPointwise::lower_clip},
    {CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_RELU_BWD, "lowerClipSlope",
     &GraphPointwise::lower_clip_slope},
    {CUDNN_POINTWISE_ELU_FWD, CUDNN_POINTWISE_ELU_BWD, "alpha", &GraphPointwise::elu_alpha},
    {CUDNN_POINTWISE_SOFTPLUS_FWD, CUDNN_POINTWISE_SOFTPLUS_BWD, "beta",
     &GraphPointwise::softplus_beta},
    {CUDNN_POINTWISE_SWISH_FWD, CUDNN_POINTWISE_SWISH_BWD, "beta", &GraphPointwise::swish_beta},
};

struct OperandSchema {
  const char* key;
  GraphTensor PointwiseOperation::*field;
};

constexpr OperandSchema kOperands[] = {
    {"X", &PointwiseOperation::x}, {"Y", &PointwiseOperation::y},   {"B", &PointwiseOperation::b},
    {"T", &PointwiseOperation::t}, {"dX", &PointwiseOperation::dx}, {"dY", &PointwiseOperation::dy},
};

}  // namespace hostgpu
