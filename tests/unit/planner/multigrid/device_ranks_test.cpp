// Compares a network on several ranks, which have a device each or share one, with the same network
// on one rank. With Way::kStreams the results are equal to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/multigrid/device/device_solvers.h"
#include "planner/multigrid/distributed/thread_ranks.h"
#include "support/device.h"
#include "support/stand_in.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/drawn_net.h"
#include "unit/planner/multigrid/plain_chain.h"
#include "unit/planner/multigrid/rank_passes.h"

namespace ucudnn::multigrid {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

// Holds a context for each device of the stand-in. HOSTGPU_DEVICES is the number of devices.
class Devices {
 public:
  Devices() {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
    contexts_.resize(count);
    for (int device = 0; device < count; ++device) {
      EXPECT_EQ(cuDevicePrimaryCtxRetain(&contexts_[device], device), CUDA_SUCCESS);
    }
  }
  ~Devices() {
    for (size_t device = 0; device < contexts_.size(); ++device) {
      cuDevicePrimaryCtxRelease(static_cast<CUdevice>(device));
    }
  }
  int count() const { return static_cast<int>(contexts_.size()); }
  DeviceTarget Target(int device, const Precision& precision = kSinglePrecision) const {
    return {cuda::GetDriver(), &functions_, contexts_[device], &precision};
  }

 private:
  const cudnn::Functions functions_ = test::StandIn();
  std::vector<CUcontext> contexts_;
};

class DeviceRanks : public ::testing::Test {
 protected:
  // Returns the solvers of each rank, on the rank's own device or, if `share`, on the first device.
  std::vector<DeviceSolvers> Solvers(int ranks, bool share, const DeviceSetting& setting,
                                     const Precision& precision = kSinglePrecision) const {
    std::vector<DeviceSolvers> solvers;
    for (int rank = 0; rank < ranks; ++rank) {
      solvers.emplace_back(devices.Target(share ? 0 : rank, precision), setting);
    }
    return solvers;
  }
  Result<PassResults> Run(int ranks, Way way, bool share, const WeightedChain& net,
                          const NetworkSettings& settings,
                          const Precision& precision = kSinglePrecision,
                          std::optional<Launch> launch = std::nullopt) {
    std::vector<DeviceSolvers> solvers =
        Solvers(ranks, share,
                {.way = way, .launch = launch, .lanes = 3, .workspace_limit = 1 << 20}, precision);
    Result<PassResults> passes =
        RunOn(ranks, net, settings, nullptr, [&](int rank) { return &solvers[rank]; });
    transport = solvers[0].transport();
    return passes;
  }

  // Calls compare(passes, passes on one rank) for 2 to 5 ranks, with three combinations of coarse
  // operator, storage and start. In every second case the ranks share a device; otherwise each has
  // a device. With Way::kGrouped, all states are kept.
  template <typename Compare>
  void CompareRanks(Way way, const WeightedChain& net, NetworkSettings settings,
                    const Compare& compare) {
    const struct {
      CoarseOperator coarse;
      Storage storage;
      Start start;
    } solves[] = {{CoarseOperator::kInject, Storage::kAll, Start::kPrevious},
                  {CoarseOperator::kSum, Storage::kCPoints, Start::kNested},
                  {CoarseOperator::kSum, Storage::kAll, Start::kBroadcast}};
    for (const auto& solve : solves) {
      settings.coarse = solve.coarse;
      settings.storage = way == Way::kGrouped ? Storage::kAll : solve.storage;
      settings.forward.start = settings.backward.start = solve.start;
      settings.distributed.reset();
      const PassResults alone = test::Must(Run(1, way, true, net, settings));
      EXPECT_EQ(transport, "");
      for (int ranks = 2; ranks <= 5; ++ranks) {
        for (const int distributed : {1, 2}) {
          settings.distributed = distributed;
          if (distributed == 2 && ranks > 2) continue;  // level 1 has only two blocks (11 layers)
          const bool share = (ranks + distributed) % 2 == 0;
          SCOPED_TRACE(std::to_string(ranks) + " ranks, " + NameOf(solve.coarse) +
                       ", distributed " + std::to_string(distributed));
          compare(test::Must(Run(ranks, way, share, net, settings)), alone);
        }
      }
    }
  }

  static NetworkSettings SettingsOf(const WeightedChain& net) {
    NetworkSettings settings;
    settings.time = 1;
    settings.batch = net.batch;
    settings.coarsening = {4};
    settings.forward.measures_start = settings.backward.measures_start = true;
    return settings;
  }

