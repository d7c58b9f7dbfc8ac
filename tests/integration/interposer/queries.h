// Ask() covers the nine functions of cuDNN that return algorithms: three questions for each
// operation.
#pragma once

#include <vector>

#include "convolution.h"

namespace ucudnn::test {

enum class Question { kGet, kFind, kFindEx };
constexpr Question kQuestions[] = {Question::kGet, Question::kFind, Question::kFindEx};

struct Answer {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::vector<cudnn::AlgorithmPerformance> algorithms;

  // Returns the first algorithm whose status is success and whose number is at most `last`, or
  // null. Algorithms 0 to 2 are exact on integers.
  const cudnn::AlgorithmPerformance* FirstUpTo(int last) const;
};

// Asks `library`, on the handle of `convolution`, for at most `requested` algorithms. Only kFindEx
// uses `workspace`.
Answer Ask(const cudnn::Functions& library, Question question, Convolution& convolution,
           int requested, void* workspace = nullptr, size_t workspace_bytes = 0);

}  // namespace ucudnn::test
