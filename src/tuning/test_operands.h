// Integer-valued operands of a convolution, with which results can be compared exactly
// (tolerance.h). They are pseudo-random, and every process makes the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "cuda/resources.h"
#include "tuning/comparison.h"
#include "tuning/tensor.h"

namespace ucudnn::tuning {

// The content of a tensor's memory, including the bytes between its elements: `pattern`, repeated
// over `bytes` bytes.
struct OperandPattern {
  std::vector<std::byte> pattern;
  size_t bytes = 0;
};

struct TestOperands {
  OperandPattern dense;   // +-1 and +-2: the image; for backward_data the output's gradient
  OperandPattern sparse;  // +-1 and 0: the filter; for backward_filter the output's gradient
};

// Returns the most nonzero terms that an output element has with these operands.
int64_t TestTerms(const ConvolutionProblem& problem);

// Makes the operands. May throw std::bad_alloc, because a sparse operand is built as a whole tensor
// in host memory.
TestOperands MakeTestOperands(const ConvolutionProblem& problem);

// Makes an operand of fused operations in `bytes` of memory: +-1, so that neither adding nor
// multiplying makes the results much larger. Operands with different values of `number` differ.
OperandPattern MakeFusedOperand(DataType type, size_t bytes, size_t number);

// Enqueues a copy of the operand into `to`, which has operand.bytes. The caller keeps `operand`
// alive until the copy is done.
Status Upload(const cuda::Driver& driver, CUstream stream, const OperandPattern& operand,
              CUdeviceptr to);

// Returns whether `from` still holds the operand. Waits for earlier work on `stream`. Fails if
// copying fails, or if `deadline` passes before the end.
Result<bool> IsUnchanged(const cuda::Driver& driver, CUstream stream, const OperandPattern& operand,
                         CUdeviceptr from, Clock::time_point deadline);

}  // namespace ucudnn::tuning
