// Tests the parts of solve models: blocks balanced over devices, kernels of layers, their times,
// convergence and reduced networks of large stages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "planner/graph/network_file.h"
#include "planner/machine/presets.h"
#include "planner/multigrid/analysis/balanced_runs.h"
#include "planner/multigrid/analysis/convergence.h"
#include "planner/multigrid/analysis/layer_kernels.h"
#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/analysis/level_costs.h"
#include "planner/multigrid/analysis/reduced_network.h"
#include "planner/multigrid/analysis/solve_tasks.h"
#include "tests/support/must.h"
#include "tests/unit/planner/multigrid/plain_chain.h"
#include "tests/unit/planner/multigrid/unit_times.h"

namespace ucudnn::multigrid {
namespace {

using ::testing::ElementsAre;

double DearestRun(const std::vector<double>& costs, const std::vector<int>& begins) {
  double dearest = 0;
  for (size_t run = 0; run + 1 < begins.size(); ++run) {
    double sum = 0;
    for (int i = begins[run]; i < begins[run + 1]; ++i) sum += costs[static_cast<size_t>(i)];
    dearest = std::max(dearest, sum);
  }
  return dearest;
}

double LeastDearest(const std::vector<double>& costs, int runs) {
  const int count = static_cast<int>(costs.size());
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> begins = {0};
  const std::function<void(int)> cut = [&](int left) {
    if (left == 0) {
      begins.push_back(count);
      least = std::min(least, DearestRun(costs, begins));
      begins.pop_back();
      return;
    }
    for (int at = begins.back() + 1; at <= count - left; ++at) {
      begins.push_back(at);
      cut(left - 1);
      begins.pop_back();
    }
  };
  cut(runs - 1);
  return least;
}

TEST(BalancedRuns, AreAsGoodAsTheBestOfAllCuts) {
  std::mt19937 random(3);
  for (int draw = 0; draw < 500; ++draw) {
    const int count = std::uniform_int_distribution<int>(1, 10)(random);
    std::vector<double> costs;
    for (int i = 0; i < count; ++i) {
      costs.push_back(std::uniform_int_distribution<int>(0, 9)(random));
    }
    for (int runs = 1; runs <= count; ++runs) {
      const std::vector<int> begins = BalancedRuns(costs, runs);
      ASSERT_EQ(begins.size(), static_cast<size_t>(runs) + 1);
      EXPECT_EQ(begins.front(), 0);
      EXPECT_EQ(begins.back(), count);
      EXPECT_TRUE(std::is_sorted(begins.begin(), begins.end(), std::less_equal<>()));
      EXPECT_EQ(DearestRun(costs, begins), LeastDearest(costs, runs)) << "draw " << draw;
    }
  }
}

TEST(BalancedRuns, ADearBlockStandsAlone) {
  EXPECT_THAT(BalancedRuns(std::vector<double>{1, 1, 9, 1, 1, 1}, 3), ElementsAre(0, 2, 3, 6));
}

planner::Graph Network(const char* name) { return test::Must(planner::LoadNetwork(name)); }

ResidualChain ChainOf(const char* name) {
  return test::Must(MakeResidualChain(Network(name), BatchNorms::kFrozen));
}

TEST(LayerKernels, CountWhatAStepOfKirbysReads) {
  const NetworkLayers layers = LayersOfNetwork(ChainOf("kirby-3m"), 1, 4);
  ASSERT_EQ(layers.kinds.size(), 3u);  // opening, steps, closing
  const LayerKind& step = layers.kinds[1];
  EXPECT_EQ(step.name, "7x7 convolution");
  EXPECT_EQ(step.parameters, 4 * 4 * 49 + 4);
  const double state = 4 * 24 * 24;
  const double weights = 4 * 4 * 49 + 4;
  EXPECT_THAT(step.kernels(LayerPass::kForward),
              ElementsAre(LayerKernel{2 * state * 4 * 49, 4 * state, 4 * (state + weights), state},
                          LayerKernel{state, 0, 4 * 2 * state, state},
                          LayerKernel{2 * state, 4 * 2 * state, 4 * state, state}));
  EXPECT_EQ(step.kernels(LayerPass::kAdjoint).size(), 3u);
  EXPECT_EQ(step.kernels(LayerPass::kGradient).size(), 1u);
  EXPECT_EQ(step.kept, 2 * state);
  int64_t parameters = 0;
  for (const LayerSection& section : layers.sections) {
    for (const int kind : section.kinds) {
      parameters += layers.kinds[static_cast<size_t>(kind)].parameters;
    }
  }
  EXPECT_EQ(parameters, 3'248'534);
  // The opening layer computes no gradient of the image, so its adjoint has one kernel.
  EXPECT_EQ(layers.kinds[0].kernels(LayerPass::kAdjoint).size(), 1u);
}

TEST(LayerKernels, ABatchMultipliesAllButTheWeights) {
  const ResidualChain chain = ChainOf("kirby-3m");
  const LayerKind one = LayersOfNetwork(chain, 1, 4).kinds[1];
  const LayerKind eight = LayersOfNetwork(chain, 8, 4).kinds[1];
  const double weights = 4 * (4 * 4 * 49 + 4);
  const LayerKernel& of_one = one.kernels(LayerPass::kForward)[0];
  const LayerKernel& of_eight = eight.kernels(LayerPass::kForward)[0];
  EXPECT_EQ(of_eight.operations, 8 * of_one.operations);
  EXPECT_EQ(of_eight.threads, 8 * of_one.threads);
  EXPECT_EQ(of_eight.own_bytes, 8 * (of_one.own_bytes - weights) + weights);
  EXPECT_EQ(of_eight.shared_bytes, 8 * of_one.shared_bytes);
}

// With numbers of two bytes, an update reads and writes a weight and a velocity in fp32, reads a
// gradient of two bytes, and writes a weight of two bytes. So it moves as many bytes as an update
// with numbers of four bytes.
TEST(LayerKernels, NumbersOfTwoBytesMoveHalfAsMuchExceptInUpdates) {
  const ResidualChain chain = ChainOf("kirby-3m");
  const LayerKind two = LayersOfNetwork(chain, 1, 2).kinds[1];
  const LayerKind four = LayersOfNetwork(chain, 1, 4).kinds[1];
  for (const LayerPass pass : {LayerPass::kForward, LayerPass::kAdjoint, LayerPass::kGradient}) {
    for (size_t i = 0; i < four.kernels(pass).size(); ++i) {
      EXPECT_EQ(2 * two.kernels(pass)[i].own_bytes, four.kernels(pass)[i].own_bytes);
      EXPECT_EQ(2 * two.kernels(pass)[i].shared_bytes, four.kernels(pass)[i].shared_bytes);
    }
  }
  EXPECT_EQ(two.kernels(LayerPass::kUpdate)[0].own_bytes, (2 + 2 + 4 * 4) * (4 * 4 * 49 + 4));
  EXPECT_EQ(four.kernels(LayerPass::kUpdate)[0].own_bytes, 5 * 4 * (4 * 4 * 49 + 4));
}

// A device with 1 Tflop/s, 1 GB/s, 1,000 threads and 1 us for each kernel, so that times are round
// numbers.
class RooflineOfOneKernel : public ::testing::Test {
 protected:
  RunCost Cost(const LayerKernel& kernel, double groups = 1, double per_group = 1) {
    planner::Device device = {"device", 1 << 30, 1, 1};
    device.kernel_us = 1;
    device.filling_threads = 1000;
    LayerKind kind;
    kind.passes[0] = {kernel};
    return RooflineTimes(device, {kind}).Cost(LayerPass::kForward, {0, groups, per_group});
  }
};

TEST_F(RooflineOfOneKernel, ThreadsThatDoNotFillTheDeviceRunAsSlowlyAsTheyAre) {
  // 1e6 operations take 1 us on the full device, and 10 us on 100 of its 1,000 threads. Each kernel
  // adds 1 us.
  const RunCost cost = Cost({.operations = 1e6, .threads = 100});
  EXPECT_DOUBLE_EQ(cost.ms, 0.011);
  EXPECT_DOUBLE_EQ(cost.work_ms, 0.001);
  EXPECT_EQ(cost.launches, 1);
}

TEST_F(RooflineOfOneKernel, GroupsFillTheDeviceFirst) {
  const LayerKernel kernel = {.operations = 1e6, .threads = 100};
  EXPECT_DOUBLE_EQ(Cost(kernel, 10).ms, 0.011);
  EXPECT_DOUBLE_EQ(Cost(kernel, 30).ms, 0.031);
  EXPECT_EQ(Cost(kernel, 30).launches, 1);
}

TEST_F(RooflineOfOneKernel, TheLongerOfArithmeticAndMemoryCounts) {
  EXPECT_DOUBLE_EQ(Cost({.operations = 1e6, .own_bytes = 5e3, .threads = 1000}).ms, 0.006);
  EXPECT_DOUBLE_EQ(Cost({.operations = 9e6, .own_bytes = 5e3, .threads = 1000}).ms, 0.010);
}

TEST_F(RooflineOfOneKernel, LayersOfOneInputReadItOnce) {
  const LayerKernel kernel = {.shared_bytes = 1e3, .own_bytes = 2e3, .threads = 1000};
  EXPECT_DOUBLE_EQ(Cost(kernel, 4, 1).ms, 0.001 + 0.012);
  EXPECT_DOUBLE_EQ(Cost(kernel, 1, 4).ms, 0.001 + 0.009);
  EXPECT_DOUBLE_EQ(Cost(kernel, 2, 2).ms, 0.001 + 0.010);
}

TEST(MeasuredTimes, LayersOfACoreRunOneAfterTheOther) {
  const MeasuredTimes times({{{1, 2, 3, 4}, 0.5}});
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kAdjoint, {0, 3, 2}).ms, 12);
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kAdjoint, {0, 3, 2}).Share(), 1);
  // A layer takes 1 ms in the forward pass, but 0.5 ms if it shares its input with others
  // (Kind::shared_ms).
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kForward, {0, 3, 2}).ms, 3);
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kForward, {0, 3, 1}).ms, 3);
}

