// CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: the addresses of a plan's operands and workspace. As in
// the real library, Get returns only the workspace.
#pragma once

#include <vector>

#include "shim/host/cudnn/graph/descriptor.h"

namespace hostgpu {

class VariantPack final : public DescriptorOf<VariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  // Returns the operand's address; null if the pack does not contain `unique_id`.
  void* PointerOf(int64_t unique_id) const;
  void* workspace() const { return workspace_; }
  bool overrides_shapes() const { return overrides_shapes_; }

 private:
  std::vector<int64_t> unique_ids_;
  std::vector<void*> pointers_;
  void* workspace_ = nullptr;
  bool overrides_shapes_ = false;
};

}  // namespace hostgpu
