// CUDNN_BACKEND_TENSOR_DESCRIPTOR: type, extents and strides of an operand; extents and strides
// have 64 bits.
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

  // Sets `bytes` to the number of bytes from the first to the last element, both included. Returns
  // false if that number is too large for memory. REQUIRES: the tensor is finalized, and all
  // extents are positive.
  bool SpanBytes(size_t* bytes) const;

  // Sets strides without gaps. If the channels are the last axis in memory, they remain the last
  // axis. Returns false if the number of elements overflows.
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

// Returns the number of bytes of one element. Graph tensors may have types that legacy descriptors
// refuse; returns 1 for a type of unknown size.
size_t GraphElementBytes(int type);

}  // namespace hostgpu
