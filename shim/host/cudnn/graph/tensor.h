// CUDNN_BACKEND_TENSOR_DESCRIPTOR: the shape of an operand; 64-bit extents and strides.
#pragma once

#include <array>

#include "shim/host/cudnn/graph/descriptor.h"
#include "shim/host/engines/engine.h"

namespace hostgpu {

class GraphTensor final : public DescriptorOf<GraphTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR> {
 public:
  static constexpr int kMaxDims = CUDNN_DIM_MAX;
  using Extents = std::array<int64_t, kMaxDims>;

  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  // Sets `bytes` to the bytes from the first to the last element, both included. Returns false if
  // no memory could hold them. REQUIRES: the tensor is finalized, and all extents are positive.
  bool SpanBytes(size_t* bytes) const;

  // Sets strides without gaps in the order of the axes: channels last if the tensor has them so.
  // Returns false if there are too many elements to count.
  bool MakeDense();

  int type = CUDNN_DATA_FLOAT;
  int dim_count = 0;
  int stride_count = 0;
  Extents dims{};
  Extents strides{};
  int64_t unique_id = -1;
  int64_t alignment = -1;
  int64_t vector_count = 1;
  int64_t vector_dim = -1;
  bool is_virtual = false;
  bool is_by_value = false;
  bool is_ragged = false;
  int reordering = CUDNN_TENSOR_REORDERING_NONE;
};

// Returns the bytes of one element of a graph tensor, whose types may be ones that legacy
// descriptors refuse; 1 for a type whose size is unknown here.
size_t GraphElementBytes(int type);

}  // namespace hostgpu
