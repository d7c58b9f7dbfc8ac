// CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: an engine configuration that is ready to run. Several
// threads may execute a finalized plan at once.
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

  // Checks all arguments before it returns; the work is asynchronous. Returns
  // BAD_PARAM_NULL_POINTER if the pack lacks an operand or the workspace. For a pointer that would
  // fault on a device, for example because it is less aligned than its tensor declares, this call
  // and all later calls return EXECUTION_FAILED_CUDART. While the handle's stream captures, only
  // the call itself fails, with BAD_PARAM_SIZE_INSUFFICIENT or BAD_PARAM_MISALIGNED_POINTER.
  cudnnStatus_t Execute(cudnnHandle_t handle, const VariantPack& pack) const;

  // Populate makes the execution the only node of the empty `graph`. Update replaces the node of an
  // equal plan by this execution. Both check pointers as Execute does; a GPU is less strict,
  // because it uses the pointers only at launch. They return NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API if
  // the engine does not declare support for CUDA graphs, and BAD_PARAM_CUDA_GRAPH_MISMATCH if
  // `graph` is not as described.
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
  // Returns a hash that is equal for equal plans.
  uint64_t Fingerprint() const;

  cudnnHandle_t handle_ = nullptr;
  DeviceProperties device_;
  EngineConfig config_;
  std::string json_;
  bool from_json_ = false;
};

}  // namespace hostgpu
