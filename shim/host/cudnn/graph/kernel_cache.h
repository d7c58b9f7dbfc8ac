// CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR. In the real library, a cache stores kernels that were
// compiled for a graph of dynamic shapes, and graphs with other shapes use these kernels too. The
// stand-in's engines compile no kernels and support any shape, so a cache is accepted and stays
// empty.
#pragma once

#include "shim/host/cudnn/graph/descriptor.h"

namespace hostgpu {

class KernelCache final : public DescriptorOf<KernelCache, CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
};

}  // namespace hostgpu
