// Tests the messages of MeasuredKernels about measurements that a program waits for.
#include "tuning/measuring_progress.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "measured_kernels_setting.h"
#include "tests/support/becomes.h"
#include "tuning/device_lock.h"

namespace ucudnn::tuning {
namespace {

class Recorder : public MeasuringProgress {
 public:
  struct Step {
    Activity activity;
    std::optional<ConvolutionProblem> problem;
    int micro_batch;
    size_t engine, engines;
  };
  void Begin() noexcept override { ++began; }
  void End() noexcept override { ++ended; }
  void Tell(const MeasuringStep& step) noexcept override {
    std::lock_guard lock(mutex_);
    EXPECT_GT(began, ended) << "somebody waits";
    std::optional<ConvolutionProblem> problem;
    if (step.problem != nullptr) problem = *step.problem;
    told_.push_back({step.activity, problem, step.micro_batch, step.engine, step.engines});
  }
  std::vector<Step> told(Activity activity) {
    std::lock_guard lock(mutex_);
    std::vector<Step> steps;
    for (const Step& one : told_) {
      if (one.activity == activity) steps.push_back(one);
    }
    return steps;
  }

  std::atomic<int> began = 0, ended = 0;

 private:
  std::mutex mutex_;
  std::vector<Step> told_;
};

class MeasuringProgressTest : public MeasuredKernelsTest {
 protected:
  Recorder recorder_;
};

TEST_F(MeasuringProgressTest, EveryEngineOfEveryMicroBatchIsTold) {
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder, {}, recorder_);
  const Rows rows = Must(Get(kernels));
  std::set<std::pair<int, size_t>> told;
  for (const Recorder::Step& one : recorder_.told(Activity::kMeasuring)) {
    EXPECT_EQ(one.problem, Problem());
    EXPECT_GE(one.engine, 1u);
    EXPECT_LE(one.engine, one.engines);
    told.emplace(one.micro_batch, one.engine);
  }
  std::set<int> sizes;
  for (const auto& [size, engine] : told) sizes.insert(size);
  EXPECT_EQ(sizes, SizesOf(rows));
  EXPECT_GE(told.size(), rows.size() / 2) << "twins have one measurement";
  EXPECT_GT(recorder_.began, 0);
  EXPECT_EQ(recorder_.began, recorder_.ended);
}

TEST_F(MeasuringProgressTest, WhatIsKnownIsNotWaitedFor) {
  MeasuredKernels cold(&store_, std::nullopt, kNoFolder, {}, recorder_);
  ASSERT_TRUE(Get(cold).ok());
  const int began = recorder_.began;
  ASSERT_TRUE(Get(cold).ok());
  EXPECT_EQ(recorder_.began, began);
  MeasuredKernels warm(&store_, std::nullopt, kNoFolder, {}, recorder_);
  ASSERT_TRUE(Get(warm).ok());
  EXPECT_EQ(recorder_.began, began);
  EXPECT_EQ(warm.measured_kernels(), 0);
}

TEST_F(MeasuringProgressTest, WhatFitsTheUsersLimitIsTold) {
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder, {}, recorder_);
  Question question = Asking(Problem(), true);
  question.must_fit = question.request.limit_bytes = 0;
  ASSERT_TRUE(kernels.MeasureFitting(device_, question).ok());
  const auto steps = recorder_.told(Activity::kMeasuring);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.front().micro_batch, 8) << "the undivided kernel comes first";
  for (const Recorder::Step& one : steps) {
    EXPECT_GE(one.engine, 1u);
    EXPECT_LE(one.engine, one.engines);
  }
}

TEST_F(MeasuringProgressTest, ComparingIsTold) {
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder, {}, recorder_);
  const MicroConfiguration whole{"legacy:0", 8, 1, 0, true};
  const MicroConfiguration half{"legacy:0", 4, 1, 0, true};
  const Trust trust =
      kernels.Verify(device_, Problem(), {{{{half, 2}}}, whole, planning::Proof::kOnce});
  EXPECT_EQ(trust.kind, Trust::Kind::kTrusted) << trust.message;
  EXPECT_EQ(recorder_.told(Activity::kComparing).size(), 1u);
  EXPECT_EQ(recorder_.began, recorder_.ended);
}

TEST_F(MeasuringProgressTest, AKernelCountsOnceHoweverManyEnginesItHas) {
  MeasuredKernels kernels(nullptr, std::nullopt, kNoFolder);
  ASSERT_TRUE(Get(kernels).ok());
  EXPECT_EQ(kernels.measured_kernels(), 1);
  ASSERT_TRUE(Get(kernels).ok());
  EXPECT_EQ(kernels.measured_kernels(), 1);
  ASSERT_TRUE(Get(kernels, Problem(16)).ok());
  EXPECT_EQ(kernels.measured_kernels(), 2);
}

TEST_F(MeasuringProgressTest, OthersThatMeasureAreToldOf) {
  const Result<std::string> name = DeviceName(device_);
  ASSERT_TRUE(name.ok()) << name.message();
  std::optional<DeviceLock> others =
      DeviceLock::Acquire(kNoFolder, *name, Clock::now() + std::chrono::seconds(60));
  ASSERT_TRUE(others);
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder, {}, recorder_);
  std::thread waits([&] { EXPECT_TRUE(Get(kernels).ok()); });
  EXPECT_TRUE(test::Becomes([&] { return !recorder_.told(Activity::kWaitingForDevice).empty(); }));
  EXPECT_TRUE(recorder_.told(Activity::kMeasuring).empty());
  others.reset();
  waits.join();
  EXPECT_FALSE(recorder_.told(Activity::kMeasuring).empty());
}

}  // namespace
}  // namespace ucudnn::tuning
