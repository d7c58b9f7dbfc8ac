// CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR: in the real library, kernels compiled for a graph of
// dynamic shapes, which graphs of other shapes then share. The stand-in's engines compile nothing
// and serve any shape, so a cache is taken as it is given and holds nothing.
#pragma once

#include "shim/host/cudnn/graph/descriptor.h"

namespace hostgpu {

class KernelCache final : public GraphDescriptor {
 public:
  KernelCache() : GraphDescriptor(CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR) {}

  void Reset() override { *this = KernelCache(); }
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override { return CUDNN_STATUS_SUCCESS; }
};

}  // namespace hostgpu
