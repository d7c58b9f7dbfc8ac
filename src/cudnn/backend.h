// Descriptors of the graph API that ucudnn owns, and execution plans made from JSON. Thread-safe as
// far as cuDNN is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cudnn/functions.h"

namespace ucudnn::cudnn {

// Movable. Destroys its descriptor through the real library.
class BackendDescriptor {
 public:
  BackendDescriptor() = default;
  ~BackendDescriptor() { Reset(); }
  BackendDescriptor(BackendDescriptor&& other) noexcept
      : functions_(other.functions_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  BackendDescriptor& operator=(BackendDescriptor&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  static Result<BackendDescriptor> Create(const Functions& functions,
                                          cudnnBackendDescriptorType_t type);

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
             const void* values);
  Status Finalize();

 private:
  void Reset();
  const Functions* functions_ = nullptr;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// The device for which plans are built. It is the device of a handle or, if no plan is run, a
// finalized CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR. Exactly one of the two members must be set; cuDNN
// crashes if both are null.
struct PlanDevice {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t properties = nullptr;
};

// Builds the finalized plan that `json` describes.
Result<BackendDescriptor> BuildPlan(const Functions& functions, const PlanDevice& device,
                                    std::string_view json);

// Returns the JSON of a finalized plan. CUDA kernels that the library compiled for the plan are
// replaced by "payload":{}, because they contain addresses and work only for the plan's own batch.
Result<std::string> PlanJson(const Functions& functions, cudnnBackendDescriptor_t plan);
// Returns the workspace of a finalized plan, in bytes.
Result<size_t> PlanWorkspace(const Functions& functions, cudnnBackendDescriptor_t plan);

// cuDNN's notes on an engine.
struct EngineNotes {
  std::vector<int> numerical;  // cudnnBackendNumericalNote_t, ascending
  std::vector<int> behavior;   // cudnnBackendBehaviorNote_t, ascending

  bool Has(cudnnBackendNumericalNote_t note) const;
};
// Return the notes on the engine of a finalized plan, and of a finalized engine configuration.
Result<EngineNotes> ReadNotes(const Functions& functions, cudnnBackendDescriptor_t plan);
Result<EngineNotes> ConfigurationNotes(const Functions& functions,
                                       cudnnBackendDescriptor_t configuration);

// The operands of one execution of a plan. REQUIRES: uids.size() == pointers.size().
struct PackOperands {
  std::span<const int64_t> uids;
  std::span<void* const> pointers;
  void* workspace = nullptr;
};

// Makes a finalized variant pack. The caller destroys `pack`, also after an error; `pack` is null
// if it could not be created. ucudnn itself allocates nothing.
cudnnStatus_t MakePack(const Functions& functions, const PackOperands& operands,
                       cudnnBackendDescriptor_t& pack);

// Makes a variant pack, passes it to `use`, and destroys it afterwards. Returns the status of
// `use`, or the error if the pack could not be made. ucudnn itself allocates nothing.
template <typename Use>
cudnnStatus_t WithPack(const Functions& functions, const PackOperands& operands, Use use) {
  cudnnBackendDescriptor_t pack = nullptr;
  cudnnStatus_t status = MakePack(functions, operands, pack);
  if (status == CUDNN_STATUS_SUCCESS) status = use(pack);
  if (pack != nullptr) functions.cudnnBackendDestroyDescriptor(pack);
  return status;
}

}  // namespace ucudnn::cudnn
