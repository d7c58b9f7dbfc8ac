// Helpers of the protocol tests: whatever ucudnn told, they run a convolution in memory of exactly
// the reported size, and compare with what was promised.
#pragma once

#include <gtest/gtest.h>

#include "convolution.h"
#include "libraries.h"
#include "queries.h"

namespace ucudnn::test {

// Runs `algorithm` of the drop-in, or of `library`, in exactly `bytes` bytes of memory and compares
// the result. Returns how many convolutions of the stand-in that became.
long RunAndCompare(Convolution& convolution, int algorithm, size_t bytes, const Scales& scales = {},
                   const cudnn::Functions& library = DropIn());

void UseMath(const Convolution& convolution, cudnnMathType_t math);

class Protocol : public testing::Test {
 protected:
  static void SetUpTestSuite();

  // Runs every algorithm of every answer in what was reported for it.
  static void EveryAnswerIsKept(size_t limit);

  // Returns the first result of FindEx with `lent` bytes.
  static cudnn::AlgorithmPerformance FindEx(Convolution& convolution, size_t lent);
};

}  // namespace ucudnn::test
