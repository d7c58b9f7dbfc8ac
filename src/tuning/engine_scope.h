// Which engines are measured or verified: all legacy algorithms, or one engine of the graph API.
// Plain values; thread-compatible.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "convolution/partial_sums.h"
#include "cudnn/engine.h"
#include "cudnn/legacy_engines.h"
#include "planning/promise.h"

namespace ucudnn::tuning {

struct EngineScope {
  std::string engine;  // that is measured; empty: every legacy algorithm
  // The coarsest arithmetic among the engines that `make` serves.
  planning::NumericClass numeric = planning::NumericClass::kDirect;
  // What is fused behind the convolution and reads memory of its own.
  bool residual = false;
  size_t bias_bytes = 0;
  // The engine, and whatever may take its place, on a handle of ours.
  std::function<std::unique_ptr<cudnn::Engines>(cudnnHandle_t)> make;

  // `make` serves legacy algorithms and graph engines, for plans that hold both.
  bool mixed = false;

  bool legacy() const { return engine.empty(); }
  // Whether a stored measurement belongs here.
  bool Holds(std::string_view other) const {
    return legacy() ? !other.starts_with("graph:") : other == engine || other == kPartialSum;
  }
};

// Every legacy algorithm.
inline EngineScope LegacyScope(const cudnn::Functions& functions) {
  EngineScope scope;
  scope.make = [&functions](cudnnHandle_t handle) {
    return std::make_unique<cudnn::LegacyEngines>(functions, handle);
  };
  return scope;
}

}  // namespace ucudnn::tuning
