// Tests calls while the store fails at one of its operations, for each operation in turn.
#include <gtest/gtest.h>

#include "legacy_program.h"

namespace ucudnn::interposer {
namespace {

TEST(FailingStore, CostsNoCallAtAnyOperation) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardFilter}) {
    SCOPED_TRACE(OperationName(operation));
    long kth = 1;
    for (bool more = true; more && !::testing::Test::HasFailure(); ++kth) {
      SCOPED_TRACE("operation " + std::to_string(kth));
      Options options = Planned();
      options.tuning.on = true;
      options.tuning.after_calls = 0;
      options.workspace_limit = 8192;
      Program program(operation, options);
      program.store.failing = kth;
      const size_t before = test::FreeBytes();
      for (int i = 0; i < 3; ++i) program.ExpectRight();
      EXPECT_EQ(test::FreeBytes(), before);
      more = program.store.operations >= kth;
    }
    EXPECT_GT(kth, 3);
  }
}

}  // namespace
}  // namespace ucudnn::interposer
