// Tests that a network on several ranks, each with only its own layers, gives the same numbers to
// the bit as the network on one rank.
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <random>

#include "planner/graph/network_file.h"
#include "planner/multigrid/distributed/distributed_system.h"
#include "planner/multigrid/distributed/some_peers.h"
#include "planner/multigrid/distributed/thread_ranks.h"
#include "planner/multigrid/host/network.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/digit_net.h"
#include "unit/planner/multigrid/drawn_net.h"
#include "unit/planner/multigrid/plain_chain.h"
#include "unit/planner/multigrid/rank_passes.h"
#include "unit/planner/multigrid/ring_chain.h"

namespace ucudnn::multigrid {
namespace {

template <typename T>
T OneOf(std::mt19937& random, std::initializer_list<T> values) {
  return *(values.begin() + random() % values.size());
}

NetworkSettings DrawnSettings(std::mt19937& random, int steps) {
  NetworkSettings settings;
  settings.time = OneOf(random, {1.0, 3.0});
  settings.coarsening = OneOf<std::vector<int>>(random, {{2}, {3}, {4}, {4, 2}, {2, 3}});
  settings.coarse = OneOf(random, {CoarseOperator::kInject, CoarseOperator::kSum});
  settings.storage = OneOf(random, {Storage::kAll, Storage::kCPoints});
  settings.lanes = OneOf(random, {1, 1, 2});
  for (SolveOptions* const options : {&settings.forward, &settings.backward}) {
    options->c_sweeps = OneOf<std::vector<int>>(random, {{0}, {1}, {2}, {1, 0}});
    options->start = OneOf(random, {Start::kBroadcast, Start::kNested, Start::kPrevious});
    options->skips_first_down = random() % 4 == 0;
    options->measures_start = true;
    options->cycles = OneOf(random, {1, 2, 3});
    if (random() % 4 != 0) continue;
    options->tolerance = 1e-9;
    options->cycles = OneOf(random, {3, 40});  // after 3, the solve may end serially
    if (random() % 2 == 0) options->scale = ResidualScale::kLargestState;
  }
  // With 0 levels the solver chooses the number of levels. Uses 0 if the drawn number does not fit.
  settings.levels = OneOf(random, {0, 0, 2, 3});
  if (!Hierarchy::Make(steps, settings.coarsening, settings.levels).ok()) settings.levels = 0;
  return settings;
}

TEST(Distributed, AnyNumberOfRanksGivesTheSameBits) {
  std::mt19937 random(20);
  int solved = 0;
  for (int draw = 0; draw < 40; ++draw) {
    const int steps = OneOf(random, {8, 16, 23, 37, 50, 64});
    const WeightedChain net = DrawCase(draw, {.steps = steps, .channels = 2, .extent = 3}, 2).chain;
    NetworkSettings settings = DrawnSettings(random, steps);
    settings.batch = net.batch;
    const Hierarchy hierarchy =
        test::Must(Hierarchy::Make(steps, settings.coarsening, settings.levels));
    const PassResults alone = test::Must(RunOn(1, net, settings));
    for (int distributed = 1; distributed <= hierarchy.levels(); ++distributed) {
      settings.distributed = distributed;
      const int ranks = 1 + static_cast<int>(random() % 5);
      SCOPED_TRACE("draw " + std::to_string(draw) + ", " + std::to_string(ranks) +
                   " ranks, distributed " + std::to_string(distributed));
      if (ranks > MostRanks(hierarchy, distributed)) continue;
      const PassResults together = test::Must(RunOn(ranks, net, settings));
      ASSERT_TRUE(together == alone);
      ++solved;
    }
  }
  EXPECT_GT(solved, 50);
}

// Counts the messages of exactly one state that a rank sends: to the next rank (`onwards`), to the
// previous rank (`back`), and to other ranks.
class CountingPeers : public SomePeers {
 public:
  CountingPeers(Peers& three, size_t state_size)
      : SomePeers(three, {0, 1, 2}), state_size_(state_size) {}

