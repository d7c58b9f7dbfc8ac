// main() of test programs: a filter that selects nothing is a failure, not a success.
#pragma once

namespace ucudnn::test {

// Runs RUN_ALL_TESTS(), which succeeds even if it runs nothing. Returns the program's exit status,
// a failure if nothing ran. REQUIRES: testing::InitGoogleTest was called.
int RunSelectedTests();

}  // namespace ucudnn::test
