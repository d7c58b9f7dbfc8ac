#include "tests/support/run_tests.h"

#include <gtest/gtest.h>

#include <cstdio>

#ifdef __SANITIZE_ADDRESS__
// LeakSanitizer calls this function. When the process exits, a thread of the stand-in may still be
// ending. Memory that libgomp has not yet freed for that thread is no leak.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libgomp.so\n"; }
#endif

namespace ucudnn::test {

int RunSelectedTests() {
  const int status = RUN_ALL_TESTS();
  if (::testing::UnitTest::GetInstance()->test_to_run_count() > 0) return status;
  std::fprintf(stderr, "--gtest_filter=%s selects no test of this program\n",
               GTEST_FLAG_GET(filter).c_str());
  return 1;
}

}  // namespace ucudnn::test
