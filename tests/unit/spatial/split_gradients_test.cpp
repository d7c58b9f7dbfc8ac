// Tests gradients over several calls: accumulated gradients, rows of dy that are received once for
// two calls, and sums that run on after the call. Also tests until when the program may choose who
// sums gradients.
#include <cuda.h>

#include <future>

#include "tests/unit/spatial/split_layer.h"

namespace ucudnn::test {
namespace {

// Each step adds its gradient to the same dw in device memory.
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
      const StripeResult result = With(rank, layer, [](const RunCall& run) {
        const cudnnStatus_t first = run();
        return first == kFine ? run() : first;
      });
      EXPECT_EQ(result.status, kFine);
      EXPECT_EQ(result.output, expected);
    });
  }
}

// Holds the data gradient and the filter gradient of one layer. Both read the same dy.
struct GradientPair {
  SplitLayer filter, data;

  // Taps of the filters are `dilation` rows apart.
  explicit GradientPair(const RankJob& job, DataType type = DataType::kFloat,
                        const std::vector<int64_t>& rows = {4, 5}, int images = 2, int dilation = 1)
      : filter(Make(Operation::kBackwardFilter, type, job, rows, images, dilation)),
        data(Make(Operation::kBackwardData, type, job, rows, images, dilation)) {
    data.whole.y = filter.whole.y;
    data.expected = Undivided(data.whole);
  }
  static SplitLayer Make(Operation operation, DataType type, const RankJob& job,
                         const std::vector<int64_t>& rows, int images, int dilation) {
    ConvolutionProblem problem = Layer(operation, 1);
    problem.n = images;
    problem.dilation[1] = problem.pad[1] = dilation;
    problem.type = type;
    if (type == DataType::kDouble) problem.compute = type;
    return SplitLayer(problem, job.grid(), {{{1}, rows, {6}}});
  }

  // Makes both calls on `rank`, with the same dy in device memory, and calls `between` between
  // them. If `is_said`, the program declares that both calls read the same dy. Appends the calls'
  // statuses to `statuses`, and if `expects_exact`, expects exact results.
  void Run(RankState& rank, bool data_first, bool is_said,
           const std::function<void(void* dy)>& between, Statuses& statuses,
           bool expects_exact = true) const {
    using Pair = spatial::CallDeclarations::Pair;
    const SplitLayer& one = data_first ? data : filter;
    const SplitLayer& two = data_first ? filter : data;
    const Stripe &stripe = one.StripeOf(rank), &other = two.StripeOf(rank);
    StripeResult second;
    const StripeResult first =
        RunStripe(one.whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& a) {
          rank.declared.pair = is_said ? Pair::kFirst : Pair::kNone;
          const cudnnStatus_t status = rank.Run(stripe.problem, a);
          statuses.push_back(status);
          const auto run_second = [&](cudnn::ConvolutionCall b) {
            b.y = a.y;
            rank.declared.pair = Pair::kNone;
            between(a.y);
            rank.declared.pair = is_said ? Pair::kSecond : Pair::kNone;
            statuses.push_back(rank.Run(other.problem, b));
            return statuses.back();
          };
          second = RunStripe(two.whole, other, rank.handle, run_second);
          return status;
        });
    rank.declared.pair = Pair::kNone;
    if (!expects_exact) return;
    EXPECT_EQ(first.output, one.Part(rank.rank));
    EXPECT_EQ(second.output, two.Part(rank.rank));
    EXPECT_EQ(statuses, (Statuses{kFine, kFine}));
  }
};

const auto kNothing = [](void*) {};

void RunOnAll(RankJob& job, const GradientPair& pair, bool data_first, bool is_said) {
  job.OnAll([&](RankState& rank) {
    Statuses statuses;
    pair.Run(rank, data_first, is_said, kNothing, statuses);
  });
}

void Declare(RankJob& job, spatial::CallDeclarations declared) {
  job.OnAll([&](RankState& rank) { rank.declared = declared; });
}

