// CUDNN_BACKEND_OPERATION_CONVOLUTION_{FORWARD,BACKWARD_DATA,BACKWARD_FILTER}_DESCRIPTOR. x, w and
// y are the image, filter and output of the forward convolution in all three operations.
#pragma once

#include "shim/host/cudnn/graph/convolution.h"
#include "shim/host/cudnn/graph/tensor.h"
#include "shim/host/engines/engine.h"

namespace hostgpu {

class ConvolutionOperation final : public GraphDescriptor {
 public:
  explicit ConvolutionOperation(cudnnBackendDescriptorType_t kind) : GraphDescriptor(kind) {}

  void Reset() override { *this = ConvolutionOperation(kind()); }
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  Operation operation() const;
  // Returns the tensor that the operation writes.
  const GraphTensor& output() const;
  // Returns true if the tensors of a finalized operation have an axis of groups: x [n, g, c, ...],
  // w [g, k, c, ...], y [n, g, k, ...]. No engine accepts such operands.
  bool HasGroupAxis() const { return convolution.spatial_count == x.dim_count - 3; }
  int64_t groups() const { return HasGroupAxis() ? x.dims[1] : x.dims[1] / w.dims[1]; }

  GraphTensor x, w, y;
  GraphConvolution convolution;
  double alpha = 1;
  double beta = 0;

 private:
  cudnnStatus_t GiveTensor(const AttributeRequest& request, const GraphTensor& tensor,
                           bool is_filter) const;

  // A scaling factor is returned in the type in which it was set. The exception is backward_filter,
  // which always returns a double.
  int alpha_type_ = CUDNN_TYPE_DOUBLE;
  int beta_type_ = CUDNN_TYPE_DOUBLE;
};

}  // namespace hostgpu
