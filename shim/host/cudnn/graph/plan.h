// CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: a configuration ready to run. Any number of threads may
// execute a finalized plan.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shim/host/cudnn/device_memory.h"
#include "shim/host/cudnn/graph/engine.h"
#include "shim/host/cudnn/graph/variant_pack.h"

namespace hostgpu {

class ExecutionPlan final
    : public DescriptorOf<ExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  // Everything is checked before the call returns; the work is asynchronous. BAD_PARAM_NULL_POINTER
  // if the pack lacks an operand or the workspace. Pointers that would fault on a device, such as
  // one that is less aligned than its tensor's declaration: EXECUTION_FAILED_CUDART, now and later.
  // While the handle's stream captures, nothing runs yet: BAD_PARAM_SIZE_INSUFFICIENT or
  // BAD_PARAM_MISALIGNED_POINTER, for this call.
  cudnnStatus_t Execute(cudnnHandle_t handle, const VariantPack& pack) const;

  // Populate makes the execution the only node of `graph`, which is empty; Update makes the node of
  // an equal plan run it from now on. Both check like Execute, which is stricter than a GPU, where
  // pointers matter only at launch. NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API if the engine does not
  // declare support for this, BAD_PARAM_CUDA_GRAPH_MISMATCH for any other graph.
  cudnnStatus_t Populate(cudaGraph_t graph, const VariantPack& pack) const;
  cudnnStatus_t Update(cudaGraph_t graph, const VariantPack& pack) const;

 private:
  // The function to run, and the device memory that it uses.
  struct Bound {
    std::function<void()> run;
    std::vector<const void*> uses;
  };
  cudnnStatus_t Bind(const VariantPack& pack, Runs runs, Bound* bound) const;
  cudnnStatus_t BindNative(const VariantPack& pack, Bound* bound) const;
  // Equal for equal plans.
  uint64_t Fingerprint() const;

  cudnnHandle_t handle_ = nullptr;
  DeviceProperties device_;
  EngineConfig config_;
  std::string json_;
  bool from_json_ = false;
};

}  // namespace hostgpu
