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

  // As in the real library, t of a function of one operand is a mask that it writes, and t of its
  // backward function is a mask that it reads in x's place. Only a finalized tensor in memory
  // counts.
  bool HasMask() const { return t.finalized() && !t.is_virtual; }

  GraphPointwise pointwise;
  GraphTensor x, b, t, y, dx, dy;  // unset: no dimensions
  double alpha1 = 1;
  double alpha2 = 1;
};

}  // namespace hostgpu
