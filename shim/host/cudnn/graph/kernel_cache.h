// CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR: in the real library, kernels compiled for a graph of
// dynamic shapes, which graphs of other shapes then share. The stand-in's engines compile nothing
// and serve any shape, so a cache is accepted and stays empty.
#pragma once

#include "shim/host/cudnn/graph/descriptor.h"

namespace hostgpu {

class KernelCache final : public DescriptorOf<KernelCache, CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
};

}  // namespace hostgpu
