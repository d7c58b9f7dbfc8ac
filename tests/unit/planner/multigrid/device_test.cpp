// Chains on the stand-in's device against the reference on the host: rounded to single precision
// once, every later difference is single precision's own.
#include <gtest/gtest.h>

#include <random>

#include "planner/multigrid/device/device_chain.h"
#include "planner/multigrid/device/grouped_system.h"
#include "support/device.h"
#include "support/stand_in.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {
namespace {

class DeviceChains : public test::DeviceTest {
 protected:
  const cudnn::Functions functions = test::StandIn();
  const DeviceTarget target = {cuda::GetDriver(), &functions, context};
};

std::vector<int> InOrder(int count) {
  std::vector<int> order(count);
  for (int i = 0; i < count; ++i) order[i] = i;
  return order;
}

// A solve of a drawn chain on the device.
struct DeviceSolve {
  DeviceSolve(const DeviceTarget& target, const WeightedChain& chain, const SolveSetting& setting,
              Lanes::Threads threads)
      : hierarchy(*Hierarchy::Make(static_cast<int>(chain.stage().steps.size()), setting.coarsening,
                                   setting.levels)),
        lanes(std::move(*Lanes::Start(setting.lanes, threads))),
        weights(
            std::move(*DeviceWeights::Make(target, chain.chain, chain.stage(), chain.parameters,
                                           InOrder(static_cast<int>(chain.stage().steps.size()))))),
        propagator(std::move(*DeviceChain::Make(target, *weights, hierarchy, setting.coarse,
                                                setting.h, chain.batch, setting.lanes, 1 << 20))) {
    const State first = *propagator->Create();
    EXPECT_TRUE(propagator->Upload(chain.first, first).ok());
    system.emplace(
        std::move(*BlockSystem::Make(*propagator, hierarchy, lanes, setting.storage, first)));
  }
  std::vector<double> Last() {
    std::vector<double> numbers;
    EXPECT_TRUE(propagator->Wait().ok());
    EXPECT_TRUE(propagator->Download(system->last(), numbers).ok());
    return numbers;
  }

  Hierarchy hierarchy;
  Lanes lanes;
  std::unique_ptr<DeviceWeights> weights;
  std::unique_ptr<DeviceChain> propagator;
  std::optional<BlockSystem> system;
};

TEST_F(DeviceChains, SolveToTheHostsStates) {
  std::mt19937_64 random(7);
  for (const auto activation : {planner::ActivationKind::kRelu, planner::ActivationKind::kTanh}) {
    const WeightedChain chain =
        DrawnChain({.steps = 40, .activation = activation}, random, 1, std::nullopt, 2);
    for (const CoarseOperator coarse : {CoarseOperator::kInject, CoarseOperator::kMid,
                                        CoarseOperator::kSum, CoarseOperator::kSum2}) {
      const SolveSetting setting = {
          .coarsening = {4}, .levels = 0, .coarse = coarse, .h = 1.0 / 40};
      HostSolve host(chain, setting);
      DeviceSolve device(target, chain, setting, Lanes::Threads::kOneEach);
      SolveOptions options;
      options.cycles = 3;
      options.measures_start = true;
      const Result<Solution> expected = host.Solve(options);
      const Result<Solution> solved = Solve(*device.system, device.hierarchy, options);
      ASSERT_TRUE(solved.ok()) << solved.message();
      ASSERT_EQ(solved->residuals.size(), expected->residuals.size());
      // Each state is rounded to 2^-24 of its largest numbers at every step.
      const double rounding = 1e-5 * expected->largest_state;
      for (size_t i = 0; i < expected->residuals.size(); ++i) {
        EXPECT_NEAR(solved->residuals[i], expected->residuals[i], rounding);
      }
      EXPECT_LT(RelativeError(device.Last(), host.Last()), 1e-5);
    }
  }
}

TEST_F(DeviceChains, LanesAndStorageChangeNoBit) {
  std::mt19937_64 random(8);
  const WeightedChain chain = DrawnChain({.steps = 37}, random);
  std::vector<double> first;
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    for (const Lanes::Threads threads : {Lanes::Threads::kCallersAlone, Lanes::Threads::kOneEach}) {
      for (const int lanes : {1, 2, 5}) {
        DeviceSolve device(
            target, chain,
            {.coarsening = {4}, .levels = 0, .h = 1.0 / 37, .storage = storage, .lanes = lanes},
            threads);
        ASSERT_TRUE(Solve(*device.system, device.hierarchy, {}).ok());
        if (first.empty()) first = device.Last();
        EXPECT_EQ(device.Last(), first) << lanes << " lanes";
      }
    }
  }
}

TEST_F(DeviceChains, OneLevelIsSerialPropagation) {
  std::mt19937_64 random(9);
  const WeightedChain chain = DrawnChain({.steps = 20}, random);
  DeviceSolve device(target, chain, {.coarsening = {4}, .levels = 1, .h = 1.0 / 20},
                     Lanes::Threads::kOneEach);
  ASSERT_TRUE(Solve(*device.system, device.hierarchy, {}).ok());
  HostSolve host(chain, {.h = 1.0 / 20});
  EXPECT_LT(RelativeError(device.Last(), host.Serial().back()), 1e-5);
  EXPECT_EQ(device.propagator->convolution_calls(), 20);
}

