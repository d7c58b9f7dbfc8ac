// Tests what a terminal shows while kernels are measured, with a clock that the tests set.
#include "interposer/report/measuring_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/unit/base/terminal.h"

namespace ucudnn::interposer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using tuning::Activity;
using tuning::MeasuringStep;
using tuning::Waiting;

constexpr char kErased[] = "\r\033[K";
constexpr MeasuringLineUse kTold{true, true};

MeasuringLine::Clock::time_point now;
MeasuringLine::Clock::time_point Now() { return now; }

class MeasuringLineTest : public ::testing::Test {
 protected:
  MeasuringLineTest() {
    now = MeasuringLine::Clock::time_point(std::chrono::hours(1));
    problem_.n = 16;
    problem_.c = 64;
    problem_.k = 32;
    problem_.x = {1, 56, 56};
    problem_.w = {1, 3, 3};
    problem_.pad = {0, 1, 1};
  }
  // Acts as a call of the program that waits for `duration` and calls Tell every 50 ms.
  void Wait(MeasuringLine& line, milliseconds duration) {
    const Waiting waiting(line);
    for (milliseconds past{0}; past < duration; past += milliseconds(50)) {
      line.Tell(step_);
      now += milliseconds(50);
    }
  }

  ConvolutionProblem problem_;
  MeasuringStep step_{Activity::kMeasuring, &problem_, 4, 2, 8};
  test::Terminal terminal_;
  TerminalLine terminal_line_{terminal_.descriptor()};
};

TEST_F(MeasuringLineTest, SaysWhatAndHowFarOnceASecondWasWaited) {
  MeasuringLine line(terminal_line_, kTold, Now);
  const Waiting waiting(line);
  line.Tell(step_);
  now += milliseconds(999);
  line.Tell(step_);
  EXPECT_EQ(terminal_.Seen(), "");
  now += milliseconds(1);
  line.Tell(step_);
  EXPECT_EQ(terminal_.Seen(),
            "\r\033[Kucudnn: measuring, 1.0 s: micro-batch 4, engine 2 of 8 of forward "
            "16x64x56x56 -> 32, 3x3 pad 1x1 fp32 nchw");
}

TEST_F(MeasuringLineTest, IsRewrittenNoFasterThanItCanBeRead) {
  MeasuringLine line(terminal_line_, kTold, Now);
  const Waiting waiting(line);
  now += seconds(2);
  line.Tell(step_);
  EXPECT_THAT(terminal_.Seen(), HasSubstr("2.0 s"));
  now += milliseconds(99);
  line.Tell(step_);
  EXPECT_EQ(terminal_.Seen(), "");
  now += milliseconds(1);
  line.Tell(step_);
  EXPECT_THAT(terminal_.Seen(), HasSubstr("2.1 s"));
}

TEST_F(MeasuringLineTest, GoesBeforeTheProgramGoesOn) {
  MeasuringLine line(terminal_line_, kTold, Now);
  Wait(line, seconds(2));
  EXPECT_THAT(terminal_.Seen(), ::testing::EndsWith(kErased));
  line.Tell(step_);
  EXPECT_EQ(terminal_.Seen(), "") << "nobody waits";
}

TEST_F(MeasuringLineTest, WaitsOfManyCallsCountTogether) {
  MeasuringLine line(terminal_line_, kTold, Now);
  for (int call = 0; call < 5; ++call) {
    Wait(line, milliseconds(200));
    now += seconds(10);  // the program's own work
    EXPECT_EQ(terminal_.Seen(), "") << call;
  }
  Wait(line, milliseconds(200));
  EXPECT_THAT(terminal_.Seen(), HasSubstr("ucudnn: measuring, 1.0 s"));
}

TEST_F(MeasuringLineTest, ThreadsThatWaitTogetherCountOnce) {
  MeasuringLine line(terminal_line_, kTold, Now);
  {
    const Waiting first(line);
    {
      const Waiting second(line);
      now += milliseconds(600);
      line.Tell(step_);
    }
    EXPECT_EQ(terminal_.Seen(), "");
    now += milliseconds(600);
    line.Tell(step_);
    EXPECT_THAT(terminal_.Seen(), HasSubstr("1.2 s"));
    { const Waiting third(line); }
    EXPECT_EQ(terminal_.Seen(), kErased);
    line.Tell(step_);
    EXPECT_THAT(terminal_.Seen(), HasSubstr("1.2 s")) << "the first still waits";
  }
  line.Close(3, "store.db");
  EXPECT_THAT(terminal_.Seen(), HasSubstr("in 1.2 s"));
}

