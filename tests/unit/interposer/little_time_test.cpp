// Where there is time to measure one engine only, it is one that brings the kernel under the user's
// limit.
#include <gmock/gmock.h>

#include <chrono>

#include "legacy_program.h"

namespace ucudnn::interposer {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::SizeIs;

// Seconds: enough to begin with one engine on a loaded machine, and over when it has run twice.
constexpr double kTooLittle = 1;
constexpr auto kSlow = std::chrono::milliseconds(600);
// No identity activation needs it, so any that is as exact may serve.
constexpr int kNamed = 2;

// A sixth of what the named algorithm needs.
size_t Limit() {
  static const size_t limit = Program(Operation::kForward, Planned()).Need(kNamed, kImages) / 6;
  return limit;
}

Options Hurried() {
  Options options = Planned();
  options.engines = EngineSet::kLegacy;
  options.workspace_limit = Limit();
  options.tuning.on = true;
  options.tuning.kernel_seconds = kTooLittle;
  return options;
}

TEST(LittleTime, IsSpentOnWhatKeepsTheLimit) {
  Program program(Operation::kForward, Hurried());
  TheWrong().forward_takes = kSlow;
  size_t told = 0;
  ASSERT_EQ(program.interposer.legacy().WorkspaceSize(Operation::kForward, program.handle(),
                                                      program.descriptors(), kNamed, &told),
            CUDNN_STATUS_SUCCESS);
  EXPECT_LE(told, Limit());
  const std::vector<planning::Measurement> stored = program.Stored();
  ASSERT_THAT(stored, SizeIs(1));
  EXPECT_EQ(stored[0].micro.micro_batch, kImages);
  EXPECT_LE(stored[0].micro.workspace_bytes, Limit());
  program.ExpectRight(kNamed, told);
  EXPECT_EQ(program.Fallbacks(), "[]");
}

// A call that nobody asked about runs as it is, and the report says why.
TEST(LittleTime, ThatIsUsedUpIsSaid) {
  Options options = Hurried();
  options.tuning.kernel_seconds = 0;
  options.tuning.after_calls = 0;
  Program program(Operation::kForward, options);
  const size_t need = program.Need(kNamed, kImages);
  program.ExpectRight(kNamed, need);
  EXPECT_THAT(program.OnCallersData(), Each(Field(&Seen::algorithm, kNamed)));
  const nlohmann::json report = program.ReportJson();
  EXPECT_EQ(report["kernels"][0]["reason"],
            "measuring found no time for it: runs as the caller asked");
  std::vector<std::string> causes;
  for (const auto& entry : report["fallbacks"]) causes.push_back(entry["cause"]);
  EXPECT_THAT(causes, testing::UnorderedElementsAre(
                          "cannot be measured: the time for measuring is used up",
                          "not measured, so it cannot be brought under the workspace limit"));
}

// The first turn has time for one engine, and a later call's for more.
TEST(LittleTime, OfOneTurnIsFollowedByMoreAtLaterCalls) {
  Options options = Hurried();
  options.tuning.kernel_seconds = 1000;
  options.tuning.process_seconds = 8 * kTooLittle / (1 - tuning::Budget::kComparingShare);
  options.tuning.after_calls = 0;
  Program program(Operation::kForward, options);
  TheWrong().forward_takes = kSlow;
  size_t told = 0;
  ASSERT_EQ(program.interposer.legacy().WorkspaceSize(Operation::kForward, program.handle(),
                                                      program.descriptors(), kNamed, &told),
            CUDNN_STATUS_SUCCESS);
  EXPECT_LE(told, Limit());
  ASSERT_THAT(program.Stored(), SizeIs(1));
  TheWrong().forward_takes = {};
  program.ExpectRight(kNamed, told);
  EXPECT_GT(program.Stored().size(), 1u);
  EXPECT_EQ(program.Fallbacks(), "[]");
}

}  // namespace
}  // namespace ucudnn::interposer
