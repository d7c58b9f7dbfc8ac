// Applies a pointwise function to consecutive elements.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "shim/host/cudnn/graph/pointwise.h"

namespace hostgpu {

constexpr double kInverseSqrt2 = 0.70710678118654752440;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kInverseSqrt2Pi = 0.39894228040143267794;
constexpr double kGeluCubic = 0.044715;

// Sets to[i] = f(x[i], b[i], t[i]) for i < count; in backward functions b is dy. Returns false, and
// writes nothing, for a mode that the stand-in does not implement.
template <class A>
bool ApplyPointwise(const GraphPointwise& f, const A* x, const A* b, const A* t, A* to,
                    int64_t count) {
  const auto each = [&](const auto& function) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<A>(function(i));
    return true;
  };
  const auto sigmoid = [](A value) { return A{1} / (A{1} + std::exp(-value)); };
  const A low = static_cast<A>(f.lower_clip);
  const A high = static_cast<A>(std::min<double>(f.upper_clip, std::numeric_limits<A>::max()));
  const A slope = static_cast<A>(f.lower_clip_slope);
  const A elu_alpha = static_cast<A>(f.elu_alpha);
  const A softplus_beta = static_cast<A>(f.softplus_beta);
  const A swish_beta = static_cast<A>(f.swish_beta);
  switch (f.mode) {
    case CUDNN_POINTWISE_ADD:
      return each([&](int64_t i) { return x[i] + b[i]; });
    case CUDNN_POINTWISE_ADD_SQUARE:
      return each([&](int64_t i) { return x[i] + b[i] * b[i]; });
    case CUDNN_POINTWISE_SUB:
      return each([&](int64_t i) { return x[i] - b[i]; });
    case CUDNN_POINTWISE_MUL:
      return each([&](int64_t i) { return x[i] * b[i]; });
    case CUDNN_POINTWISE_DIV:
      return each([&](int64_t i) { return x[i] / b[i]; });
    case CUDNN_POINTWISE_MIN:
      return each([&](int64_t i) { return b[i] < x[i] ? b[i] : x[i]; });
    case CUDNN_POINTWISE_MAX:
      return each([&](int64_t i) { return x[i] < b[i] ? b[i] : x[i]; });
    case CUDNN_POINTWISE_POW:
      return each([&](int64_t i) { return std::pow(x[i], b[i]); });
    case CUDNN_POINTWISE_ABS:
      return each([&](int64_t i) { return std::abs(x[i]); });
    case CUDNN_POINTWISE_NEG:
      return each([&](int64_t i) { return -x[i]; });
    case CUDNN_POINTWISE_SQRT:
      return each([&](int64_t i) { return std::sqrt(x[i]); });
    case CUDNN_POINTWISE_RSQRT:
      return each([&](int64_t i) { return A{1} / std::sqrt(x[i]); });
    case CUDNN_POINTWISE_RECIPROCAL:
      return each([&](int64_t i) { return A{1} / x[i]; });
    case CUDNN_POINTWISE_EXP:
      return each([&](int64_t i) { return std::exp(x[i]); });
    case CUDNN_POINTWISE_LOG:
      return each([&](int64_t i) { return std::log(x[i]); });
    case CUDNN_POINTWISE_ERF:
      return each([&](int64_t i) { return std::erf(x[i]); });
    case CUDNN_POINTWISE_IDENTITY:
      return each([&](int64_t i) { return x[i]; });
    case CUDNN_POINTWISE_RELU_FWD:
      // A NaN is neither below `low` nor above `high`, so the result is NaN.
      return each([&](int64_t i) {
        const A value = x[i];
        return value < low ? low + slope * (value - low) : (value > high ? high : value);
      });
    case CUDNN_POINTWISE_TANH_FWD:
      return each([&](int64_t i) { return std::tanh(x[i]); });
    case CUDNN_POINTWISE_SIGMOID_FWD:
      return each([&](int64_t i) { return sigmoid(x[i]); });
    case CUDNN_POINTWISE_ELU_FWD:
      return each([&](int64_t i) { return x[i] > 0 ? x[i] : elu_alpha * std::expm1(x[i]); });
    case CUDNN_POINTWISE_GELU_FWD:
      return each([&](int64_t i) {
        return x[i] / 2 * (A{1} + std::erf(x[i] * static_cast<A>(kInverseSqrt2)));
      });
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
      return each([&](int64_t i) {
        const A inner =
            static_cast<A>(kSqrt2OverPi) * (x[i] + static_cast<A>(kGeluCubic) * x[i] * x[i] * x[i]);
        return x[i] / 2 * (A{1} + std::tanh(inner));
      });
    case CUDNN_POINTWISE_SOFTPLUS_FWD:
      return each([&](int64_t i) {
        const A scaled = softplus_beta * x[i];
        return (std::max(scaled, A{0}) + std::log1p(std::exp(-std::abs(scaled)))) / softplus_beta;
      });
    case CUDNN_POINTWISE_SWISH_FWD:
      return each([&](int64_t i) { return x[i] * sigmoid(swish_beta * x[i]); });
    case CUDNN_POINTWISE_RELU_BWD:
      return each(
          [&](int64_t i) { return b[i] * (x[i] > low ? (x[i] < high ? A{1} : A{0}) : slope); });
    case CUDNN_POINTWISE_TANH_BWD:
      return each([&](int64_t i) {
        const A y = std::tanh(x[i]);
        return b[i] * (A{1} - y * y);
      });
    case CUDNN_POINTWISE_SIGMOID_BWD:
      return each([&](int64_t i) {
        const A y = sigmoid(x[i]);
        return b[i] * y * (A{1} - y);
      });
    case CUDNN_POINTWISE_ELU_BWD:
      return each([&](int64_t i) { return x[i] > 0 ? b[i] : b[i] * elu_alpha * std::exp(x[i]); });
    case CUDNN_POINTWISE_GELU_BWD:
      return each([&](int64_t i) {
        const A below = (A{1} + std::erf(x[i] * static_cast<A>(kInverseSqrt2))) / 2;
        const A density = static_cast<A>(kInverseSqrt2Pi) * std::exp(-x[i] * x[i] / 2);
        return b[i] * (below + x[i] * density);
      });
    case CUDNN_POINTWISE_SOFTPLUS_BWD:
      return each([&](int64_t i) { return b[i] * sigmoid(softplus_beta * x[i]); });
    case CUDNN_POINTWISE_SWISH_BWD:
      return each([&](int64_t i) {
        const A s = sigmoid(swish_beta * x[i]);
        return b[i] * (s + swish_beta * x[i] * s * (A{1} - s));
      });
    case CUDNN_POINTWISE_CMP_EQ:
      return each([&](int64_t i) { return x[i] == b[i] ? 1 : 0; });
    case CUDNN_POINTWISE_CMP_NEQ:
      return each([&](int64_t i) { return x[i] != b[i] ? 1 : 0; });
    case CUDNN_POINTWISE_CMP_GT:
      return each([&](int64_t i) { return x[i] > b[i] ? 1 : 0; });
    case CUDNN_POINTWISE_CMP_GE:
      return each([&](int64_t i) { return x[i] >= b[i] ? 1 : 0; });
    case CUDNN_POINTWISE_CMP_LT:
      return each([&](int64_t i) { return x[i] < b[i] ? 1 : 0; });
    case CUDNN_POINTWISE_CMP_LE:
      return each([&](int64_t i) { return x[i] <= b[i] ? 1 : 0; });
    case CUDNN_POINTWISE_BINARY_SELECT:
      return each([&](int64_t i) { return t[i] != 0 ? x[i] : b[i]; });
    default:
      return false;
  }
}

}  // namespace hostgpu
