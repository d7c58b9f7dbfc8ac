// main() of the test programs that do not define their own.
#include <gtest/gtest.h>

#include "tests/support/run_tests.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return ucudnn::test::RunSelectedTests();
}
