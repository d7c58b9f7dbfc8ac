// CUDNN_BACKEND_POINTWISE_DESCRIPTOR: a function of one, two or three elements.
#pragma once

#include <limits>

#include "shim/host/cudnn/graph/descriptor.h"

namespace hostgpu {

class GraphPointwise final
    : public DescriptorOf<GraphPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;

  int mode = CUDNN_POINTWISE_ADD;
  int math_precision = CUDNN_DATA_FLOAT;
  int nan_propagation = CUDNN_NOT_PROPAGATE_NAN;
  double lower_clip = 0;
  double upper_clip = std::numeric_limits<double>::max();
  double lower_clip_slope = 0;
  double elu_alpha = 1;
  double softplus_beta = 1;
  double swish_beta = 1;
  int64_t axis = -1;
};

// The kinds of modes, by the number of tensors that they read.
enum class PointwiseArity { kUnary, kBinary, kTernary, kBackward, kUnknown };
PointwiseArity ArityOf(int mode);

}  // namespace hostgpu
