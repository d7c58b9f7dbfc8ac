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
  // where the pack lacks an operand or the workspace; pointers that would fault on a device, such
  // as one less aligned than its tensor was declared: EXECUTION_FAILED_CUDART, now and later. While
  // the handle's stream captures, nothing runs yet: BAD_PARAM_SIZE_INSUFFICIENT or
  // BAD_PARAM_MISALIGNED_POINTER, for this call.
  cudnnStatus_t Execute(cudnnHandle_t handle, const VariantPack& pack) const;

  // The same as the only node of `graph`, which is empty, and as what its node does from now on,
  // which an equal plan made; checked like that, stricter than a GPU, where pointers matter at
  // launch alone. NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API where the engine does not say that it
  // supports this, BAD_PARAM_CUDA_GRAPH_MISMATCH for any other graph.
  cudnnStatus_t Populate(cudaGraph_t graph, const VariantPack& pack) const;
  cudnnStatus_t Update(cudaGraph_t graph, const VariantPack& pack) const;

 private:
  // What runs, and the device memory it works on.
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
