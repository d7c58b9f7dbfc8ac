// Tests channels' calls that are captured into CUDA graphs: the calls take place at each launch,
// whatever runs between the launches. If a rank gives up, no other rank waits for ever.
#include <dlfcn.h>
#include <unistd.h>

#include <cmath>
#include <optional>

#include "tests/unit/transport/exchanging_processes.h"
#include "transport/lanes.h"
#include "transport/loopback.h"
#include "transport/nccl.h"
#include "transport/peer.h"

namespace ucudnn::transport::testing {
namespace {

constexpr int kDevices = 5;
// OpenNcclChannel looks for NCCL in the folder of this file.
constexpr const char* kCudnnFile = HOST_DIR "/libcudnn.so.9";

Result<std::unique_ptr<Channel>> OpenNccl(const ChannelSetup& setup) {
  return OpenNcclChannel(setup, kCudnnFile);
}

// ---- Graphs ------------------------------------------------------------------------------------

// A graph of what `body` enqueues on `stream`. The calling thread captures the stream.
class Graph {
 public:
  Graph(CUstream stream, const std::function<void()>& body,
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamBeginCapture(stream, mode), CUDA_SUCCESS);
    body();
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec_, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  }
  ~Graph() { EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void Launch(CUstream stream) const { EXPECT_EQ(cuGraphLaunch(exec_, stream), CUDA_SUCCESS); }

 private:
  CUgraphExec exec_ = nullptr;
};

// Holds the buffers of one rank's messages to and from all other ranks, and of its sums. Contents
// depend on the round. All rounds use the same buffers.
class Traffic {
 public:
  template <class Rank>
  Traffic(const Rank& self, size_t bytes, size_t count)
      : device_(self.device), rank_(self.rank), size_(self.size), bytes_(bytes), count_(count) {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      sends_.push_back({peer, device_.Allocate(bytes), bytes});
      receives_.push_back({peer, device_.Allocate(bytes), bytes});
    }
    sum_ = device_.Allocate(count * sizeof(float));
  }

  void Upload(int round) {
    for (const Message& message : sends_) {
      device_.Upload(message.data, Content(round, rank_, message.peer, bytes_));
    }
    device_.Upload(sum_, std::vector<float>(count_, Summand(rank_, round)));
  }
  // Fills the receive buffers with NaN first, so that a missing exchange shows.
  Status Exchange(Channel& channel, CUstream stream) const {
    for (const Message& message : receives_) {
      EXPECT_EQ(cuMemsetD8Async(message.data, 0xff, bytes_, stream), CUDA_SUCCESS);
    }
    return channel.Exchange(sends_, receives_, stream);
  }
  Status Sum(Channel& channel, CUstream stream) const {
    return channel.AllReduce(sum_, count_, Element::kFloat32, stream);
  }
  void Run(Channel& channel, CUstream stream) const {
    EXPECT_TRUE(Exchange(channel, stream).ok());
    EXPECT_TRUE(Sum(channel, stream).ok());
  }

  // Expects the results of one Run().
  void ExpectRun(int round) {
    ExpectExchanged(round);
    ExpectSummed(round);
  }
  void ExpectExchanged(int round) {
    for (const Message& message : receives_) {
      EXPECT_EQ(device_.Download<unsigned char>(message.data, bytes_),
                Content(round, message.peer, rank_, bytes_))
          << "round " << round << " from " << message.peer << " to " << rank_;
    }
  }
  // Expects the result of `times` sums in a row.
  void ExpectSummed(int round, int times = 1) {
    float sum = SumOf(round);
    for (int i = 1; i < times; ++i) sum *= static_cast<float>(size_);
    EXPECT_EQ(device_.Download<float>(sum_, count_), std::vector<float>(count_, sum))
        << "round " << round << " on rank " << rank_;
  }

