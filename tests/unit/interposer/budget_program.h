// A program with one kernel under a total workspace. If ucudnn provides the workspace, the kernel
// runs in pieces.
#pragma once

#include <gmock/gmock.h>

#include "legacy_program.h"

namespace ucudnn::interposer {

// The network counts as learned after this number of calls of one problem.
constexpr int kLearning = KernelSequence::kOfOneProblem;

constexpr size_t kAmple = size_t{1} << 20;

inline Options Budget(size_t bytes) {
  Options options = Planned();
  options.total_workspace = bytes;
  return options;
}

// The store says that algorithm 1 in pairs of images is faster than algorithm 0, which needs no
// workspace.
struct Shared : Program {
  explicit Shared(Operation of, size_t budget = kAmple) : Program(of, Budget(budget)) {
    EXPECT_GT(need, 0u);
    StorePairs();
  }

  const void* CallersWorkspace() const { return Call().workspace; }
  // Runs one call and expects that algorithm 1 computes it in pairs of images. Returns the
  // workspace that the pairs used.
  const void* Ran(size_t bytes = 0) {
    ExpectRight(0, bytes);
    EXPECT_THAT(TheCalls(), ::testing::SizeIs(kImages / 2));
    const void* const workspace = TheCalls()[0].workspace;
    EXPECT_THAT(TheCalls(), ::testing::Each(::testing::Field(&Seen::workspace, workspace)));
    EXPECT_THAT(TheCalls(), ::testing::Each(::testing::Field(&Seen::algorithm, 1)));
    return workspace;
  }
  void Learn() {
    for (int call = 0; call <= kLearning; ++call) Ran();
  }
  void ExpectUndivided() {
    ExpectRight(0, 0);
    ASSERT_THAT(TheCalls(), ::testing::SizeIs(1));
    EXPECT_EQ(TheCalls()[0].algorithm, 0);
    EXPECT_EQ(TheCalls()[0].workspace, nullptr);
  }
  WorkspaceBudget& TheBudget() { return test::BudgetOf(interposer); }
  nlohmann::json Total() { return ReportJson()["total_workspace"]; }

  const size_t need = Need(1, 2);
};

}  // namespace ucudnn::interposer
