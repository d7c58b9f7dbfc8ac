// Provides convolutions cut over the ranks of a job, and what tests expect of them: exact results,
// the same line about a failure on all ranks, and the traffic of the channels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "cudnn/descriptors.h"
#include "tests/support/becomes.h"
#include "tests/support/problem.h"
#include "tests/support/stand_in.h"
#include "tests/unit/spatial/rank_job.h"

namespace ucudnn::test {

using std::chrono::milliseconds;
using Statuses = std::vector<cudnnStatus_t>;
using TestClock = std::chrono::steady_clock;

constexpr cudnnStatus_t kFine = CUDNN_STATUS_SUCCESS;
constexpr cudnnStatus_t kRefused = CUDNN_STATUS_NOT_SUPPORTED;
constexpr cudnnStatus_t kBroken = CUDNN_STATUS_EXECUTION_FAILED;
// Much less than a job's default timeout (20 s), which ends calls that hang.
constexpr milliseconds kSoon{8000};

inline ConvolutionProblem Layer(Operation operation, int height, int filter = 3) {
  ConvolutionProblem p;
  p.operation = operation;
  p.n = 2, p.c = 2, p.k = 3;
  p.x = {1, height, 6};
  p.w = {1, filter, filter};
  p.pad = {0, filter / 2, filter / 2};
  SetPackedStrides(p);
  return p;
}

// Returns the extents of an image that is cut into `parts`.
inline Spatial WholeOf(const AxisExtents& parts) {
  Spatial whole = {};
  for (size_t axis = 0; axis < 3; ++axis) {
    whole[axis] =
        static_cast<int32_t>(std::accumulate(parts[axis].begin(), parts[axis].end(), int64_t{0}));
  }
  return whole;
}

inline void SetWhole(ConvolutionProblem& problem, const AxisExtents& parts) {
  problem.x = WholeOf(parts);
  SetPackedStrides(problem);
}

// Runs `run` on all ranks at once, and returns its results by rank.
template <class Run>
auto OnEach(RankJob& job, const Run& run) {
  std::vector<std::invoke_result_t<Run, RankState&>> results(static_cast<size_t>(job.size()));
  job.OnAll([&](RankState& rank) { results[static_cast<size_t>(rank.rank)] = run(rank); });
  return results;
}

// Holds a handle with its own stream.
struct OwnHandle {
  CUstream stream = nullptr;
  cudnnHandle_t handle = nullptr;

  OwnHandle() {
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(cudnnCreate(&handle), kFine);
    EXPECT_EQ(cudnnSetStream(handle, reinterpret_cast<cudaStream_t>(stream)), kFine);
  }
  ~OwnHandle() {
    EXPECT_EQ(cudnnDestroy(handle), kFine);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  }
  OwnHandle(const OwnHandle&) = delete;
  OwnHandle& operator=(const OwnHandle&) = delete;
};

// Returns the part of `output`, an undivided call's result, that the rank with `stripe` must have.
inline HostTensor PartOf(const HostTensor& output, Operation operation, const Stripe& stripe) {
  if (operation == Operation::kBackwardFilter) return output;
  return output.Box(operation == Operation::kForward ? stripe.windows : stripe.elements);
}

// Holds a convolution, the stripe of each rank, and the result of the undivided convolution.
struct SplitLayer {
  WholeCase whole;
  std::vector<Stripe> stripes;
  HostTensor expected;

  SplitLayer(ConvolutionProblem problem, const SpatialGrid& grid, const AxisExtents& extents,
             unsigned seed = 1) {
    SetWhole(problem, extents);
    std::mt19937 random(seed);
    whole = WholeCase::Random(problem, random);
    auto cut = CutInto(whole.problem, grid, extents);
    EXPECT_TRUE(cut.has_value());
    if (cut) stripes = *cut;
    expected = Undivided(whole);
  }
  // Makes a layer that is cut along h over two ranks.
  SplitLayer(Operation operation, int64_t first, int64_t second, int filter = 3)
      : SplitLayer(Layer(operation, 1, filter), *SpatialGrid::Parse("h2"),
                   {{{1}, {first, second}, {6}}}) {}

