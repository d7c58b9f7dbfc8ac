// CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: the paddings, strides and dilations of a convolution.
#pragma once

#include <array>

#include "shim/host/cudnn/graph/descriptor.h"

namespace hostgpu {

class GraphConvolution final
    : public DescriptorOf<GraphConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR> {
 public:
  static constexpr int kMaxSpatial = CUDNN_DIM_MAX - 2;
  // One value for each spatial dimension; `count` is the number of values that were set.
  struct PerAxis {
    int count = 0;
    std::array<int64_t, kMaxSpatial> values{};
  };

  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  int64_t spatial_count = 0;
  int compute_type = CUDNN_DATA_FLOAT;
  int mode = CUDNN_CONVOLUTION;
  PerAxis pad_lower, pad_upper, stride, dilation;
};

}  // namespace hostgpu