  void ExpectExchangedOrNan(int round) {
    for (const Message& message : receives_) {
      const auto found = device_.Download<unsigned char>(message.data, bytes_);
      const auto expected = Content(round, message.peer, rank_, bytes_);
      for (size_t i = 0; i < bytes_; ++i) {
        if (found[i] == expected[i] || found[i] == 0xff) continue;
        ADD_FAILURE() << "round " << round << " from " << message.peer << " to " << rank_
                      << ", byte " << i;
        return;
      }
    }
  }
  void ExpectSummedOrNan(int round) {
    const float sum = SumOf(round);
    for (const float found : device_.Download<float>(sum_, count_)) {
      if (found == sum || std::isnan(found)) continue;
      ADD_FAILURE() << "round " << round << " on rank " << rank_ << ": " << found;
      return;
    }
  }

 private:
  // Returns a whole number, so that sums do not round.
  static float Summand(int rank, int round) { return static_cast<float>(10 * rank + round + 1); }
  float SumOf(int round) const {
    float sum = 0;
    for (int rank = 0; rank < size_; ++rank) sum += Summand(rank, round);
    return sum;
  }

  RankDevice& device_;
  const int rank_, size_;
  const size_t bytes_, count_;
  std::vector<Message> sends_, receives_;
  CUdeviceptr sum_ = 0;
};

struct GraphWay {
  const char* name;
  Open open;
  int size;

  bool is_nccl() const { return open == OpenNccl; }
  // Returns false for NCCL if its stand-in was not built.
  bool IsThere() const { return !is_nccl() || access(HOST_DIR "/libnccl.so.2", R_OK) == 0; }
};

constexpr GraphWay kWays[] = {
    {"nccl_two_ranks", OpenNccl, 2},
    {"nccl_three_ranks", OpenNccl, 3},
    {"loopback_two_ranks", OpenLoopbackChannel, 2},
    {"loopback_three_ranks", OpenLoopbackChannel, 3},
};

// ---- Ranks that are processes, before any other test of this program touches CUDA ---------------

// Launches a graph of Run() until the channel fails. All messages and sums must be right or NaN.
int ReplayUntilFailure(RankProcess& self, Channel& channel,
                       const std::function<void()>& when_captured) {
  constexpr int kMostRounds = 100000;
  EXPECT_TRUE(channel.Reserve(20000, 8000).ok());
  Traffic traffic(self, 20000, 2000);
  const CUstream stream = self.device.stream;
  const Graph graph(stream, [&] { traffic.Run(channel, stream); });
  when_captured();
  int round = 0;
  for (; round < kMostRounds; ++round) {
    traffic.Upload(round);
    graph.Launch(stream);
    if (!Finishes(stream)) {
      ADD_FAILURE() << "rank " << self.rank << " hangs in round " << round;
      _exit(1);
    }
    traffic.ExpectExchangedOrNan(round);
    traffic.ExpectSummedOrNan(round);
    if (!channel.Check().ok()) break;
  }
  EXPECT_LT(round, kMostRounds) << "no failure was seen";
  return kFailed;
}

void ExpectThatRanksEndWhereOneIsKilled(const GraphWay& way) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(std::string(way.name) + ", seed " + std::to_string(seed));
  const int victim = static_cast<int>(seed % static_cast<unsigned>(way.size));
  const int devices = way.is_nccl() ? kDevices : 1;
  const std::vector<int> ended = RunProcesses(way.size, devices, [&](RankProcess& self) {
    return WithChannel(self, way.open, [&](Channel& channel) {
      return ReplayUntilFailure(self, channel, [&] {
        EXPECT_TRUE(GatherAll(self.gatherer, self.size, "", "").ok());
        if (self.rank == victim) KillSelfLater(seed);
      });
    });
  });
  ExpectThatOneWasKilled(ended, victim);
}

TEST(AProcesses, EndWhereOneIsKilledWhileTheyReplay) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (const GraphWay& way : kWays) {
      if (way.IsThere()) ExpectThatRanksEndWhereOneIsKilled(way);
    }
  }
}

// ---- Ranks that are threads ---------------------------------------------------------------------

