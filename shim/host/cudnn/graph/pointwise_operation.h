// CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: y = f(alpha1*x, alpha2*b, t), or dx = f'(x or
// y)*dy.
#pragma once

#include "shim/host/cudnn/graph/pointwise.h"
#include "shim/host/cudnn/graph/tensor.h"

namespace hostgpu {

class PointwiseOperation final
    : public DescriptorOf<PointwiseOperation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  const GraphTensor& output() const {
    return ArityOf(pointwise.mode) == PointwiseArity::kBackward ? dx : y;
  }

  // Returns true if `t` is a mask: a finalized tensor in memory. As in the real library, a function
  // of one operand writes its mask to t, and its backward function reads that mask instead of x.
  bool HasMask() const { return t.finalized() && !t.is_virtual; }

  GraphPointwise pointwise;
  GraphTensor x, b, t, y, dx, dy;  // a tensor that was not set has no dimensions
  double alpha1 = 1;
  double alpha2 = 1;
};

}  // namespace hostgpu
