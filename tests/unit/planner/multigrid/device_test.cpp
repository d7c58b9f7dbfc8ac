// Compares chains, their adjoints and gradients on the stand-in's device with the reference on the
// host. The host's numbers are rounded to single precision first, so every difference arises on the
// device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

#include "planner/graph/networks/families.h"
#include "planner/multigrid/device/device_chain.h"
#include "planner/multigrid/device/device_costs.h"
#include "planner/multigrid/host/host_solvers.h"
#include "planner/multigrid/host/network.h"
#include "planner/multigrid/problem.h"
#include "support/device.h"
#include "support/stand_in.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/dense_chain.h"
#include "unit/planner/multigrid/device_stage.h"
#include "unit/planner/multigrid/drawn_net.h"
#include "unit/planner/multigrid/plain_chain.h"
#include "unit/planner/multigrid/rank_passes.h"

namespace ucudnn::multigrid {
namespace {

class DeviceChains : public test::DeviceTest {
 protected:
  const cudnn::Functions functions = test::StandIn();
  const DeviceTarget target = {cuda::GetDriver(), &functions, context};
};

// Holds the results of a forward and a backward solve.
struct BothWays {
  std::vector<double> last;   // u_N
  std::vector<double> first;  // lambda_0
  std::vector<double> gradient;
  std::vector<double> residuals;  // of the forward solve, then of the backward solve

