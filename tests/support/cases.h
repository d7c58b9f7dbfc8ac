// Says how many cases of a long series a test runs: few, or all in tools/check --full.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace ucudnn::test {

// Returns `all` if UCUDNN_TEST_CASES=all, which tools/check --full sets, and otherwise `few`, which
// find most mistakes. A sanitizer slows every case down. So with a sanitizer a fifth of `all`
// replaces `all`, but never less than `few`. A test that runs every Nth case passes values of N, so
// its `all` is less than its `few`; with a sanitizer, `few` is returned.
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
