#include "tuning/engine_scope.h"

#include "cudnn/legacy_engines.h"
#include "tuning/tolerance.h"

namespace ucudnn::tuning {

std::unique_ptr<cudnn::Engines> MakeEngines(const EngineScope& scope,
                                            const cudnn::Functions& functions,
                                            cudnnHandle_t handle) {
  if (const auto* const graph = std::get_if<GraphScope>(&scope)) return graph->make(handle);
  if (const auto* const mixed = std::get_if<MixedScope>(&scope)) return mixed->make(handle);
  return std::make_unique<cudnn::LegacyEngines>(functions, handle);
}

FusedOperands FusedIn(const EngineScope& scope) {
  const auto* const graph = std::get_if<GraphScope>(&scope);
  return graph != nullptr ? graph->fused : FusedOperands{};
}

Result<NumericClass> CoarsestIn(const EngineScope& scope, Operation operation,
                                std::span<const Run> runs) {
  if (const auto* const graph = std::get_if<GraphScope>(&scope)) return graph->numeric;
  if (const auto* const mixed = std::get_if<MixedScope>(&scope)) return mixed->numeric;
  return CoarsestClass(operation, runs);
}

}  // namespace ucudnn::tuning
