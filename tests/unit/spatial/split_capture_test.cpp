// Tests split calls in CUDA graphs. A call can be captured, with its exchange, once it has run
// outside a capture. Its result is exact at every launch. If ranks do not launch the same graphs in
// the same order, all ranks get an error.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>

#include "tests/unit/spatial/captured_call.h"

namespace ucudnn::test {
namespace {

// A process reports each cause of a refusal once, so one test looks for all causes.
TEST(SplitCaptureRefusals, AreToldInWords) {
  const SplitLayer layer(Operation::kForward, 4, 3), other(Operation::kBackwardData, 4, 3);
  testing::internal::CaptureStderr();
  {
    RankJob job;  // its ranks are threads on one device, so no split call can be captured
    ExpectExactOnAll(job, layer);
    job.OnAll([&](RankState& rank) {
      EXPECT_EQ(RunInGraph(rank, layer, 0).status, kRefused);
      EXPECT_EQ(RunInGraph(rank, other, 0).status, kRefused);
    });
    ExpectExactOnAll(job, layer);
  }
  {
    RankJob job({.agrees_each_time = true});
    ExpectExactOnAll(job, layer);
    job.OnAll([&](RankState& rank) { EXPECT_EQ(RunInGraph(rank, layer, 0).status, kRefused); });
  }
  ExpectContains(testing::internal::GetCapturedStderr(),
                 {"cannot be captured in a CUDA graph", "has not run outside of a capture",
                  "UCUDNN_SPATIAL_AGREE=each"});
}

std::string NameOf(const testing::TestParamInfo<Transport>& info) {
  return info.param == Transport::kNccl ? "Nccl" : "Loopback";
}

class SplitCapture : public testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    const bool is_there = access(HOST_DIR "/libnccl.so.2", R_OK) == 0;
    if (GetParam() == Transport::kNccl && !is_there) GTEST_SKIP() << "there is no NCCL to stand in";
  }
  JobOptions Options(JobOptions options = {}) const {
    options.transport = GetParam();
    options.exchanges_as_processes = GetParam() == Transport::kLoopback;
    options.cudnn_file = HOST_DIR "/libcudnn.so.9";
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, SplitCapture,
                         testing::Values(Transport::kLoopback, Transport::kNccl), NameOf);

TEST_P(SplitCapture, AnAgreedKernelIsExactInAGraph) {
  for (const auto& cut :
       {std::pair<const char*, std::vector<int64_t>>{"h2", {4, 3}}, {"h3", {3, 4, 5}}}) {
    RankJob job(Options({.grid = cut.first}));
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      for (const Operation operation : kOperations) {
        ConvolutionProblem problem = Layer(operation, 1);
        problem.layout = layout;
        SetPackedStrides(problem);
        const SplitLayer layer(problem, job.grid(), {{{1}, cut.second, {6}}});
        ExpectExactOnAll(job, layer);
        job.OnAll([&](RankState& rank) {
          SCOPED_TRACE(cut.first);
          ExpectPart(rank, layer, RunInGraph(rank, layer));
        });
      }
    }
  }
}

