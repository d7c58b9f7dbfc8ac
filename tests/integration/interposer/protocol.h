// Helpers for tests of the promises in ucudnn's answers. A test runs an algorithm from an answer in
// a workspace of exactly the reported size, and compares the outcome with the promise.
#pragma once

#include <gtest/gtest.h>

#include "convolution.h"
#include "libraries.h"
#include "queries.h"

namespace ucudnn::test {

// Runs `algorithm` of `library` in exactly `bytes` bytes of workspace, and compares the result with
// the undivided call's. Returns how many convolutions the stand-in ran.
long RunAndCompare(Convolution& convolution, int algorithm, size_t bytes, const Scales& scales = {},
                   const cudnn::Functions& library = DropIn());

void UseMath(const Convolution& convolution, cudnnMathType_t math);

class Protocol : public testing::Test {
 protected:
  static void SetUpTestSuite();

  // Asks all questions, and runs every algorithm of every answer in the workspace reported for it,
  // which must not exceed `limit`.
  static void EveryAnswerIsKept(size_t limit);

  // Returns the first result of FindEx with `lent` bytes.
  static cudnn::AlgorithmPerformance FindEx(Convolution& convolution, size_t lent);
};

}  // namespace ucudnn::test
