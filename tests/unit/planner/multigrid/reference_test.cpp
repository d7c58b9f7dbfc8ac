// Compares the residuals of solves on the host with those of an independent NumPy implementation
// (data/README.md). For deeper chains, compares the numbers of cycles with known ones.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/cases.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {
namespace {

const std::string kData = MULTIGRID_TEST_DATA;

std::vector<double> ReadNumbers(const std::string& name) {
  std::ifstream file(kData + "/" + name, std::ios::binary | std::ios::ate);
  std::vector<double> numbers(static_cast<size_t>(file.tellg()) / sizeof(double));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(numbers.data()),
            static_cast<std::streamsize>(numbers.size() * sizeof(double)));
  return numbers;
}

nlohmann::json ReadExpected() {
  std::ifstream file(kData + "/residuals.json");
  return nlohmann::json::parse(file);
}

constexpr int kWeights = 4 * 4 * 3 * 3;
constexpr int kBias = 4;

// Makes the chain that a row of residuals.json describes.
WeightedChain ChainOf(const nlohmann::json& row) {
  const int steps = row["N"];
  ChainShape shape = {.steps = steps};
  if (row["activation"] == "tanh") shape.activation = planner::ActivationKind::kTanh;
  WeightedChain made = {.chain = PlainChain(shape)};
  const bool is_smooth = row["kind"] == "smooth";
  const int rows = is_smooth ? 6 : steps;
  const std::vector<double> all =
      ReadNumbers(is_smooth ? "smooth_knots.f64" : "iid_" + std::to_string(steps) + ".f64");
  const auto bias_at = all.begin() + rows * kWeights;
  std::vector<double> weights(all.begin(), bias_at);
  std::vector<double> bias(bias_at, bias_at + rows * kBias);
  made.first.assign(bias_at + rows * kBias, all.end());
  if (is_smooth) {
    weights = Interpolated(weights, kWeights, steps);
    bias = Interpolated(bias, kBias, steps);
  }
  made.SetSteps(weights, bias);
  return made;
}

CoarseOperator CoarseOf(const nlohmann::json& row) {
  return *ParseCoarseOperator(row["coarse"].get<std::string>());
}

SolveOptions OptionsOf(const nlohmann::json& row) {
  return {.c_sweeps = {row["relaxation"] == "F" ? 0 : 1},
          .start = row["start"] == "nested" ? Start::kNested : Start::kBroadcast,
          .tolerance = 1e-9,
          .cycles = 30,
          .measures_start = true};
}

// Expects the residuals of `row`. NumPy adds in another order, which changes residuals near the
// rounding error by up to 1e-7 of their size. So the tolerance also has an absolute part.
void ExpectHistory(const Solution& solution, const nlohmann::json& row) {
  const std::vector<double> expected = row["residuals"];
  // If the solver gives up in a cycle, the expected residuals nevertheless go on.
  if (solution.fallback.empty()) {
    ASSERT_EQ(solution.residuals.size(), expected.size());
  } else {
    ASSERT_LT(solution.residuals.size(), expected.size());
  }
  for (size_t i = 0; i < solution.residuals.size(); ++i) {
    EXPECT_NEAR(solution.residuals[i], expected[i], 1e-8 * expected[i] + 1e-12)
        << "after cycle " << i;
  }
}

// Computes the states of a nested start, before any cycle.
void StartNested(HostSolve& forward) {
  BlockSystem& system = forward.system();
  constexpr auto kNone = LayerSystem::Source::kNone;
  int level = forward.hierarchy().coarsest();
  for (int finer = 0; finer <= level; ++finer) ASSERT_TRUE(system.StepLead(finer, kNone).ok());
  ASSERT_TRUE(system.SolveSerially(level, kNone).ok());
  while (level-- > 0) {
    ASSERT_TRUE(system.Correct(level).ok());
    ASSERT_TRUE(system.RelaxF(level, kNone).ok());
  }
}

TEST(Reference, ResidualHistoriesAreThoseOfNumPy) {
  int rows = 0;
  int given_up = 0;
  for (const nlohmann::json& row : ReadExpected()) {
    nlohmann::json name = row;
    name.erase("residuals");
    name.erase("output_errors");
    SCOPED_TRACE(name.dump());
    ++rows;
    const WeightedChain chain = ChainOf(row);
    const double h = row["T"].get<double>() / row["N"].get<int>();
    const SolveSetting setting = {
        .coarsening = {row["c"]}, .levels = row["levels"], .coarse = CoarseOf(row), .h = h};
    HostSolve forward(chain, setting);
    if (row["adjoint"]) {
      ASSERT_TRUE(forward.system().SolveSerially(0, LayerSystem::Source::kNone).ok());
      AdjointSolve adjoint(forward, setting, ReadNumbers("last_adjoint.f64"));
      const Solution solved = test::Must(adjoint.Solve(OptionsOf(row)));
      ExpectHistory(solved, row);
    } else {
      const std::vector<double> serial = forward.Serial().back();
      const std::vector<double> errors = row["output_errors"];
      std::vector<double> found;  // by cycle
      SolveOptions options = OptionsOf(row);
      if (options.start == Start::kNested) {
        StartNested(forward);
        EXPECT_NEAR(RelativeError(forward.Last(), serial), errors[0], 1e-6 * errors[0]);
      }
      found.push_back(errors[0]);
      options.watch = [&](int cycle, double) {
        EXPECT_EQ(static_cast<int>(found.size()), cycle);
        found.push_back(RelativeError(forward.Last(), serial));
      };
      const Solution solved = test::Must(forward.Solve(options));
      ExpectHistory(solved, row);
      if (!solved.fallback.empty()) {
        ++given_up;
        continue;
      }
      ASSERT_EQ(found.size(), errors.size());
      for (size_t cycle = 1; cycle < errors.size(); ++cycle) {
        EXPECT_NEAR(found[cycle], errors[cycle], 1e-6 * errors[cycle] + 1e-13) << cycle;
      }
    }
  }
  EXPECT_EQ(rows, 66);
  // Only one solve is given up (T = 10, c = 16, F, inject), because its residuals hardly fall.
  EXPECT_EQ(given_up, 1);
}