class GraphsOfChannels : public ::testing::TestWithParam<GraphWay> {
 protected:
  void SetUp() override {
    if (!GetParam().IsThere()) GTEST_SKIP() << "there is no stand-in for NCCL in " HOST_DIR;
  }
  static void Run(const std::function<void(RankThread&, Channel&)>& body) {
    RunChannels(GetParam().size, kDevices, GetParam().open, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, GraphsOfChannels, ::testing::ValuesIn(kWays),
                         [](const auto& way) { return way.param.name; });

// ---- What a launch does ------------------------------------------------------------------------

TEST_P(GraphsOfChannels, AnExchangeTakesPlaceAtEachLaunch) {
  Run([](RankThread& self, Channel& channel) {
    constexpr int kLaunches = 20;
    const CUstream stream = self.device.stream;
    EXPECT_TRUE(channel.CanBeCaptured().ok());
    ASSERT_TRUE(channel.Reserve(5000, 0).ok());
    Traffic traffic(self, 5000, 1);
    const Graph graph(stream, [&] { EXPECT_TRUE(traffic.Exchange(channel, stream).ok()); });
    std::mt19937 random(static_cast<unsigned>(self.rank));
    for (int launch = 1; launch <= kLaunches; ++launch) {
      traffic.Upload(launch);
      if (random() % 3 == 0) Delay(stream, std::chrono::microseconds(random() % 800));
      graph.Launch(stream);
      traffic.ExpectExchanged(launch);
    }
    EXPECT_TRUE(channel.Check().ok());
  });
}

TEST_P(GraphsOfChannels, LaunchesMayBeFarAheadOfTheirStream) {
  Run([](RankThread& self, Channel& channel) {
    constexpr int kLaunches = 300;
    const CUstream stream = self.device.stream;
    ASSERT_TRUE(channel.Reserve(100, 400).ok());
    Traffic traffic(self, 100, 100);
    const Graph graph(stream, [&] { traffic.Run(channel, stream); });
    if (self.rank == 1) Delay(stream, milliseconds(20));
    for (int launch = 0; launch < kLaunches; ++launch) {
      traffic.Upload(launch);
      graph.Launch(stream);
    }
    traffic.ExpectRun(kLaunches - 1);
  });
}

// Messages of random sizes travel between some of the ranks. Their number may be odd.
TEST_P(GraphsOfChannels, ManyMessagesOfOneGraphArriveWhole) {
  constexpr int kLaunches = 6;
  constexpr size_t kMostBytes = 50000;
  for (const int rounds : {1, 2, 3, 7}) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", rounds " + std::to_string(rounds));
    const Plan plan(seed, GetParam().size, rounds, kMostBytes);
    Run([&](RankThread& self, Channel& channel) {
      const CUstream stream = self.device.stream;
      ASSERT_TRUE(channel.Reserve(kMostBytes, 0).ok());
      std::vector<Round> buffers;
      for (int round = 0; round < rounds; ++round) {
        buffers.emplace_back(self.device, plan, round, self.rank, self.size);
      }
      const Graph graph(stream, [&] {
        for (const Round& round : buffers) {
          EXPECT_TRUE(channel.Exchange(round.sends, round.receives, stream).ok());
          round.RewriteSent(self.device);
        }
      });
      for (int launch = 1; launch <= kLaunches; ++launch) {
        const auto content = [&](int round, int from, int to, size_t bytes) {
          return Content(round + 100 * launch, from, to, bytes);
        };
        for (int round = 0; round < rounds; ++round) {
          for (const Message& message : buffers[round].sends) {
            self.device.Upload(message.data,
                               content(round, self.rank, message.peer, message.bytes));
          }
        }
        graph.Launch(stream);
        for (int round = 0; round < rounds; ++round) {
          for (const Message& message : buffers[round].receives) {
            EXPECT_EQ(self.device.Download<unsigned char>(message.data, message.bytes),
                      content(round, message.peer, self.rank, message.bytes))
                << "launch " << launch << ", round " << round;
          }
        }
      }
      // A rank that receives nothing has not waited for any of its launches so far, so all ranks
      // wait here.
      ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    });
  }
}