  Status Send(int to, std::span<const double> numbers) override {
    if (numbers.size() == state_size_)
      ++(to == rank() + 1 ? onwards : to == rank() - 1 ? back : other);
    return SomePeers::Send(to, numbers);
  }

  int onwards = 0, back = 0, other = 0;

 private:
  size_t state_size_;
};

// The levels have 64, 16 and 4 layers, with FCF on the first and FCFCF on the second. There are two
// forward and two backward solves of two cycles each.
TEST(Distributed, OneStateCrossesABoundaryForEachCRelaxation) {
  constexpr int kRanks = 3;
  constexpr int kCycles = 2;
  const WeightedChain net = DrawCase(3, {.steps = 64, .channels = 2, .extent = 5}).chain;
  NetworkSettings settings;
  settings.time = 1;
  settings.coarsening = {4};
  settings.levels = 3;
  settings.distributed = 2;
  settings.coarse = CoarseOperator::kInject;
  settings.forward.c_sweeps = settings.backward.c_sweeps = {1, 2};
  settings.forward.cycles = settings.backward.cycles = kCycles;
  settings.forward.measures_cycles = settings.backward.measures_cycles = false;
  settings.forward.start = settings.backward.start = Start::kPrevious;
  std::vector<std::unique_ptr<CountingPeers>> counting(kRanks);
  const Result<PassResults> passes = RunOn(kRanks, net, settings, [&](Peers& peers) -> Peers& {
    auto& made = counting[peers.rank()];
    made = std::make_unique<CountingPeers>(peers, net.first.size());
    return *made;
  });
  ASSERT_TRUE(passes.ok()) << passes.message();
  constexpr int kSolves = 2;  // in each direction
  constexpr int kOfCycles = kSolves * kCycles * (1 + 2);
  // The first forward solve and the first backward solve begin with a broadcast to all ranks. The
  // second solve of each direction begins with the states of the first.
  constexpr int kBroadcast = 1;
  EXPECT_EQ(counting[0]->onwards, kOfCycles + kBroadcast);
  EXPECT_EQ(counting[1]->onwards, kOfCycles);
  EXPECT_EQ(counting[2]->back, kOfCycles + kBroadcast);
  // Rank 0 solves the last level, which has 4 layers: two of rank 0 and one each of ranks 1 and 2.
  // In every cycle ranks 1 and 2 send the right-hand side of their layer to rank 0. Once for each
  // adjoint solve they also send the state at which their layer is linearised.
  constexpr int kRightSides = kSolves * kCycles;
  EXPECT_EQ(counting[1]->back, kOfCycles + 2 * kRightSides + kSolves);
  // The adjoint begins on rank 2. So in its cycles rank 2 sends the first state and a right-hand
  // side in one message, and rank 0 answers with one state. In all other cases rank 0 answers with
  // two states. Messages of two states are not counted.
  EXPECT_EQ(counting[2]->other, kBroadcast + kRightSides + kSolves);
  EXPECT_EQ(counting[0]->other, kBroadcast + kSolves * kCycles);
  EXPECT_EQ(counting[2]->onwards + counting[0]->back, 0);
}

NetworkSettings SettingsOfStages() {
  NetworkSettings settings;
  settings.batch = 2;
  settings.step = 0.1;
  settings.coarsening = {2};
  settings.forward.tolerance = settings.backward.tolerance = 1e-12;
  settings.forward.cycles = settings.backward.cycles = 50;
  return settings;
}

TEST(Distributed, StagesOfANetworkAreOnAsManyRanksAsTheyHaveBlocksFor) {
  const WeightedChain net = DrawnStages();
  const NetworkSettings settings = SettingsOfStages();
  const PassResults alone = test::Must(RunOn(1, net, settings));
  EXPECT_NE(alone.outcomes.front(), Outcome::kSerial);
  for (const int ranks : {2, 3, 5, 9}) {
    EXPECT_TRUE(test::Must(RunOn(ranks, net, settings)) == alone) << ranks;
  }
  EXPECT_EQ(RunOn(10, net, settings).message(),
            "10 devices for 9 blocks of layers; at most as many devices, or a smaller coarsening, "
            "are expected");
}

TEST(Distributed, PartitionedIsSerialPropagationToTheBit) {
  const WeightedChain net = DrawnStages();
  NetworkSettings settings = SettingsOfStages();
  settings.levels = 1;
  const PassResults serial = test::Must(RunOn(1, net, settings));
  settings.levels = 0;
  settings.method = Method::kPartitioned;
  for (const int ranks : {1, 2, 4}) {
    EXPECT_TRUE(test::Must(RunOn(ranks, net, settings)) == serial) << ranks;
  }
}

TEST(Distributed, DrawnWeightsAreThoseOfOneRank) {
  const WeightedChain net = DrawnStages();
  const Placement placement = *PlaceNetwork(net.chain, SettingsOfStages(), 4);
  for (int rank = 0; rank < 4; ++rank) {
    const Parameters own = DrawParameters(
        net.chain, 5, [&](planner::NodeId id) { return placement.owners[id] == rank; });
    EXPECT_EQ(Flat(own), Flat(ParametersOf(rank, placement, net.parameters)));
  }
}

// kirby-2b has 4,097 convolutions and 15 fully connected layers. Nearly all of the two billion
// parameters belong to the fully connected layers.
TEST(Distributed, NoRankHasTheParametersOfAll) {
  const ResidualChain chain =
      *MakeResidualChain(*planner::LoadNetwork("kirby-2b"), BatchNorms::kRefused);
  NetworkSettings settings;
  settings.coarsening = {8};
  constexpr int kRanks = 4;
  const Placement placement = *PlaceNetwork(chain, settings, kRanks);
  std::vector<int64_t> parameters(kRanks);
  for (size_t id = 0; id < chain.graph.nodes.size(); ++id) {
    const WeightCounts counts = WeightCountsOf(chain, static_cast<planner::NodeId>(id));
    parameters[placement.owners[id]] += counts.weights + counts.bias;
  }
  EXPECT_EQ(std::accumulate(parameters.begin(), parameters.end(), int64_t{0}), 2'071'328'150);
  // A rank has at most four of the fully connected layers, and a quarter of all other parameters.
  constexpr int64_t kFullyConnected = 11520 * 11521;
  constexpr int64_t kMost = 4 * kFullyConnected + (1 << 25);
  for (const int64_t of_rank : parameters) EXPECT_LT(of_rank, kMost);
}

// Two ranks have 8 of 16 steps each, in blocks of 4. Each rank keeps 15 states: its first state, 2
// C-points, its last state, 2 coarse states with their right sides, 3 states for each of 2 lanes,
// and the first state that a solve is given. The rank that receives states from the other one keeps
// 2 more. Rank 0 also has the coarse level with 15 states: 5 states, 4 right sides, and 3 states
// for each lane. In training, each lane has 3 F-points for each direction, and the coarse level has
// 4 states at which it is linearised.
TEST(Distributed, ARanksStatesAreCounted) {
  const WeightedChain net = DrawCase(1, {.steps = 16, .channels = 2, .extent = 3}).chain;
  NetworkSettings settings;
  settings.coarsening = {4};
  settings.levels = 2;
  settings.distributed = 1;
  settings.lanes = 2;
  settings.storage = Storage::kCPoints;
  settings.batch = 5;
  const Placement placement = test::Must(PlaceNetwork(net.chain, settings, 2));
  const auto states = [&](int rank, Passes passes) {
    return StateBytes(net.chain, placement, settings, rank, passes) / (2 * 3 * 3 * 5 * 8.0);
  };
  EXPECT_EQ(states(0, Passes::kForward), 15 + 15);
  EXPECT_EQ(states(1, Passes::kForward), 17);
  constexpr int kFPoints = 2 * 2 * 3;
  EXPECT_EQ(states(0, Passes::kForwardAndBackward), 15 + 17 + kFPoints + 2 * 15 + 4);
  EXPECT_EQ(states(1, Passes::kForwardAndBackward), 17 + 15 + kFPoints);
}

// One rank finds a state that is not finite. Then all ranks must end in serial propagation.
TEST(Distributed, AllRanksFallBackToSerialPropagationTogether) {
  const WeightedChain net = DrawCase(4, {.steps = 48, .channels = 2, .extent = 3}, 1, 3).chain;
  NetworkSettings settings;  // h is 1, so states grow without bound
  settings.coarsening = {4};
  settings.forward.cycles = settings.backward.cycles = 10;
  const PassResults alone = test::Must(RunOn(1, net, settings));
  EXPECT_EQ(alone.outcomes.front(), Outcome::kSerial);
  for (const int distributed : {1, 2}) {
    settings.distributed = distributed;
    const PassResults together = test::Must(RunOn(3, net, settings));
    EXPECT_TRUE(together == alone);
  }
}

using Log = std::vector<std::string>;

// Logs the first step of each block.
class NotingChain : public RingChain {
 public:
  explicit NotingChain(Log& log) : RingChain(1), log_(log) {}

  Status Step(int level, int step, State from, State to, int lane) override {
    if (step % 4 == 0) log_.push_back("relaxes block " + std::to_string(step / 4));
    return RingChain::Step(level, step, from, to, lane);
  }

 private:
  Log& log_;
};

class NotingExchange : public StateExchange {
 public:
  explicit NotingExchange(Log& log) : log_(log) {}

  Status Reserve(const ExchangeRoom&) override { return Status::Ok(); }
  Status Begin(std::span<const StateMessage> sends,
               std::span<const StateMessage> receives) override {
    for (const StateMessage& message : sends) {
      log_.push_back("sends to " + std::to_string(message.rank));
    }
    for (const StateMessage& message : receives) {
      log_.push_back("awaits " + std::to_string(message.rank));
    }
    return Status::Ok();
  }
  Status Finish(int) override {
    log_.push_back("has received");
    return Status::Ok();
  }
  Result<std::vector<std::vector<double>>> Gather(std::span<const double>) override {
    return std::vector<std::vector<double>>();
  }

 private:
  Log& log_;
};

// In RelaxC, a rank must send the state at its boundary before it relaxes any block. Only its first
// block needs the state that the rank receives, so the rank relaxes this block last.
TEST(Distributed, BoundariesAreSentBeforeTheRestIsRelaxed) {
  const Hierarchy hierarchy = *Hierarchy::Make(8, {4}, 2);
  for (const bool is_reversed : {false, true}) {
    for (int position = 0; position < 3; ++position) {
      Log log;
      NotingExchange exchange(log);
      RankPart part = {.exchange = &exchange,
                       .line = {3, is_reversed},
                       .position = position,
                       .hierarchy = &hierarchy,
                       .distributed = 2};
      NotingChain chain(log);
      Lanes lanes = std::move(*Lanes::Start(1));
      auto local = std::make_unique<BlockSystem>(std::move(*BlockSystem::MakePart(
          chain, hierarchy, lanes, Storage::kAll, {.has_inlet = position > 0})));
      DistributedSystem system(part, std::move(local), nullptr);
      ASSERT_TRUE(system.RelaxC(0).ok());
      ASSERT_TRUE(system.RelaxF(0, LayerSystem::Source::kRestricted).ok());
      Log expected;
      const auto rank = [&](int at) { return std::to_string(is_reversed ? 2 - at : at); };
      if (position < 2) expected.push_back("sends to " + rank(position + 1));
      if (position > 0) expected.push_back("awaits " + rank(position - 1));
      if (position == 0) {
        expected.insert(expected.end(), {"relaxes block 0", "relaxes block 1"});
      } else {
        expected.insert(expected.end(), {"relaxes block 1", "has received", "relaxes block 0"});
      }
      EXPECT_EQ(log, expected);
    }
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
