// main() of test programs: a filter that selects nothing is a failure, not a success.
#pragma once

namespace ucudnn::test {

// RUN_ALL_TESTS(), which is content with having run nothing; the program's exit status. Call
// testing::InitGoogleTest before.
int RunSelectedTests();

}  // namespace ucudnn::test