  bool operator==(const BothWays&) const = default;
};

// Appends the residuals that `solved` has measured, which are not NaN.
void AppendResiduals(const Result<Solution>& solved, std::vector<double>& residuals) {
  ASSERT_TRUE(solved.ok()) << solved.message();
  std::copy_if(solved->residuals.begin(), solved->residuals.end(), std::back_inserter(residuals),
               [](double residual) { return !std::isnan(residual); });
}

// Solves forward and backward, with the weights that the solver already has.
BothWays SolveBothWays(StageSolver& solver, const WeightedChain& chain,
                       const std::vector<double>& last_adjoint, const SolveOptions& options) {
  BothWays found;
  found.first.resize(chain.first.size());
  found.last.resize(chain.first.size());
  AppendResiduals(solver.SolveForward(chain.first.data(), options, found.last.data()),
                  found.residuals);
  Parameters gradient = ZerosLike(chain.parameters);
  AppendResiduals(solver.SolveBackward(last_adjoint.data(), options, found.first.data()),
                  found.residuals);
  EXPECT_TRUE(solver.AddGradients(gradient, nullptr).ok());
  found.gradient = Flat(gradient);
  return found;
}

BothWays OnTheHost(const WeightedChain& chain, const SolveSetting& setting,
                   const std::vector<double>& last_adjoint, const SolveOptions& options) {
  AloneStage stage(chain, setting);
  const auto solvers = test::Must(HostSolvers::Make(1));
  const std::unique_ptr<StageSolver> solver = test::Must(solvers->Make(stage.ToSolve()));
  EXPECT_TRUE(solver->LoadWeights().ok());
  return SolveBothWays(*solver, chain, last_adjoint, options);
}

struct SolvedDevice : DeviceStage {
  using DeviceStage::DeviceStage;
  BothWays Solve(const WeightedChain& chain, const std::vector<double>& last_adjoint,
                 const SolveOptions& options) {
    EXPECT_TRUE(solver->LoadWeights().ok());
    return SolveBothWays(*solver, chain, last_adjoint, options);
  }
};

// Replaces kRanks, a function of cuDNN that ranks algorithms. Leaves only algorithm 0, implicit
// GEMM, in the ranking.
template <auto kRanks, typename Handle, typename A, typename B, typename C, typename D,
          typename Performance>
cudnnStatus_t OneEngine(Handle handle, A a, B b, C c, D d, int, int* found,
                        Performance* performances) {
  constexpr int kMost = 16;
  Performance all[kMost];
  int count = 0;
  const cudnnStatus_t status = kRanks(handle, a, b, c, d, kMost, &count, all);
  *found = 0;
  for (int i = 0; i < count; ++i) {
    if (static_cast<int>(all[i].algo) == 0) performances[(*found)++] = all[i];
  }
  return status;
}

// A tolerance for about 40 steps. Each sums 9 * 4 products and rounds its state by up to 2^-24.
// Rounding may also change relu's slope near the point where the slope jumps.
constexpr double kRounding = 1e-5;

void ExpectNear(const BothWays& found, const BothWays& expected, double tolerance) {
  EXPECT_LT(RelativeError(found.last, expected.last), tolerance);
  EXPECT_LT(RelativeError(found.first, expected.first), tolerance);
  EXPECT_LT(RelativeError(found.gradient, expected.gradient), tolerance);
  const size_t residuals = expected.residuals.size();
  ASSERT_EQ(found.residuals.size(), residuals);
  for (size_t i = 0; i < residuals; ++i) {
    const std::vector<double>& state = i < residuals / 2 ? expected.last : expected.first;
    EXPECT_NEAR(found.residuals[i], expected.residuals[i],
                tolerance * std::sqrt(Dot(state, state)));
  }
}

// Expects that forward and backward solves on the device give the host's results, with each Way and
// without recording. RecordedCyclesChangeNoBit tests recorded cycles.
void ExpectTheHosts(const DeviceTarget& target, const WeightedChain& chain,
                    const SolveSetting& setting, const std::vector<double>& last, int cycles) {
  SolveOptions options = {.start = setting.levels == 0 ? Start::kNested : Start::kBroadcast,
                          .cycles = cycles,
                          .measures_start = true};
  const BothWays expected = OnTheHost(chain, setting, last, options);
  for (const Way way : kWays) {
    SCOPED_TRACE(std::string(NameOf(setting.coarse)) + ", " + std::to_string(setting.levels) +
                 " levels, " + NameOf(way));
    SolvedDevice device(target, chain, setting, {way});
    ExpectNear(device.Solve(chain, last, options), expected, kRounding);
  }
}

// Returns shapes of nets: one for each kind of step that does not pool, and some that mix kinds.
std::vector<NetShape> NetsOfAllKinds(planner::ActivationKind activation) {
  constexpr StepKind kInPlane[] = {StepKind::kConvolution, StepKind::kTwoConvolutions,
                                   StepKind::kGroups, StepKind::kPreActivation};
  constexpr StepKind kFlat[] = {StepKind::kConvolution, StepKind::kFullyConnected,
                                StepKind::kBottleneck, StepKind::kPreActivation};
  std::vector<NetShape> nets;
  const auto add = [&](const std::vector<StepKind>& kinds, int extent) {
    nets.push_back({.channels = 4, .extent = extent, .activation = activation, .batch = 2});
    for (int step = 0; step < 16; ++step) {
      nets.back().kinds.push_back(kinds[step * kinds.size() / 16]);
    }
  };
  for (const StepKind kind : kInPlane) add({kind}, 4);
  add({StepKind::kFullyConnected}, 1);
  add({std::begin(kInPlane), std::end(kInPlane)}, 4);
  add({std::begin(kFlat), std::end(kFlat)}, 1);
  std::vector<StepKind> alternating;
  for (int step = 0; step < 16; ++step) alternating.push_back(kFlat[step % 3]);
  add(alternating, 1);
  return nets;
}

TEST_F(DeviceChains, StepsOfEveryKindAreTheHosts) {
  std::mt19937_64 random(22);
  for (const auto activation : {planner::ActivationKind::kRelu, planner::ActivationKind::kTanh}) {
    for (const NetShape& net : NetsOfAllKinds(activation)) {
      SCOPED_TRACE(TextOf(net));
      const WeightedChain chain = DrawnNet(net, random, 1);
      const std::vector<double> last = DrawnNumbers(chain.first.size(), 1, random);
      for (const CoarseOperator coarse : {CoarseOperator::kInject, CoarseOperator::kSum}) {
        ExpectTheHosts(target, chain,
                       {.coarsening = {4, 2}, .levels = 2, .coarse = coarse, .h = 1.0 / 16}, last,
                       2);
      }
    }
  }
}

// The steps begin with frozen norms that have no trained scale and shift. Host and device must both
// return zeros as the gradient of these norms.
TEST_F(DeviceChains, NormsWithoutScaleAndShiftAreTheHosts) {
  std::mt19937_64 random(24);
  const std::vector<planner::Operator> step = {
      planner::BatchNormalization{false}, planner::Activation{planner::ActivationKind::kTanh},
      planner::Convolution{.filters = 4, .window = {1, 3, 3}, .pad = {0, 1, 1}}};
  const WeightedChain chain =
      ChainOf(std::vector(16, step), {.channels = 4, .extent = 4, .batch = 2}, random, 1);
  const std::vector<double> last = DrawnNumbers(chain.first.size(), 1, random);
  for (const CoarseOperator coarse : {CoarseOperator::kInject, CoarseOperator::kSum}) {
    ExpectTheHosts(target, chain,
                   {.coarsening = {4, 2}, .levels = 2, .coarse = coarse, .h = 1.0 / 16}, last, 2);
  }
}

TEST_F(DeviceChains, AllDepthsAreTheHosts) {
  std::mt19937_64 random(21);
  const struct {
    int steps, coarsening, batch;
    planner::ActivationKind activation = planner::ActivationKind::kTanh;
    int levels = 2;
  } rows[] = {{40, 4, 2, planner::ActivationKind::kRelu, 3},
              {17, 3, 2},
              {22, 3, 2},
              {16, 4, 1},
              {37, 4, 3},
              {64, 4, 3},
              {100, 4, 1}};
  for (const auto& row : rows) {
    const WeightedChain chain =
        DrawnChain({.steps = row.steps, .extent = 5, .activation = row.activation}, random, 1,
                   std::nullopt, row.batch);
    const std::vector<double> last = DrawnNumbers(chain.first.size(), 1, random);
    for (const CoarseOperator coarse : {CoarseOperator::kInject, CoarseOperator::kSum}) {
      for (const int levels : {1, row.levels, 0}) {
        SCOPED_TRACE(std::to_string(row.steps) + " steps");
        ExpectTheHosts(target, chain,
                       {.coarsening = {row.coarsening},
                        .levels = levels,
                        .coarse = coarse,
                        .h = 1.0 / row.steps},
                       last, 3);
      }
    }
  }
}

TEST_F(DeviceChains, RecordedCyclesChangeNoBit) {
  const auto [chain, last] = DrawCase(24, {.steps = 20, .extent = 4}, 2);
  for (const auto& [coarse, storage] : {std::pair(CoarseOperator::kInject, Storage::kCPoints),
                                        std::pair(CoarseOperator::kSum, Storage::kAll)}) {
    const SolveSetting setting = {
        .coarsening = {3}, .levels = 0, .coarse = coarse, .h = 1.0 / 20, .storage = storage};
    for (const Way way : kWays) {
      if (way == Way::kGrouped && storage == Storage::kCPoints) continue;
      SolvedDevice one(target, chain, setting, {way, Launch::kEach});
      SolvedDevice other(target, chain, setting, {way, Launch::kGraph});
      // The first solve records cycles, and the others replay them. The first solve also
      // allocates the adjoint's memory, which the others then have from the start.
      for (int solve = 0; solve < 3; ++solve) {
        SCOPED_TRACE(std::string(NameOf(way)) + ", solve " + std::to_string(solve));
        EXPECT_TRUE(other.Solve(chain, last, {.cycles = 4}) ==
                    one.Solve(chain, last, {.cycles = 4}));
      }
    }
  }
}

TEST_F(DeviceChains, LanesAndStorageChangeNoBit) {
  const auto [chain, last] = DrawCase(25, {.steps = 37, .extent = 4});
  std::optional<BothWays> first;
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    for (const int lanes : {1, 2, 5}) {
      SCOPED_TRACE(std::to_string(lanes) + " lanes");
      SolvedDevice device(target, chain,
                          {.coarsening = {4}, .levels = 0, .h = 1.0 / 37, .storage = storage},
                          {Way::kStreams}, lanes);
      const BothWays found = device.Solve(chain, last, {.cycles = 2});
      if (!first) first = found;
      EXPECT_TRUE(found == *first);
    }
  }
}

// If cuDNN offers only one engine, groups that are computed in one call have the same bits as
// groups that are computed alone.
TEST_F(DeviceChains, SideBySideIsBlockByBlockBitForBitWithOneEngine) {
  cudnn::Functions one_engine = functions;
  one_engine.cudnnGetConvolutionForwardAlgorithm_v7 =
      OneEngine<&::cudnnGetConvolutionForwardAlgorithm_v7>;
  one_engine.cudnnGetConvolutionBackwardDataAlgorithm_v7 =
      OneEngine<&::cudnnGetConvolutionBackwardDataAlgorithm_v7>;
  one_engine.cudnnGetConvolutionBackwardFilterAlgorithm_v7 =
      OneEngine<&::cudnnGetConvolutionBackwardFilterAlgorithm_v7>;
  const DeviceTarget on_one = {cuda::GetDriver(), &one_engine, context};
  const auto [chain, last] = DrawCase(26, {.steps = 32, .extent = 4}, 2);
  for (const CoarseOperator coarse : {CoarseOperator::kInject, CoarseOperator::kSum}) {
    SCOPED_TRACE(NameOf(coarse));
    const SolveSetting setting = {
        .coarsening = {4, 2}, .levels = 3, .coarse = coarse, .h = 1.0 / 32};
    SolvedDevice streams(on_one, chain, setting, {Way::kStreams});
    SolvedDevice grouped(on_one, chain, setting, {Way::kGrouped});
    EXPECT_TRUE(grouped.Solve(chain, last, {.cycles = 2}) ==
                streams.Solve(chain, last, {.cycles = 2}));
  }
}

TEST_F(DeviceChains, EveryPrecisionSolvesAsWellAsItRounds) {
  const auto [chain, last] =
      DrawCase(28, {.steps = 32, .extent = 4, .activation = planner::ActivationKind::kTanh});
  const SolveSetting setting = {.coarsening = {4}, .levels = 0, .h = 1.0 / 32};
  const BothWays expected = OnTheHost(chain, setting, last, {.cycles = 2});
  for (const char* name : {"fp32", "tf32", "fp16", "bf16"}) {
    DeviceTarget narrow = target;
    narrow.precision = *ParsePrecision(name);
    // Each of 32 steps rounds F(u) and the new state.
    const double rounding = 2 * 32 * narrow.precision->unit_roundoff;
    for (const Way way : kWays) {
      SCOPED_TRACE(std::string(name) + ", " + NameOf(way));
      SolvedDevice device(narrow, chain, setting, {way});
      ExpectNear(device.Solve(chain, last, {.cycles = 2}), expected, rounding);
    }
  }
}

// Half precision represents no number as small as 2^-40, so the adjoint must be scaled.
TEST_F(DeviceChains, SmallAdjointsLoseNothingInHalfPrecision) {
  auto [chain, last] = DrawCase(29, {.steps = 16, .extent = 4});
  const SolveSetting setting = {.coarsening = {4}, .levels = 0, .h = 1.0 / 16};
  DeviceTarget half = target;
  half.precision = *ParsePrecision("fp16");
  SolvedDevice device(half, chain, setting, {Way::kGrouped});
  BothWays expected = device.Solve(chain, last, {.cycles = 2});
  for (double& number : last) number *= 0x1p-40;
  const BothWays found = device.Solve(chain, last, {.cycles = 2});
  for (auto* numbers : {&expected.first, &expected.gradient}) {
    for (double& number : *numbers) number *= 0x1p-40;
  }
  EXPECT_EQ(found.first, expected.first);
  EXPECT_EQ(found.gradient, expected.gradient);
  // The residuals are two of the forward solve and two of the adjoint.
  ASSERT_EQ(found.residuals.size(), 4);
  EXPECT_EQ(found.residuals[3], expected.residuals[3] * 0x1p-40);
}

TEST_F(DeviceChains, ANetworksGradientIsTheHosts) {
  const planner::Graph graph = *planner::Kirby("kirby-3m", {4, 16, 0, true});
  const Problem problem = *DrawnProblem(graph, BatchNorms::kRefused, 3);
  const WeightedChain net = {problem.chain, problem.parameters, problem.input};
  NetworkSettings settings;
  settings.time = 1;
  DeviceSolvers solvers(target, {.way = Way::kGrouped, .lanes = 1, .workspace_limit = 1 << 20});
  const PassResults host = test::Must(RunOn(1, net, settings));
  const PassResults device =
      test::Must(RunOn(1, net, settings, nullptr, [&](int) { return &solvers; }));
  EXPECT_LT(RelativeError(device.output, host.output), kRounding);
  EXPECT_LT(RelativeError(device.gradient, host.gradient), kRounding);
  // Each of four solves runs all cycles. It reports a residual before each cycle and after the last
  // one, and the norm of its largest state.
  EXPECT_EQ(device.residuals.size(), 4u * (settings.backward.cycles + 2));
  EXPECT_EQ(device.outcomes, host.outcomes);
}

// The second solve begins with the states of the first solve, except for u0, which is new.
TEST_F(DeviceChains, StartsFromThePreviousStatesAsTheHostDoes) {
  std::mt19937_64 random(33);
  const WeightedChain chain = DrawnChain({.steps = 43, .extent = 4}, random, 1, std::nullopt, 2);
  const std::vector<double> change = DrawnNumbers(chain.first.size(), 0.1, random);
  const std::vector<double> last = DrawnNumbers(chain.first.size(), 1, random);
  WeightedChain changed = chain;
  std::vector<double> changed_last = last;
  for (size_t i = 0; i < last.size(); ++i) {
    changed.first[i] += change[i];
    changed_last[i] += change[i];
  }
  const SolveSetting setting = {.coarsening = {4}, .levels = 3, .h = 1.0 / 43};
  const auto solve = [&](StageSolver& solver) {
    EXPECT_TRUE(solver.LoadWeights().ok());
    const BothWays broadcast = SolveBothWays(solver, chain, last, {.cycles = 1});
    const BothWays previous =
        SolveBothWays(solver, changed, changed_last, {.start = Start::kPrevious, .cycles = 1});
    return std::pair(broadcast, previous);
  };
  AloneStage stage(chain, setting);
  const auto host_solvers = test::Must(HostSolvers::Make(1));
  const auto expected = solve(*test::Must(host_solvers->Make(stage.ToSolve())));
  for (const WayAndLaunch& run : kWaysAndLaunches) {
    SCOPED_TRACE(run.Name());
    const auto found = solve(*DeviceStage(target, chain, setting, run).solver);
    ExpectNear(found.first, expected.first, kRounding);
    ExpectNear(found.second, expected.second, kRounding);
  }
}

// The host descends along the gradients that the device has computed. So the weights of host and
// device may differ only by rounding in the descent, which the device computes in single precision
// for weights of any precision.
TEST_F(DeviceChains, DescendsInSinglePrecisionAsTheHostWould) {
  const auto [chain, by_last] = DrawCase(34, {.steps = 43, .extent = 4}, 2);
  const SolveSetting setting = {.coarsening = {4}, .levels = 3, .h = 1.0 / 43};
  const Descent descent = {.rate = 0.125, .momentum = 0.75};
  for (const char* precision : {"fp32", "fp16", "bf16"}) {
    for (const WayAndLaunch& run : kWaysAndLaunches) {
      SCOPED_TRACE(std::string(precision) + ", " + run.Name());
      DeviceTarget of_precision = target;
      of_precision.precision = *ParsePrecision(precision);
      const DeviceStage device(of_precision, chain, setting, run);
      StageSolver* const solver = device.solver.get();
      ASSERT_TRUE(solver->LoadWeights().ok());
      ASSERT_TRUE(solver->keeps_weights());
      std::vector<double> weights = Flat(chain.parameters), velocity(weights.size());
      for (int step = 0; step < 3; ++step) {
        const std::vector<double> flat =
            SolveBothWays(*solver, chain, by_last, {.cycles = 2}).gradient;
        EXPECT_GT(LargestMagnitude(flat), 0);
        for (size_t i = 0; i < flat.size(); ++i) {
          velocity[i] = descent.momentum * velocity[i] + flat[i];
          weights[i] -= descent.rate * velocity[i];
        }
        ASSERT_TRUE(solver->Descend(descent).ok());
        Parameters found = ZerosLike(chain.parameters);
        ASSERT_TRUE(solver->ReadWeights(found).ok());
        EXPECT_LT(RelativeError(Flat(found), weights), 1e-6);
      }
      EXPECT_GT(RelativeError(weights, Flat(chain.parameters)), 1e-3);
    }
  }
}

size_t uploaded_bytes = 0;
size_t downloaded_bytes = 0;
decltype(&cuMemcpyHtoDAsync) real_upload = nullptr;
decltype(&cuMemcpyDtoHAsync) real_download = nullptr;
CUresult CountedUpload(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  uploaded_bytes += bytes;
  return real_upload(to, from, bytes, stream);
}
CUresult CountedDownload(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  downloaded_bytes += bytes;
  return real_download(to, from, bytes, stream);
}

// A solve that measures no residual uploads only the first state. It downloads the last state and,
// at its start and its end, the states for the norm of the largest state. A training step moves no
// other data.
TEST_F(DeviceChains, SolvesMoveNoWeights) {
  const WeightedChain chain = DrawCase(35, {.steps = 16, .extent = 4}).chain;
  cuda::Driver driver = *target.driver;
  real_upload = driver.cuMemcpyHtoDAsync;
  real_download = driver.cuMemcpyDtoHAsync;
  driver.cuMemcpyHtoDAsync = CountedUpload;
  driver.cuMemcpyDtoHAsync = CountedDownload;
  const DeviceTarget counted = {&driver, &functions, context};
  const SolveOptions options = {.cycles = 1, .measures_cycles = false};
  const size_t state_bytes = chain.first.size() * sizeof(float);
  constexpr int kPoints = 16 / 4 + 1;  // ends of blocks, whose norms give the largest state
  const size_t returned_bytes = (1 + 2 * kPoints) * state_bytes;
  std::vector<double> last(chain.first.size());
  for (const WayAndLaunch& run : kWaysAndLaunches) {
    SCOPED_TRACE(run.Name());
    const DeviceStage device(counted, chain, {.coarsening = {4}, .levels = 2, .h = 1.0 / 16}, run);
    StageSolver* const solver = device.solver.get();
    ASSERT_TRUE(solver->LoadWeights().ok());
    for (int step = 0; step < 3; ++step) {
      uploaded_bytes = downloaded_bytes = 0;
      ASSERT_TRUE(solver->SolveForward(chain.first.data(), options, last.data()).ok());
      EXPECT_EQ(uploaded_bytes, state_bytes);
      EXPECT_EQ(downloaded_bytes, returned_bytes);
      ASSERT_TRUE(solver->SolveBackward(chain.first.data(), options, last.data()).ok());
      ASSERT_TRUE(solver->Descend({.rate = 0.5}).ok());
      EXPECT_EQ(uploaded_bytes, 2 * state_bytes);
      EXPECT_EQ(downloaded_bytes, 2 * returned_bytes);
    }
  }
}

TEST_F(DeviceChains, TheCoarseOperatorFollowsFromWhatIsMeasured) {
  const WeightedChain chain = DrawCase(35, {.steps = 16, .extent = 4}).chain;
  const double cost = test::Must(MeasureSumCost(target, chain.chain, chain.stage(), 1, 4, 1 << 20));
  EXPECT_GT(cost, 0);
  EXPECT_EQ(FittingOperator(1), CoarseOperator::kSum);
  EXPECT_EQ(FittingOperator(2), CoarseOperator::kSum);
  EXPECT_EQ(FittingOperator(2.1), CoarseOperator::kInject);
  EXPECT_EQ(FittingOperator(4), CoarseOperator::kInject);
  const DeviceSolvers solvers(target, {.way = Way::kStreams});
  // If blocks have more than half of the layers of the stage, MeasureOperator measures nothing and
  // returns kInject.
  EXPECT_EQ(solvers.MeasureOperator(chain.chain, chain.stage(), 1, 9), CoarseOperator::kInject);
  const CoarseOperator measured = solvers.MeasureOperator(chain.chain, chain.stage(), 1, 4);
  EXPECT_TRUE(measured == CoarseOperator::kInject || measured == CoarseOperator::kSum);
}

TEST_F(DeviceChains, WeightsThatChangeAreThoseOfTheNextSolve) {
  auto [chain, last] = DrawCase(30, {.steps = 16, .extent = 4});
  const SolveSetting setting = {
      .coarsening = {4}, .levels = 2, .coarse = CoarseOperator::kSum, .h = 1.0 / 16};
  for (const WayAndLaunch& run : kWaysAndLaunches) {
    SCOPED_TRACE(run.Name());
    SolvedDevice device(target, chain, setting, run);
    for (int change = 0; change < 4; ++change) {
      for (int step = 0; step < 16; ++step) {
        for (double& weight : chain.step(step).weights) weight *= -0.7;
      }
      const BothWays expected = OnTheHost(chain, setting, last, {.cycles = 3});
      ExpectNear(device.Solve(chain, last, {.cycles = 3}), expected, kRounding);
    }
  }
}

TEST_F(DeviceChains, WhatDevicesDoNotRunIsRefusedByName) {
  std::mt19937_64 random(31);
  const WeightedChain pooled =
      DrawnNet({.kinds = std::vector<StepKind>(8, StepKind::kPooled), .channels = 2, .extent = 3},
               random, 1);
  const auto refused = DeviceChain::Make(target, AloneStage(pooled, {}).ToSolve(), 1 << 20,
                                         std::move(*DeviceLanes::Make(target, 1)));
  EXPECT_NE(refused.message().find("is in a step that devices do not run: "), std::string::npos)
      << refused.message();
}

TEST_F(DeviceChains, CPointsAloneAreOfLanes) {
  const WeightedChain chain = DrawCase(36, {.steps = 16, .extent = 4}).chain;
  AloneStage stage(chain, {.coarsening = {4}, .h = 1.0 / 16, .storage = Storage::kCPoints});
  const auto refused = DeviceSolvers(target, {.way = Way::kGrouped}).Make(stage.ToSolve());
  EXPECT_EQ(refused.message(),
            "--storage c-points: --way grouped keeps all states, side by side; streams is "
            "expected");
  // Without a named way, the solver takes kStreams, the only way with which only C-points are kept.
  DeviceSolvers solvers(target, {.lanes = 2});
  ASSERT_TRUE(solvers.Make(stage.ToSolve()).ok());
  EXPECT_EQ(solvers.chosen().measured.size(), 1U);
  EXPECT_EQ(solvers.chosen().way, Way::kStreams);
}

// If the setting names no way, the ways that fit the stage are measured. If it names no launch, the
// launch is kGraph unless cycles cannot be recorded.
TEST_F(DeviceChains, WayAndLaunchFitTheStage) {
  const WeightedChain chain = DrawCase(37, {.steps = 16, .extent = 4}).chain;
  AloneStage alone(chain, {.coarsening = {4}, .h = 1.0 / 16});
  StageToSolve stage = alone.ToSolve();
  DeviceSolvers solvers(target, {.lanes = 2});
  ASSERT_TRUE(solvers.Make(stage).ok());
  EXPECT_EQ(solvers.chosen().measured.size(), std::size(kWays));
  EXPECT_EQ(solvers.chosen().launch, Launch::kGraph);
  stage.notes_timeline = true;
  ASSERT_TRUE(solvers.Make(stage).ok());
  EXPECT_EQ(solvers.chosen().way, Way::kStreams);
  EXPECT_EQ(solvers.chosen().launch, Launch::kEach);
  EXPECT_EQ(DeviceSolvers(target, {.way = Way::kGrouped}).Make(stage).message(),
            "--timeline: shows streams; expected --way streams, and not grouped");
  EXPECT_EQ(DeviceSolvers(target, {.launch = Launch::kGraph}).Make(stage).message(),
            "--timeline: marks each call; expected --launch each, and not graph");
}

TEST_F(DeviceChains, ATolerancePastSinglePrecisionIsRefused) {
  auto [chain, last] = DrawCase(10, {.steps = 64});
  DeviceStage device(target, chain, {.coarsening = {4}, .levels = 0, .h = 1.0 / 64}, {});
  const Result<Solution> solved = device.solver->SolveForward(
      chain.first.data(), {.tolerance = 1e-9, .cycles = 30}, last.data());
  EXPECT_EQ(solved.message().rfind("tolerance 1e-09 is below what states of this precision can "
                                   "reach, about ",
                                   0),
            0);
}

}  // namespace
}  // namespace ucudnn::multigrid