TEST_P(SplitCapture, EachLaunchExchangesWhatIsThereThen) {
  RankJob job(Options());
  SplitLayer layer(Operation::kForward, 4, 3);
  layer.whole.beta = 0;
  ExpectExactOnAll(job, SplitLayer(Operation::kForward, 4, 3));
  job.OnAll([&](RankState& rank) {
    const Stripe& stripe = layer.StripeOf(rank);
    RunStripe(layer.whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& call) {
      const HostTensor whole = layer.whole.x.Box(stripe.elements);
      const Graph graph(rank, [&] { EXPECT_EQ(rank.Run(stripe.problem, call), kFine); });
      const auto x = reinterpret_cast<CUdeviceptr>(call.x),
                 y = reinterpret_cast<CUdeviceptr>(call.y);
      const size_t x_bytes = cudnn::ImageBytes(stripe.problem);
      const size_t y_bytes = cudnn::OutputBytes(stripe.problem);
      std::vector<char> kept(x_bytes), first(y_bytes), zeros(y_bytes), again(y_bytes);
      EXPECT_EQ(cuMemcpyDtoH(kept.data(), x, x_bytes), CUDA_SUCCESS);
      graph.LaunchAndWait();
      EXPECT_EQ(cuMemcpyDtoH(first.data(), y, y_bytes), CUDA_SUCCESS);
      EXPECT_EQ(cuMemsetD8Async(x, 0, x_bytes, rank.stream), CUDA_SUCCESS);
      graph.LaunchAndWait();
      EXPECT_EQ(cuMemcpyDtoH(zeros.data(), y, y_bytes), CUDA_SUCCESS);
      EXPECT_EQ(std::vector<char>(y_bytes), zeros) << "rows of an earlier launch";
      EXPECT_EQ(cuMemcpyHtoD(x, kept.data(), x_bytes), CUDA_SUCCESS);
      graph.LaunchAndWait();
      EXPECT_EQ(cuMemcpyDtoH(again.data(), y, y_bytes), CUDA_SUCCESS);
      EXPECT_EQ(first, again);
      EXPECT_NE(first, zeros);
      return kFine;
    });
  });
}

TEST_P(SplitCapture, LaunchesAccumulateAsCallsDo) {
  RankJob job(Options());
  for (const Operation operation : {Operation::kBackwardFilter, Operation::kBackwardData}) {
    SplitLayer layer(operation, 4, 3);
    layer.whole.alpha = 2;
    layer.whole.beta = 1;
    constexpr int kTimes = 3;
    job.OnAll([&](RankState& rank) {
      const auto expected = With(rank, layer, [&](const RunCall& run) {
        for (int i = 0; i < kTimes; ++i) EXPECT_EQ(run(), kFine);
        return kFine;
      });
      const StripeResult result = RunInGraph(rank, layer, kTimes);
      EXPECT_EQ(result.status, kFine);
      EXPECT_EQ(result.output, expected.output);
    });
  }
}

TEST_P(SplitCapture, GraphsAndCallsTakeTurns) {
  RankJob job(Options({.grid = "h3"}));
  const AxisExtents extents = {{{1}, {3, 4, 5}, {6}}};
  const SplitLayer forward(Layer(Operation::kForward, 1), job.grid(), extents);
  const SplitLayer filter(Layer(Operation::kBackwardFilter, 1), job.grid(), extents);
  for (const SplitLayer* layer : {&forward, &filter}) ExpectExactOnAll(job, *layer);
  job.OnAll([&](RankState& rank) {
    const auto take_turns = [&](const RunCall& run_forward, const RunCall& run_filter) {
      const Graph both(rank, [&] {
        EXPECT_EQ(run_forward(), kFine);
        EXPECT_EQ(run_filter(), kFine);
      });
      const Graph one(rank, [&] { EXPECT_EQ(run_forward(), kFine); });
      for (int i = 0; i < 5; ++i) {
        both.Launch();
        EXPECT_EQ(run_filter(), kFine);
        one.Launch();
        one.Launch();
        EXPECT_EQ(run_forward(), kFine);
      }
    };
    const auto [passed, summed] = WithBoth(rank, forward, rank, filter, take_turns);
    EXPECT_EQ(passed.output, forward.Part(rank.rank));
    EXPECT_EQ(summed.output, filter.Part(rank.rank));
    EXPECT_FALSE(rank.ranks->Failure()) << *rank.ranks->Failure();
  });
}

TEST_P(SplitCapture, LaunchesAreCountedForTheReport) {
  RankJob job(Options());
  const SplitLayer layer(Operation::kForward, 4, 3);
  ExpectExactOnAll(job, layer);
  const spatial::SplitFigures before = job.rank(0).calls->figures();
  job.OnAll([&](RankState& rank) { RunInGraph(rank, layer, 5); });
  const auto calls = [&] { return job.rank(0).calls->kernel_figures().kernels.at(0).calls; };
  Becomes([&] { return calls() >= 6; }, kSoon);
  EXPECT_EQ(calls(), 6U) << "one outside, five launches";
  const spatial::SplitFigures after = job.rank(0).calls->figures();
  EXPECT_EQ(after.exchanged_bytes, 6 * before.exchanged_bytes);
  EXPECT_GT(after.owned_bytes, before.owned_bytes);
}

