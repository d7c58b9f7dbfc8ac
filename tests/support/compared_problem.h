// The problem that tests use to compare a plan with the undivided engine: 10 images, which the
// plans divide into 4 + 4 + 2.
#pragma once

#include "tests/support/problem.h"

namespace ucudnn::test {

inline ConvolutionProblem ComparedProblem(Operation operation, DataType type = DataType::kFloat) {
  return ProblemWith(
      {.operation = operation, .n = 10, .c = 8, .k = 16, .x = {1, 9, 12}, .type = type});
}

}  // namespace ucudnn::test
