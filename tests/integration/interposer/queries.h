// cuDNN's nine ways to ask for algorithms, in one form for every operation.
#pragma once

#include <vector>

#include "convolution.h"

namespace ucudnn::test {

enum class Question { kGet, kFind, kFindEx };
constexpr Question kQuestions[] = {Question::kGet, Question::kFind, Question::kFindEx};

struct Answer {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::vector<cudnn::AlgorithmPerformance> algorithms;

  // Returns the first algorithm with a number up to `last` that the library would run, or null.
  // Algorithms 0 to 2 sum whole numbers exactly.
  const cudnn::AlgorithmPerformance* FirstUpTo(int last) const;
};

// Asks `library` on `convolution`'s handle for at most `requested` algorithms; `workspace` is for
// kFindEx.
Answer Ask(const cudnn::Functions& library, Question question, Convolution& convolution,
           int requested, void* workspace = nullptr, size_t workspace_bytes = 0);

}  // namespace ucudnn::test
