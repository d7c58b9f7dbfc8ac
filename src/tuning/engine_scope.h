// The engines that are measured or compared: every legacy algorithm, one engine of the graph API,
// or the engines of one plan. Plain values; thread-compatible.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/engine_id.h"
#include "convolution/numeric_class.h"
#include "cudnn/engine.h"
#include "cudnn/functions.h"

namespace ucudnn::tuning {

// Makes the engines on the handle that it is given.
using EngineMaker = std::function<std::unique_ptr<cudnn::Engines>(cudnnHandle_t)>;

// Operands of the operations fused behind a convolution.
using FusedOperands = std::vector<cudnn::FusedOperand>;

// Every legacy algorithm.
struct LegacyScope {};

// One engine of the graph API. `make` also makes the engines that may replace it.
struct GraphScope {
  EngineId engine;
  NumericClass numeric = NumericClass::kDirect;  // the coarsest class among the engines of `make`
  FusedOperands fused;
  EngineMaker make;
};

// The legacy algorithms and the graph engines of one plan. Such plans are compared, never measured
// as a whole.
struct MixedScope {
  NumericClass numeric = NumericClass::kDirect;  // the coarsest class among the engines of `make`
  EngineMaker make;
};

using EngineScope = std::variant<LegacyScope, GraphScope, MixedScope>;

std::unique_ptr<cudnn::Engines> MakeEngines(const EngineScope& scope,
                                            const cudnn::Functions& functions,
                                            cudnnHandle_t handle);
FusedOperands FusedIn(const EngineScope& scope);
// Returns the coarsest numeric class of the scope's engines that `runs` name.
Result<NumericClass> CoarsestIn(const EngineScope& scope, Operation operation,
                                std::span<const Run> runs);

}  // namespace ucudnn::tuning