TEST(SameGradient, RowsAreReceivedOnceForBothCalls) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf}) {
    for (const char* grid : {"h2", "h3"}) {
      for (const bool data_first : {false, true}) {
        SCOPED_TRACE(std::string(grid) + (data_first ? ", data first" : ", filter first"));
        Traffic traffic;
        RankJob job(Counted({.grid = grid}, traffic));
        const auto ranks = static_cast<size_t>(job.size());
        const GradientPair pair(job, type, std::vector<int64_t>(ranks, 4));
        RunOnAll(job, pair, data_first, false);
        const int64_t both = traffic.sent;
        for (int i = 1; i <= 3; ++i) {
          RunOnAll(job, pair, data_first, true);
          EXPECT_EQ(traffic.sent, both + i * both / 2);
          EXPECT_EQ(traffic.exchanges, (2 + i) * job.size());
        }
        RunOnAll(job, pair, data_first, false);
        EXPECT_EQ(traffic.exchanges, (2 + 3 + 2) * job.size());
        // The report counts as many bytes as the channels do.
        int64_t told = 0;
        for (int rank = 0; rank < job.size(); ++rank) {
          const spatial::RankFigures figures = job.rank(rank).calls->kernel_figures();
          ASSERT_EQ(figures.kernels.size(), 2u);
          EXPECT_EQ(figures.kernels[0].paired_calls, 0u);
          EXPECT_EQ(figures.kernels[1].paired_calls, 3u);
          for (const spatial::KernelFigures& kernel : figures.kernels) {
            told += static_cast<int64_t>(kernel.facts.sent_bytes *
                                         (kernel.calls - kernel.paired_calls));
          }
        }
        EXPECT_EQ(told, traffic.sent);
      }
    }
  }
}

// dy has the same address in both calls, but not the same values.
TEST(SameGradient, OtherValuesAtTheSameAddressAreExchanged) {
  RankJob job;
  const GradientPair pair(job);
  GradientPair other = pair;
  std::mt19937 random(3);
  other.data.whole.y = RandomTensor(pair.data.whole.y.extents, 3, random);
  other.data.expected = Undivided(other.data.whole);
  for (int i = 0; i < 2; ++i) {
    job.OnAll([&](RankState& rank) {
      const Stripe& stripe = other.data.StripeOf(rank);
      const DeviceTensor values(other.data.whole.y.Box(stripe.windows), stripe.problem.y_strides,
                                DataType::kFloat);
      Statuses statuses;
      other.Run(
          rank, false, false,
          [&](void* dy) {
            ASSERT_EQ(cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(dy),
                                        reinterpret_cast<CUdeviceptr>(values.data()),
                                        cudnn::OutputBytes(stripe.problem), rank.stream),
                      CUDA_SUCCESS);
          },
          statuses);
    });
  }
}

TEST(SameGradient, WhatDoesNotFollowDirectlyIsExchanged) {
  Traffic traffic;
  RankJob job(Counted({}, traffic));
  const GradientPair pair(job);
  const SplitLayer between(Operation::kForward, 4, 3);
  RunOnAll(job, pair, false, false);
  ExpectExactOnAll(job, between);
  int before = traffic.exchanges;
  job.OnAll([&](RankState& rank) {
    Statuses statuses;
    pair.Run(
        rank, false, true, [&](void*) { EXPECT_TRUE(between.IsExactOn(rank)); }, statuses);
  });
  EXPECT_EQ(traffic.exchanges, before + 3 * 2);
  // Two calls of the same kernel, `pair.data`, are no pair.
  before = traffic.exchanges;
  Declare(job, {.pair = spatial::CallDeclarations::Pair::kFirst});
  ExpectExactOnAll(job, pair.data);
  Declare(job, {.pair = spatial::CallDeclarations::Pair::kSecond});
  ExpectExactOnAll(job, pair.data);
  EXPECT_EQ(traffic.exchanges, before + 2 * 2);
}

TEST(SameGradient, WhereImagesAreExchangedInSlicesEachCallExchangesItsOwn) {
  Traffic traffic;
  RankJob job(Counted({.most_buffer_bytes = 8 << 10}, traffic));
  const GradientPair pair(job, DataType::kFloat, {4, 5}, 64);
  RunOnAll(job, pair, true, false);
  const int both = traffic.exchanges;
  ASSERT_GE(both, 2 * 2 * job.size());
  RunOnAll(job, pair, true, true);
  EXPECT_EQ(traffic.exchanges, 2 * both);
}

