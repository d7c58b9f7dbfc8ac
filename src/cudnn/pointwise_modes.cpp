#include "cudnn/pointwise_modes.h"

#include <algorithm>
#include <limits>

namespace ucudnn::cudnn {
namespace {

constexpr PointwiseMode kModes[] = {
    {CUDNN_POINTWISE_ADD, "CUDNN_POINTWISE_ADD", "add", Arity::kBinary},
    {CUDNN_POINTWISE_SUB, "CUDNN_POINTWISE_SUB", "sub", Arity::kBinary},
    {CUDNN_POINTWISE_MUL, "CUDNN_POINTWISE_MUL", "mul", Arity::kBinary},
    {CUDNN_POINTWISE_DIV, "CUDNN_POINTWISE_DIV", "div", Arity::kBinary},
    {CUDNN_POINTWISE_MIN, "CUDNN_POINTWISE_MIN", "min", Arity::kBinary},
    {CUDNN_POINTWISE_MAX, "CUDNN_POINTWISE_MAX", "max", Arity::kBinary},
    {CUDNN_POINTWISE_IDENTITY, "CUDNN_POINTWISE_IDENTITY", "identity", Arity::kUnary},
    {CUDNN_POINTWISE_RELU_FWD, "CUDNN_POINTWISE_RELU_FWD", "relu", Arity::kUnary},
    {CUDNN_POINTWISE_TANH_FWD, "CUDNN_POINTWISE_TANH_FWD", "tanh", Arity::kUnary},
    {CUDNN_POINTWISE_SIGMOID_FWD, "CUDNN_POINTWISE_SIGMOID_FWD", "sigmoid", Arity::kUnary},
    {CUDNN_POINTWISE_ELU_FWD, "CUDNN_POINTWISE_ELU_FWD", "elu", Arity::kUnary},
    {CUDNN_POINTWISE_GELU_FWD, "CUDNN_POINTWISE_GELU_FWD", "gelu", Arity::kUnary},
    {CUDNN_POINTWISE_GELU_APPROX_TANH_FWD, "CUDNN_POINTWISE_GELU_APPROX_TANH_FWD", "gelu_tanh",
     Arity::kUnary},
    {CUDNN_POINTWISE_SWISH_FWD, "CUDNN_POINTWISE_SWISH_FWD", "swish", Arity::kUnary},
    {CUDNN_POINTWISE_SOFTPLUS_FWD, "CUDNN_POINTWISE_SOFTPLUS_FWD", "softplus", Arity::kUnary},
    {CUDNN_POINTWISE_RELU_BWD, "CUDNN_POINTWISE_RELU_BWD", "drelu", Arity::kBackward},
    {CUDNN_POINTWISE_TANH_BWD, "CUDNN_POINTWISE_TANH_BWD", "dtanh", Arity::kBackward},
    {CUDNN_POINTWISE_SIGMOID_BWD, "CUDNN_POINTWISE_SIGMOID_BWD", "dsigmoid", Arity::kBackward},
    {CUDNN_POINTWISE_ELU_BWD, "CUDNN_POINTWISE_ELU_BWD", "delu", Arity::kBackward},
    {CUDNN_POINTWISE_GELU_BWD, "CUDNN_POINTWISE_GELU_BWD", "dgelu", Arity::kBackward},
    {CUDNN_POINTWISE_GELU_APPROX_TANH_BWD, "CUDNN_POINTWISE_GELU_APPROX_TANH_BWD", "dgelu_tanh",
     Arity::kBackward},
    {CUDNN_POINTWISE_SWISH_BWD, "CUDNN_POINTWISE_SWISH_BWD", "dswish", Arity::kBackward},
    {CUDNN_POINTWISE_SOFTPLUS_BWD, "CUDNN_POINTWISE_SOFTPLUS_BWD", "dsoftplus", Arity::kBackward}};

constexpr PointwiseNumber kNumbers[] = {{"upperClip", std::numeric_limits<double>::max()},
                                        {"lowerClip", 0},
                                        {"lowerClipSlope", 0},
                                        {"alpha", 1},
                                        {"beta", 1}};

constexpr PointwiseAttribute kAttributes[] = {
    {CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_RELU_BWD, "upperClip",
     CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP},
    {CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_RELU_BWD, "lowerClip",
     CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP},
    {CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_RELU_BWD, "lowerClipSlope",
     CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE},
    {CUDNN_POINTWISE_ELU_FWD, CUDNN_POINTWISE_ELU_BWD, "alpha", CUDNN_ATTR_POINTWISE_ELU_ALPHA},
    {CUDNN_POINTWISE_SOFTPLUS_FWD, CUDNN_POINTWISE_SOFTPLUS_BWD, "beta",
     CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA},
    {CUDNN_POINTWISE_SWISH_FWD, CUDNN_POINTWISE_SWISH_BWD, "beta",
     CUDNN_ATTR_POINTWISE_SWISH_BETA}};

}  // namespace

const PointwiseMode* FindPointwiseMode(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kModes), std::end(kModes),
                                         [&](const auto& mode) { return name == mode.name; });
  return found == std::end(kModes) ? nullptr : found;
}

PointwiseRoles RolesOf(Arity arity) {
  switch (arity) {
    case Arity::kUnary:
      return {"X", nullptr, "Y"};
    case Arity::kBinary:
      return {"X", "B", "Y"};
    case Arity::kBackward:
      break;
  }
  return {"X", "dY", "dX"};
}

std::span<const PointwiseNumber> PointwiseNumbers() { return kNumbers; }
std::span<const PointwiseAttribute> PointwiseAttributes() { return kAttributes; }

}  // namespace ucudnn::cudnn