// One step takes 4 ms, 16 groups of one step 11.5 ms, and one group of 8 steps 5.5 ms. `model` has
// the costs of kinds and passes that were not measured.
TEST(MeasuredBatches, GrowByWhatOneMoreAdds) {
  const MeasuredTimes model({{{1, 2, 3, 40}, 0.5}, {{7, 7, 7, 7}, 7}});
  MeasuredBatches::Kind kind = {.is_measured = true, .ms = {4, 8, 6, 0}, .together = {8, 5.5}};
  kind.side_by_side[0] = {16, 11.5};
  kind.side_by_side[1] = {16, 8};
  const MeasuredBatches times({kind, {}}, model);
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kForward, {0, 1, 1}).ms, 4);
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kForward, {0, 16, 1}).ms, 11.5);
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kForward, {0, 3, 1}).ms, 4 + 2 * 0.5);
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kForward, {0, 1, 8}).ms, 5.5);
  EXPECT_NEAR(times.Cost(LayerPass::kForward, {0, 16, 8}).ms, 11.5 * 5.5 / 4, 1e-12);
  // 16 adjoints take as long as one, 8 ms. So 64 adjoints also take 8 ms, and one adjoint needs a
  // sixteenth of the device.
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kAdjoint, {0, 64, 1}).ms, 8);
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kAdjoint, {0, 1, 1}).Share(), 1.0 / 16);
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kUpdate, {0, 2, 1}).ms, 80);
  EXPECT_DOUBLE_EQ(times.Cost(LayerPass::kForward, {1, 2, 1}).ms, 14);
}

