// What goes wrong between ranks: calls that are refused on all of them alike, ranks that no longer
// make the same calls, local calls that fail. Nothing hangs, and nothing passes unseen.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>

#include "cudnn/descriptors.h"
#include "tests/support/device.h"
#include "tests/support/stand_in.h"
#include "tests/unit/spatial/rank_job.h"

namespace ucudnn::test {
namespace {

using std::chrono::milliseconds;
using Statuses = std::vector<cudnnStatus_t>;
using TestClock = std::chrono::steady_clock;

constexpr cudnnStatus_t kFine = CUDNN_STATUS_SUCCESS;
constexpr cudnnStatus_t kRefused = CUDNN_STATUS_NOT_SUPPORTED;
constexpr cudnnStatus_t kBroken = CUDNN_STATUS_EXECUTION_FAILED;
// Much less than the timeout of a job, which would end everything.
constexpr milliseconds kSoon{8000};

ConvolutionProblem Layer(Operation operation, int height, int filter = 3) {
  ConvolutionProblem p;
  p.operation = operation;
  p.n = 2, p.c = 2, p.k = 3;
  p.x = {1, height, 6};
  p.w = {1, filter, filter};
  p.pad = {0, filter / 2, filter / 2};
  SetPackedStrides(p);
  return p;
}

// A handle with a stream of its own.
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

// A convolution over ranks, by its rows on each of them.
struct SplitLayer {
  WholeCase whole;
  std::vector<Stripe> stripes;
  HostTensor expected;

  SplitLayer(ConvolutionProblem problem, const SpatialGrid& grid, const AxisExtents& extents,
             unsigned seed = 1) {
    for (size_t axis = 0; axis < 3; ++axis) {
      int64_t sum = 0;
      for (const int64_t extent : extents[axis]) sum += extent;
      problem.x[axis] = static_cast<int32_t>(sum);
    }
    SetPackedStrides(problem);
    std::mt19937 random(seed);
    whole = WholeCase::Random(problem, random);
    auto cut = CutInto(whole, grid, extents);
    EXPECT_TRUE(cut.has_value());
    if (cut) stripes = *cut;
    expected = Undivided(whole);
  }
  // Over h2.
  SplitLayer(Operation operation, int64_t first, int64_t second, int filter = 3)
      : SplitLayer(Layer(operation, 1, filter), *SpatialGrid::Parse("h2"),
                   {{{1}, {first, second}, {6}}}) {}