// Taps are 12 rows apart, so only the first and the last rank exchange rows.
TEST(SameGradient, RanksThatExchangeNothingAgreeWithThoseThatDo) {
  Traffic traffic;
  RankJob job(Counted({.grid = "h4"}, traffic));
  const GradientPair pair(job, DataType::kFloat, {4, 4, 4, 4}, 2, 12);
  for (const bool data_first : {false, true}) {
    RunOnAll(job, pair, data_first, false);
    const int64_t both = traffic.sent;
    EXPECT_GT(both, 0);
    RunOnAll(job, pair, data_first, true);
    EXPECT_EQ(traffic.sent, both + both / 2);
    traffic.sent = 0;
  }
}

// In the second call one rank's tensor has a layout that is new to this rank, so the rank makes its
// kernel anew. The rank must still have the rows that the first call received.
TEST(SameGradient, RowsAreKeptWhereOneRanksTensorLiesAsNeverBefore) {
  Traffic traffic;
  RankJob job(Counted({}, traffic));
  GradientPair pair(job);
  RunOnAll(job, pair, false, false);
  RunOnAll(job, pair, true, false);
  for (const bool data_first : {false, true}) {
    ConvolutionProblem& own = (data_first ? pair.filter : pair.data).stripes[1].problem;
    own.x_strides[0] += 16;
    const int before = traffic.exchanges;
    RunOnAll(job, pair, data_first, true);
    EXPECT_EQ(traffic.exchanges, before + job.size());
  }
}

TEST(SameGradient, OnOneRankAloneIsAnErrorOnAll) {
  RankJob job;
  const GradientPair pair(job);
  RunOnAll(job, pair, false, false);
  job.OnAll([&](RankState& rank) {
    Statuses statuses;
    pair.Run(rank, false, rank.rank == 1, kNothing, statuses, false);
  });
  ExpectContains(FailureOf(job), {"takes the rows that the call before received", "is split"});
  ExpectAllFailFromNowOn(job);
}

// A call exchanges its images in slices. It begins the exchanges of two slices before the rank's
// own call. The exchange of the third slice follows as soon as one of two buffers is free.
TEST(SplitSlices, TravelTwoAtATime) {
  Traffic traffic;
  RankJob job(Counted({.most_buffer_bytes = 8 << 10}, traffic));
  ConvolutionProblem problem = Layer(Operation::kForward, 1);
  problem.n = 64;
  const SplitLayer layer(problem, job.grid(), {{{1}, {4, 5}, {6}}});
  ExpectExactOnAll(job, layer);
  const int each = traffic.exchanges / 2;
  ASSERT_GE(each, 3);
  std::atomic<int> began = 0;
  job.OnAll([&](RankState& rank) {
    const StripeResult result = RunGiven(rank, layer, [&](const cudnn::ConvolutionCall& call) {
      // Each rank waits here for the other.
      ++began;
      EXPECT_TRUE(Becomes([&] { return began >= 2; }));
      if (rank.rank == 0) {
        EXPECT_EQ(traffic.exchanges, 2 * each + 2 * 2);
        began = 3;
      }
      EXPECT_TRUE(Becomes([&] { return began == 3; }));
      return RunReal(call);
    });
    ExpectPart(rank, layer, result);
  });
  EXPECT_EQ(traffic.exchanges, 2 * 2 * each);
}

// Holds every reduction back until `passes` is set.
class HeldChannel : public CountingChannel {
 public:
  HeldChannel(std::unique_ptr<transport::Channel> channel, Traffic& traffic,
              std::atomic<bool>& passes)
      : CountingChannel(std::move(channel), traffic), passes_(passes) {}
  Status AllReduce(CUdeviceptr data, size_t count, transport::Element element,
                   CUstream stream) override {
    const auto wait = [](void* passes) {
      while (!static_cast<std::atomic<bool>*>(passes)->load()) {
        std::this_thread::sleep_for(milliseconds(1));
      }
    };
    EXPECT_EQ(cuLaunchHostFunc(stream, wait, &passes_), CUDA_SUCCESS);
    return CountingChannel::AllReduce(data, count, element, stream);
  }

