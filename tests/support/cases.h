// Says how many cases of a long series a test runs: few, or all in tools/check --full.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace ucudnn::test {

// Returns `all` if UCUDNN_TEST_CASES=all, which tools/check --full sets, and otherwise `few`. `few`
// cases find most mistakes. With a sanitizer every case is slow, so a fifth of `all` replaces
// `all`, but never less than `few`. A test that runs every Nth case passes values of N instead. Its
// `all` is less than its `few`, so with a sanitizer it always gets `few`.
inline int Cases(int all, int few) {
  const char* const asked = std::getenv("UCUDNN_TEST_CASES");
  if (asked == nullptr || std::string_view(asked) != "all") return few;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return all < few ? few : std::max(few, all / 5);
#else
  return all;
#endif
}

}  // namespace ucudnn::test
