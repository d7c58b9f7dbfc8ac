// Tests what is measured or compared first. If there is time for one engine only, ucudnn measures
// one that brings the kernel under the user's limit. Measurements of an earlier process are
// compared before more is measured. Also tests what is reported and run if there is no time, and
// what later calls do.
#include <gmock/gmock.h>

#include <chrono>

#include "legacy_program.h"

namespace ucudnn::interposer {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::SizeIs;

// Seconds for measuring. Even on a loaded machine they are enough to begin one engine, but not for
// its two calls of kSlow each.
constexpr double kTooLittle = 1;
constexpr auto kSlow = std::chrono::milliseconds(600);
// The algorithm that the program names. Any algorithm that is as exact may replace it. Only
// algorithm 1 supports identity activations, so nothing could replace algorithm 1.
constexpr int kNamed = 2;

// Returns a sixth of the named algorithm's need.
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
  const size_t told = program.WorkspaceOf(kNamed);
  EXPECT_LE(told, Limit());
  const std::vector<planning::Measurement> stored = program.Stored();
  ASSERT_THAT(stored, SizeIs(1));
  EXPECT_EQ(stored[0].micro.micro_batch, kImages);
  EXPECT_LE(stored[0].micro.workspace_bytes, Limit());
  program.ExpectRight(kNamed, told);
  EXPECT_EQ(program.Fallbacks(), "[]");
}

// The program did not ask for the call's workspace beforehand, and there is no time to measure.
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

// The first turn of measuring has time for one engine. A later call measures more engines.
TEST(LittleTime, OfOneTurnIsFollowedByMoreAtLaterCalls) {
  Options options = Hurried();
  options.tuning.kernel_seconds = 1000;
  // A turn may use an eighth of the time for measuring: kTooLittle.
  options.tuning.process_seconds = 8 * kTooLittle / (1 - tuning::Budget::kComparingShare);
  options.tuning.after_calls = 0;
  Program program(Operation::kForward, options);
  TheWrong().forward_takes = kSlow;
  const size_t told = program.WorkspaceOf(kNamed);
  EXPECT_LE(told, Limit());
  ASSERT_THAT(program.Stored(), SizeIs(1));
  TheWrong().forward_takes = {};
  program.ExpectRight(kNamed, told);
  EXPECT_GT(program.Stored().size(), 1u);
  EXPECT_EQ(program.Fallbacks(), "[]");
}

// Sizes 8 and 4 were measured by an earlier process, sizes 1 and 2 were not.
class KnownInPart : public testing::TestWithParam<bool> {};

TEST_P(KnownInPart, IsComparedBeforeMoreIsMeasured) {
  Options options = Planned();
  options.engines = EngineSet::kLegacy;
  options.tuning.on = true;
  options.tuning.after_calls = 0;
  Program program(Operation::kForward, options);
  program.Store(0, kImages, 100);
  program.Store(0, kImages / 2, 1);
  if (GetParam()) {
    ASSERT_TRUE(program.Found(Program::kWorkspace));
  } else {
    program.ExpectRight();
  }
  std::vector<int> images;
  for (const Seen& call : TheCalls()) images.push_back(call.images);
  ASSERT_GT(images.size(), 3u);
  EXPECT_THAT(std::vector(images.begin(), images.begin() + 3),
              ElementsAre(kImages, kImages / 2, kImages / 2));
  EXPECT_THAT(images, testing::IsSupersetOf({1, 2})) << "the rest is measured afterwards";
}

INSTANTIATE_TEST_SUITE_P(LittleTime, KnownInPart, testing::Bool(),
                         [](const auto& info) { return info.param ? "AtAQuery" : "AtACall"; });

}  // namespace
}  // namespace ucudnn::interposer
