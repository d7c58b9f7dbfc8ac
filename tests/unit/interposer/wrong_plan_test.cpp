// Tests plans whose result differs from the undivided engine's, on the stand-in's real arithmetic.
// Such plans are found before they touch the caller's data, and are reported and replaced.
#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "legacy_program.h"

namespace ucudnn::interposer {
namespace {

using ::testing::HasSubstr;

constexpr std::pair<Operation, Wrong::How> kWrongs[] = {
    {Operation::kForward, Wrong::How::kOffByOneImage},
    {Operation::kBackwardFilter, Wrong::How::kIgnoresBeta}};

// Makes the results of pieces of algorithm 1 wrong, and stores that pairs of images with this
// algorithm are the fastest.
void StoreWrongPlan(Program& program, Wrong::How how) {
  TheWrong() = {1, how};
  program.Store(0, kImages, 100);
  program.Store(1, 2, 0.1);
}

void ExpectNeverUsed(Program& program) {
  for (const Seen& call : program.OnCallersData()) {
    EXPECT_FALSE(call.algorithm == 1 && call.images < kImages);
  }
  EXPECT_THAT(program.Fallbacks(), HasSubstr("a divided plan is wrong and never used"));
}

TEST(WrongPlan, IsNeverUsedAndTheNextBestIs) {
  for (const auto& [operation, how] : kWrongs) {
    SCOPED_TRACE(OperationName(operation));
    Program program(operation, Planned());
    StoreWrongPlan(program, how);
    program.Store(0, 2, 2);
    program.ExpectRight();
    ExpectNeverUsed(program);
    program.ExpectRight();
    EXPECT_EQ(TheCalls().size(), size_t{kImages / 2}) << "pieces of algorithm 0";
    ExpectNeverUsed(program);
  }
}

TEST(WrongPlan, WithoutAnotherTheUndividedRuns) {
  for (const auto& [operation, how] : kWrongs) {
    SCOPED_TRACE(OperationName(operation));
    Program program(operation, Planned());
    StoreWrongPlan(program, how);
    program.ExpectRight();
    ExpectNeverUsed(program);
    program.ExpectRight();
    EXPECT_EQ(TheCalls().size(), 1u);
  }
}

// An algorithm, and the workspace (bytes) that the caller was told for it.
struct GivenAlgorithm {
  int algorithm;
  size_t bytes;
};
using Asking = GivenAlgorithm (*)(Program& program, size_t lent);

template <typename Answer>
GivenAlgorithm First(const Answer& answer) {
  EXPECT_TRUE(answer && !answer->empty());
  if (!answer || answer->empty()) return {0, 0};
  return {answer->front().algorithm, answer->front().workspace_bytes};
}

const std::pair<const char*, Asking> kAskings[] = {
    {"FindEx", [](Program& program, size_t lent) { return First(program.Found(lent)); }},
    {"Get", [](Program& program, size_t) { return First(program.Gotten()); }},
    {"GetWorkspaceSize", [](Program& program, size_t) {
       return GivenAlgorithm{1, program.WorkspaceOf(1)};
     }}};

TEST(WrongPlan, IsNeverUsedThroughAPromise) {
  for (const auto& [operation, how] : kWrongs)
    for (const auto& [name, ask] : kAskings) {
      SCOPED_TRACE(std::string(OperationName(operation)) + " " + name);
      Options options = Planned();
      options.workspace_limit = Program(operation, options).Need(1, 2);
      Program program(operation, options);
      StoreWrongPlan(program, how);
      const GivenAlgorithm told = ask(program, *options.workspace_limit);
      EXPECT_EQ(told.bytes, *options.workspace_limit);
      // Algorithm 1 of the filter gradient needs no more for all images than for pairs. So a
      // program that asks only for the workspace size may run algorithm 1 undivided.
      const bool whole = told.bytes == program.Need(1, kImages);
      if (whole && std::string(name) == "GetWorkspaceSize") continue;
      for (int i = 0; i < 2; ++i) {
        program.ExpectRight(told.algorithm, told.bytes);
        ExpectNeverUsed(program);
      }
      EXPECT_EQ(TheCalls().size(), 1u);
    }
}

TEST(WrongPlan, ThatWasRightWhenComparedIsCaughtByChecking) {
  for (const auto& [operation, how] : kWrongs) {
    SCOPED_TRACE(OperationName(operation));
    Options options = Planned();
    options.check = true;
    Program program(operation, options);
    StoreWrongPlan(program, how);
    TheWrong().algorithm = -1;
    program.ExpectRight();
    EXPECT_EQ(program.Fallbacks(), "[]");
    program.ExpectRight();
    EXPECT_EQ(TheCalls().size(), size_t{kImages / 2 + 1});
    TheWrong().algorithm = 1;
    program.ExpectRight();
    EXPECT_EQ(program.OnCallersData().size(), 1u) << "the undivided engine";
    EXPECT_THAT(program.Fallbacks(), HasSubstr("UCUDNN_CHECK found the plan wrong"));
    program.ExpectRight();
    EXPECT_EQ(TheCalls().size(), 1u) << "never again";
  }
}

}  // namespace
}  // namespace ucudnn::interposer