// The same solve with all blocks side by side.
struct GroupedSolve {
  GroupedSolve(const DeviceTarget& target, const WeightedChain& chain, const SolveSetting& setting)
      : hierarchy(*Hierarchy::Make(static_cast<int>(chain.stage().steps.size()), setting.coarsening,
                                   setting.levels)),
        system(std::move(*GroupedSystem::Make(target, {.chain = chain.chain,
                                                       .stage = chain.stage(),
                                                       .parameters = chain.parameters,
                                                       .hierarchy = hierarchy,
                                                       .coarse = setting.coarse,
                                                       .h = setting.h,
                                                       .batch = chain.batch,
                                                       .workspace_limit = 1 << 20}))) {
    EXPECT_TRUE(system->SetFirst(chain.first).ok());
  }
  Hierarchy hierarchy;
  std::unique_ptr<GroupedSystem> system;
};

TEST_F(DeviceChains, SideBySideSolveToTheSameStates) {
  std::mt19937_64 random(11);
  for (const int steps : {16, 37, 64, 100}) {
    for (const int batch : {1, 3}) {
      const WeightedChain chain = DrawnChain({.steps = steps}, random, 1, std::nullopt, batch);
      for (const CoarseOperator coarse :
           {CoarseOperator::kInject, CoarseOperator::kMid, CoarseOperator::kSum}) {
        for (const int levels : {1, 2, 0}) {
          SCOPED_TRACE(std::to_string(steps) + " steps, " + NameOf(coarse) + ", " +
                       std::to_string(levels) + " levels");
          const SolveSetting setting = {
              .coarsening = {4}, .levels = levels, .coarse = coarse, .h = 1.0 / steps};
          DeviceSolve one(target, chain, setting, Lanes::Threads::kOneEach);
          GroupedSolve all(target, chain, setting);
          SolveOptions options;
          options.cycles = 2;
          options.measures_start = true;
          options.start = levels == 0 ? Start::kNested : Start::kBroadcast;
          const Result<Solution> expected = Solve(*one.system, one.hierarchy, options);
          const Result<Solution> solved = Solve(*all.system, all.hierarchy, options);
          ASSERT_TRUE(solved.ok()) << solved.message();
          ASSERT_EQ(solved->residuals.size(), expected->residuals.size());
          for (size_t i = 0; i < expected->residuals.size(); ++i) {
            EXPECT_NEAR(solved->residuals[i], expected->residuals[i],
                        1e-5 * expected->largest_state);
          }
          for (const int number : {0, 3, 4, steps - 1, steps}) {
            const Result<std::vector<double>> state = all.system->ReadState(number);
            ASSERT_TRUE(state.ok());
            std::vector<double> other;
            const int block = number / one.hierarchy.level(0).coarsening;
            std::vector<State> states;
            ASSERT_TRUE(one.system->ReadBlock(block, {}, 0, states).ok());
            ASSERT_TRUE(
                one.propagator->Download(states[number % one.hierarchy.level(0).coarsening], other)
                    .ok());
            EXPECT_LT(RelativeError(*state, other), 1e-5) << "state " << number;
          }
        }
      }
    }
  }
}

TEST_F(DeviceChains, AnFRelaxationSideBySideIsOneCallForEachPlace) {
  std::mt19937_64 random(12);
  for (const int steps : {16, 64, 256}) {
    const WeightedChain chain = DrawnChain({.steps = steps}, random);
    for (const int coarsening : {2, 4, 8}) {
      GroupedSolve all(target, chain, {.coarsening = {coarsening}, .levels = 2, .h = 1.0 / steps});
      ASSERT_TRUE(all.system->Broadcast().ok());
      const int64_t before = all.system->convolution_calls();
      ASSERT_TRUE(all.system->RelaxF(0, LayerSystem::Source::kNone).ok());
      EXPECT_EQ(all.system->convolution_calls() - before, coarsening - 1);
    }
  }
}

TEST_F(DeviceChains, ATolerancePastSinglePrecisionIsRefused) {
  std::mt19937_64 random(10);
  const WeightedChain chain = DrawnChain({.steps = 64}, random);
  DeviceSolve device(target, chain, {.coarsening = {4}, .levels = 0, .h = 1.0 / 64},
                     Lanes::Threads::kOneEach);
  SolveOptions options;
  options.tolerance = 1e-9;
  options.cycles = 30;
  const Result<Solution> solved = Solve(*device.system, device.hierarchy, options);
  ASSERT_FALSE(solved.ok());
  EXPECT_EQ(solved.message().rfind("tolerance 1e-09 is below what states of this precision can "
                                   "reach, about ",
                                   0),
            0);
}

}  // namespace
}  // namespace ucudnn::multigrid