TEST_P(SplitCapture, OneLaunchMoreIsAnErrorOnAllAndNan) {
  RankJob job(Options({.timeout = milliseconds(4000)}));
  const SplitLayer layer(Operation::kForward, 4, 3);
  ExpectExactOnAll(job, layer);
  job.OnAll([&](RankState& rank) {
    const StripeResult result = RunInGraph(rank, layer, rank.rank == 0 ? 3 : 2);
    if (rank.rank == 1) {
      EXPECT_EQ(result.output, layer.Part(rank.rank));
    } else {
      EXPECT_TRUE(HasNan(result.output));
      EXPECT_TRUE(IsRightOrNan(result.output, layer.Part(rank.rank)));
    }
  });
  ExpectContains(FailureOf(job),
                 {"the device of rank 1", "has begun 2 split calls, counted from",
                  "that of rank 0 one more, split call 2, which is in a CUDA graph"});
  ExpectAllFailFromNowOn(job);
}

// Waits until the rank has heard of a failure. Expects that launches of `graph`, which contains
// `call`, then soon leave NaN in call.y.
void ExpectNanOnceItFailed(RankState& rank, const Graph& graph, const Stripe& stripe,
                           const cudnn::ConvolutionCall& call) {
  Becomes([&] { return rank.ranks->Failure().has_value(); }, kSoon);
  std::vector<float> y(cudnn::OutputBytes(stripe.problem) / sizeof(float));
  const auto leaves_nan = [&] {
    graph.LaunchAndWait();
    EXPECT_EQ(
        cuMemcpyDtoH(y.data(), reinterpret_cast<CUdeviceptr>(call.y), y.size() * sizeof(float)),
        CUDA_SUCCESS);
    return std::any_of(y.begin(), y.end(), [](float value) { return std::isnan(value); });
  };
  EXPECT_TRUE(Becomes(leaves_nan, kSoon)) << "rank " << rank.rank;
}

TEST_P(SplitCapture, OrderOfLaunchesIsCompared) {
  RankJob job(Options({.timeout = milliseconds(4000)}));
  // The kernels of `a` and `b` send messages of equal sizes, so only a comparison of the order of
  // launches can reveal the error.
  ConvolutionProblem other = Layer(Operation::kForward, 1);
  other.k = 5;
  const AxisExtents extents = {{{1}, {4, 3}, {6}}};
  const SplitLayer a(Operation::kForward, 4, 3), b(other, job.grid(), extents);
  ExpectExactOnAll(job, a);
  ExpectExactOnAll(job, b);
  job.OnAll([&](RankState& rank) {
    const Stripe &stripe_a = a.StripeOf(rank), &stripe_b = b.StripeOf(rank);
    RunStripe(a.whole, stripe_a, rank.handle, [&](const cudnn::ConvolutionCall& call_a) {
      RunStripe(b.whole, stripe_b, rank.handle, [&](const cudnn::ConvolutionCall& call_b) {
        const Graph first(rank, [&] { EXPECT_EQ(rank.Run(stripe_a.problem, call_a), kFine); });
        const Graph second(rank, [&] { EXPECT_EQ(rank.Run(stripe_b.problem, call_b), kFine); });
        (rank.rank == 0 ? first : second).Launch();
        (rank.rank == 0 ? second : first).Launch();
        ExpectNanOnceItFailed(rank, first, stripe_a, call_a);
        ExpectNanOnceItFailed(rank, second, stripe_b, call_b);
        return kFine;
      });
      return kFine;
    });
  });
  ExpectContains(FailureOf(job),
                 {"in another order", "rank 0 begins split call 3", "rank 1 begins split call 4"});
  ExpectAllFailFromNowOn(job);
}