 private:
  std::atomic<bool>& passes_;
};

bool EndsSoon(CUstream stream) {
  return Becomes([&] { return cuStreamQuery(stream) != CUDA_ERROR_NOT_READY; }, kSoon);
}

TEST(Deferred, SumsAreNotWaitedForUntilTheProgramSaysSo) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf}) {
    for (const double beta : {0.0, 1.0, 0.5}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(type)) + ", beta " + std::to_string(beta));
      Traffic traffic;
      std::atomic<bool> passes = true;
      RankJob job(Counted<HeldChannel>({}, traffic, passes));
      SplitLayer layer = GradientPair(job, type).filter;
      layer.whole.beta = beta;
      layer.expected = Undivided(layer.whole);
      ExpectExactOnAll(job, layer);
      Declare(job, {.is_deferred = true});
      passes = false;
      std::atomic<int> ended = 0;
      job.OnAll([&](RankState& rank) {
        const StripeResult result = With(rank, layer, [&](const RunCall& run) {
          const cudnnStatus_t status = run();
          EXPECT_TRUE(EndsSoon(rank.stream)) << "the stream waits for the sum";
          if (++ended == job.size()) passes = true;
          EXPECT_TRUE(rank.calls->Await(rank.context, rank.stream).ok());
          return status;
        });
        ExpectPart(rank, layer, result);
      });
      Declare(job, {});
      ExpectExactOnAll(job, layer);
    }
  }
}

// A layer's sum is still running when the calls of the next layers are made.
TEST(Deferred, CallsThatFollowAreExact) {
  for (const DataType type : {DataType::kFloat, DataType::kHalf}) {
    RankJob job;
    const GradientPair pair(job, type);
    Declare(job, {.is_deferred = true});
    for (int i = 0; i < 5; ++i) {
      job.OnAll([&](RankState& rank) {
        StripeResult inner;
        const StripeResult outer = With(rank, pair.filter, [&](const RunCall& run) {
          const cudnnStatus_t status = run();
          EXPECT_TRUE(pair.data.IsExactOn(rank));
          inner = With(rank, pair.filter, [&](const RunCall& run_next) {
            const cudnnStatus_t ran = run_next();
            EXPECT_TRUE(rank.calls->Await(rank.context, rank.stream).ok());
            return ran;
          });
          return status;
        });
        EXPECT_EQ(outer.output, pair.filter.Part(rank.rank));
        EXPECT_EQ(inner.output, pair.filter.Part(rank.rank));
      });
    }
  }
}