  const Devices devices;
  std::string transport;
};

TEST_F(DeviceRanks, TheirNumberChangesNoBit) {
  ASSERT_GE(devices.count(), 5);
  const WeightedChain net = DrawCase(40, {.steps = 45, .channels = 2, .extent = 4}, 2).chain;
  int compared = 0;
  CompareRanks(Way::kStreams, net, SettingsOf(net),
               [&](const PassResults& passes, const PassResults& alone) {
                 EXPECT_TRUE(passes == alone);
                 EXPECT_EQ(transport, "peer");
                 ++compared;
               });
  EXPECT_EQ(compared, 3 * 5);
}

TEST_F(DeviceRanks, OneLayerAfterTheOtherIsSerialPropagation) {
  const WeightedChain net = DrawCase(41, {.steps = 22, .channels = 2, .extent = 4}).chain;
  NetworkSettings settings = SettingsOf(net);
  settings.method = Method::kPartitioned;
  const PassResults alone = test::Must(Run(1, Way::kStreams, true, net, settings));
  for (const int ranks : {2, 3}) {
    EXPECT_TRUE(test::Must(Run(ranks, Way::kStreams, false, net, settings)) == alone) << ranks;
  }
}

// The adjoints are so small that half precision can represent them only if they are scaled.
TEST_F(DeviceRanks, InHalfPrecisionAllScaleAlike) {
  const WeightedChain net = DrawCase(42, {.steps = 16, .channels = 2, .extent = 4}).chain;
  const NetworkSettings settings = SettingsOf(net);
  const Precision& half = **ParsePrecision("fp16");
  const PassResults alone = test::Must(Run(1, Way::kStreams, true, net, settings, half));
  EXPECT_TRUE(test::Must(Run(3, Way::kStreams, false, net, settings, half)) == alone);
}

// With kGrouped, the blocks of a rank run in one call. The number of blocks may decide which engine
// cuDNN uses, and so the rounding.
TEST_F(DeviceRanks, SideBySideTheyComeToTheSameStates) {
  std::mt19937_64 random(45);
  for (const int batch : {1, 2}) {
    const WeightedChain net =
        DrawnChain({.steps = 45, .channels = 2, .extent = 4}, random, 1, std::nullopt, batch);
    NetworkSettings settings = SettingsOf(net);
    settings.forward.cycles = settings.backward.cycles = 3;
    SCOPED_TRACE("batch " + std::to_string(batch));
    CompareRanks(
        Way::kGrouped, net, settings, [](const PassResults& passes, const PassResults& alone) {
          // Single precision rounds at each of 45 layers, both forward and backward.
          constexpr double kRounding = 2e-5;
          EXPECT_LT(RelativeError(passes.output, alone.output), kRounding);
          EXPECT_LT(RelativeError(passes.gradient, alone.gradient), kRounding);
          const double largest = *std::max_element(alone.residuals.begin(), alone.residuals.end());
          EXPECT_THAT(passes.residuals,
                      Pointwise(DoubleNear(kRounding * largest), alone.residuals));
        });
  }
}

TEST_F(DeviceRanks, WhatThreadsCannotRecordIsRefusedByAll) {
  const WeightedChain net = DrawCase(43, {.steps = 16, .channels = 2, .extent = 4}).chain;
  for (const Way way : kWays) {
    const Result<PassResults> recorded =
        Run(2, way, false, net, SettingsOf(net), kSinglePrecision, Launch::kGraph);
    EXPECT_NE(recorded.message().find("cannot be captured in a CUDA graph"), std::string::npos);
  }
}

// Rank 1 fails while other ranks wait for its states, in host code and on their streams.
TEST_F(DeviceRanks, OneThatFailsEndsAll) {
  const WeightedChain net = DrawCase(44, {.steps = 32, .channels = 2, .extent = 4}).chain;
  for (const bool share : {false, true}) {
    std::vector<DeviceSolvers> solvers = Solvers(3, share, {.way = Way::kStreams});
    ThreadRanks job(3);
    const Status status = RunOnThreads(job, 3, [&](Peers& peers) -> Status {
      NetworkSettings own = SettingsOf(net);
      own.peers = &peers;
      own.stage_solvers = &solvers[peers.rank()];
      UCUDNN_ASSIGN_OR_RETURN(const Placement placement, PlaceNetwork(net.chain, own, 3));
      const Parameters parameters = ParametersOf(peers.rank(), placement, net.parameters);
      UCUDNN_ASSIGN_OR_RETURN(const auto network, NetworkSolver::Make(net.chain, parameters, own));
      if (peers.rank() == 1) return Status::Error("rank 1 gives up");
      return network->Forward(net.first.data()).status();
    });
    EXPECT_EQ(status.message(), "rank 1 gives up");
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