TEST_P(SplitCapture, OrderOfLaunchesAndCallsIsCompared) {
  RankJob job(Options({.timeout = milliseconds(4000)}));
  const SplitLayer layer(Operation::kForward, 4, 3);
  ExpectExactOnAll(job, layer);
  job.OnAll([&](RankState& rank) {
    const Stripe& stripe = layer.StripeOf(rank);
    RunStripe(layer.whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& call) {
      const Graph graph(rank, [&] { EXPECT_EQ(rank.Run(stripe.problem, call), kFine); });
      if (rank.rank == 0) graph.Launch();
      rank.Run(stripe.problem, call);
      if (rank.rank == 1) graph.Launch();
      ExpectNanOnceItFailed(rank, graph, stripe, call);
      return kFine;
    });
  });
  ExpectContains(
      FailureOf(job),
      {"in another order", "begins split call 2, which is in a CUDA graph", "begins split call 3"});
}

TEST_P(SplitCapture, ARankThatEndsLeavesNoOtherInALaunch) {
  JobOptions options = Options({.timeout = milliseconds(20000)});
  RankJob job(options);
  const SplitLayer layer(Operation::kForward, 4, 3);
  ExpectExactOnAll(job, layer);
  job.OnAll([&](RankState& rank) {
    const StripeResult result = With(rank, layer, [&](const RunCall& run) {
      const Graph graph(rank, [&] { EXPECT_EQ(run(), kFine); });
      if (rank.rank == 1) {
        rank.calls->Leave();
        return kFine;
      }
      graph.LaunchAndWait();
      return kFine;
    });
    if (rank.rank == 1) return;
    EXPECT_TRUE(HasNan(result.output));
    EXPECT_TRUE(IsRightOrNan(result.output, layer.Part(rank.rank)));
  });
  // Rank 1 ended, so it learns of no failure.
  ExpectContains(job.rank(0).ranks->Failure().value_or(""),
                 {"rank 1 ended after its device had begun 0 split calls",
                  "that of rank 0 waits in one more, split call 2"});
}

TEST_P(SplitCapture, AKernelThatIsNotAgreedOnIsRefusedOnAll) {
  Traffic traffic;
  RankJob job(Counted(Options(), traffic));
  const SplitLayer layer(Operation::kForward, 4, 3);
  job.OnAll([&](RankState& rank) { EXPECT_EQ(RunInGraph(rank, layer, 0).status, kRefused); });
  EXPECT_EQ(traffic.exchanges, 0);
  ExpectExactOnAll(job, layer);
  job.OnAll(
      [&](RankState& rank) { EXPECT_EQ(RunInGraph(rank, layer).output, layer.Part(rank.rank)); });
}

TEST_P(SplitCapture, WhereRanksAgreeEachTimeGraphsAreRefused) {
  RankJob job(Options({.agrees_each_time = true}));
  const SplitLayer layer(Operation::kForward, 4, 3);
  ExpectExactOnAll(job, layer);
  job.OnAll([&](RankState& rank) { EXPECT_EQ(RunInGraph(rank, layer, 0).status, kRefused); });
  ExpectExactOnAll(job, layer);
}

TEST_P(SplitCapture, OnOneRankAloneIsAnErrorOnAll) {
  for (const bool is_known : {false, true}) {
    RankJob job(Options());
    const SplitLayer layer(Operation::kForward, 4, 3);
    if (is_known) ExpectExactOnAll(job, layer);
    const auto begin = TestClock::now();
    job.OnAll([&](RankState& rank) {
      if (rank.rank == 0) {
        RunInGraph(rank, layer, 0);
      } else {
        layer.RunOn(rank);
      }
    });
    ExpectContains(FailureOf(job), {"rank 0", "rank 1", "CUDA graph capture"});
    EXPECT_LT(TestClock::now() - begin, kSoon);
    ExpectAllFailFromNowOn(job);
  }
}