  const Stripe& StripeOf(const RankState& rank) const {
    return stripes[static_cast<size_t>(rank.rank)];
  }
  HostTensor Part(int rank) const {
    return PartOf(expected, whole.problem.operation, stripes[static_cast<size_t>(rank)]);
  }
  StripeResult RunOn(RankState& rank) const { return rank.RunStripe(whole, StripeOf(rank)); }
  bool IsExactOn(RankState& rank) const {
    const StripeResult result = RunOn(rank);
    return result.status == kFine && result.is_intact && result.output == Part(rank.rank);
  }
};

// `strip` is cut along w alone, but `grid` along h and w. Gives each rank the stripe for its place
// along w, so ranks that differ only along h have copies.
inline void CopyAlongHeight(const SpatialGrid& grid, SplitLayer& strip) {
  const std::vector<Stripe> parts = strip.stripes;
  strip.stripes.clear();
  for (int rank = 0; rank < grid.Ranks(); ++rank) {
    strip.stripes.push_back(parts[static_cast<size_t>(grid.CellOf(rank).w)]);
  }
}

// Expects that `result` is the rank's part of the undivided result.
inline void ExpectPart(const RankState& rank, const SplitLayer& layer, const StripeResult& result) {
  EXPECT_EQ(result.status, kFine);
  EXPECT_TRUE(result.is_intact);
  EXPECT_EQ(result.output, layer.Part(rank.rank)) << "rank " << rank.rank;
}

inline bool IsNan(const HostTensor& tensor) {
  return std::all_of(tensor.values.begin(), tensor.values.end(),
                     [](double value) { return std::isnan(value); });
}

inline bool HasNan(const HostTensor& output) {
  return std::any_of(output.values.begin(), output.values.end(),
                     [](double value) { return std::isnan(value); });
}

inline testing::AssertionResult IsRightOrNan(const HostTensor& output, const HostTensor& expected) {
  if (output.values.size() != expected.values.size()) {
    return testing::AssertionFailure() << output.values.size() << " elements";
  }
  for (size_t i = 0; i < output.values.size(); ++i) {
    if (!std::isnan(output.values[i]) && output.values[i] != expected.values[i]) {
      return testing::AssertionFailure()
             << "element " << i << " of " << output.values.size() << " is " << output.values[i]
             << ", and not " << expected.values[i];
    }
  }
  return testing::AssertionSuccess();
}

inline void ExpectExactOnAll(RankJob& job, const SplitLayer& layer) {
  const auto exact = OnEach(job, [&](RankState& rank) { return layer.IsExactOn(rank) ? 1 : 0; });
  for (size_t rank = 0; rank < exact.size(); ++rank) {
    EXPECT_TRUE(exact[rank]) << "rank " << rank << ", " << Describe(layer.whole.problem);
  }
}

// Returns the line of the job's failure if all ranks have the same line within kSoon, otherwise an
// empty text.
inline std::string FailureOf(RankJob& job) {
  std::string line;
  const auto is_on_all = [&] {
    line = job.rank(0).ranks->Failure().value_or("");
    bool same = !line.empty();
    for (int rank = 1; rank < job.size(); ++rank) {
      same = same && job.rank(rank).ranks->Failure() == line;
    }
    return same;
  };
  return Becomes(is_on_all, kSoon) ? line : "";
}

inline void ExpectContains(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
  }
}

// Expects that every call of a failed job is an error, and its result NaN.
inline void ExpectAllFailFromNowOn(RankJob& job) {
  EXPECT_NE(FailureOf(job), "");
  for (const Operation operation : kOperations) {
    const std::vector<int64_t> rows(static_cast<size_t>(job.size()), 4);
    const SplitLayer layer(Layer(operation, 1), job.grid(), {{{1}, rows, {6}}});
    const auto run = [&](RankState& rank) { return layer.RunOn(rank); };
    for (const StripeResult& result : OnEach(job, run)) {
      EXPECT_EQ(result.status, kBroken);
      EXPECT_TRUE(IsNan(result.output));
      EXPECT_TRUE(result.is_intact);
    }
  }
}

// Counts what passes through the channels of a job.
struct Traffic {
  std::atomic<int> exchanges = 0, reductions = 0, reservations = 0;
  std::atomic<int64_t> sent = 0, received = 0;
};

class CountingChannel : public transport::Channel {
 public:
  CountingChannel(std::unique_ptr<transport::Channel> channel, Traffic& traffic)
      : channel_(std::move(channel)), traffic_(traffic) {}
  Status Exchange(std::span<const transport::Message> sends,
                  std::span<const transport::Message> receives, CUstream stream) override {
    ++traffic_.exchanges;
    for (const transport::Message& m : sends) traffic_.sent += static_cast<int64_t>(m.bytes);
    for (const transport::Message& m : receives) {
      traffic_.received += static_cast<int64_t>(m.bytes);
    }
    return channel_->Exchange(sends, receives, stream);
  }
  Status AllReduce(CUdeviceptr data, size_t count, transport::Element element,
                   CUstream stream) override {
    ++traffic_.reductions;
    return channel_->AllReduce(data, count, element, stream);
  }
  Status Reserve(size_t message_bytes, size_t reduction_bytes) override {
    ++traffic_.reservations;
    return channel_->Reserve(message_bytes, reduction_bytes);
  }
  size_t device_bytes() const override { return channel_->device_bytes(); }
  Status CanBeCaptured() const override { return channel_->CanBeCaptured(); }
  Status Check() override { return channel_->Check(); }
  transport::DeviceProgress Progress() override { return channel_->Progress(); }
  void Abort() override { channel_->Abort(); }