TEST_P(GraphsOfChannels, ExchangesAndReductionsOfOneGraphAlternate) {
  Run([](RankThread& self, Channel& channel) {
    const CUstream stream = self.device.stream;
    ASSERT_TRUE(channel.Reserve(700, 4000).ok());
    Traffic traffic(self, 700, 1000);
    const Graph graph(stream, [&] {
      for (int i = 0; i < 3; ++i) {
        traffic.Run(channel, stream);
      }
    });
    for (int launch = 1; launch <= 5; ++launch) {
      traffic.Upload(launch);
      graph.Launch(stream);
      traffic.ExpectExchanged(launch);
      traffic.ExpectSummed(launch, 3);
    }
  });
}

TEST_P(GraphsOfChannels, AReductionOfSeveralPiecesNeedsRoomForOne) {
  Run([](RankThread& self, Channel& channel) {
    const CUstream stream = self.device.stream;
    const size_t count = kReductionPieceBytes / sizeof(float) + 1000;
    ASSERT_TRUE(channel.Reserve(0, count * sizeof(float)).ok());
    Traffic traffic(self, 1, count);
    const Graph graph(stream, [&] { EXPECT_TRUE(traffic.Sum(channel, stream).ok()); });
    EXPECT_LE(channel.device_bytes(), 2 * (kReductionPieceBytes + 3 * 512));
    for (int launch = 1; launch <= 2; ++launch) {
      traffic.Upload(launch);
      graph.Launch(stream);
      traffic.ExpectSummed(launch);
    }
  });
}

TEST_P(GraphsOfChannels, UncapturedCallsGoBetweenLaunches) {
  Run([](RankThread& self, Channel& channel) {
    const CUstream stream = self.device.stream;
    ASSERT_TRUE(channel.Reserve(3000, 4000).ok());
    Traffic captured(self, 3000, 1000);
    Traffic uncaptured(self, 2000, 500);
    const auto call = [&](int round) {
      uncaptured.Upload(round);
      uncaptured.Run(channel, stream);
    };
    call(0);
    const Graph graph(stream, [&] {
      captured.Run(channel, stream);
      EXPECT_TRUE(captured.Exchange(channel, stream).ok());
    });
    for (int round = 1; round <= 12; ++round) {
      for (int launch = 0; launch < round % 3; ++launch) {
        captured.Upload(100 * round + launch);
        graph.Launch(stream);
      }
      for (int calls = 0; calls < 1 + round % 2; ++calls) call(round);
      if (round % 3 > 0) {
        captured.ExpectRun(100 * round + round % 3 - 1);
      }
      uncaptured.ExpectRun(round);
    }
    EXPECT_FALSE(channel.Progress().is_pending);
  });
}

// A later uncaptured call waits only for calls that were enqueued outside of captures.
TEST_P(GraphsOfChannels, UncapturedCallsOnAnotherStreamFollowUncapturedOnes) {
  Run([](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(1000, 0).ok());
    cuda::Stream other(*self.setup.driver);
    ASSERT_TRUE(other.Create().ok());
    Traffic captured(self, 1000, 1);
    Traffic uncaptured(self, 1000, 1);
    for (int round = 0; round < 4; ++round) {
      uncaptured.Upload(round);
      if (self.rank == 0) Delay(self.device.stream, milliseconds(1));
      EXPECT_TRUE(uncaptured.Exchange(channel, self.device.stream).ok());
      const Graph graph(other.get(),
                        [&] { EXPECT_TRUE(captured.Exchange(channel, other.get()).ok()); });
      EXPECT_TRUE(uncaptured.Exchange(channel, other.get()).ok());
      ASSERT_TRUE(other.Synchronize().ok());
      EXPECT_FALSE(channel.Progress().is_pending);
      uncaptured.ExpectExchanged(round);
    }
  });
}

