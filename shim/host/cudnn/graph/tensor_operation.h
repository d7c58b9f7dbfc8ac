// Operations of a graph other than convolutions and pointwise operations:
//   CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR       sums and sums of squares of each channel
//   CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR  gradients of batch normalisation's scale and
//                                                      bias, and the coefficients of dx
//   CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR          tensors joined along an axis
// Get is not supported for their attributes.
#pragma once

#include <vector>

#include "shim/host/cudnn/graph/tensor.h"

namespace hostgpu {

// A tensor of an operation: its attribute, and its name in plans in JSON.
struct TensorRole {
  cudnnBackendAttributeName_t attribute;
  const char* key;
};

struct TensorOperationSchema {
  cudnnBackendDescriptorType_t kind;
  const char* operation;  // name in plans in JSON
  std::vector<TensorRole> inputs, outputs;
};

const std::vector<TensorOperationSchema>& TensorOperations();

class TensorOperation final : public GraphDescriptor {
 public:
  // REQUIRES: TensorOperations() contains `kind`.
  explicit TensorOperation(cudnnBackendDescriptorType_t kind);

  void Reset() override { *this = TensorOperation(kind()); }
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  const TensorOperationSchema& schema() const;
  bool concatenates() const { return kind() == CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR; }

  // The tensors, in the order of the operation's entry in TensorOperations(). A concatenation has
  // any number of inputs.
  std::vector<GraphTensor> inputs, outputs;
  int math_precision = CUDNN_DATA_FLOAT;
  int64_t axis = -1;            // the axis of concatenation
  int64_t in_place_index = -1;  // index of the input that is already a part of the result; -1: none
};

}  // namespace hostgpu