// The cost of a batch is as many ms as it has layers.
class CountingTimes : public LayerTimes {
 public:
  RunCost Cost(LayerPass, const LayerBatch& batch) const override {
    return {batch.groups * batch.per_group, 1, batch.groups};
  }
};

TEST(LevelCosts, CoarseStepsApplyWhatTheirOperatorSays) {
  const CountingTimes times;
  const auto hierarchy = Hierarchy::Make(17, {4}, 2);
  for (const auto& [coarse, layers] :
       {std::pair(CoarseOperator::kInject, 1), {CoarseOperator::kSum, 4}}) {
    const LevelCosts costs(times, LayerPass::kForward, std::vector<int>(17, 0), *hierarchy, coarse);
    EXPECT_DOUBLE_EQ(costs.InRow(1, 0, 4).ms, 4 * layers) << NameOf(coarse);
    EXPECT_DOUBLE_EQ(costs.StepsAtOnce(1, 0, 4).ms, 4 * layers) << NameOf(coarse);
    EXPECT_DOUBLE_EQ(costs.InRow(0, 3, 9).ms, 6);
    // There are 17 layers, so the fifth block, that of the last C-point, has only one.
    EXPECT_DOUBLE_EQ(costs.AtOnce(0, 0, 5, 0).ms, 5);
    EXPECT_DOUBLE_EQ(costs.AtOnce(0, 0, 5, 1).ms, 4);
  }
}

