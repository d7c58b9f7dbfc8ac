// CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: the engine configurations for a graph, the best ones first.
#pragma once

#include <vector>

#include "shim/host/cudnn/graph/engine.h"

namespace hostgpu {

class EngineHeuristics final
    : public DescriptorOf<EngineHeuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

 private:
  OperationGraph graph_;
  DeviceProperties device_;
  int mode_ = -1;
  int32_t sm_count_target_ = 0;
  std::vector<EngineConfig> results_;
};

}  // namespace hostgpu
