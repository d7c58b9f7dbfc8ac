// Computes output = alpha * result + beta * output, the last step of most functions.
#pragma once

#include "shim/host/cudnn/api.h"
#include "shim/host/cudnn/problem.h"
#include "shim/host/cudnn/refusal.h"
#include "shim/host/engines/element.h"

namespace hostgpu {

// The two scaling factors of a function, which are read when the function is called.
struct Scales {
  double alpha, beta;
};

inline Scales ReadScales(const void* alpha, const void* beta, DataType type) {
  return {ReadScale(alpha, type), ReadScale(beta, type)};
}

// Sets to = alpha * value + beta * to. If beta is 0, the old value of `to` is not read.
template <class T>
void Blend(T& to, const Scales& scales, Accumulator<T> value) {
  const auto alpha = static_cast<Accumulator<T>>(scales.alpha);
  const auto beta = static_cast<Accumulator<T>>(scales.beta);
  Store(to, beta == 0 ? alpha * value : alpha * value + beta * Load(to));
}

}  // namespace hostgpu
