// Tests how much time and memory measuring may take, and what is known if the time or the memory
// does not suffice. The tests make engines slow, so that they know where a time budget ends.
#include <algorithm>
#include <atomic>
#include <thread>

#include "measured_kernels_setting.h"
#include "tests/support/faulty_cudnn.h"
#include "tuning/device_lock.h"

namespace ucudnn::tuning {
namespace {

using planning::Proof;

// In this many seconds even a loaded machine begins to measure one engine, but it begins no second
// one. Measuring an engine takes two runs, which take 2 * kSlow = 1.2 s.
constexpr double kTooLittle = 1;
constexpr auto kSlow = std::chrono::milliseconds(600);

std::atomic<std::chrono::milliseconds> slow = kSlow;
std::atomic<size_t> least_free = 0;

// Makes a convolution take `slow` longer, and notes the least free memory in `least_free`.
cudnnStatus_t RunSlowly(cudnnConvolutionDescriptor_t) {
  std::this_thread::sleep_for(slow.load());
  least_free = std::min<size_t>(least_free, FreeBytes());
  return CUDNN_STATUS_SUCCESS;
}

class MeasuredKernelsBoundsTest : public MeasuredKernelsTest {
 protected:
  MeasuredKernelsBoundsTest() {
    device_.functions = &slow_;
    slow = kSlow;
    least_free = FreeBytes();
  }
  static Tuning Seconds(double kernel, double process) {
    return {.kernel_seconds = kernel, .process_seconds = process};
  }
  static ConvolutionProblem Other() {
    ConvolutionProblem problem = Problem();
    problem.k = 8;
    SetPackedStrides(problem);
    return problem;
  }
  MeasuredRows Ask(MeasuredKernels& kernels, const ConvolutionProblem& problem,
                   bool may_measure = true) const {
    return kernels.Get(device_, Asking(problem, may_measure));
  }
  const cudnn::Functions slow_ = ObservedStandIn(RunSlowly);
};

TEST_F(MeasuredKernelsBoundsTest, AKernelStopsAtItsDeadlineWithTheUndividedOneFirst) {
  MeasuredKernels kernels(&store_, Seconds(kTooLittle, 1000), kNoFolder);
  const MeasuredRows answer = Ask(kernels, Problem());
  ASSERT_TRUE(answer.status.ok()) << answer.status.message();
  EXPECT_FALSE(answer.settled);
  EXPECT_TRUE(answer.late);
  EXPECT_FALSE(answer.whole_tried);
  EXPECT_EQ(SizesOf(answer.rows), std::set{8});
  EXPECT_FALSE(kernels.HasAllEngines(device_, Problem()));
  // The time for Problem() is used up for good; another kernel has its own time.
  const long measured = kernels.measured();
  EXPECT_EQ(Ask(kernels, Problem()).rows, answer.rows);
  EXPECT_EQ(kernels.measured(), measured);
  EXPECT_TRUE(Ask(kernels, Other()).status.ok());
  EXPECT_GT(kernels.measured(), measured);
}

TEST_F(MeasuredKernelsBoundsTest, WhatFitsTheUsersLimitComesFirst) {
  device_.functions = &functions_;
  MeasuredKernels patient(nullptr, std::nullopt, kNoFolder);
  const Rows all = Ask(patient, Problem()).rows;
  size_t largest = 0;
  for (const MicroConfiguration& row : all) {
    if (row.micro_batch == 8) largest = std::max(largest, row.workspace_bytes);
  }
  // `needy` is the row with the largest workspace. Undivided, its engine exceeds the limit of
  // largest - 1 bytes; in pieces it does not.
  const auto needy = std::find_if(all.begin(), all.end(), [&](const auto& row) {
    return row.micro_batch == 8 && row.workspace_bytes == largest;
  });
  for (const BatchSizePolicy policy :
       {BatchSizePolicy::kAuto, BatchSizePolicy::kPowerOfTwo, BatchSizePolicy::kAll}) {
    for (const bool everything : {false, true}) {
      SCOPED_TRACE(std::string(BatchSizePolicyName(policy)) + (everything ? " everything" : ""));
      MemoryStore store;
      MeasuredKernels kernels(&store, std::nullopt, kNoFolder);
      Question question = Asking(Problem(), true, policy);
      question.must_fit = question.request.limit_bytes = largest - 1;
      if (everything) {
        EXPECT_TRUE(kernels.Get(device_, question).settled);
      } else {
        EXPECT_TRUE(kernels.MeasureFitting(device_, question).ok());
      }
      const long measured = kernels.measured();
      const auto stored = store.Read(Problem(), device_.platform);
      std::set<EngineId> whole;
      for (const auto& row : stored->rows) {
        if (row.micro.micro_batch == 8) whole.insert(row.micro.engine);
      }
      EXPECT_EQ(whole.contains(needy->engine), everything);
      for (const auto& row : stored->rows) {
        if (everything) continue;
        EXPECT_LT(row.micro.workspace_bytes, largest);
        // An engine that fits undivided is not measured in pieces, because pieces are measured only
        // to fit the limit.
        EXPECT_TRUE(row.micro.micro_batch == 8 || !whole.contains(row.micro.engine));
      }
      const auto known =
          std::find_if(stored->rows.begin(), stored->rows.end(), [&](const auto& row) {
            return row.micro.micro_batch == 1 && row.micro.engine == needy->engine;
          });
      EXPECT_NE(known, stored->rows.end());
      EXPECT_EQ(stored->complete_sizes.empty(), !everything);
      // MeasureFitting has nothing more to measure, with and without `everything`.
      EXPECT_TRUE(kernels.MeasureFitting(device_, question).ok());
      EXPECT_EQ(kernels.measured(), measured);
    }
  }
}

TEST_F(MeasuredKernelsBoundsTest, WithoutTimePiecesThatFitAreKnownBeforeTheWholeIs) {
  ConvolutionProblem problem = Problem();
  size_t needy = 0;
  device_.functions = &functions_;
  MeasuredKernels patient(nullptr, std::nullopt, kNoFolder);
  for (const MicroConfiguration& row : Ask(patient, problem).rows) {
    if (row.engine == "legacy:1" && row.micro_batch == 8) needy = row.workspace_bytes;
  }
  ASSERT_GT(needy, 0u);
  // This cuDNN supports only algorithm 1, whose workspace for all 8 images exceeds the limit.
  cudnn::Functions one = slow_;
  one.cudnnGetConvolutionForwardAlgorithm_v7 =
      [](cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
         cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y, int requested,
         int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
        const cudnnStatus_t status = ::cudnnGetConvolutionForwardAlgorithm_v7(
            handle, x, w, convolution, y, requested, returned, results);
        for (int i = 0; i < *returned; ++i) {
          if (results[i].algo != 1) results[i].status = CUDNN_STATUS_NOT_SUPPORTED;
        }
        return status;
      };
  device_.functions = &one;
  MeasuredKernels kernels(&store_, Seconds(kTooLittle, 1000), kNoFolder);
  Question question = Asking(problem, true, BatchSizePolicy::kAuto);
  question.must_fit = question.request.limit_bytes = needy / 2;
  const MeasuredRows answer = kernels.Get(device_, question);
  ASSERT_TRUE(answer.status.ok()) << answer.status.message();
  ASSERT_EQ(answer.rows.size(), 1u);
  EXPECT_EQ(answer.rows[0].engine, "legacy:1");
  EXPECT_EQ(answer.rows[0].micro_batch, 1);
  EXPECT_LE(answer.rows[0].workspace_bytes, needy / 2);
  EXPECT_FALSE(answer.settled);
  EXPECT_TRUE(answer.late);
  // Without the user's limit, the rows of pieces are returned only together with a row for all 8
  // images. There is no such row.
  question.must_fit.reset();
  question.may_measure = false;
  const MeasuredRows unlimited = kernels.Get(device_, question);
  EXPECT_TRUE(unlimited.rows.empty());
  EXPECT_TRUE(unlimited.late);
}

TEST_F(MeasuredKernelsBoundsTest, WhatMayStillBeMeasuredIsNotLate) {
  MeasuredKernels kernels(&store_, Seconds(1000, 1000), kNoFolder);
  const MeasuredRows answer = Ask(kernels, Problem(), false);
  EXPECT_FALSE(answer.settled);
  EXPECT_FALSE(answer.late);
  MeasuredKernels over(&store_, Seconds(1000, 0), kNoFolder);
  EXPECT_TRUE(Ask(over, Problem(), false).late);
}

TEST_F(MeasuredKernelsBoundsTest, WhatWasLateIsReadWhenAnotherProcessMeasuredIt) {
  MeasuredKernels hurried(&store_, Seconds(kTooLittle, 1000), kNoFolder);
  EXPECT_FALSE(Ask(hurried, Problem()).settled);
  const long measured = hurried.measured();
  device_.functions = &functions_;
  MeasuredKernels patient(&store_, std::nullopt, kNoFolder);
  const MeasuredRows all = Ask(patient, Problem());
  EXPECT_TRUE(all.settled);
  EXPECT_GT(patient.measured(), 0);
  // Rows that are already stored are not measured again.
  EXPECT_EQ(patient.measured() + measured, static_cast<long>(all.rows.size()));
  const MeasuredRows read = Ask(hurried, Problem());
  EXPECT_TRUE(read.settled);
  EXPECT_TRUE(read.whole_tried);
  EXPECT_EQ(read.rows, all.rows);
  EXPECT_EQ(hurried.measured(), measured);
  EXPECT_TRUE(hurried.HasAllEngines(device_, Problem()));
}

TEST_F(MeasuredKernelsBoundsTest, ASumOfPartialsWithoutTimeIsNotTried) {
  ConvolutionProblem problem = Problem();
  problem.operation = Operation::kBackwardFilter;
  problem.type = DataType::kHalf;
  device_.functions = &functions_;
  const auto nothing_known = [](const EngineId&, int) { return false; };
  for (const bool in_time : {true, false}) {
    MeasureLimits limits;
    limits.deadline = in_time ? Clock::time_point::max() : Clock::now();
    const auto all =
        MeasureEngines(device_, {problem, {2, 8}, LegacyScope(), nothing_known}, limits);
    ASSERT_TRUE(all.ok()) << all.message();
    EXPECT_EQ(all->sum_late, !in_time);
    EXPECT_EQ(all->late_sizes, in_time ? std::vector<int>{} : (std::vector{2, 8}));
  }
}

// Preparing an engine may compile CUDA kernels, which takes long.
TEST_F(MeasuredKernelsBoundsTest, NothingIsPreparedWithoutTime) {
  static const cudnn::Functions* real = nullptr;
  static int asked = 0;
  real = &functions_;  // without the delay of slow_
  cudnn::Functions counting = *real;
  counting.cudnnGetConvolutionForwardWorkspaceSize = [](auto... arguments) {
    ++asked;
    return real->cudnnGetConvolutionForwardWorkspaceSize(arguments...);
  };
  device_.functions = &counting;
  const auto nothing_known = [](const EngineId&, int) { return false; };
  for (const bool in_time : {true, false}) {
    for (const std::optional<size_t> fit_bytes :
         {std::optional<size_t>(), std::optional(size_t{1} << 20)}) {
      MeasureLimits limits;
      limits.deadline = in_time ? Clock::time_point::max() : Clock::now();
      limits.fit_bytes = fit_bytes;
      asked = 0;
      const auto all =
          MeasureEngines(device_, {Problem(), {1, 2}, LegacyScope(), nothing_known}, limits);
      ASSERT_TRUE(all.ok()) << all.message();
      EXPECT_EQ(asked > 0, in_time);
      EXPECT_EQ(all->measurements.empty(), !in_time);
    }
  }
  device_.functions = real;
}

TEST_F(MeasuredKernelsBoundsTest, AllKernelsTogetherStopAtTheProcesssBudget) {
  MeasuredKernels kernels(&store_, Seconds(1000, kTooLittle), kNoFolder);
  ASSERT_TRUE(Ask(kernels, Problem()).status.ok());
  const long measured = kernels.measured();
  for (int i = 0; i < 3; ++i) {
    const MeasuredRows other = Ask(kernels, Other());
    EXPECT_TRUE(other.rows.empty());
    EXPECT_FALSE(other.settled);
    EXPECT_EQ(other.status.message(), "the time for measuring is used up");
  }
  EXPECT_EQ(kernels.measured(), measured);
  // Rows that another process has stored meanwhile are still found.
  ASSERT_TRUE(
      store_
          .Write(Other(), device_.platform, {{{"legacy:0", 8, 5, 0, true}, 5, false}}, {1, 2, 4, 8})
          .ok());
  const MeasuredRows read = Ask(kernels, Other());
  EXPECT_TRUE(read.settled);
  EXPECT_EQ(read.rows.size(), 1u);
  EXPECT_EQ(kernels.measured(), measured);
}

// `until` ends a call's turn before the time of the process is used up.
TEST_F(MeasuredKernelsBoundsTest, WhatIsCutShortIsMeasuredAtALaterCall) {
  MeasuredKernels kernels(&store_, Seconds(1000, 1000), kNoFolder);
  Question question = Asking(Problem(), true);
  question.until = Clock::now() + std::chrono::seconds(1);
  const MeasuredRows cut = kernels.Get(device_, question);
  ASSERT_TRUE(cut.status.ok()) << cut.status.message();
  EXPECT_FALSE(cut.settled);
  EXPECT_FALSE(cut.late) << "a later call has time";
  const long measured = kernels.measured();
  EXPECT_EQ(measured, static_cast<long>(cut.rows.size()));
  kernels.Get(device_, question);
  EXPECT_EQ(kernels.measured(), measured) << "its turn is over";
  Question other = Asking(Other(), true);
  other.until = question.until;
  EXPECT_EQ(kernels.Get(device_, other).status.message(),
            "the time of this call is used up, a later one goes on");
  question.until = Clock::time_point::max();
  device_.functions = &functions_;
  EXPECT_TRUE(kernels.Get(device_, question).settled);
  EXPECT_GT(kernels.measured(), measured);
}

TEST_F(MeasuredKernelsBoundsTest, SmallKernelsTakeShorterTurns) {
  MeasuredKernels kernels(&store_, Seconds(1e6, 4000), kNoFolder);
  const auto turn = [&](int images) {
    // EndOfTurn reads the clock after `now` was read. So the difference is at least the turn, and a
    // turn of 187.5 s rounds up.
    const Clock::time_point now = Clock::now();
    return std::chrono::round<std::chrono::seconds>(kernels.EndOfTurn(Problem(images)) - now)
        .count();
  };
  EXPECT_EQ(turn(1), 375);
  EXPECT_EQ(turn(8), 375);
  EXPECT_EQ(turn(2), 375);
  EXPECT_EQ(turn(1), 188);
  kernels.Spend(device_, Problem(), std::chrono::seconds(2000));
  EXPECT_EQ(turn(8), 125);
}

TEST_F(MeasuredKernelsBoundsTest, WaitingForAnotherProcessEndsWithTheBudget) {
  const auto name = DeviceName(device_);
  ASSERT_TRUE(name.ok());
  const auto lock = DeviceLock::Acquire(kNoFolder, *name, Clock::time_point::max());
  ASSERT_TRUE(lock);
  MeasuredKernels kernels(&store_, Seconds(0.05, 1000), kNoFolder);
  const MeasuredRows answer = Ask(kernels, Problem());
  EXPECT_EQ(answer.status.message(), "others measure on the device");
  EXPECT_FALSE(answer.settled);
  EXPECT_EQ(kernels.measured(), 0);
}

TEST_F(MeasuredKernelsBoundsTest, NoMoreMemoryIsTakenThanAQuarterOfWhatIsFree) {
  slow = std::chrono::milliseconds(0);
  ConvolutionProblem problem = Problem();
  problem.n = 2;
  const size_t free = FreeBytes();
  // `occupied` leaves `rest` bytes free, and a quarter of them does not suffice for every engine.
  size_t largest = 0;
  {
    device_.functions = &functions_;
    MeasuredKernels roomy(nullptr, std::nullopt, kNoFolder);
    for (const MicroConfiguration& row : Ask(roomy, problem).rows) {
      largest = std::max(largest, row.workspace_bytes);
    }
    device_.functions = &slow_;
  }
  ASSERT_GT(largest, 0u);
  const size_t operands = 2 * 2 * 16 * 12 * 12 * 4 + 16 * 16 * 9 * 4;
  const size_t rest = 4 * (operands + largest / 2);
  CUdeviceptr occupied;
  ASSERT_EQ(cuMemAlloc(&occupied, free - rest), CUDA_SUCCESS);
  const size_t before = FreeBytes();
  least_free = before;
  Tuning bounds;  // the time suffices; by default a quarter of the free memory may be taken
  bounds.kernel_seconds = bounds.process_seconds = 3600;
  MeasuredKernels kernels(&store_, bounds, kNoFolder);
  const MeasuredRows answer = Ask(kernels, problem);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(cuMemFree(occupied), CUDA_SUCCESS);
  ASSERT_TRUE(answer.status.ok()) << answer.status.message();
  EXPECT_GE(least_free, before - before / 4);
  for (const MicroConfiguration& row : answer.rows) EXPECT_LT(row.workspace_bytes, largest);
  EXPECT_TRUE(answer.settled);  // nothing more will be known
  EXPECT_TRUE(answer.whole_tried);
  EXPECT_FALSE(kernels.HasAllEngines(device_, problem));
}

TEST_F(MeasuredKernelsBoundsTest, WithoutMemoryForItsTensorsNothingIsMeasured) {
  Tuning bounds;
  bounds.memory_bytes = 1000;
  MeasuredKernels kernels(&store_, bounds, kNoFolder);
  const MeasuredRows answer = Ask(kernels, Problem());
  EXPECT_TRUE(answer.rows.empty());
  EXPECT_NE(answer.status.message().find("1000 B"), std::string::npos) << answer.status.message();
  EXPECT_EQ(kernels.measured(), 0);
}

TEST_F(MeasuredKernelsBoundsTest, PolicyAutoAsksUntilItKnowsEnoughAndNeverTwice) {
  device_.functions = &functions_;
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  long rows = 0;
  // Most micro-batch sizes for 24 images are also sizes for 16 images, which are measured first.
  for (const int n : {16, 24, 16, 24}) {
    const Question question = Asking(Problem(n), true, BatchSizePolicy::kAuto);
    const MeasuredRows answer = kernels.Get(device_, question);
    ASSERT_TRUE(answer.status.ok()) << answer.status.message();
    EXPECT_TRUE(answer.settled);
    EXPECT_GE(SizesOf(answer.rows).size(), 2u);
    const auto stored = store_.Read(Problem(), device_.platform);
    EXPECT_GE(static_cast<long>(stored->rows.size()), rows);
    rows = static_cast<long>(stored->rows.size());
    EXPECT_EQ(kernels.measured(), rows);
  }
  MeasuredKernels warm(&store_, std::nullopt, kNoFolder);
  const MeasuredRows read = warm.Get(device_, Asking(Problem(24), false, BatchSizePolicy::kAuto));
  EXPECT_TRUE(read.settled);
  EXPECT_EQ(read.rows,
            kernels.Get(device_, Asking(Problem(24), false, BatchSizePolicy::kAuto)).rows);
  EXPECT_EQ(warm.measured(), 0);
}

// Spoils the result of a call for fewer images than Problem() has.
void SpoilPieces(const cudnn::ConvolutionCall& call) {
  cudnnDataType_t type;
  int rank = 0, extents[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX];
  EXPECT_EQ(::cudnnGetTensorNdDescriptor(call.descriptors.y, CUDNN_DIM_MAX, &type, &rank, extents,
                                         strides),
            CUDNN_STATUS_SUCCESS);
  if (extents[0] < Problem().n) test::WriteByte(call.*cudnn::OutputOf(call.operation));
}

TEST_F(MeasuredKernelsBoundsTest, WhatWasFoundWrongIsNeverGivenAgain) {
  device_.functions = &functions_;
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  const MeasuredRows before = Ask(kernels, Problem());
  ASSERT_TRUE(before.status.ok());
  const auto verify = [&](Proof proof) { return VerifyHalves(kernels, before.rows, proof); };
  // Call 0 runs the undivided engine, and call 1 runs the plan's first piece.
  const cudnn::Functions faulty = test::FaultyStandIn({.at = 1, .after = SpoilPieces});
  device_.functions = &faulty;
  EXPECT_EQ(verify(Proof::kKnown), Trust::Kind::kUnknown);
  EXPECT_EQ(verify(Proof::kOnce), Trust::Kind::kWrong);
  device_.functions = &functions_;
  EXPECT_EQ(verify(Proof::kOnce), Trust::Kind::kWrong);
  const MeasuredRows after = Ask(kernels, Problem());
  EXPECT_TRUE(after.settled);
  EXPECT_EQ(after.rows.size() + 1, before.rows.size());
  EXPECT_EQ(std::count(after.rows.begin(), after.rows.end(), RowOf(before.rows, 4)), 0);
}

TEST_F(MeasuredKernelsBoundsTest, ComparingHasTimeThatMeasuringMustLeave) {
  device_.functions = &functions_;
  MeasuredKernels kernels(&store_, Seconds(1000, 1000), kNoFolder);
  const MeasuredRows answer = Ask(kernels, Problem());
  kernels.Spend(device_, Other(), std::chrono::seconds(750));
  const MeasuredRows other = Ask(kernels, Other());
  EXPECT_EQ(other.status.message(), "the time for measuring is used up");
  EXPECT_TRUE(other.late);
  EXPECT_EQ(VerifyHalves(kernels, answer.rows, Proof::kOnce), Trust::Kind::kTrusted);
}

TEST_F(MeasuredKernelsBoundsTest, ComparingTakesOfTheSameBudget) {
  device_.functions = &functions_;
  MeasuredKernels measured(&store_, std::nullopt, kNoFolder);
  const MeasuredRows answer = Ask(measured, Problem());
  MeasuredKernels kernels(&store_, Seconds(1000, 0), kNoFolder);
  EXPECT_EQ(VerifyHalves(kernels, answer.rows, Proof::kOnce), Trust::Kind::kUnknown);
  EXPECT_EQ(VerifyHalves(measured, answer.rows, Proof::kOnce), Trust::Kind::kTrusted);
}

}  // namespace
}  // namespace ucudnn::tuning
