// The last step of most functions: output = alpha * result + beta * output.
#pragma once

#include "shim/host/cudnn/api.h"
#include "shim/host/cudnn/problem.h"
#include "shim/host/cudnn/refusal.h"
#include "shim/host/engines/element.h"

namespace hostgpu {

// A function's two scaling factors, read when it is called.
struct Scales {
  double alpha, beta;
};

inline Scales ReadScales(const void* alpha, const void* beta, DataType type) {
  return {ReadScale(alpha, type), ReadScale(beta, type)};
}

// If beta is 0, `to` is not read.
template <class T>
void Blend(T& to, const Scales& scales, Accumulator<T> value) {
  const auto alpha = static_cast<Accumulator<T>>(scales.alpha);
  const auto beta = static_cast<Accumulator<T>>(scales.beta);
  Store(to, beta == 0 ? alpha * value : alpha * value + beta * Load(to));
}

}  // namespace hostgpu