  HostTensor Part(int rank) const { return PartOf(expected, rank); }
  HostTensor PartOf(const HostTensor& tensor, int rank) const {
    const Stripe& stripe = stripes[static_cast<size_t>(rank)];
    if (whole.problem.operation == Operation::kBackwardFilter) return tensor;
    return tensor.Box(whole.problem.operation == Operation::kForward ? stripe.windows
                                                                     : stripe.elements);
  }
  StripeResult RunOn(RankState& rank) const {
    return rank.RunStripe(whole, stripes[static_cast<size_t>(rank.rank)]);
  }
  bool IsExactOn(RankState& rank) const {
    const StripeResult result = RunOn(rank);
    return result.status == kFine && result.is_intact && result.output == Part(rank.rank);
  }
};

bool IsNan(const HostTensor& tensor) {
  return std::all_of(tensor.values.begin(), tensor.values.end(),
                     [](double value) { return std::isnan(value); });
}

void ExpectExactOnAll(RankJob& job, const SplitLayer& layer) {
  std::vector<char> exact(static_cast<size_t>(job.size()));
  job.OnAll([&](RankState& rank) {
    exact[static_cast<size_t>(rank.rank)] = layer.IsExactOn(rank) ? 1 : 0;
  });
  for (size_t rank = 0; rank < exact.size(); ++rank) {
    EXPECT_TRUE(exact[rank]) << "rank " << rank << ", " << Describe(layer.whole.problem);
  }
}

// The line of the job's failure, which is the same on all ranks; empty where there is none soon.
std::string FailureOf(RankJob& job) {
  const auto deadline = TestClock::now() + kSoon;
  for (;;) {
    const std::string line = job.rank(0).ranks->Failure().value_or("");
    bool same = !line.empty();
    for (int rank = 1; rank < job.size(); ++rank) {
      same = same && job.rank(rank).ranks->Failure() == line;
    }
    if (same) return line;
    if (TestClock::now() > deadline) return "";
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void ExpectContains(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
  }
}

// Once the job has failed every call is an error, and its result NaN.
void ExpectAllFailFromNowOn(RankJob& job) {
  EXPECT_NE(FailureOf(job), "");
  for (const Operation operation :
       {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
    const std::vector<int64_t> rows(static_cast<size_t>(job.size()), 4);
    const SplitLayer layer(Layer(operation, 1), job.grid(), {{{1}, rows, {6}}});
    std::vector<StripeResult> results(static_cast<size_t>(job.size()));
    job.OnAll(
        [&](RankState& rank) { results[static_cast<size_t>(rank.rank)] = layer.RunOn(rank); });
    for (const StripeResult& result : results) {
      EXPECT_EQ(result.status, kBroken);
      EXPECT_TRUE(IsNan(result.output));
      EXPECT_TRUE(result.is_intact);
    }
  }
}

// What passes through the channels of a job.
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
  Status Check() override { return channel_->Check(); }
  void Abort() override { channel_->Abort(); }

 private:
  const std::unique_ptr<transport::Channel> channel_;
  Traffic& traffic_;
};

JobOptions Counted(JobOptions options, Traffic& traffic) {
  options.wrap = [&traffic](int, std::unique_ptr<transport::Channel> channel) {
    return std::make_unique<CountingChannel>(std::move(channel), traffic);
  };
  return options;
}

// The rank's own call, as the test wants it.
class GivenCall : public spatial::LocalCall {
 public:
  explicit GivenCall(std::function<cudnnStatus_t(const cudnn::ConvolutionCall&)> run)
      : run_(std::move(run)) {}
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override { return run_(call); }

 private:
  const std::function<cudnnStatus_t(const cudnn::ConvolutionCall&)> run_;
};

StripeResult RunGiven(RankState& rank, const WholeCase& whole, const Stripe& stripe,
                      const std::function<cudnnStatus_t(const cudnn::ConvolutionCall&)>& run) {
  return RunStripe(whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& call) {
    GivenCall given(run);
    return rank.calls->Run({stripe.problem, call, rank.context, rank.stream}, given);
  });
}

cudnnStatus_t RunReal(const cudnn::ConvolutionCall& call) {
  static const cudnn::Functions functions = StandIn();
  return cudnn::Convolve(functions, call);
}

// Each rank calls for a problem of its own, whatever those of the others are.
Statuses RunOwn(RankJob& job, const std::vector<ConvolutionProblem>& problems) {
  Statuses statuses(problems.size());
  job.OnAll([&](RankState& rank) {
    const auto at = static_cast<size_t>(rank.rank);
    std::mt19937 random(1);
    const WholeCase whole = WholeCase::Random(problems[at], random);
    statuses[at] = rank.RunStripe(whole, WholeStripe(whole)).status;
  });
  return statuses;
}

// Counts the gathers of the other ranks that each rank hears of.
void CountGathers(RankJob& job, std::atomic<int>& count) {
  for (int rank = 0; rank < job.size(); ++rank) {
    job.rank(rank).ranks->OnGather([&count](int, uint64_t) { ++count; });
  }
}

// Refused on all ranks before anything is exchanged, and again without a gather; other kernels run.
void ExpectRefused(JobOptions options, const std::vector<ConvolutionProblem>& problems,
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

TEST(SplitRefusals, ValidConvolutionIsNotTransparent) {
  for (const Operation operation :
       {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
    ConvolutionProblem problem = Layer(operation, 5);
    problem.pad = {0, 0, 0};
    ExpectRefused({}, {problem, problem}, {"cannot be split", "h: "});
  }
}

TEST(SplitRefusals, StrideThatDoesNotDivideIsNamed) {
  ConvolutionProblem first = Layer(Operation::kForward, 7), second = first;
  first.stride = second.stride = {1, 2, 2};
  second.x[1] = 4;
  SetPackedStrides(first);
  SetPackedStrides(second);
  ExpectRefused({}, {first, second}, {"cannot be split", "7", "stride 2"});
}

TEST(SplitRefusals, BufferTooSmallForOneImage) {
  ExpectRefused({.grid = "w2", .most_buffer_bytes = 100},
                {Layer(Operation::kForward, 5), Layer(Operation::kForward, 5)},
                {"cannot be split", "rank 0", "one image", "100"});
}

TEST(SplitRefusals, CallThatOneRankCannotRunIsRefusedOnAll) {
  Traffic traffic;
  std::atomic<int> gathers = 0;
  RankJob job(Counted({.grid = "h3"}, traffic));
  CountGathers(job, gathers);
  const SplitLayer layer(Layer(Operation::kForward, 1), job.grid(), {{{1}, {3, 4, 5}, {6}}});
  const auto run = [&] {
    Statuses statuses(3);
    job.OnAll([&](RankState& rank) {
      const auto at = static_cast<size_t>(rank.rank);
      statuses[at] =
          RunGiven(rank, layer.whole, layer.stripes[at], [&](const cudnn::ConvolutionCall& call) {
            return rank.rank == 1 ? kRefused : RunReal(call);
          }).status;
    });
    return statuses;
  };
  testing::internal::CaptureStderr();
  const Statuses first = run();
  ExpectContains(testing::internal::GetCapturedStderr(), {"rank 1 cannot run its part"});
  EXPECT_EQ(first, Statuses(3, kRefused));
  const int gathered = gathers;
  EXPECT_EQ(run(), Statuses(3, kRefused));
  EXPECT_EQ(gathers, gathered);
  EXPECT_EQ(traffic.exchanges, 0);
  ExpectExactOnAll(
      job, SplitLayer(Layer(Operation::kBackwardData, 1), job.grid(), {{{1}, {3, 4, 5}, {6}}}));
}

// Ranks that do not call the same convolution cannot go on together.
void ExpectDifferent(const std::vector<ConvolutionProblem>& problems,
                     const std::vector<std::string>& words) {
  Traffic traffic;
  RankJob job(Counted({}, traffic));
  EXPECT_EQ(RunOwn(job, problems), Statuses(2, kBroken));
  ExpectContains(FailureOf(job), words);
  EXPECT_EQ(traffic.exchanges, 0);
  ExpectAllFailFromNowOn(job);
}

TEST(SplitDifferences, ChannelCountsAreNamed) {
  ConvolutionProblem other = Layer(Operation::kForward, 5);
  other.c = 4;
  SetPackedStrides(other);
  ExpectDifferent({Layer(Operation::kForward, 5), other},
                  {"rank 0 has forward 2x2x", "rank 1 has forward 2x4x"});
}

TEST(SplitDifferences, BatchSizesAreNamed) {
  ConvolutionProblem other = Layer(Operation::kBackwardFilter, 5);
  other.n = 3;
  ExpectDifferent({Layer(Operation::kBackwardFilter, 5), other},
                  {"rank 0 has backward_filter 2x2x", "rank 1 has backward_filter 3x2x"});
}

// Heights 15 and 16 on two ranks: old extents on rank 0, new ones on rank 1.
class SplitAgreement : public testing::TestWithParam<int> {};

TEST_P(SplitAgreement, NewExtentsOnOneRankAreAnErrorOnAll) {
  const int late = GetParam();
  RankJob job;
  const SplitLayer old_layer(Operation::kForward, 8, 7), new_layer(Operation::kForward, 8, 8);
  ExpectExactOnAll(job, old_layer);
  ExpectExactOnAll(job, old_layer);
  const auto begin = TestClock::now();
  Statuses statuses(2);
  job.OnAll([&](RankState& rank) {
    if (rank.rank == late) std::this_thread::sleep_for(milliseconds(200));
    statuses[static_cast<size_t>(rank.rank)] = new_layer.RunOn(rank).status;
  });
  EXPECT_EQ(statuses[1], kBroken);
  ExpectContains(FailureOf(job), {"UCUDNN_SPATIAL_AGREE=each", "new to rank 1", "1x8x6", "rank 0"});
  EXPECT_LT(TestClock::now() - begin, kSoon);
  ExpectAllFailFromNowOn(job);
}
INSTANTIATE_TEST_SUITE_P(RankThatIsLate, SplitAgreement, testing::Values(0, 1));

TEST(SplitAgreementEach, ExtentsMayChangeToAndFro) {
  RankJob job({.agrees_each_time = true});
  for (const Operation operation :
       {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
    const SplitLayer layers[] = {{operation, 8, 7}, {operation, 8, 8}, {operation, 3, 8}};
    for (const int layer : {0, 1, 0, 2, 1, 0, 0, 2}) ExpectExactOnAll(job, layers[layer]);
  }
}

TEST(SplitAgreementEach, KnownExtentsAreNotPreparedAgain) {
  Traffic traffic;
  RankJob job(Counted({.agrees_each_time = true}, traffic));
  const SplitLayer odd(Operation::kForward, 8, 7), even(Operation::kForward, 8, 8);
  ExpectExactOnAll(job, odd);
  ExpectExactOnAll(job, even);
  const int reservations = traffic.reservations;
  ExpectExactOnAll(job, odd);
  ExpectExactOnAll(job, even);
  EXPECT_EQ(traffic.reservations, reservations);
}

// What a rank does beside its convolution is its own: with it a kernel may be new on one rank only.
TEST(SplitAgreementEach, KernelThatIsNewOnOneRankIsMadeOnAll) {
  RankJob job({.agrees_each_time = true});
  const SplitLayer layer(Operation::kForward, 4, 4);
  SplitLayer added = layer;
  added.whole.beta = 1;
  added.expected = Undivided(added.whole);
  ExpectExactOnAll(job, layer);
  for (int i = 0; i < 3; ++i) {
    job.OnAll([&](RankState& rank) {
      EXPECT_TRUE((rank.rank == 0 ? layer : added).IsExactOn(rank)) << "rank " << rank.rank;
    });
    ExpectExactOnAll(job, layer);
    ExpectExactOnAll(job, added);
  }
}

// More sizes than are kept.
TEST(SplitAgreementEach, ManySizesAreExact) {
  RankJob job({.agrees_each_time = true});
  for (const int64_t rows : {3, 70, 3}) {
    for (int64_t second = 1; second <= rows; ++second) {
      ExpectExactOnAll(job, SplitLayer(Operation::kForward, 2, second));
    }
  }
}

// The call in which ranks differ tells of it, on all of them.
TEST(SplitRecords, AreWaitedForWhereTheUserWantsThat) {
  RankJob job({.waits_for_records = true});
  const SplitLayer a(Operation::kForward, 4, 4, 1), b(Operation::kBackwardData, 4, 4, 1);
  for (int i = 0; i < 5; ++i) {
    ExpectExactOnAll(job, a);
    ExpectExactOnAll(job, b);
  }
  std::vector<StripeResult> results(2);
  job.OnAll([&](RankState& rank) {
    results[static_cast<size_t>(rank.rank)] = (rank.rank == 0 ? a : b).RunOn(rank);
  });
  for (const StripeResult& result : results) {
    EXPECT_EQ(result.status, kBroken);
    EXPECT_TRUE(IsNan(result.output));
  }
  ExpectContains(FailureOf(job), {"call 11", "not the same convolution"});
}

TEST(SplitRecords, OneWarmUpMoreIsFoundAtTheNextLayer) {
  for (const int filter : {3, 1}) {
    RankJob job;
    const SplitLayer a(Operation::kForward, 4, 4, filter);
    const SplitLayer b(Operation::kForward, 5, 5, filter);
    ExpectExactOnAll(job, a);
    ExpectExactOnAll(job, b);
    const auto begin = TestClock::now();
    job.OnAll([&](RankState& rank) {
      for (int i = 0; i < (rank.rank == 0 ? 4 : 3); ++i) a.RunOn(rank);
      b.RunOn(rank);
    });
    const std::string line = FailureOf(job);
    EXPECT_LT(TestClock::now() - begin, kSoon);
    ExpectContains(line, {"rank 0", "rank 1"});
    ExpectAllFailFromNowOn(job);
  }
}

TEST(SplitRecords, UnequalNumbersOfOneLayerAreToldAtTheEnd) {
  RankJob job;
  const SplitLayer layer(Operation::kForward, 4, 4, 1);
  std::vector<std::optional<std::string>> told(2);
  job.OnAll([&](RankState& rank) {
    for (int i = 0; i < (rank.rank == 0 ? 4 : 3); ++i) EXPECT_TRUE(layer.IsExactOn(rank));
    told[static_cast<size_t>(rank.rank)] = rank.calls->Leave();
  });
  for (const auto& line : told) {
    ExpectContains(line.value_or(""), {"rank 0 made 1 split call more than rank 1"});
  }
}

TEST(SplitRecords, EqualNumbersAreNotTold) {
  RankJob job({.grid = "h3"});
  const SplitLayer layer(Layer(Operation::kForward, 1), job.grid(), {{{1}, {3, 4, 5}, {6}}});
  std::vector<std::optional<std::string>> told(3);
  job.OnAll([&](RankState& rank) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(layer.IsExactOn(rank));
    told[static_cast<size_t>(rank.rank)] = rank.calls->Leave();
  });
  for (const auto& line : told) EXPECT_EQ(line, std::nullopt);
}

// The other rank does not come to the exchange any more, because it has left.
TEST(SplitRecords, OneCallMoreThatExchangesDoesNotHang) {
  RankJob job({.timeout = milliseconds(2000)});
  const SplitLayer layer(Operation::kForward, 4, 4);
  ExpectExactOnAll(job, layer);
  cudnnStatus_t last = kFine;
  const auto begin = TestClock::now();
  job.OnAll([&](RankState& rank) {
    EXPECT_TRUE(layer.IsExactOn(rank));
    if (rank.rank == 0) last = layer.RunOn(rank).status;
    rank.calls->Leave();
  });
  EXPECT_EQ(last, kBroken);
  EXPECT_LT(TestClock::now() - begin, kSoon);
}

TEST(SplitRecords, ForkedChildLeavesNothing) {
  RankJob job;
  ExpectExactOnAll(job, SplitLayer(Operation::kForward, 4, 4));
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);  // a lock that another thread held would be held for ever
    _exit(job.rank(0).calls->Leave() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ExpectExactOnAll(job, SplitLayer(Operation::kForward, 4, 4));
}

TEST(SplitOrder, TwoThreadsOfOneRankAtOnceAreAnErrorOnAll) {
  RankJob job;
  const SplitLayer layer(Operation::kForward, 4, 4);
  ExpectExactOnAll(job, layer);
  StripeResult outer, inner, other;
  job.OnAll([&](RankState& rank) {
    if (rank.rank == 1) {
      other = layer.RunOn(rank);
      return;
    }
    // While this thread's call is inside the library, another one's comes.
    outer = RunGiven(rank, layer.whole, layer.stripes[0], [&](const cudnn::ConvolutionCall& call) {
      std::thread second([&] {
        EXPECT_EQ(cuCtxSetCurrent(rank.context), CUDA_SUCCESS);
        inner = layer.RunOn(rank);
      });
      second.join();
      return RunReal(call);
    });
  });
  EXPECT_EQ(inner.status, kBroken);
  EXPECT_TRUE(IsNan(inner.output));
  EXPECT_EQ(outer.status, kBroken);
  EXPECT_TRUE(IsNan(outer.output));
  EXPECT_TRUE(other.status == kBroken || (other.status == kFine && other.output == layer.Part(1)));
  ExpectContains(FailureOf(job), {"two threads of rank 0", "at once"});
  ExpectAllFailFromNowOn(job);
}

TEST(SplitOrder, ForwardAndBackwardOnThreadsOfTheirOwnAreExact) {
  RankJob job;
  const SplitLayer forward(Operation::kForward, 4, 5), data(Operation::kBackwardData, 4, 5);
  const SplitLayer filter(Operation::kBackwardFilter, 4, 5);
  job.OnAll([&](RankState& rank) {
    const auto at = static_cast<size_t>(rank.rank);
    std::promise<void> turns[3];  // forward of the step is done
    std::promise<void> done[3];   // backward of it
    std::thread backward([&] {
      EXPECT_EQ(cuCtxSetCurrent(rank.context), CUDA_SUCCESS);
      const OwnHandle own;
      for (int step = 0; step < 3; ++step) {
        turns[step].get_future().wait();
        for (const SplitLayer* layer : {&filter, &data}) {
          const StripeResult result =
              RunStripe(layer->whole, layer->stripes[at], own.handle,
                        [&](const cudnn::ConvolutionCall& call) {
                          GivenCall given(RunReal);
                          return rank.calls->Run(
                              {layer->stripes[at].problem, call, rank.context, own.stream}, given);
                        });
          EXPECT_EQ(result.status, kFine);
          EXPECT_EQ(result.output, layer->Part(rank.rank));
        }
        done[step].set_value();
      }
      rank.calls->Forget(own.handle);
    });
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(forward.IsExactOn(rank));
      turns[step].set_value();
      done[step].get_future().wait();
    }
    backward.join();
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_FALSE(job.rank(rank).ranks->Failure());
}

// A thread of rank 0 gets the identifier of one that has ended; those of rank 1 all live.
TEST(SplitOrder, IdentifiersOfEndedThreadsTellNothing) {
  RankJob job;
  const SplitLayer layer(Operation::kForward, 4, 4);
  job.OnAll([&](RankState& rank) {
    std::promise<void> end;
    const std::shared_future<void> ended = end.get_future().share();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      std::promise<void> called;
      threads.emplace_back([&] {
        EXPECT_EQ(cuCtxSetCurrent(rank.context), CUDA_SUCCESS);
        EXPECT_TRUE(layer.IsExactOn(rank));
        const std::shared_future<void> until = ended;
        called.set_value();
        if (rank.rank == 1) until.wait();
      });
      called.get_future().wait();
      if (rank.rank == 0) threads.back().join();
    }
    end.set_value();
    for (std::thread& thread : threads) {
      if (thread.joinable()) thread.join();
    }
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_FALSE(job.rank(rank).ranks->Failure());
}

// All calls are enqueued before any of their streams is waited for.
TEST(SplitOrder, ThreeHandlesOnThreeStreamsAreExact) {
  RankJob job;
  const SplitLayer layers[] = {{Operation::kForward, 4, 5},
                               {Operation::kBackwardFilter, 6, 3},
                               {Operation::kBackwardData, 2, 7}};
  job.OnAll([&](RankState& rank) {
    const auto at = static_cast<size_t>(rank.rank);
    OwnHandle handles[3];
    StripeResult results[3];
    std::vector<const cudnn::ConvolutionCall*> calls;
    const std::function<void(size_t)> nest = [&](size_t layer) {
      results[layer] =
          RunStripe(layers[layer].whole, layers[layer].stripes[at], handles[layer].handle,
                    [&](const cudnn::ConvolutionCall& call) {
                      calls.push_back(&call);
                      if (layer < 2) {
                        nest(layer + 1);
                        return results[layer + 1].status;
                      }
                      cudnnStatus_t status = kFine;
                      for (size_t i = 0; i < 12 && status == kFine; ++i) {
                        const size_t which = i * 5 % 3;
                        GivenCall given(RunReal);
                        status = rank.calls->Run({layers[which].stripes[at].problem, *calls[which],
                                                  rank.context, handles[which].stream},
                                                 given);
                      }
                      return status;
                    });
    };
    nest(0);
    for (size_t layer = 0; layer < 3; ++layer) {
      EXPECT_EQ(results[layer].status, kFine);
      EXPECT_EQ(results[layer].output, layers[layer].Part(rank.rank));
    }
    for (OwnHandle& handle : handles) rank.calls->Forget(handle.handle);
  });
}

TEST(SplitFaults, LocalCallThatFailsLaterReturnsItsOwnError) {
  for (const Operation operation :
       {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
    RankJob job({.grid = "h3"});
    const SplitLayer layer(Layer(operation, 1), job.grid(), {{{1}, {3, 4, 5}, {6}}});
    ExpectExactOnAll(job, layer);
    const auto begin = TestClock::now();
    std::vector<StripeResult> results(3);
    job.OnAll([&](RankState& rank) {
      const auto at = static_cast<size_t>(rank.rank);
      results[at] =
          RunGiven(rank, layer.whole, layer.stripes[at], [&](const cudnn::ConvolutionCall& call) {
            return rank.rank == 1 ? CUDNN_STATUS_ALLOC_FAILED : RunReal(call);
          });
    });
    EXPECT_EQ(results[1].status, CUDNN_STATUS_ALLOC_FAILED);
    for (const int rank : {0, 2}) {
      const StripeResult& result = results[static_cast<size_t>(rank)];
      EXPECT_TRUE(result.status == kFine || result.status == kBroken);
      // Rows were sent all the same; a sum over ranks has a part that is missing.
      if (result.status == kFine && operation != Operation::kBackwardFilter) {
        EXPECT_EQ(result.output, layer.Part(rank));
      } else {
        EXPECT_NE(result.output, layer.Part(rank));
        EXPECT_TRUE(std::isnan(result.output.values.front()));
      }
    }
    ExpectContains(FailureOf(job), {"rank 1", "its own convolution failed", "ALLOCATION_FAILED"});
    EXPECT_LT(TestClock::now() - begin, kSoon);
    ExpectAllFailFromNowOn(job);
  }
}

TEST(SplitFaults, RankThatNeverComesToAnAgreementIsNamed) {
  RankJob job({.timeout = milliseconds(2000)});
  const SplitLayer layer(Operation::kForward, 4, 4);
  cudnnStatus_t status = kFine;
  const auto begin = TestClock::now();
  job.OnAll([&](RankState& rank) {
    if (rank.rank == 0) status = layer.RunOn(rank).status;
  });
  const auto waited = TestClock::now() - begin;
  EXPECT_EQ(status, kBroken);
  EXPECT_GE(waited, milliseconds(2000));
  EXPECT_LT(waited, kSoon);
  ExpectContains(FailureOf(job), {"rank 1", "did not come to agreeing on forward 2x2x4x6"});
  ExpectAllFailFromNowOn(job);
}

TEST(SplitFaults, RankThatNeverComesToAnExchangeIsNamed) {
  RankJob job({.timeout = milliseconds(2000)});
  const SplitLayer layer(Operation::kForward, 4, 4);
  ExpectExactOnAll(job, layer);
  StripeResult result;
  const auto begin = TestClock::now();
  job.OnAll([&](RankState& rank) {
    if (rank.rank == 1) result = layer.RunOn(rank);
  });
  EXPECT_EQ(result.status, kBroken);
  EXPECT_TRUE(IsNan(result.output));
  EXPECT_LT(TestClock::now() - begin, kSoon);
  ExpectContains(FailureOf(job), {"rank 1, call 2", "rank 0"});
  ExpectAllFailFromNowOn(job);
}

cudnnStatus_t RunAsCaptured(RankState& rank, const SplitLayer& layer) {
  const Stripe& stripe = layer.stripes[static_cast<size_t>(rank.rank)];
  return RunStripe(layer.whole, stripe, rank.handle,
                   [&](const cudnn::ConvolutionCall& call) {
                     GivenCall given(RunReal);
                     return rank.calls->Run(
                         {stripe.problem, call, rank.context, rank.stream, true}, given);
                   })
      .status;
}

TEST(SplitCapture, CapturedCallsAreRefusedOnAll) {
  Traffic traffic;
  RankJob job(Counted({}, traffic));
  const SplitLayer layer(Operation::kForward, 4, 3);
  job.OnAll([&](RankState& rank) { EXPECT_EQ(RunAsCaptured(rank, layer), kRefused); });
  EXPECT_EQ(traffic.exchanges, 0);
  ExpectExactOnAll(job, layer);
  job.OnAll([&](RankState& rank) { EXPECT_EQ(RunAsCaptured(rank, layer), kRefused); });
  ExpectExactOnAll(job, layer);
}

TEST(SplitCapture, CaptureOnOneRankIsAnErrorOnAll) {
  for (const bool is_known : {false, true}) {
    RankJob job;
    const SplitLayer layer(Operation::kForward, 4, 3);
    if (is_known) ExpectExactOnAll(job, layer);
    const auto begin = TestClock::now();
    job.OnAll([&](RankState& rank) {
      if (rank.rank == 0) {
        EXPECT_EQ(RunAsCaptured(rank, layer), kRefused);
      } else {
        layer.RunOn(rank);
      }
    });
    ExpectContains(FailureOf(job), {"rank 0", "rank 1"});
    EXPECT_LT(TestClock::now() - begin, kSoon);
    ExpectAllFailFromNowOn(job);
  }
}

// dw += the gradient of each step, on the same memory.
TEST(SplitGradients, AccumulateOverSteps) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf}) {
    RankJob job;
    ConvolutionProblem problem = Layer(Operation::kBackwardFilter, 1);
    problem.type = type;
    if (type == DataType::kDouble) problem.compute = type;
    SplitLayer layer(problem, job.grid(), {{{1}, {3, 4}, {5}}});
    layer.whole.beta = 1;
    WholeCase second = layer.whole;
    second.Output() = Undivided(layer.whole);
    const HostTensor expected = Undivided(second);
    job.OnAll([&](RankState& rank) {
      const Stripe& stripe = layer.stripes[static_cast<size_t>(rank.rank)];
      const StripeResult result =
          RunStripe(layer.whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& call) {
            const cudnnStatus_t first = rank.Run(stripe.problem, call);
            return first == kFine ? rank.Run(stripe.problem, call) : first;
          });
      EXPECT_EQ(result.status, kFine);
      EXPECT_EQ(result.output, expected);
    });
  }
}

// Each rank makes the call on the whole of its own values, which are the same on all.
void ExpectCopiesRun(RankJob& job, const ConvolutionProblem& problem) {
  std::mt19937 random(3);
  const WholeCase whole = WholeCase::Random(problem, random);
  const HostTensor expected = Undivided(whole);
  job.OnAll([&](RankState& rank) {
    const StripeResult result = rank.RunStripe(whole, WholeStripe(whole));
    EXPECT_EQ(result.status, kFine) << Describe(problem);
    EXPECT_EQ(result.output, expected) << Describe(problem);
  });
}

ConvolutionProblem OneByOneMap(Operation operation, int filter) {
  ConvolutionProblem problem = Layer(operation, 1, filter);
  problem.x = {1, 1, 1};
  SetPackedStrides(problem);
  return problem;
}

TEST(SplitOnes, OneByOneFiltersRunEitherWay) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    RankJob job({.grid = "h2w2"});
    ExpectCopiesRun(job, OneByOneMap(operation, 1));
  }
}

TEST(SplitOnes, WhatDiffersIsRefusedUntilTheUserSays) {
  const std::vector<std::string> words = {"cannot be split", "UCUDNN_SPATIAL_ONE=split",
                                          "replicated"};
  const auto refused = [&](const ConvolutionProblem& p) { ExpectRefused({}, {p, p}, words); };
  refused(OneByOneMap(Operation::kBackwardFilter, 1));
  refused(OneByOneMap(Operation::kForward, 3));
  refused(OneByOneMap(Operation::kBackwardData, 3));
  refused(OneByOneMap(Operation::kBackwardFilter, 3));
}

TEST(SplitOnes, CopiesAreLeftAsTheyAre) {
  for (const char* const grid : {"h2", "h2w2"}) {
    Traffic traffic;
    RankJob job(Counted({.grid = grid, .ones = spatial::Ones::kCopies}, traffic));
    for (const int filter : {1, 3}) {
      for (const Operation operation :
           {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
        ExpectCopiesRun(job, OneByOneMap(operation, filter));
      }
    }
    EXPECT_EQ(traffic.exchanges, 0);
    EXPECT_EQ(traffic.reductions, 0);
  }
}

TEST(SplitOnes, StripesOfOneRowExchange) {
  RankJob job({.grid = "h2w2", .ones = spatial::Ones::kStripes});
  for (const int filter : {1, 3}) {
    for (const Operation operation :
         {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
      ExpectExactOnAll(
          job, SplitLayer(Layer(operation, 1, filter), job.grid(), {{{1}, {1, 1}, {1, 1}}}));
    }
  }
}

// A strip that was pooled along h: copies along h, stripes along w.
std::vector<Stripe> StripsOver(const SpatialGrid& grid, const WholeCase& whole, int64_t first) {
  const SpatialGrid strips = *SpatialGrid::Parse("w2");
  const auto cut = CutInto(whole, strips, {{{1}, {1}, {first, whole.problem.x[2] - first}}});
  std::vector<Stripe> stripes;
  for (int rank = 0; rank < grid.Ranks() && cut; ++rank) {
    stripes.push_back((*cut)[static_cast<size_t>(grid.CellOf(rank).w)]);
  }
  return stripes;
}

TEST(SplitOnes, StripPoolingCountsEachCopyOnce) {
  for (const DataType type : {DataType::kFloat, DataType::kHalf}) {
    RankJob job({.grid = "h2w2", .ones = spatial::Ones::kCopies});
    for (const double beta : {0.0, 1.0}) {
      for (const Operation operation :
           {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
        ConvolutionProblem problem = Layer(operation, 1);
        problem.type = type;
        problem.x[2] = 7;
        SetPackedStrides(problem);
        std::mt19937 random(5);
        SplitLayer layer(problem, *SpatialGrid::Parse("w2"), {{{1}, {1}, {3, 4}}});
        layer.whole.beta = beta;
        layer.expected = Undivided(layer.whole);
        layer.stripes = StripsOver(job.grid(), layer.whole, 3);
        ASSERT_EQ(layer.stripes.size(), 4U);
        ExpectExactOnAll(job, layer);
      }
    }
  }
}

TEST(SplitOnes, StripWithoutAFilterAlongItRunsEitherWay) {
  RankJob job({.grid = "h2w2"});
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    ConvolutionProblem problem = Layer(operation, 1);
    problem.w[1] = 1;
    problem.pad[1] = 0;
    SplitLayer layer(problem, *SpatialGrid::Parse("w2"), {{{1}, {1}, {3, 4}}});
    layer.stripes = StripsOver(job.grid(), layer.whole, 3);
    ASSERT_EQ(layer.stripes.size(), 4U);
    ExpectExactOnAll(job, layer);
  }
}

TEST(SplitSteady, CallsAllocateNothingAndMoveTheLeast) {
  for (const Operation operation :
       {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
    Traffic traffic;
    RankJob job(Counted({}, traffic));
    const SplitLayer layer(operation, 4, 5);
    ExpectExactOnAll(job, layer);
    const int64_t before = traffic.sent;
    size_t free_before = 0, free_after = 0;
    job.OnAll([&](RankState& rank) {
      if (rank.rank == 0) free_before = FreeBytes();
    });
    for (int i = 0; i < 10; ++i) ExpectExactOnAll(job, layer);
    job.OnAll([&](RankState& rank) {
      if (rank.rank == 0) free_after = FreeBytes();
    });
    EXPECT_EQ(free_after, free_before);
    // One row of all images and channels each way.
    const int channels = operation == Operation::kForward ? 2 : 3;
    const int64_t row_bytes = int64_t{2} * channels * 6 * 4;
    EXPECT_EQ(before, 2 * row_bytes);
    EXPECT_EQ(traffic.sent, 11 * before);
    EXPECT_EQ(traffic.received, traffic.sent);
    EXPECT_EQ(traffic.exchanges, 2 * 11);
    EXPECT_EQ(traffic.reductions, operation == Operation::kBackwardFilter ? 2 * 11 : 0);
  }
}

}  // namespace
}  // namespace ucudnn::test