TEST_P(GraphsOfChannels, TwoGraphsRunInTurn) {
  Run([](RankThread& self, Channel& channel) {
    const CUstream stream = self.device.stream;
    ASSERT_TRUE(channel.Reserve(3000, 4000).ok());
    Traffic first(self, 3000, 1000);
    Traffic second(self, 40, 7);
    const Graph odd(stream, [&] { first.Run(channel, stream); });
    const Graph even(stream, [&] {
      EXPECT_TRUE(second.Exchange(channel, stream).ok());
      second.Run(channel, stream);
    });
    for (int round = 0; round < 8; ++round) {
      first.Upload(round);
      second.Upload(round);
      odd.Launch(stream);
      if (round % 3 > 0) even.Launch(stream);
      first.ExpectRun(round);
      if (round % 3 == 0) continue;
      second.ExpectRun(round);
    }
  });
}

// Both streams belong to the capture, but the program makes neither stream wait for the end of the
// other.
TEST_P(GraphsOfChannels, CallsOnSeveralStreamsOfACaptureKeepTheirOrder) {
  Run([](RankThread& self, Channel& channel) {
    const CUstream stream = self.device.stream;
    ASSERT_TRUE(channel.Reserve(1000, 400).ok());
    cuda::Stream other(*self.setup.driver);
    cuda::Event fork(*self.setup.driver);
    ASSERT_TRUE(other.Create().ok() && fork.CreateUntimed().ok());
    Traffic traffic(self, 1000, 100);
    const Graph graph(stream, [&] {
      EXPECT_TRUE(fork.Record(stream).ok() && fork.HoldBack(other.get()).ok());
      EXPECT_TRUE(traffic.Exchange(channel, other.get()).ok());
      EXPECT_TRUE(traffic.Sum(channel, stream).ok());
    });
    for (int launch = 1; launch <= 3; ++launch) {
      traffic.Upload(launch);
      graph.Launch(stream);
      traffic.ExpectRun(launch);
    }
  });
}

TEST_P(GraphsOfChannels, GraphsRemainGoodWhereRoomGrowsLater) {
  Run([](RankThread& self, Channel& channel) {
    const CUstream stream = self.device.stream;
    ASSERT_TRUE(channel.Reserve(100, 400).ok());
    Traffic small(self, 100, 100);
    Traffic large(self, 70000, 100000);
    const auto captured = [&](const Traffic& traffic) {
      return std::make_unique<Graph>(stream, [&] { traffic.Run(channel, stream); });
    };
    const size_t reserved = channel.device_bytes();
    const auto before = captured(small);
    EXPECT_EQ(channel.device_bytes(), 2 * reserved);
    ASSERT_TRUE(channel.Reserve(70000, 400000).ok());
    const size_t uncaptured = channel.device_bytes() - reserved;
    const auto again = captured(small);
    EXPECT_EQ(channel.device_bytes(), reserved + uncaptured) << "of which the first is as large";
    const auto after = captured(large);
    EXPECT_EQ(channel.device_bytes(), reserved + 2 * uncaptured);
    for (int round = 0; round < 4; ++round) {
      for (Traffic* const traffic : {&small, &large}) {
        traffic->Upload(round);
        traffic->Run(channel, stream);
        traffic->ExpectRun(round);
        traffic->Upload(round + 100);
        (traffic == &large ? after : round % 2 == 0 ? before : again)->Launch(stream);
        traffic->ExpectRun(round + 100);
      }
    }
  });
}

// The capture has the driver's strictest mode, in which calls on any thread can invalidate it.
TEST_P(GraphsOfChannels, UncapturedCallsLeaveOtherThreadsCapturesAlone) {
  RunChannels(1, 1, GetParam().open, [](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(0, 4000).ok());
    cuda::Stream captured(*self.setup.driver);
    ASSERT_TRUE(captured.Create().ok());
    const CUdeviceptr data = self.device.Allocate(4000);
    const auto call = [&] {
      EXPECT_TRUE(channel.Exchange({}, {}, self.device.stream).ok());
      EXPECT_TRUE(channel.AllReduce(data, 10, Element::kFloat32, self.device.stream).ok());
      (void)channel.Progress();
    };
    call();
    const Graph graph(
        captured.get(), [&] { std::thread(call).join(); }, CU_STREAM_CAPTURE_MODE_GLOBAL);
  });
}

