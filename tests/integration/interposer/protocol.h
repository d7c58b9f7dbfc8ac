// What the protocol tests do with a convolution, whatever ucudnn was told: run it in memory of
// exactly the size that was reported, and compare with what was promised.
#pragma once

#include <gtest/gtest.h>

#include "convolution.h"
#include "queries.h"

namespace ucudnn::test {

class Protocol : public testing::Test {
 protected:
  static void SetUpTestSuite();

  // Runs `algorithm` in exactly `bytes` of memory and compares; the number of pieces.
  static long RunAndCompare(Convolution& convolution, int algorithm, size_t bytes,
                            const Scales& scales = {});

  static void UseMath(const Convolution& convolution, cudnnMathType_t math);

  // Every algorithm of every answer, run in what was reported for it.
  static void EveryAnswerIsKept(size_t limit);

  // The first result of FindEx with `lent` bytes.
  static cudnn::AlgorithmPerformance FindEx(Convolution& convolution, size_t lent);
};

}  // namespace ucudnn::test
