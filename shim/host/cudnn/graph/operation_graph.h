// CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: operations that are connected by their tensors, which
// are identified by unique ids.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "shim/host/cudnn/graph/convolution_operation.h"
#include "shim/host/cudnn/graph/pointwise_operation.h"
#include "shim/host/cudnn/graph/tensor_operation.h"

namespace hostgpu {

using GraphOperation = std::variant<ConvolutionOperation, PointwiseOperation, TensorOperation>;
struct Computation;

// OutputsOf returns the tensors that an operation writes, except its mask; InputsOf returns the
// tensors that it reads. The pointers are valid as long as the operation.
std::vector<const GraphTensor*> OutputsOf(const GraphOperation& operation);
std::vector<const GraphTensor*> InputsOf(const GraphOperation& operation);

// Checks that the operations match each other, and sorts them so that producers precede consumers.
// Removes operations that are in a cycle or depend on one. Returns BAD_PARAM if none is left.
cudnnStatus_t OrderOperations(std::vector<GraphOperation>* operations);

class OperationGraph final
    : public DescriptorOf<OperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  // Returns the computation of a finalized graph; null if no engine can run it.
  const std::shared_ptr<const Computation>& computation() const { return computation_; }
  // Returns the operations in the order in which they were set.
  const std::vector<GraphOperation>& operations() const { return operations_; }
  void set_operations(std::vector<GraphOperation> operations) {
    operations_ = std::move(operations);
  }

 private:
  std::vector<GraphOperation> operations_;
  bool dynamic_shapes_ = false;
  std::shared_ptr<const Computation> computation_;
};

}  // namespace hostgpu
