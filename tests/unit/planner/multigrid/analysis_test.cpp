// Tests the choice of the fastest setting, estimates of convergence, and measured times of single
// layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "planner/graph/network_file.h"
#include "planner/machine/presets.h"
#include "planner/multigrid/analysis/analysis.h"
#include "planner/multigrid/host/measured_layers.h"
#include "planner/multigrid/host/rate_probe.h"
#include "tests/support/must.h"
#include "tests/unit/planner/multigrid/plain_chain.h"
#include "tests/unit/planner/multigrid/unit_times.h"

namespace ucudnn::multigrid {
namespace {

using ::testing::HasSubstr;

// Returns a made-up but reproducible number of cycles for a setting; nullopt for some settings.
std::optional<int> MadeCycles(const MultigridSetting& setting) {
  const int mixed = setting.coarsening[0] + 3 * setting.levels + 5 * setting.c_sweeps[0] +
                    static_cast<int>(setting.coarse);
  return mixed % 7 == 0 ? std::nullopt : std::optional(1 + mixed % 3);
}

class Analysed : public ::testing::Test {
 protected:
  NetworkLayers layers_ = PlainLayers(300);
  planner::Machine machine_ = LatencyMachine(0.25, 16, 128);
  UnitTimes times_{1.0 / 64};
  NetworkModel model_{layers_, times_, machine_};
};

TEST_F(Analysed, TheFastestSettingIsThatOfAllCandidatesOneByOne) {
  const AnalysisChoices choices;
  const std::vector<int> devices = {1, 3, 4, 16};
  const auto analysed = Analyse(model_, choices, devices, [](const MultigridSetting& setting) {
    return Result<std::optional<int>>(MadeCycles(setting));
  });
  ASSERT_TRUE(analysed.ok()) << analysed.message();
  for (const WorkloadAnalysis& workload : *analysed) {
    for (const DevicesRow& row : workload.rows) {
      double least = std::numeric_limits<double>::infinity();
      for (const MultigridSetting& setting : CandidatesFor(layers_, choices)) {
        const auto made = MultigridModel::Make(model_, setting);
        const std::optional<int> cycles = MadeCycles(setting);
        if (!cycles || made->MostDevices() < row.devices) continue;
        for (const CoarsePlace place :
             {CoarsePlace::kDistributed, CoarsePlace::kCoarsestOnOne, CoarsePlace::kAllOnOne}) {
          MultigridSetting placed = setting;
          placed.cycles = *cycles;
          placed.place = place;
          least = std::min(least, made->Run(workload.workload, row.devices, placed)->ms);
        }
      }
      ASSERT_TRUE(row.multigrid);
      EXPECT_DOUBLE_EQ(row.multigrid->run.ms, least) << row.devices;
      EXPECT_EQ(row.multigrid->setting.cycles, MadeCycles(row.multigrid->setting));
      EXPECT_LE(row.multigrid->run.ms, row.launched_streams->ms * (1 + 1e-12));
    }
  }
}

TEST_F(Analysed, ACandidateIsAskedForItsCyclesOnceAtMost) {
  std::map<std::string, int> asked;
  const auto analysed = Analyse(model_, {}, {1, 2, 4, 8}, [&](const MultigridSetting& setting) {
    const std::string key = std::to_string(setting.coarsening[0]) + " " +
                            std::to_string(setting.levels) + " " +
                            std::to_string(setting.c_sweeps[0]) + " " + NameOf(setting.coarse);
    EXPECT_EQ(++asked[key], 1) << key;
    return Result<std::optional<int>>(std::optional(2));
  });
  ASSERT_TRUE(analysed.ok()) << analysed.message();
  EXPECT_LT(asked.size(), CandidatesFor(layers_, {}).size());
}

TEST_F(Analysed, WhereNothingConvergesSerialIsFaster) {
  const auto analysed = Analyse(model_, {}, {1, 4}, [](const MultigridSetting&) {
    return Result<std::optional<int>>(std::optional<int>());
  });
  ASSERT_TRUE(analysed.ok()) << analysed.message();
  EXPECT_EQ((*analysed)[0].Best(machine_.device), nullptr);
  EXPECT_EQ((*analysed)[0].FirstThatPays(machine_.device), nullptr);
  EXPECT_EQ((*analysed)[0].Baseline(machine_.device, 4), &(*analysed)[0].serial);
}

TEST_F(Analysed, WhatPaysIsComparedWithTheFastestSerialRunThatFits) {
  WorkloadAnalysis analysis;
  planner::Device device;
  device.memory_bytes = 100;
  const auto run = [](double ms, int64_t bytes) {
    ModelledRun made;
    made.ms = ms;
    made.memory_bytes = bytes;
    return made;
  };
  const auto row = [&](int devices, double partitioned_ms, double multigrid_ms, int64_t bytes) {
    DevicesRow made;
    made.devices = devices;
    made.partitioned = run(partitioned_ms, 90);
    made.multigrid = ChosenSetting{{}, 2, run(multigrid_ms, bytes)};
    return made;
  };
  analysis.serial = run(20, 50);
  analysis.captured = run(10, 50);
  analysis.rows = {row(1, 20, 12, 50), row(2, 21, 9, 101), row(4, 22, 8, 50), row(8, 23, 8.5, 50)};
  EXPECT_EQ(analysis.Baseline(device, 8)->ms, 10);
  EXPECT_EQ(analysis.FirstThatPays(device)->devices, 4);
  EXPECT_EQ(analysis.Best(device)->devices, 4);
  // If the network does not fit one device, the partition is the baseline.
  analysis.serial.memory_bytes = analysis.captured.memory_bytes = 200;
  EXPECT_EQ(analysis.Baseline(device, 4)->ms, 20);
  EXPECT_EQ(analysis.FirstThatPays(device)->devices, 1);
}

TEST(AnalysisCandidates, AreThoseThatTheLayersAllow) {
  // With 40 layers, coarsening by 64 or 32 leaves fewer than two coarse layers.
  const auto candidates = CandidatesFor(PlainLayers(40), {});
  std::map<int, int> counts;
  for (const MultigridSetting& setting : candidates) ++counts[setting.coarsening[0]];
  EXPECT_EQ(counts, (std::map<int, int>{{4, 8}, {8, 4}, {16, 4}}));
  EXPECT_TRUE(CandidatesFor(PlainLayers(3), {}).empty());
}

TEST(AnalysisModel, LayersAppliedAreCounted) {
  const auto hierarchy = Hierarchy::Make(64, {4}, 3);
  MultigridSetting setting;
  // A cycle applies the 64 layers of level 0 three times, the 16 of level 1 four times, and the 4
  // of level 2 twice: once for right-hand sides and once for the solve.
  EXPECT_DOUBLE_EQ(LayersApplied(setting, *hierarchy, 2), 2 * (3 * 64 + 4 * 16 + 2 * 4));
  setting.coarse = CoarseOperator::kSum;
  EXPECT_DOUBLE_EQ(LayersApplied(setting, *hierarchy, 2), 2 * (3 * 64 + 4 * 64 + 2 * 64));
}

// The stage is small, so the probe runs two cycles of the stage itself. The probe's estimate must
// predict the number of cycles of a solve.
TEST(RateProbe, OfASmallStageIsTheStageItself) {
  const WeightedChain chain = DrawCase(1, {.steps = 64}).chain;
  ProbeSettings settings = {.h = 1.0 / 64, .scale = ResidualScale::kLargestState};
  const auto probe =
      test::Must(RateProbe::Make(chain.chain, chain.stage(), &chain.parameters, settings));
  EXPECT_EQ(probe->differences(), "");
  MultigridSetting setting = {.coarsening = {4}, .levels = 2};
  const auto estimate = test::Must(probe->Estimate(setting));
  EXPECT_EQ(estimate.direct_cycles, 8);
  EXPECT_GT(estimate.first, estimate.second);

  HostSolve solve(chain, {.coarsening = {4}, .levels = 2, .h = 1.0 / 64});
  const auto tolerance = estimate.second * 1e-6;
  const auto solution = test::Must(
      solve.Solve({.tolerance = tolerance, .scale = ResidualScale::kLargestState, .cycles = 20}));
  const auto cycles = CyclesFor(estimate, tolerance);
  ASSERT_TRUE(cycles);
  // A difference of 2 is accepted, because the probe starts from another state than the solve and
  // estimates the rate from a single cycle.
  EXPECT_NEAR(*cycles, solution.cycles, 2);
}

TEST(RateProbe, ADrawnReducedNetworkTellsTheCyclesOfTheWholeStage) {
  const WeightedChain chain =
      DrawCase(2, {.steps = 256, .channels = 8, .extent = 16, .window = 5}).chain;
  MultigridSetting setting = {.coarsening = {4}};
  std::vector<ConvergenceEstimate> estimates;
  for (const double operations : {1e12, 1.0}) {
    ProbeSettings settings = {.h = 1.0 / 256, .operations = operations};
    const auto probe = test::Must(RateProbe::Make(chain.chain, chain.stage(), nullptr, settings));
    EXPECT_EQ(probe->differences(),
              operations > 1 ? "" : "maps of 4x4, 4 of 8 channels, one of 2 layers");
    estimates.push_back(test::Must(probe->Estimate(setting)));
  }
  EXPECT_NEAR(*CyclesFor(estimates[0], 1e-9), *CyclesFor(estimates[1], 1e-9), 2);
  EXPECT_EQ(estimates[0].direct_cycles, estimates[1].direct_cycles);
}

TEST(RateProbe, FewerLayersMayHaveFewerLevels) {
  const WeightedChain chain = DrawCase(2, {.steps = 512}).chain;
  ProbeSettings settings = {.h = 1.0 / 512, .operations = 1};
  const auto probe =
      test::Must(RateProbe::Make(chain.chain, chain.stage(), &chain.parameters, settings));
  MultigridSetting setting = {.coarsening = {4}, .levels = 5};
  EXPECT_TRUE(probe->Estimate(setting).ok());
}

TEST(MeasuredLayers, EveryKindTakesTime) {
  const auto chain =
      MakeResidualChain(test::Must(planner::LoadNetwork("kirby-3m")), BatchNorms::kRefused);
  const NetworkLayers layers = LayersOfNetwork(*chain, 1, 8);
  const auto measured = test::Must(MeasureLayers(*chain, layers));
  ASSERT_EQ(measured.kinds.size(), layers.kinds.size());
  for (const MeasuredTimes::Kind& kind : measured.kinds) {
    for (const double ms : kind.ms) EXPECT_GT(ms, 0);
  }
  EXPECT_GT(measured.kinds[1].shared_ms, 0);
  EXPECT_GT(measured.copy_gb_per_s, 0);
  EXPECT_EQ(measured.notes, "");
}

// kirby-2b has 15 fully connected layers of 11520 x 11521 parameters, 1 GB each in double
// precision. So MeasureLayers times only some outputs of such a layer.
TEST(MeasuredLayers, OfLargeFullyConnectedLayersSomeOutputsAreTimed) {
  const auto chain =
      MakeResidualChain(test::Must(planner::LoadNetwork("kirby-2b")), BatchNorms::kRefused);
  const NetworkLayers layers = LayersOfNetwork(*chain, 1, 8);
  const auto measured = test::Must(MeasureLayers(*chain, layers));
  EXPECT_THAT(measured.notes, HasSubstr(" of 11520 outputs"));
}

}  // namespace
}  // namespace ucudnn::multigrid