TEST_P(SplitCapture, MemoryOfAGraphIsTheNextOnesWhereItIsDestroyed) {
  RankJob job(Options());
  const SplitLayer layer(Operation::kForward, 4, 3);
  ExpectExactOnAll(job, layer);
  const auto owned = [&] { return job.rank(0).calls->figures().owned_bytes; };
  const auto run = [&](RankState& rank) {
    EXPECT_EQ(RunInGraph(rank, layer, 2).output, layer.Part(rank.rank));
  };
  job.OnAll(run);
  const size_t one = owned();
  for (int i = 0; i < 5; ++i) job.OnAll(run);
  EXPECT_EQ(owned(), one);
  job.OnAll([&](RankState& rank) {
    With(rank, layer, [&](const RunCall& run_layer) {
      const Graph graph(rank, [&] { EXPECT_EQ(run_layer(), kFine); });
      graph.LaunchAndWait();
      run(rank);  // the first graph still exists
      graph.LaunchAndWait();
      return kFine;
    });
  });
  EXPECT_GT(owned(), one);
}

TEST_P(SplitCapture, BuffersOfGraphsAreWithinTheLimit) {
  const SplitLayer layer(Operation::kForward, 4, 3);
  size_t owned = 0;
  {
    RankJob job(Options());
    ExpectExactOnAll(job, layer);
    owned = job.rank(0).calls->figures().owned_bytes;
  }
  RankJob job(Options({.most_buffer_bytes = owned + owned / 2}));
  ExpectExactOnAll(job, layer);
  job.OnAll([&](RankState& rank) { EXPECT_EQ(RunInGraph(rank, layer, 0).status, kBroken); });
  ExpectContains(FailureOf(job), {"another CUDA graph's exchanges", "the limit of"});
}

// The number of convolution descriptors that split kernels have.
std::atomic<int> descriptors = 0;

cudnn::Functions CountingDescriptors() {
  cudnn::Functions functions = StandIn();
  functions.cudnnCreateConvolutionDescriptor = [](cudnnConvolutionDescriptor_t* made) {
    ++descriptors;
    return cudnnCreateConvolutionDescriptor(made);
  };
  functions.cudnnDestroyConvolutionDescriptor = [](cudnnConvolutionDescriptor_t made) {
    --descriptors;
    return cudnnDestroyConvolutionDescriptor(made);
  };
  return functions;
}

// Returns `layer` with 8 * `number` more elements between its images.
SplitLayer InLayout(SplitLayer layer, int number) {
  for (Stripe& stripe : layer.stripes) stripe.problem.x_strides[0] += 8 * number;
  return layer;
}

// A rank keeps at most 16 versions of a kernel, one for each layout. Launches may use what a
// version compiled for its layout, so a graph must keep its version alive.
TEST_P(SplitCapture, AKernelLivesAsLongAsAGraphHasIt) {
  constexpr int kKept = 16;
  descriptors = 0;
  const cudnn::Functions functions = CountingDescriptors();
  JobOptions options = Options();
  options.functions = &functions;
  RankJob job(options);
  const SplitLayer layer(Operation::kForward, 4, 3);
  ExpectExactOnAll(job, layer);
  const int of_one = descriptors;
  EXPECT_GT(of_one, 0);
  const SplitLayer captured = InLayout(layer, 1);
  ExpectExactOnAll(job, captured);
  std::barrier meet(job.size());
  job.OnAll([&](RankState& rank) {
    With(rank, captured, [&](const RunCall& run) {
      const Graph graph(rank, [&] { EXPECT_EQ(run(), kFine); });
      for (int number = 2; number <= kKept; ++number) {
        EXPECT_TRUE(InLayout(layer, number).IsExactOn(rank));
      }
      meet.arrive_and_wait();
      EXPECT_EQ(descriptors, (kKept + 1) * of_one) << "the graph may be launched";
      return kFine;
    });
    meet.arrive_and_wait();
    RunInGraph(rank, InLayout(layer, kKept), 0);
  });
  EXPECT_EQ(descriptors, kKept * of_one) << "the graph is destroyed";
}