TEST(LevelCosts, AdjointStepsBeginWithTheLastLayer) {
  // All layers are of kind 0, except the last two, which are of kind 1.
  const MeasuredTimes times({{{1, 1, 1, 1}, 0}, {{1, 10, 1, 1}, 0}});
  const auto hierarchy = Hierarchy::Make(8, {2}, 2);
  const std::vector<int> kinds = {0, 0, 0, 0, 0, 0, 1, 1};
  const LevelCosts forward(times, LayerPass::kForward, kinds, *hierarchy, CoarseOperator::kSum);
  const LevelCosts adjoint(times, LayerPass::kAdjoint, kinds, *hierarchy, CoarseOperator::kSum);
  EXPECT_DOUBLE_EQ(forward.InRow(0, 0, 2).ms, 2);
  EXPECT_DOUBLE_EQ(adjoint.InRow(0, 0, 2).ms, 20);
  EXPECT_DOUBLE_EQ(adjoint.InRow(1, 0, 1).ms, 20);
  EXPECT_DOUBLE_EQ(adjoint.InRow(1, 1, 4).ms, 6);
}

TEST(BalancedBlocks, DearLayersWeighMore) {
  // The first of 32 layers takes as long as all others together.
  const MeasuredTimes times({{{1, 1, 1, 1}, 0}, {{31, 1, 1, 1}, 0}});
  std::vector<int> kinds(32, 0);
  kinds[0] = 1;
  const auto hierarchy = Hierarchy::Make(32, {4}, 2);
  const LevelCosts costs(times, LayerPass::kForward, kinds, *hierarchy, CoarseOperator::kInject);
  EXPECT_THAT(BalancedBlocks(costs, 0, 2), ElementsAre(0, 1, 8));
}

TEST(Convergence, CyclesFollowFromTheSecondCyclesRate) {
  EXPECT_EQ(CyclesFor({1, 0.1, 100}, 1e-9), 10);
  EXPECT_EQ(CyclesFor({1, 0.1, 100}, 0.99e-9), 11);
  EXPECT_EQ(CyclesFor({10, 0.1, 100}, 1e-9), 2 + 4);
  EXPECT_EQ(CyclesFor({1, 0.1, 100}, 0.1), 2);
  EXPECT_EQ(CyclesFor({1, 0.1, 100}, 1), 1);
}

TEST(Convergence, RelaxationAloneEndsASolve) {
  EXPECT_EQ(CyclesFor({1, 0.1, 4}, 1e-9), 4);
  EXPECT_EQ(CyclesFor({1, 0.9, 2}, 1e-9), 2);
}

