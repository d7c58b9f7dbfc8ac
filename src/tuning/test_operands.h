// Integer-valued operands of a convolution for which results can be compared exactly: see
// tolerance.h. Pseudo-random, the same in every process.
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

// What a tensor's memory holds, the bytes between its elements included: `pattern` over and over.
struct OperandPattern {
  std::vector<std::byte> pattern;
  size_t bytes = 0;
};

struct TestOperands {
  OperandPattern dense;   // +-1 and +-2: the image; the output's gradient for backward_data
  OperandPattern sparse;  // +-1 and zeros: the filter; the output's gradient for backward_filter
};

// Terms of one output element with these operands, at the most.
int64_t TestTerms(const ConvolutionProblem& problem);

// May throw std::bad_alloc: where terms must be left out, a whole tensor is built in host memory.
TestOperands MakeTestOperands(const ConvolutionProblem& problem);

// Enqueues the operand into `to`, which holds operand.bytes. `operand` must outlive the copy.
Status Upload(const cuda::Driver& driver, CUstream stream, const OperandPattern& operand,
              CUdeviceptr to);

// Whether `from` still holds the operand, behind what `stream` holds. An error when copying fails
// or `deadline` passes.
Result<bool> IsUnchanged(const cuda::Driver& driver, CUstream stream, const OperandPattern& operand,
                         CUdeviceptr from, Clock::time_point deadline);

}  // namespace ucudnn::tuning
