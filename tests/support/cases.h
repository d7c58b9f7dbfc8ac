// The number of cases that a test runs of a long series.
#pragma once

#include <cstdlib>
#include <string_view>

namespace ucudnn::test {

// Returns `all` in tools/check --full, which sets UCUDNN_TEST_CASES=all, else `few`, which find
// most mistakes.
inline int Cases(int all, int few) {
  const char* const asked = std::getenv("UCUDNN_TEST_CASES");
  return asked != nullptr && std::string_view(asked) == "all" ? all : few;
}

}  // namespace ucudnn::test
