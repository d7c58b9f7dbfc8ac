// Says how many cases of a long series a test runs.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace ucudnn::test {

// Returns `all` in tools/check --full, which sets UCUDNN_TEST_CASES=all, else `few`, which find
// most mistakes. `all` is less than `few` where a test runs every `all`th case instead of every
// `few`th. With a sanitizer, in which a case takes many times as long, --full runs a fifth of
// `all`, but at least `few`.
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