// ---- What goes wrong ---------------------------------------------------------------------------

TEST_P(GraphsOfChannels, ACapturedReductionWithoutMemoryIsAnError) {
  Run([](RankThread& self, Channel& channel) {
    const CUstream stream = self.device.stream;
    ASSERT_TRUE(channel.Reserve(0, 4000).ok());
    Traffic traffic(self, 1, 1000);
    Await(self);
    std::optional<Graph> graph;
    WithoutNextAllocation(self, [&] {
      graph.emplace(stream, [&] {
        const Status status = traffic.Sum(channel, stream);
        if (!status.ok() && status.message().find("abort") == std::string::npos) {
          EXPECT_NE(status.message().find("allocating"), std::string::npos) << status.message();
        }
      });
    });
    traffic.Upload(1);
    graph->Launch(stream);
    EXPECT_TRUE(Finishes(stream));
    traffic.ExpectSummedOrNan(1);
    EXPECT_FALSE(traffic.Sum(channel, stream).ok());
  });
}

// Rank 0 aborts, and all ranks launch until Check() reports it. In two of three repeats the other
// ranks then abort, too. At the end all ranks launch three more times.
TEST_P(GraphsOfChannels, ARankThatAbortsLetsTheOthersLaunchesPass) {
  constexpr int kMostRounds = 100000;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    Run([&](RankThread& self, Channel& channel) {
      const CUstream stream = self.device.stream;
      std::mt19937 random(seed + static_cast<unsigned>(self.rank));
      ASSERT_TRUE(channel.Reserve(20000, 8000).ok());
      Traffic traffic(self, 20000, 2000);
      const Graph graph(stream, [&] {
        traffic.Run(channel, stream);
        EXPECT_TRUE(traffic.Exchange(channel, stream).ok());
      });
      Await(self);  // all ranks have captured
      std::thread aborting;
      if (self.rank == 0) {
        aborting = std::thread([&, moment = std::chrono::microseconds(random() % 5000)] {
          std::this_thread::sleep_for(moment);
          channel.Abort();
        });
      }
      int round = 0;
      const auto launch = [&] {
        traffic.Upload(round);
        if (random() % 4 == 0) Delay(stream, std::chrono::microseconds(random() % 300));
        graph.Launch(stream);
        EXPECT_TRUE(Finishes(stream)) << "round " << round;
        traffic.ExpectExchangedOrNan(round);
        traffic.ExpectSummedOrNan(round);
        return ++round < kMostRounds && channel.Check().ok();
      };
      while (launch()) {
      }
      EXPECT_LT(round, kMostRounds) << "no failure was seen";
      if (aborting.joinable()) aborting.join();
      // NCCL may read what this rank sent until the calls of the other ranks have ended, even if
      // this rank has aborted.
      if (GetParam().is_nccl()) Await(self);
      if (repeat % 2 == 0) channel.Abort();
      for (int more = 0; more < 3; ++more) (void)launch();
      Await(self);  // no channel is closed before this
    });
  }
}

TEST_P(GraphsOfChannels, MessagesOfAnotherSizeThanExpectedAreNoneAndAnError) {
  Run([](RankThread& self, Channel& channel) {
    const CUstream stream = self.device.stream;
    ASSERT_TRUE(channel.Reserve(64, 0).ok());
    const CUdeviceptr data = self.device.Allocate(128);
    self.device.Upload(data, Content(0, self.rank, 1 - self.rank, 64));
    self.device.Fill(data + 64, 0xff, 64);
    const Message send{1 - self.rank, data, self.rank == 0 ? size_t{32} : size_t{64}};
    const Message receive{1 - self.rank, data + 64, 64};
    if (self.rank > 1) return Await(self);
    const Graph graph(stream, [&] {
      EXPECT_TRUE(channel.Exchange({&send, 1}, {&receive, 1}, stream).ok());
    });
    graph.Launch(stream);
    EXPECT_TRUE(Fails(channel));
    channel.Abort();
    EXPECT_TRUE(Finishes(stream));
    if (self.rank == 1) {
      EXPECT_EQ(self.device.Download<unsigned char>(data + 64, 64),
                std::vector<unsigned char>(64, 0xff));
    }
    Await(self);
  });
}