// Makes `stream` sleep for kMilliseconds.
template <int kMilliseconds>
void Sleep(CUstream stream) {
  EXPECT_EQ(
      cuLaunchHostFunc(
          stream, [](void*) { std::this_thread::sleep_for(milliseconds(kMilliseconds)); }, nullptr),
      CUDA_SUCCESS);
}

// Holds a second stream of a rank with its own handle, on which the rank makes a layer's call.
struct OtherStream {
  OwnHandle own;
  RankState& rank;
  CUevent event = nullptr;

  explicit OtherStream(RankState& of_rank) : rank(of_rank) {
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  }
  ~OtherStream() { EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS); }
  static void Follow(CUstream first, CUstream second, CUevent event) {
    EXPECT_EQ(cuEventRecord(event, first), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(second, event, 0), CUDA_SUCCESS);
  }
  cudnnStatus_t Run(const Stripe& stripe, const cudnn::ConvolutionCall& call) {
    GivenCall given(RunReal);
    spatial::SplitCall split{stripe.problem, call, rank.context, own.stream,
                             cuda::IsCapturing(*cuda::GetDriver(), own.stream)};
    return rank.calls->Run(split, given);
  }
};

StripeResult With(OtherStream& other, const SplitLayer& layer,
                  const std::function<cudnnStatus_t(const RunCall& run)>& use) {
  const Stripe& stripe = layer.StripeOf(other.rank);
  return RunStripe(layer.whole, stripe, other.own.handle, [&](const cudnn::ConvolutionCall& call) {
    return use([&] { return other.Run(stripe, call); });
  });
}

TEST_P(SplitCapture, BranchesOfACaptureHaveOneOrderOnAllRanks) {
  RankJob job(Options());
  const SplitLayer a(Operation::kForward, 4, 3), b(Operation::kBackwardFilter, 4, 3);
  for (const SplitLayer* layer : {&a, &b}) ExpectExactOnAll(job, *layer);
  job.OnAll([&](RankState& rank) {
    OtherStream other(rank);
    const auto launch = [&](const RunCall& run_a, const RunCall& run_b) {
      const Graph graph(rank, [&] {
        OtherStream::Follow(rank.stream, other.own.stream, other.event);
        EXPECT_EQ(run_a(), kFine);
        EXPECT_EQ(run_b(), kFine);
        OtherStream::Follow(other.own.stream, rank.stream, other.event);
      });
      for (int i = 0; i < 20; ++i) graph.LaunchAndWait();
    };
    const auto [first, second] = WithBoth(rank, a, other, b, launch);
    EXPECT_EQ(first.output, a.Part(rank.rank));
    EXPECT_EQ(second.output, b.Part(rank.rank));
  });
  for (int rank = 0; rank < job.size(); ++rank) EXPECT_FALSE(job.rank(rank).ranks->Failure());
}

TEST_P(SplitCapture, CallsOfStreamsWithoutOrderHaveOneBehindACapture) {
  RankJob job(Options());
  const SplitLayer a(Operation::kForward, 4, 3), b(Operation::kBackwardFilter, 4, 3);
  for (const SplitLayer* layer : {&a, &b}) ExpectExactOnAll(job, *layer);
  job.OnAll([&](RankState& rank) {
    OtherStream other(rank);
    WithBoth(rank, a, other, b, [&](const RunCall& run_a, const RunCall& run_b) {
      const Graph graph(rank, [&] { EXPECT_EQ(run_a(), kFine); });
      for (int i = 0; i < 20; ++i) {
        // On one rank the first stream is late, on the other rank the second stream.
        const CUstream late = i % 2 == rank.rank ? rank.stream : other.own.stream;
        Sleep<2>(late);
        EXPECT_EQ(run_a(), kFine);
        EXPECT_EQ(run_b(), kFine);
      }
      EXPECT_EQ(cuStreamSynchronize(rank.stream), CUDA_SUCCESS);
    });
    rank.calls->Leave();
    EXPECT_FALSE(rank.ranks->Failure()) << *rank.ranks->Failure();
  });
}

