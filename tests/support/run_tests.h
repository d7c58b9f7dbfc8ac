// main() of test programs: a filter that selects nothing is a failure, not a success.
#pragma once

namespace ucudnn::test {

// Runs RUN_ALL_TESTS(). Returns the program's exit status: a failure if a test failed or if no test
// ran. RUN_ALL_TESTS() alone succeeds if it runs no test. REQUIRES: testing::InitGoogleTest was
// called.
int RunSelectedTests();

}  // namespace ucudnn::test
