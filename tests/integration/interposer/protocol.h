// Helpers of the protocol tests: whatever ucudnn told, they run a convolution in memory of exactly
// the reported size, and compare with what was promised.
#pragma once

#include <gtest/gtest.h>

#include "convolution.h"
#include "queries.h"

namespace ucudnn::test {

class Protocol : public testing::Test {
 protected:
  static void SetUpTestSuite();

  // Runs `algorithm` in exactly `bytes` bytes of memory and compares. Returns the number of pieces.
  static long RunAndCompare(Convolution& convolution, int algorithm, size_t bytes,
                            const Scales& scales = {});

  static void UseMath(const Convolution& convolution, cudnnMathType_t math);

  // Runs every algorithm of every answer in what was reported for it.
  static void EveryAnswerIsKept(size_t limit);

  // Returns the first result of FindEx with `lent` bytes.
  static cudnn::AlgorithmPerformance FindEx(Convolution& convolution, size_t lent);
};

}  // namespace ucudnn::test
