// Reads the operations that plan JSON lists after a convolution. Each is pointwise, and reads
// results of earlier operations and tensors of the program. A tensor of the program is either
// shared by all images or laid out like the output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "base/status.h"
#include "cudnn/fused_operands.h"
#include "cudnn/plan_json.h"

namespace ucudnn::cudnn {

// Returns `tensor` as an operand. `is_batched` says that each image has its own elements.
FusedOperand OperandOf(const plan_json::Tensor& tensor, bool is_batched);

class FusedOperations {
 public:
  // `tensors` are all tensors of the plan; the caller keeps them alive. `convolution` is the index
  // of the convolution's result. The convolution has the type `type` and is computed in `compute`.
  // `like` (null: none) holds the operands of the same graph at another batch. `like` is needed for
  // a plan of a single image, where a tensor with elements for each image may look like one that
  // all images share.
  FusedOperations(const std::vector<plan_json::Tensor>& tensors, int convolution, DataType type,
                  DataType compute, const std::vector<FusedOperand>* like)
      : tensors_(tensors), type_(type), compute_(compute), like_(like), results_({convolution}) {}

  // Reads the next operation.
  Status Add(const JsonValue& node);

  // Returns the index of the tensor that the latest operation wrote.
  int result() const { return results_.back(); }
  // used() has a bit for each tensor that the operations read or write. batched() has a bit for
  // each tensor whose leading extent is the mini-batch.
  uint64_t used() const { return used_; }
  uint64_t batched() const { return batched_; }
  // Returns the tensors of the program that the operations read. Fails if one of them is laid out
  // differently from the output. REQUIRES: all operations are read; the output is known only then.
  Result<std::vector<FusedOperand>> Operands() const;
  // Returns the operations as text for an engine's name, for example "+scale+bias+relu". Graphs
  // have different texts if they differ in more than the tensors' identifiers.
  const std::string& text() const { return text_; }

 private:
  struct Read {
    int tensor;  // index of the tensor
    // How text() names the tensor; "this" is the result of the previous operation.
    std::string words;
  };
  Result<Read> Operand(const JsonValue& node, const char* role);
  Result<std::string> FromMemory(int index);
  Status Write(const JsonValue& node, const char* role);
  // Appends the operation to the text. Returns whether a single word names the operation together
  // with its operands.
  bool Describe(const char* word, const Read& first, const Read* second);

  const std::vector<plan_json::Tensor>& tensors_;
  const DataType type_, compute_;
  const std::vector<FusedOperand>* const like_;
  // Indices of the tensors that the convolution and the operations write, in their order.
  std::vector<int> results_;
  // Indices of the program's tensors, in the order in which they are read.
  std::vector<int> operands_;
  uint64_t used_ = 0, batched_ = 0;
  std::string text_;
};

}  // namespace ucudnn::cudnn
