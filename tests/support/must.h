// Unwraps results that a test cannot do without.
#pragma once

#include <stdexcept>
#include <utility>

#include "base/status.h"

namespace ucudnn::test {

// Returns the value of `result`. If there is none, throws its message, which fails the test.
template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.message());
  return std::move(*result);
}

}  // namespace ucudnn::test