TEST_P(SplitCapture, KernelsOfACaptureMayNeedMoreThanTheFirst) {
  RankJob job(Options());
  ConvolutionProblem wide = Layer(Operation::kForward, 1);
  wide.c = 40;
  const SplitLayer small(Operation::kForward, 4, 3);
  const SplitLayer large(wide, job.grid(), {{{1}, {4, 3}, {6}}});
  for (const SplitLayer* layer : {&small, &large}) ExpectExactOnAll(job, *layer);
  job.OnAll([&](RankState& rank) {
    const auto launch = [&](const RunCall& run_small, const RunCall& run_large) {
      const Graph graph(rank, [&] {
        for (int i = 0; i < 2; ++i) {
          EXPECT_EQ(run_small(), kFine);
          EXPECT_EQ(run_large(), kFine);
        }
      });
      for (int i = 0; i < 3; ++i) graph.LaunchAndWait();
    };
    const auto [first, second] = WithBoth(rank, small, rank, large, launch);
    EXPECT_EQ(first.output, small.Part(rank.rank));
    EXPECT_EQ(second.output, large.Part(rank.rank));
  });
}

TEST_P(SplitCapture, OrderIsComparedUpToTheEnd) {
  RankJob job(Options());
  ConvolutionProblem wide = Layer(Operation::kForward, 1);
  wide.k = 5;
  const SplitLayer a(Operation::kForward, 4, 3), b(wide, job.grid(), {{{1}, {4, 3}, {6}}});
  for (const SplitLayer* layer : {&a, &b}) ExpectExactOnAll(job, *layer);
  job.OnAll([&](RankState& rank) {
    WithBoth(rank, a, rank, b, [&](const RunCall& run_a, const RunCall& run_b) {
      const Graph first(rank, [&] { EXPECT_EQ(run_a(), kFine); });
      const Graph second(rank, [&] { EXPECT_EQ(run_b(), kFine); });
      (rank.rank == 0 ? first : second).Launch();
      (rank.rank == 0 ? second : first).LaunchAndWait();
      rank.calls->Leave();
    });
  });
  // A rank that has left learns of no failure, so the test reads the failures of both ranks.
  std::string heard;
  for (int rank = 0; rank < job.size(); ++rank) {
    heard += job.rank(rank).ranks->Failure().value_or("");
  }
  ExpectContains(heard, {"in another order"});
}

TEST_P(SplitCapture, ARankMayEndBeforeItsLastLaunchBegins) {
  RankJob job(Options());
  const SplitLayer layer(Operation::kForward, 4, 3);
  ExpectExactOnAll(job, layer);
  job.OnAll([&](RankState& rank) {
    const StripeResult result = With(rank, layer, [&](const RunCall& run) {
      const Graph graph(rank, [&] { EXPECT_EQ(run(), kFine); });
      if (rank.rank == 1) Sleep<400>(rank.stream);
      graph.Launch();
      if (rank.rank == 1) rank.calls->Leave();
      return kFine;
    });
    EXPECT_EQ(result.output, layer.Part(rank.rank));
    EXPECT_FALSE(rank.ranks->Failure()) << *rank.ranks->Failure();
  });
}

TEST_P(SplitCapture, ACallMayWaitBehindManyLaunches) {
  RankJob job(Options({.timeout = milliseconds(4000)}));
  const SplitLayer layer(Operation::kForward, 4, 3);
  ExpectExactOnAll(job, layer);
  job.OnAll([&](RankState& rank) {
    const StripeResult result = With(rank, layer, [&](const RunCall& run) {
      const Graph graph(rank, [&] {
        EXPECT_EQ(run(), kFine);
        Sleep<100>(rank.stream);
      });
      for (int i = 0; i < 60; ++i) graph.Launch();  // 60 x 100 ms, more than the timeout
      return run();
    });
    ExpectPart(rank, layer, result);
    EXPECT_FALSE(rank.ranks->Failure()) << *rank.ranks->Failure();
  });
}

}  // namespace
}  // namespace ucudnn::test