TEST(Convergence, WhatDoesNotFallByHalfDoesNotConverge) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(CyclesFor({1, 0.51, 100}, 1e-9), std::nullopt);
  EXPECT_EQ(CyclesFor({1, 2, 100}, 1e-9), std::nullopt);
  EXPECT_EQ(CyclesFor({1, 0.9, 100}, 0.95), std::nullopt);
  EXPECT_EQ(CyclesFor({1, nan, 100}, 1), std::nullopt);
  EXPECT_EQ(CyclesFor({nan, nan, 100}, 1), std::nullopt);
}

TEST(Convergence, ASolveThatEndedEarlierHasNoSecondResidual) {
  Solution solution;
  solution.residuals = {1, 0.25};
  EXPECT_EQ(EstimateOf(solution, 9).first, 0.25);
  EXPECT_EQ(EstimateOf(solution, 9).second, 0.25);
  solution.residuals = {1, 0.25, 0.125, 0.01};
  EXPECT_EQ(EstimateOf(solution, 9).second, 0.125);
  solution.residuals = {};
  EXPECT_TRUE(std::isnan(EstimateOf(solution, 9).first));
}

TEST(ReducedNetwork, IsTheStageItselfWhereThatIsSmallEnough) {
  const ResidualChain chain = PlainChain({.steps = 16});
  const auto reduced = test::Must(MakeReducedNetwork(chain, *chain.LongestStage(), true, 1e12));
  EXPECT_EQ(reduced.differences, "");
  EXPECT_EQ(reduced.chain.StepCount(), 16);
  EXPECT_EQ(reduced.h_factor, 1);
  EXPECT_EQ(reduced.state_factor, 1);
}

TEST(ReducedNetwork, Kirbys2bNeedsNoLargeWeights) {
  const ResidualChain chain = ChainOf("kirby-2b");
  const auto reduced = test::Must(MakeReducedNetwork(chain, *chain.LongestStage(), true, 1.7e8));
  EXPECT_EQ(reduced.differences, "maps of 4x4, 5 of 20 channels");
  EXPECT_EQ(reduced.chain.StepCount(), 4112);
  EXPECT_EQ(reduced.state_factor, 20 * 24 * 24 / (5.0 * 4 * 4));
  EXPECT_EQ(test::Must(planner::ParameterCount(reduced.chain.graph)),
            4097 * (5 * 5 * 49 + 5) + 15 * (80 * 80 + 80));
}

TEST(ReducedNetwork, WeightsThatAreGivenStayAsTheyAre) {
  const ResidualChain chain = PlainChain({.steps = 1024, .channels = 8, .extent = 16});
  const auto reduced = test::Must(MakeReducedNetwork(chain, *chain.LongestStage(), false, 1));
  EXPECT_EQ(reduced.differences, "maps of 4x4, one of 8 layers");
  EXPECT_EQ(reduced.chain.StepCount(), 128);
  EXPECT_THAT(std::vector<int>(reduced.layers.begin(), reduced.layers.begin() + 3),
              ElementsAre(0, 8, 16));
  // Along one axis, the 16 windows of 3 taps have 46 of 48 taps inside the map, and the 4 windows
  // of the reduced map have 10 of 12. Each axis multiplies h_factor by the square root of the ratio
  // of these shares, so both axes together multiply it by the ratio.
  EXPECT_NEAR(reduced.h_factor, 8 * (46.0 / 48) / (10.0 / 12), 1e-12);
}

TEST(ReducedNetwork, FullyConnectedStepsWithGivenWeightsKeepTheirMaps) {
  const ResidualChain chain = ChainOf("kirby-2b");
  const auto reduced = test::Must(MakeReducedNetwork(chain, *chain.LongestStage(), false, 1));
  EXPECT_EQ(reduced.state_factor, 1);
  EXPECT_EQ(reduced.differences, "one of 32 layers");
}

}  // namespace
}  // namespace ucudnn::multigrid
