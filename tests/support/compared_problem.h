// Helpers of the tests that compare plans with the undivided engine: a small problem of which 4 + 4
// + 2 images are a plan.
#pragma once

#include "tests/support/problem.h"

namespace ucudnn::test {

inline ConvolutionProblem ComparedProblem(Operation operation, DataType type = DataType::kFloat) {
  return ProblemWith(
      {.operation = operation, .n = 10, .c = 8, .k = 16, .x = {1, 9, 12}, .type = type});
}

}  // namespace ucudnn::test
