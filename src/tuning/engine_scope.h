// The sets of engines that are measured or compared: all legacy algorithms, one engine of the graph
// API, or the engines of one plan. Plain values; thread-compatible.
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

// Makes the engines for the given handle.
using EngineMaker = std::function<std::unique_ptr<cudnn::Engines>(cudnnHandle_t)>;

// Operands of the operations that are fused after a convolution.
using FusedOperands = std::vector<cudnn::FusedOperand>;

// All legacy algorithms.
struct LegacyScope {};

// One engine of the graph API. `make` also makes the engines that may replace it.
struct GraphScope {
  EngineId engine;
  // The coarsest numeric class among the engines that `make` makes.
  NumericClass numeric = NumericClass::kDirect;
  FusedOperands fused;
  EngineMaker make;
};

// The legacy algorithms and the graph engines of one plan, or the engines that tiles of a legacy
// kernel may run. MeasuredKernels::Get does not measure such a scope; GetTilings and Verify use it.
struct MixedScope {
  // The coarsest numeric class among the engines that `make` makes.
  NumericClass numeric = NumericClass::kDirect;
  EngineMaker make;
};

using EngineScope = std::variant<LegacyScope, GraphScope, MixedScope>;

std::unique_ptr<cudnn::Engines> MakeEngines(const EngineScope& scope,
                                            const cudnn::Functions& functions,
                                            cudnnHandle_t handle);
FusedOperands FusedIn(const EngineScope& scope);
// Returns the coarsest numeric class among the scope's engines that `runs` name.
Result<NumericClass> CoarsestIn(const EngineScope& scope, Operation operation,
                                std::span<const Run> runs);

}  // namespace ucudnn::tuning