// An optimizer's own thread, which makes no calls, waits for sums while ranks make the next calls.
TEST(Deferred, AnotherThreadMayAwait) {
  RankJob job;
  const SplitLayer layer = GradientPair(job).filter;
  ExpectExactOnAll(job, layer);
  Declare(job, {.is_deferred = true});
  std::atomic<bool> ends = false;
  std::vector<std::thread> waiting;
  for (int rank = 0; rank < job.size(); ++rank) {
    waiting.emplace_back([&ends, &state = job.rank(rank)] {
      while (!ends) {
        EXPECT_TRUE(state.calls->Await(state.context, state.stream).ok());
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    job.OnAll([&](RankState& rank) {
      const StripeResult result = With(rank, layer, [&](const RunCall& run) {
        for (int call = 0; call < 20; ++call) {
          const cudnnStatus_t status = run();
          if (status != kFine) return status;
          EXPECT_TRUE(rank.calls->Await(rank.context, rank.stream).ok());
        }
        return kFine;
      });
      EXPECT_EQ(result.status, kFine);
      EXPECT_EQ(result.output, layer.expected);
    });
  }
  ends = true;
  for (std::thread& thread : waiting) thread.join();
}

// Until a gradient has run, sums->Set() overrides the option that says who sums gradients.
TEST(SplitReduce, HoldsFromBeforeTheFirstGradient) {
  Traffic traffic;
  RankJob job(Counted({}, traffic));
  const SplitLayer layer(Operation::kBackwardFilter, 4, 5);
  ExpectExactOnAll(job, SplitLayer(Operation::kForward, 4, 5));
  job.OnAll([](RankState& rank) { EXPECT_TRUE(rank.sums->Set(false).ok()); });
  const auto results = OnEach(job, [&](RankState& rank) { return layer.RunOn(rank); });
  EXPECT_EQ(traffic.reductions, 0);
  for (size_t i = 0; i < layer.expected.values.size(); ++i) {
    EXPECT_EQ(results[0].output.values[i] + results[1].output.values[i], layer.expected.values[i]);
  }
  job.OnAll([](RankState& rank) {
    EXPECT_TRUE(rank.sums->Set(false).ok());
    EXPECT_FALSE(rank.sums->Set(true).ok());
  });
}

// Once a gradient was summed, sums cannot be left to the program.
TEST(SplitReduce, OfGradientsThatAreSummedIsNotTakenBack) {
  for (const auto said : {std::optional<bool>(), std::optional(true)}) {
    Traffic traffic;
    RankJob job(Counted({.sums_gradients = said}, traffic));
    const SplitLayer layer(Operation::kBackwardFilter, 4, 5);
    for (int step = 1; step < 3; ++step) {
      ExpectExactOnAll(job, layer);
      EXPECT_EQ(traffic.reductions, step * job.size());
      job.OnAll([](RankState& rank) { EXPECT_FALSE(rank.sums->Set(false).ok()); });
    }
  }
}

// Set(false) is also refused while ranks agree on the first gradient. It is refused at once,
// because another rank's call in this process may wait for the thread that calls Set.
TEST(SplitReduce, IsRefusedAtOnceWhileTheFirstGradientIsAgreedOn) {
  RankJob job;
  std::promise<void> agrees, said;
  std::thread program([&] {
    agrees.get_future().wait();
    EXPECT_FALSE(job.rank(1).sums->Set(false).ok());
    said.set_value();
  });
  const SplitLayer layer(Operation::kBackwardFilter, 4, 5);
  job.OnAll([&](RankState& rank) {
    bool is_first = rank.rank == 1;
    const StripeResult result = RunGiven(rank, layer, [&](const cudnn::ConvolutionCall& call) {
      if (std::exchange(is_first, false)) {
        agrees.set_value();
        EXPECT_EQ(said.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
      }
      return RunReal(call);
    });
    EXPECT_EQ(result.status, kFine);
    EXPECT_EQ(result.output, layer.expected);
  });
  program.join();
}

// A gradient of the graph API is refused until the program or the user says who sums gradients.
TEST(SplitReduce, WhatWasRefusedIsAgreedOnAgain) {
  RankJob job;
  const SplitLayer layer(Operation::kBackwardFilter, 4, 5);
  const auto run_on_all = [&](cudnnStatus_t expected) {
    job.OnAll([&](RankState& rank) {
      const Stripe& stripe = layer.StripeOf(rank);
      cudnn::GraphTemplate plan;
      plan.convolution.problem = stripe.problem;
      const StripeResult result =
          RunStripe(layer.whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& call) {
            GivenCall given(RunReal);
            return rank.calls->Run({stripe.problem, call, rank.context, rank.stream, false, &plan},
                                   given);
          });
      EXPECT_EQ(result.status, expected);
      if (expected == kFine) {
        EXPECT_EQ(result.output, layer.expected);
      }
    });
  };
  run_on_all(kRefused);
  run_on_all(kRefused);
  job.OnAll([](RankState& rank) { EXPECT_TRUE(rank.sums->Set(true).ok()); });
  run_on_all(kFine);
  run_on_all(kFine);
}

TEST(SplitReduce, SaidOnOneRankAloneIsAnErrorOnAll) {
  RankJob job;
  EXPECT_TRUE(job.rank(1).sums->Set(false).ok());
  const SplitLayer layer(Operation::kBackwardFilter, 4, 5);
  const Statuses statuses = OnEach(job, [&](RankState& rank) { return layer.RunOn(rank).status; });
  EXPECT_EQ(statuses, Statuses(2, kBroken));
  ExpectContains(FailureOf(job), {"rank 1 has", "not summed over ranks"});
}

}  // namespace
}  // namespace ucudnn::test
