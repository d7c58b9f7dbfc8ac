#include "tests/support/run_tests.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace ucudnn::test {

int RunSelectedTests() {
  const int status = RUN_ALL_TESTS();
  if (::testing::UnitTest::GetInstance()->test_to_run_count() > 0) return status;
  std::fprintf(stderr, "--gtest_filter=%s selects no test of this program\n",
               GTEST_FLAG_GET(filter).c_str());
  return 1;
}

}  // namespace ucudnn::test