 private:
  const std::unique_ptr<transport::Channel> channel_;
  Traffic& traffic_;
};

// A channel whose Exchange transfers nothing, as if the other ranks died after their calls.
class SilentChannel : public CountingChannel {
 public:
  using CountingChannel::CountingChannel;
  Status Exchange(std::span<const transport::Message>, std::span<const transport::Message>,
                  CUstream) override {
    return Status::Ok();
  }
};

// Wraps each rank's channel in a Channel that is made with the rank's channel, `traffic` and
// `more`.
template <class Channel = CountingChannel, class... More>
JobOptions Counted(JobOptions options, Traffic& traffic, More&... more) {
  options.wrap = [&traffic, &more...](int, std::unique_ptr<transport::Channel> channel) {
    return std::make_unique<Channel>(std::move(channel), traffic, more...);
  };
  return options;
}

// Runs `run` as the rank's own call.
class GivenCall : public spatial::LocalCall {
 public:
  explicit GivenCall(std::function<cudnnStatus_t(const cudnn::ConvolutionCall&)> run)
      : run_(std::move(run)) {}
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override { return run_(call); }

 private:
  const std::function<cudnnStatus_t(const cudnn::ConvolutionCall&)> run_;
};

inline StripeResult RunGiven(
    RankState& rank, const WholeCase& whole, const Stripe& stripe,
    const std::function<cudnnStatus_t(const cudnn::ConvolutionCall&)>& run) {
  return RunStripe(whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& call) {
    GivenCall given(run);
    return rank.calls->Run({stripe.problem, call, rank.context, rank.stream}, given);
  });
}

inline StripeResult RunGiven(
    RankState& rank, const SplitLayer& layer,
    const std::function<cudnnStatus_t(const cudnn::ConvolutionCall&)>& run) {
  return RunGiven(rank, layer.whole, layer.StripeOf(rank), run);
}

using RunCall = std::function<cudnnStatus_t()>;

// Lets `use` make the rank's call on tensors of its stripe. Returns what the tensors hold
// afterwards, and the status that `use` returned.
inline StripeResult With(RankState& rank, const SplitLayer& layer,
                         const std::function<cudnnStatus_t(const RunCall& run)>& use) {
  const Stripe& stripe = layer.StripeOf(rank);
  return RunStripe(layer.whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& call) {
    return use([&] { return rank.Run(stripe.problem, call); });
  });
}

inline cudnnStatus_t RunReal(const cudnn::ConvolutionCall& call) {
  static const cudnn::Functions functions = StandIn();
  return cudnn::Convolve(functions, call);
}

// Makes a call for problems[r] on each rank r, and returns the statuses by rank.
inline Statuses RunOwn(RankJob& job, const std::vector<ConvolutionProblem>& problems) {
  return OnEach(job, [&](RankState& rank) {
    std::mt19937 random(1);
    const WholeCase whole = WholeCase::Random(problems[static_cast<size_t>(rank.rank)], random);
    return rank.RunStripe(whole, WholeStripe(whole.problem)).status;
  });
}

// Adds 1 to `count` whenever a rank hears that another rank gathers.
inline void CountGathers(RankJob& job, std::atomic<int>& count) {
  for (int rank = 0; rank < job.size(); ++rank) {
    job.rank(rank).ranks->OnGather([&count](int, uint64_t) { ++count; });
  }
}

// Expects that all ranks refuse their call before they exchange anything, and that they refuse it
// again without a gather, also after other kernels ran.
inline void ExpectRefused(JobOptions options, const std::vector<ConvolutionProblem>& problems,
                          const std::vector<std::string>& words) {
  Traffic traffic;
  std::atomic<int> gathers = 0;
  RankJob job(Counted(std::move(options), traffic));
  CountGathers(job, gathers);
  const Statuses all_refused(problems.size(), kRefused);
  testing::internal::CaptureStderr();
  const Statuses first = RunOwn(job, problems);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(first, all_refused);
  ExpectContains(told, words);
  EXPECT_EQ(traffic.exchanges, 0);
  EXPECT_EQ(traffic.reductions, 0);
  const int gathered = gathers;
  EXPECT_GT(gathered, 0);
  EXPECT_EQ(RunOwn(job, problems), all_refused);
  EXPECT_EQ(gathers, gathered);
  if (job.grid().Text() == "h2") {
    ExpectExactOnAll(job, SplitLayer(Operation::kForward, 4, 3));
    ExpectExactOnAll(job, SplitLayer(Operation::kBackwardFilter, 2, 5));
  }
  EXPECT_EQ(RunOwn(job, problems), all_refused);
  for (int rank = 0; rank < job.size(); ++rank) EXPECT_FALSE(job.rank(rank).ranks->Failure());
}

}  // namespace ucudnn::test