TEST(LoopbackGraphs, RunBesideUncapturedCalls) {
  RunChannels(3, kDevices, OpenLoopbackChannel, [](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(5000, 4000).ok());
    cuda::Stream other(*self.setup.driver);
    ASSERT_TRUE(other.Create().ok());
    Traffic captured(self, 5000, 1000);
    Traffic uncaptured(self, 5000, 1000);
    const Graph graph(self.device.stream, [&] { captured.Run(channel, self.device.stream); });
    std::mt19937 random(static_cast<unsigned>(self.rank));
    for (int round = 0; round < 20; ++round) {
      captured.Upload(round);
      uncaptured.Upload(round);
      ASSERT_EQ(cuStreamSynchronize(self.device.stream), CUDA_SUCCESS);
      if (random() % 2 == 0) Delay(self.device.stream, std::chrono::microseconds(random() % 800));
      if (random() % 2 == 0) Delay(other.get(), std::chrono::microseconds(random() % 800));
      graph.Launch(self.device.stream);
      uncaptured.Run(channel, other.get());
      ASSERT_TRUE(other.Synchronize().ok());
      captured.ExpectRun(round);
      uncaptured.ExpectRun(round);
    }
  });
}

// The size word 0 means that there is no message, so SizeWord() must not return 0 for any size.
TEST(LoopbackGraphs, EverySizeHasAWord) {
  constexpr size_t kWords = size_t{1} << 32;
  EXPECT_EQ(SizeWord(1), 1U);
  EXPECT_EQ(SizeWord(kWords - 1), UINT32_MAX);
  for (const size_t bytes : {kWords, 2 * (kWords - 1), 2 * kWords, SIZE_MAX}) {
    EXPECT_NE(SizeWord(bytes), 0U) << bytes;
    EXPECT_NE(SizeWord(bytes), SizeWord(bytes - 1)) << bytes;
  }
}

// Rank 1 never exchanges, so a call of rank 0 that waited for rank 1 would wait until the timeout.
TEST(PeerGraphs, AreRefusedBeforeAnyRankIsWaitedFor) {
  for (const bool reduces : {false, true}) {
    RunRanks(2, 1, [reduces](RankThread& self) {
      self.setup.timeout = std::chrono::hours(1);
      const Result<std::unique_ptr<Channel>> channel = OpenPeerChannel(self.setup);
      ASSERT_TRUE(channel.ok()) << channel.message();
      ASSERT_TRUE((*channel)->Reserve(64, 64).ok());
      const Status refused = (*channel)->CanBeCaptured();
      ASSERT_FALSE(refused.ok());
      EXPECT_NE(refused.message().find("cannot be captured in a CUDA graph; "
                                       "ranks that are processes can"),
                std::string::npos)
          << refused.message();
      if (self.rank == 1) return Await(self);
      const CUstream stream = self.device.stream;
      const CUdeviceptr data = self.device.Allocate(128);
      self.device.Fill(data, 0, 64);
      const Message send{1, data, 64}, receive{1, data + 64, 64};
      const Graph graph(stream, [&] {
        const Status status = reduces ? (*channel)->AllReduce(data, 16, Element::kFloat32, stream)
                                      : (*channel)->Exchange({&send, 1}, {&receive, 1}, stream);
        EXPECT_EQ(status.message(), refused.message());
      });
      EXPECT_FALSE((*channel)->Check().ok());
      graph.Launch(stream);
      // A buffer that was to be summed holds NaN, so that the program cannot mistake it for the
      // sum.
      const unsigned char expected = reduces ? 0xff : 0;
      EXPECT_EQ(self.device.Download<unsigned char>(data, 64),
                std::vector<unsigned char>(64, expected));
      Await(self);
    });
  }
}

}  // namespace
}  // namespace ucudnn::transport::testing