// The expected numbers of cycles to reach 1e-9 are from the table of docs/multigrid.md (multilevel
// V, c = 4, coarsest level below 8 layers). The table's weights are not stored for these depths.
// With other weights, the number of cycles may differ by one.
TEST(Reference, CyclesDoNotDependOnDepth) {
  const struct {
    double time;
    std::optional<int> knots;  // for smooth weights; unset: drawn for each layer
    CoarseOperator coarse;
    int c_sweeps;
    int cycles;
  } rows[] = {{1, std::nullopt, CoarseOperator::kInject, 1, 8},
              {1, std::nullopt, CoarseOperator::kSum, 1, 4},
              {1, std::nullopt, CoarseOperator::kSum, 0, 5},
              {5, std::nullopt, CoarseOperator::kInject, 1, 14},
              {5, std::nullopt, CoarseOperator::kSum, 1, 7},
              {5, std::nullopt, CoarseOperator::kSum, 0, 8},
              {1, 8, CoarseOperator::kInject, 1, 6},
              {1, 8, CoarseOperator::kSum, 0, 5},
              {5, 8, CoarseOperator::kInject, 1, 9},
              {5, 8, CoarseOperator::kSum, 1, 7}};
  for (const int layers : {1024, 4096}) {
    // Unless UCUDNN_TEST_CASES=all, solves only two rows at 4096 layers: one with weights drawn for
    // each layer and one with smooth weights.
    const size_t every = layers == 1024 ? 1 : static_cast<size_t>(test::Cases(1, 7));
    std::mt19937_64 random(layers);
    const WeightedChain drawn = DrawnChain({.steps = layers}, random);
    const WeightedChain smooth = DrawnChain({.steps = layers}, random, 1, 8);
    for (size_t at = 0; at < std::size(rows); at += every) {
      const auto& row = rows[at];
      SCOPED_TRACE(std::to_string(layers) + " layers, T = " + std::to_string(row.time) + ", " +
                   NameOf(row.coarse) + (row.c_sweeps == 1 ? ", FCF" : ", F") +
                   (row.knots ? ", smooth" : ""));
      HostSolve forward(row.knots ? smooth : drawn, {.coarsening = {4},
                                                     .levels = 0,
                                                     .coarse = row.coarse,
                                                     .h = row.time / layers,
                                                     .lanes = 2});
      const Solution solved =
          test::Must(forward.Solve({.c_sweeps = {row.c_sweeps}, .tolerance = 1e-9, .cycles = 30}));
      EXPECT_EQ(solved.outcome, Outcome::kConverged);
      EXPECT_NEAR(solved.cycles, row.cycles, 1);
    }
  }
}

// Expects known numbers of cycles in which adjoints reach 1e-9 (two levels, c = 4, FCF, T = 2, 1024
// layers). No weights are stored for this depth. With other weights, the number of cycles may
// differ by one.
TEST(Reference, AdjointsOfDeepChainsTakeAsManyCycles) {
  constexpr int kLayers = 1024;
  constexpr double kStep = 2.0 / kLayers;
  std::mt19937_64 random(1);
  for (const auto& [knots, cycles] :
       {std::pair(std::optional<int>(), 7), std::pair(std::optional(8), 5)}) {
    const WeightedChain chain = DrawnChain({.steps = kLayers}, random, 1, knots);
    const SolveSetting setting = {.coarsening = {4}, .levels = 2, .h = kStep};
    HostSolve forward(chain, setting);
    ASSERT_TRUE(forward.system().SolveSerially(0, LayerSystem::Source::kNone).ok());
    AdjointSolve adjoint(forward, setting, ReadNumbers("last_adjoint.f64"));
    const Solution solved = test::Must(adjoint.Solve({.tolerance = 1e-9, .cycles = 30}));
    EXPECT_EQ(solved.outcome, Outcome::kConverged);
    EXPECT_NEAR(solved.cycles, cycles, 1) << (knots ? "smooth" : "each layer its own");
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