TEST_F(MeasuringLineTest, EveryStepHasItsWords) {
  EXPECT_EQ(StepText({Activity::kWaitingForDevice}), "another program measures on the device");
  EXPECT_THAT(StepText({Activity::kComparing, &problem_}), StartsWith("comparing outputs of forw"));
  EXPECT_THAT(StepText({Activity::kBuildingEngines, &problem_}),
              StartsWith("building graph engines of forward 16x64"));
  EXPECT_THAT(StepText({Activity::kMeasuring, &problem_}), StartsWith("sum of partials of forw"));
}

TEST_F(MeasuringLineTest, LastLineSaysHowManyHowLongAndWhere) {
  MeasuringLine line(terminal_line_, kTold, Now);
  Wait(line, milliseconds(1500));
  terminal_.Seen();
  line.Close(3, "/cache/store.db");
  EXPECT_EQ(terminal_.Seen(), "ucudnn: measured 3 kernels in 1.5 s, stored in /cache/store.db\n");
  line.Close(3, "/cache/store.db");
  EXPECT_EQ(terminal_.Seen(), "");

  MeasuringLine unstored(terminal_line_, kTold, Now);
  Wait(unstored, seconds(1));
  terminal_.Seen();
  unstored.Close(1, "");
  EXPECT_EQ(terminal_.Seen(), "ucudnn: measured 1 kernel in 1.0 s, not stored\n");
}

TEST_F(MeasuringLineTest, ShortWaitsAndNoMeasurementsHaveNoLastLine) {
  MeasuringLine quick(terminal_line_, kTold, Now);
  Wait(quick, milliseconds(950));
  quick.Close(3, "store.db");
  MeasuringLine in_vain(terminal_line_, kTold, Now);
  Wait(in_vain, milliseconds(1000));
  in_vain.Close(0, "store.db");
  EXPECT_EQ(terminal_.Seen(), "");
}

TEST_F(MeasuringLineTest, AThreadThatMeasuresWhileTheProcessEndsTellsNothing) {
  MeasuringLine line(terminal_line_, kTold, Now);
  const Waiting waiting(line);
  now += seconds(2);
  line.Tell(step_);
  line.Close(0, "");
  EXPECT_THAT(terminal_.Seen(), ::testing::EndsWith(kErased));
  now += seconds(1);
  line.Tell(step_);
  EXPECT_EQ(terminal_.Seen(), "");
}

TEST_F(MeasuringLineTest, ADumbTerminalGetsTheLastLineAlone) {
  MeasuringLine line(terminal_line_, {true, false}, Now);
  Wait(line, seconds(2));
  line.Close(3, "store.db");
  EXPECT_EQ(terminal_.Seen(), "ucudnn: measured 3 kernels in 2.0 s, stored in store.db\n");
}

TEST_F(MeasuringLineTest, WhoWantsSilenceHasIt) {
  Options options;
  options.rewrites_lines = true;
  EXPECT_TRUE(MeasuringLineUseOf(options).tells);
  EXPECT_TRUE(MeasuringLineUseOf(options).rewrites);
  options.log_level = LogLevel::kError;
  EXPECT_FALSE(MeasuringLineUseOf(options).tells);
  options.log_level = LogLevel::kInfo;
  options.log_file = "log";
  EXPECT_FALSE(MeasuringLineUseOf(options).tells);
  options.log_file.clear();
  options.rank = 0;
  EXPECT_TRUE(MeasuringLineUseOf(options).tells);
  options.rank = 1;
  EXPECT_FALSE(MeasuringLineUseOf(options).tells) << "the first rank tells";

  MeasuringLine line(terminal_line_, {false, true}, Now);
  Wait(line, seconds(2));
  line.Close(3, "store.db");
  EXPECT_EQ(terminal_.Seen(), "");
}

TEST_F(MeasuringLineTest, AForkedChildTellsNothingAndWaitsForNoLock) {
  MeasuringLine line(terminal_line_, kTold, Now);
  const Waiting waiting(line);
  now += seconds(2);
  const pid_t child = fork();
  if (child == 0) {
    Wait(line, seconds(2));
    line.Close(3, "store.db");
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(terminal_.Seen(), "");
}

}  // namespace
}  // namespace ucudnn::interposer
