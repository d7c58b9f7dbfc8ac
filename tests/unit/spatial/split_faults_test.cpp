// Tests faults between ranks: calls that are refused on all ranks alike, ranks that no longer make
// the same calls, ranks and devices that never come to a call, and local calls that fail. Nothing
// hangs, and no fault stays unseen. Also tests calls on several threads, handles and streams.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <new>
#include <utility>

#include "tests/support/device.h"
#include "tests/unit/spatial/split_layer.h"

namespace ucudnn::test {
namespace {

TEST(SplitRefusals, ValidConvolutionIsNotTransparent) {
  for (const Operation operation : kOperations) {
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
    return OnEach(job, [&](RankState& rank) {
      const auto own = [&](const cudnn::ConvolutionCall& call) {
        return rank.rank == 1 ? kRefused : RunReal(call);
      };
      return RunGiven(rank, layer, own).status;
    });
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

// If set, this thread's next wait for a stream returns an error of the device.
thread_local bool a_wait_fails = false;

cuda::Driver DriverWhoseWaitsFail() {
  cuda::Driver driver = *cuda::GetDriver();
  driver.cuStreamSynchronize = [](CUstream stream) {
    const CUresult waited = cuStreamSynchronize(stream);
    return std::exchange(a_wait_fails, false) ? CUDA_ERROR_LAUNCH_FAILED : waited;
  };
  return driver;
}

TEST(SplitRefusals, CallThatFailsOnTheDeviceOfOneRankIsRefusedOnAll) {
  const cuda::Driver driver = DriverWhoseWaitsFail();
  for (const double beta : {0, 1}) {
    SCOPED_TRACE(beta);
    RankJob job({.driver = &driver});
    SplitLayer layer(Operation::kForward, 4, 3);
    layer.whole.beta = beta;
    testing::internal::CaptureStderr();
    const Statuses statuses = OnEach(job, [&](RankState& rank) {
      const StripeResult result = RunGiven(rank, layer, [&](const cudnn::ConvolutionCall& call) {
        const cudnnStatus_t status = RunReal(call);
        a_wait_fails = rank.rank == 1;
        return status;
      });
      a_wait_fails = false;
      return result.status;
    });
    ExpectContains(testing::internal::GetCapturedStderr(),
                   {"rank 1 cannot run its part", "CUDA_ERROR_LAUNCH_FAILED"});
    EXPECT_EQ(statuses, Statuses(2, kRefused));
  }
}

// Returns the free bytes of rank 0's device.
size_t FreeBytesOf(RankJob& job) {
  return OnEach(job, [](RankState& rank) { return rank.rank == 0 ? FreeBytes() : 0; })[0];
}

TEST(SplitFaults, CallThatThrowsWhereItIsTriedLeavesNoDeviceMemory) {
  RankJob job;
  ExpectExactOnAll(job, SplitLayer(Operation::kForward, 4, 3));
  const size_t before = FreeBytesOf(job);
  SplitLayer layer(Operation::kBackwardData, 4, 3);
  layer.whole.beta = 1;  // so the call's trial writes to temporary device memory
  job.OnAll([&](RankState& rank) {
    const auto run = [&](const cudnn::ConvolutionCall& call) {
      if (rank.rank == 0) throw std::bad_alloc();
      return RunReal(call);
    };
    try {
      EXPECT_EQ(RunGiven(rank, layer, run).status, kBroken);
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(rank.rank, 0);
      rank.calls->Fail("out of memory");
    }
  });
  EXPECT_EQ(FreeBytesOf(job), before);
  ExpectContains(FailureOf(job), {"rank 0: out of memory"});
}

// Makes a call for problems[r] on each rank r. The two problems have different kernels, so expects
// that both ranks exchange nothing and return an error.
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

// A height of 15 rows on two ranks becomes 16: the stripe of rank 0 keeps its extents, and the
// stripe of rank 1 grows.
class SplitAgreement : public testing::TestWithParam<int> {};

TEST_P(SplitAgreement, NewExtentsOnOneRankAreAnErrorOnAll) {
  const int late = GetParam();
  RankJob job;
  const SplitLayer old_layer(Operation::kForward, 8, 7), new_layer(Operation::kForward, 8, 8);
  ExpectExactOnAll(job, old_layer);
  ExpectExactOnAll(job, old_layer);
  const auto begin = TestClock::now();
  const Statuses statuses = OnEach(job, [&](RankState& rank) {
    if (rank.rank == late) std::this_thread::sleep_for(milliseconds(200));
    return new_layer.RunOn(rank).status;
  });
  EXPECT_EQ(statuses[1], kBroken);
  ExpectContains(FailureOf(job), {"UCUDNN_SPATIAL_AGREE=each", "new to rank 1", "1x8x6", "rank 0"});
  EXPECT_LT(TestClock::now() - begin, kSoon);
  ExpectAllFailFromNowOn(job);
}
INSTANTIATE_TEST_SUITE_P(RankThatIsLate, SplitAgreement, testing::Values(0, 1));

TEST(SplitAgreementEach, ExtentsMayChangeToAndFro) {
  RankJob job({.agrees_each_time = true});
  for (const Operation operation : kOperations) {
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

// Each rank chooses its own beta, so a kernel may be new on one rank only.
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

// 70 sizes are more than KernelTable keeps of one convolution (kMostExtents, 64).
TEST(SplitAgreementEach, ManySizesAreExact) {
  RankJob job({.agrees_each_time = true});
  for (const int64_t rows : {3, 70, 3}) {
    for (int64_t second = 1; second <= rows; ++second) {
      ExpectExactOnAll(job, SplitLayer(Operation::kForward, 2, second));
    }
  }
}

// Ranks wait for each other's records, so the first call that differs is an error on all ranks.
TEST(SplitRecords, AreWaitedForWhereTheUserWantsThat) {
  RankJob job({.waits_for_records = true});
  const SplitLayer a(Operation::kForward, 4, 4, 1), b(Operation::kBackwardData, 4, 4, 1);
  for (int i = 0; i < 5; ++i) {
    ExpectExactOnAll(job, a);
    ExpectExactOnAll(job, b);
  }
  const auto results =
      OnEach(job, [&](RankState& rank) { return (rank.rank == 0 ? a : b).RunOn(rank); });
  for (const StripeResult& result : results) {
    EXPECT_EQ(result.status, kBroken);
    EXPECT_TRUE(IsNan(result.output));
  }
  ExpectContains(FailureOf(job), {"call 11", "not the same kernel",
                                  "what was computed from split call 11 on may be wrong"});
}

TEST(SplitRecords, OneWarmUpMoreIsFoundAtTheNextLayer) {
  for (const int filter : {3, 1}) {
    RankJob job;
    const SplitLayer a(Operation::kForward, 4, 4, filter);
    const SplitLayer b(Operation::kForward, 5, 5, filter);
    ExpectExactOnAll(job, a);
    ExpectExactOnAll(job, b);
    const auto begin = TestClock::now();
    testing::internal::CaptureStderr();
    job.OnAll([&](RankState& rank) {
      for (int i = 0; i < (rank.rank == 0 ? 4 : 3); ++i) a.RunOn(rank);
      b.RunOn(rank);
    });
    const std::string line = FailureOf(job);
    EXPECT_LT(TestClock::now() - begin, kSoon);
    ExpectContains(line, {"rank 0", "rank 1", "what was computed from split call "});
    ExpectAllFailFromNowOn(job);
    ExpectContains(testing::internal::GetCapturedStderr(),
                   {"on may be wrong; the last split call of rank 0 was ",
                    "on may be wrong; the last split call of rank 1 was "});
  }
}

TEST(SplitRecords, UnequalNumbersOfOneLayerAreToldAtTheEnd) {
  RankJob job;
  const SplitLayer layer(Operation::kForward, 4, 4, 1);
  const auto told = OnEach(job, [&](RankState& rank) {
    for (int i = 0; i < (rank.rank == 0 ? 4 : 3); ++i) EXPECT_TRUE(layer.IsExactOn(rank));
    return rank.calls->Leave();
  });
  for (const auto& line : told) {
    ExpectContains(line.value_or(""), {"rank 0 made 1 split call more than rank 1"});
  }
}

TEST(SplitRecords, EqualNumbersAreNotTold) {
  RankJob job({.grid = "h3"});
  const SplitLayer layer(Layer(Operation::kForward, 1), job.grid(), {{{1}, {3, 4, 5}, {6}}});
  const auto told = OnEach(job, [&](RankState& rank) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(layer.IsExactOn(rank));
    return rank.calls->Leave();
  });
  for (const auto& line : told) EXPECT_EQ(line, std::nullopt);
}

// Rank 1 has left, so it does not come to the exchange of rank 0's last call.
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
    alarm(5);  // ends a child that waits for a lock which another thread held at the fork
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
    // While this thread's call is inside the library, another thread makes a call.
    outer = RunGiven(rank, layer, [&](const cudnn::ConvolutionCall& call) {
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
    std::promise<void> turns[3];  // forward of the step is done
    std::promise<void> done[3];   // backward of the step is done
    std::thread backward([&] {
      EXPECT_EQ(cuCtxSetCurrent(rank.context), CUDA_SUCCESS);
      const OwnHandle own;
      for (int step = 0; step < 3; ++step) {
        turns[step].get_future().wait();
        for (const SplitLayer* layer : {&filter, &data}) {
          const Stripe& stripe = layer->StripeOf(rank);
          const StripeResult result =
              RunStripe(layer->whole, stripe, own.handle, [&](const cudnn::ConvolutionCall& call) {
                GivenCall given(RunReal);
                return rank.calls->Run({stripe.problem, call, rank.context, own.stream}, given);
              });
          ExpectPart(rank, *layer, result);
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

// On rank 0 a thread gets the identifier of an ended thread. On rank 1 all threads are still alive.
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
    for (size_t layer = 0; layer < 3; ++layer) ExpectPart(rank, layers[layer], results[layer]);
    for (OwnHandle& handle : handles) rank.calls->Forget(handle.handle);
  });
}

TEST(SplitFaults, LocalCallThatFailsLaterReturnsItsOwnError) {
  for (const Operation operation : kOperations) {
    RankJob job({.grid = "h3"});
    const SplitLayer layer(Layer(operation, 1), job.grid(), {{{1}, {3, 4, 5}, {6}}});
    ExpectExactOnAll(job, layer);
    const auto begin = TestClock::now();
    const auto results = OnEach(job, [&](RankState& rank) {
      return RunGiven(rank, layer, [&](const cudnn::ConvolutionCall& call) {
        return rank.rank == 1 ? CUDNN_STATUS_ALLOC_FAILED : RunReal(call);
      });
    });
    EXPECT_EQ(results[1].status, CUDNN_STATUS_ALLOC_FAILED);
    for (const int rank : {0, 2}) {
      const StripeResult& result = results[static_cast<size_t>(rank)];
      EXPECT_TRUE(result.status == kFine || result.status == kBroken);
      // Rank 1 sent its rows although its own call failed, so the others may have exact results. A
      // gradient of a filter cannot be exact, because the sum over ranks lacks rank 1's part.
      if (result.status == kFine && operation != Operation::kBackwardFilter) {
        EXPECT_EQ(result.output, layer.Part(rank));
      } else {
        EXPECT_NE(result.output, layer.Part(rank));
        EXPECT_TRUE(std::isnan(result.output.values.front()));
      }
    }
    ExpectContains(FailureOf(job), {"rank 1", "its own call failed", "ALLOCATION_FAILED"});
    EXPECT_LT(TestClock::now() - begin, kSoon);
    ExpectAllFailFromNowOn(job);
  }
}

// Behaves as if every exchange was aborted: the stream continues, although nothing was received.
class LosingChannel : public CountingChannel {
 public:
  LosingChannel(std::unique_ptr<transport::Channel> channel, Traffic& traffic,
                const std::atomic<bool>& loses)
      : CountingChannel(std::move(channel), traffic), loses_(loses) {}
  Status Exchange(std::span<const transport::Message> sends,
                  std::span<const transport::Message> receives, CUstream stream) override {
    return loses_ ? Status::Ok() : CountingChannel::Exchange(sends, receives, stream);
  }

 private:
  const std::atomic<bool>& loses_;
};

// A ReLU turns NaN into 0, so NaN must be written after the ReLU.
TEST(SplitFaults, RowsThatNeverCameAreNanBehindAReluToo) {
  std::atomic<bool> loses = false;
  Traffic traffic;
  RankJob job(Counted<LosingChannel>({}, traffic, loses));
  for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16}) {
    SCOPED_TRACE(DataTypeName(type));
    loses = false;
    ConvolutionProblem problem = Layer(Operation::kForward, 1);
    problem.type = type;
    SplitLayer layer(problem, job.grid(), {{{1}, {4, 3}, {6}}});
    layer.whole.fused.is_used = true;
    layer.expected = Undivided(layer.whole);
    ExpectExactOnAll(job, layer);
    loses = true;
    job.OnAll([&](RankState& rank) {
      const StripeResult result = layer.RunOn(rank);
      EXPECT_EQ(result.status, kFine);
      EXPECT_TRUE(result.is_intact);
      const HostTensor expected = layer.Part(rank.rank);
      const int64_t rows = expected.extents[3], at_cut = rank.rank == 0 ? rows - 1 : 0;
      const auto row = [](const HostTensor& tensor, int64_t at) {
        return tensor.Box({{{0, 1}, {at, at + 1}, {0, tensor.extents[4]}}});
      };
      for (int64_t at = 0; at < rows; ++at) {
        if (at == at_cut) {
          EXPECT_TRUE(IsNan(row(result.output, at)));
        } else {
          EXPECT_EQ(row(result.output, at), row(expected, at)) << "row " << at;
        }
      }
    });
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

// Holds up the stream until `ends` returns true, but at most for kSoon.
void HoldUntil(CUstream stream, std::function<bool()> ends) {
  const auto wait = [](void* argument) {
    const std::unique_ptr<std::function<bool()>> held(
        static_cast<std::function<bool()>*>(argument));
    Becomes(*held, kSoon);
  };
  auto held = std::make_unique<std::function<bool()>>(std::move(ends));
  EXPECT_EQ(cuLaunchHostFunc(stream, wait, held.release()), CUDA_SUCCESS);
}

// All ranks have made the call, but the stream of rank 1 is held up before it.
TEST(SplitFaults, DeviceThatDoesNotComeToACallIsAnErrorOnAll) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardFilter}) {
    RankJob job({.warning = milliseconds(500), .timeout = milliseconds(2000)});
    const SplitLayer layer(operation, 4, 4);
    ExpectExactOnAll(job, layer);
    const auto begin = TestClock::now();
    testing::internal::CaptureStderr();
    const auto results = OnEach(job, [&](RankState& rank) {
      if (rank.rank == 1) {
        HoldUntil(rank.stream, [ranks = rank.ranks, since = TestClock::time_point()]() mutable {
          if (!ranks->Failure()) return false;
          if (since == TestClock::time_point()) since = TestClock::now();
          return TestClock::now() - since > milliseconds(300);
        });
      }
      return layer.RunOn(rank);
    });
    const auto waited = TestClock::now() - begin;
    EXPECT_GE(waited, milliseconds(2000));
    EXPECT_LT(waited, kSoon);
    for (const int rank : {0, 1}) {
      const StripeResult& result = results[static_cast<size_t>(rank)];
      EXPECT_TRUE(result.is_intact);
      // Rows may have arrived in spite of the failure; then the result is right.
      EXPECT_TRUE(result.output == layer.Part(rank) || HasNan(result.output)) << "rank " << rank;
    }
    ExpectContains(FailureOf(job), {"whose device lags behind", "split call 2"});
    ExpectAllFailFromNowOn(job);
    ExpectContains(testing::internal::GetCapturedStderr(),
                   {"rank 0 waits: rank 0, whose device lags behind",
                    "rank 1 waits: rank 1, whose device lags behind"});
  }
}

// Rank 1's device begins each of three calls 1 s late, so it begins the last call after the timeout
// of 2 s. This is no fault, because no single call is that late.
TEST(SplitFaults, DeviceThatComesLateToEachOfManyCallsIsWaitedFor) {
  RankJob job({.timeout = milliseconds(2000)});
  const SplitLayer layer(Operation::kForward, 4, 4);
  ExpectExactOnAll(job, layer);
  const auto begin = TestClock::now();
  job.OnAll([&](RankState& rank) {
    const StripeResult result = With(rank, layer, [&](const RunCall& run) {
      cudnnStatus_t status = kFine;
      for (int i = 0; i < 3 && status == kFine; ++i) {
        if (rank.rank == 1) {
          HoldUntil(rank.stream, [begun = TestClock::time_point()]() mutable {
            if (begun == TestClock::time_point()) begun = TestClock::now();
            return TestClock::now() - begun > milliseconds(1000);
          });
        }
        status = run();
      }
      return status;
    });
    ExpectPart(rank, layer, result);
    EXPECT_FALSE(rank.ranks->Failure());
  });
  EXPECT_GE(TestClock::now() - begin, milliseconds(3000));
  ExpectExactOnAll(job, layer);
}

// A channel whose Check fails once `fails` is set. A channel over NCCL may fail like this long
// after its calls have returned.
class FailingChannel : public CountingChannel {
 public:
  FailingChannel(std::unique_ptr<transport::Channel> channel, Traffic& traffic,
                 const std::atomic<bool>& fails)
      : CountingChannel(std::move(channel), traffic), fails_(fails) {}
  Status Check() override {
    return fails_ ? Status::Error("unhandled system error") : CountingChannel::Check();
  }

 private:
  const std::atomic<bool>& fails_;
};

TEST(SplitFaults, ErrorOfAnExchangeThatHasReturnedIsToldAndEndsAll) {
  Traffic traffic;
  std::atomic<bool> fails = false;
  JobOptions options;
  options.wrap =
      [&](int rank,
          std::unique_ptr<transport::Channel> channel) -> std::unique_ptr<transport::Channel> {
    if (rank != 1) return channel;
    return std::make_unique<FailingChannel>(std::move(channel), traffic, fails);
  };
  RankJob job(options);
  ExpectExactOnAll(job, SplitLayer(Operation::kForward, 4, 4));
  fails = true;
  ExpectContains(FailureOf(job), {"rank 1: unhandled system error"});
  ExpectAllFailFromNowOn(job);
}

// A channel needs device memory, so it must be open before a rank tries its own call.
TEST(SplitOrder, ChannelIsOpenBeforeARanksOwnCallIsTried) {
  std::array<std::atomic<bool>, 2> is_open = {false, false}, tried = {false, false};
  JobOptions options;
  options.wrap = [&](int rank, std::unique_ptr<transport::Channel> channel) {
    is_open[static_cast<size_t>(rank)] = true;
    return channel;
  };
  RankJob job(options);
  const SplitLayer layer(Operation::kForward, 4, 4);
  job.OnAll([&](RankState& rank) {
    const auto at = static_cast<size_t>(rank.rank);
    const StripeResult result = RunGiven(rank, layer, [&](const cudnn::ConvolutionCall& call) {
      EXPECT_TRUE(is_open[at]);
      tried[at] = true;
      return RunReal(call);
    });
    EXPECT_EQ(result.output, layer.Part(rank.rank));
    EXPECT_TRUE(tried[at]);
  });
}

TEST(SplitSteady, CallsAllocateNothingAndMoveTheLeast) {
  for (const Operation operation : kOperations) {
    Traffic traffic;
    RankJob job(Counted({}, traffic));
    const SplitLayer layer(operation, 4, 5);
    ExpectExactOnAll(job, layer);
    const int64_t before = traffic.sent;
    const size_t free_before = FreeBytesOf(job);
    for (int i = 0; i < 10; ++i) ExpectExactOnAll(job, layer);
    EXPECT_EQ(FreeBytesOf(job), free_before);
    // One row of all images and channels travels in each direction: 2 images, 6 columns, 4 bytes.
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
