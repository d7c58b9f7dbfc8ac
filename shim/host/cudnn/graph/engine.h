// CUDNN_BACKEND_ENGINE_DESCRIPTOR: one way to run a graph. CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: an
// engine with values for its knobs.
#pragma once

#include <vector>

#include "shim/host/cudnn/graph/device_properties.h"
#include "shim/host/cudnn/graph/engine_setup.h"
#include "shim/host/cudnn/graph/knob.h"
#include "shim/host/cudnn/graph/operation_graph.h"

namespace hostgpu {

class Engine final : public DescriptorOf<Engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  OperationGraph graph;
  int64_t index = -1;
  DeviceProperties device;  // not finalized if none was set

 private:
  int32_t sm_count_target_ = 0;
  bool without_clusters_ = false;
};

class EngineConfig final : public DescriptorOf<EngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  // REQUIRES: the configuration is finalized.
  const EngineSetup& setup() const { return setup_; }

  Engine engine;
  // The choices in the order in which the application set them. The value -1 lets the engine
  // choose.
  std::vector<KnobChoice> choices;

 private:
  EngineSetup setup_{};
};

}  // namespace hostgpu
