// CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: a configuration ready to run. Any number of threads may
// execute a finalized plan.
#pragma once

#include <memory>
#include <string>

#include "shim/host/cudnn/graph/engine.h"
#include "shim/host/cudnn/graph/variant_pack.h"

namespace hostgpu {

class ExecutionPlan final : public GraphDescriptor {
 public:
  ExecutionPlan() : GraphDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {}

  void Reset() override { *this = ExecutionPlan(); }
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  // Everything is checked before the call returns; the work is asynchronous. BAD_PARAM_NULL_POINTER
  // where the pack lacks an operand or the workspace; pointers that would fault on a device, such
  // as one less aligned than its tensor was declared: EXECUTION_FAILED_CUDART, now and later.
  cudnnStatus_t Execute(cudnnHandle_t handle, const VariantPack& pack) const;

 private:
  cudnnHandle_t handle_ = nullptr;
  DeviceProperties device_;
  EngineConfig config_;
  std::string json_;
  bool from_json_ = false;
};

}  // namespace hostgpu
