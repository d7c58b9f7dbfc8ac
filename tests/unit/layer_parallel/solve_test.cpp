// Solves for states and adjoints through the C API, and compares them with states and adjoints that
// are computed one layer after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "unit/layer_parallel/chain.h"

namespace ucudnn::layer_parallel_test {
namespace {

constexpr auto kInject = UCUDNN_LAYER_PARALLEL_COARSE_INJECT;
constexpr auto kSum = UCUDNN_LAYER_PARALLEL_COARSE_SUM;
constexpr auto kAll = UCUDNN_LAYER_PARALLEL_STORE_ALL;
constexpr auto kCPoints = UCUDNN_LAYER_PARALLEL_STORE_C_POINTS;

Chain::Shape OfTime(double time, int layers) { return {.layers = layers, .h = time / layers}; }

struct Case {
  std::string name;
  int layers = 64;
  std::vector<int> coarsening = {4};
  int levels = 2;
  ucudnnLayerParallelCoarse_t coarse = kInject;
  ucudnnLayerParallelStorage_t storage = kAll;
  ucudnnLayerParallelStart_t start = UCUDNN_LAYER_PARALLEL_START_BROADCAST;
  ucudnnLayerParallelScale_t scale = UCUDNN_LAYER_PARALLEL_SCALE_ABSOLUTE;
  std::vector<int> c_sweeps = {1};
  bool skips_first_down = false;
};

std::vector<Case> Cases() {
  return {
      {.name = "TwoLevels"},
      {.name = "ManyLevels", .layers = 256, .levels = 0},
      {.name = "FactorsOfTheirOwn", .layers = 60, .coarsening = {2, 3, 5}, .levels = 4},
      {.name = "DepthThatTheFactorDoesNotDivide", .layers = 61, .coarsening = {4}, .levels = 3},
      {.name = "Sum", .coarse = kSum},
      {.name = "SumOfOddBlocks", .layers = 47, .coarsening = {3}, .levels = 3, .coarse = kSum},
      {.name = "CPoints", .storage = kCPoints},
      {.name = "CPointsOfShorterLastBlock",
       .layers = 47,
       .levels = 3,
       .coarse = kSum,
       .storage = kCPoints},
      {.name = "Nested", .levels = 3, .start = UCUDNN_LAYER_PARALLEL_START_NESTED},
      {.name = "OfTheLargestState", .scale = UCUDNN_LAYER_PARALLEL_SCALE_LARGEST_STATE},
      {.name = "F", .c_sweeps = {0}},
      {.name = "FCFCFThenF", .levels = 3, .c_sweeps = {2, 0}},
      {.name = "SkippedDown", .levels = 3, .skips_first_down = true},
  };
}

ucudnnLayerParallelOptions_t OptionsOf(const Case& of, int lanes = 1) {
  ucudnnLayerParallelOptions_t options = Options();
  options.levels = of.levels;
  options.coarsening_count = static_cast<int>(of.coarsening.size());
  options.coarsening = of.coarsening.data();
  options.coarse = of.coarse;
  options.storage = of.storage;
  options.lanes = lanes;
  return options;
}

ucudnnLayerParallelSolveOptions_t SolveOptionsOf(const Case& of) {
  ucudnnLayerParallelSolveOptions_t options = SolveOptions(kTolerance);
  options.start = of.start;
  options.scale = of.scale;
  options.relaxation_count = static_cast<int>(of.c_sweeps.size());
  options.c_sweeps = of.c_sweeps.data();
  options.skips_first_down = of.skips_first_down ? 1 : 0;
  return options;
}

bool HasConverged(const ucudnnLayerParallelResult_t& result) {
  return result.outcome == UCUDNN_LAYER_PARALLEL_CONVERGED ||
         result.outcome == UCUDNN_LAYER_PARALLEL_DIRECT;
}

struct Visits {
  // Visits all layers of a solver. If `lanes` is given, the visits are noted when its queues run.
  Visits(Solver& solver, int layers, Queues* lanes = nullptr)
      : queues(lanes), times(layers), states(layers), adjoints(layers) {
    solver.Visit(&Visits::Visit, this);
  }

  static int Visit(void* user, int layer, const void* state, const void* adjoint, int lane) {
    auto& visits = *static_cast<Visits*>(user);
    const auto note = [=, &visits] {
      ++visits.times[layer];
      visits.states[layer] = Chain::VectorOf(state);
      if (adjoint != nullptr) visits.adjoints[layer] = Chain::VectorOf(adjoint);
      if (visits.last_of_lane[lane] >= layer) visits.is_ordered = false;
      visits.last_of_lane[lane] = layer;
    };
    if (visits.queues == nullptr) {
      note();
    } else {
      visits.queues->Give(lane, note);
    }
    return 0;
  }

  Queues* queues;
  std::vector<int> times;  // by layer
  std::vector<Vector> states, adjoints;
  std::vector<int> last_of_lane = std::vector<int>(64, -1);
  std::atomic<bool> is_ordered = true;
};

TEST(LayerParallelSolve, ReachesTheStatesAndAdjointsOfSerialPropagation) {
  for (const Case& of : Cases()) {
    SCOPED_TRACE(of.name);
    Chain chain(OfTime(1, of.layers));
    Solver solver(chain, OptionsOf(of));
    auto result = solver.Forward(chain.First(), SolveOptionsOf(of));
    EXPECT_TRUE(HasConverged(result)) << result.outcome << ' ' << result.fallback;
    const std::vector<Vector> states = solver.States();
    EXPECT_LT(Difference(states, chain.Serial(chain.First())), kError);
    result = solver.Adjoint(chain.Last(), SolveOptionsOf(of));
    EXPECT_TRUE(HasConverged(result)) << result.outcome << ' ' << result.fallback;
    EXPECT_LT(Difference(solver.AdjointStates(), chain.SerialAdjoint(states, chain.Last())),
              kError);
  }
}

TEST(LayerParallelSolve, OneLevelIsSerialPropagationBitForBit) {
  for (const auto& [layers, storage] :
       {std::pair{37, kAll}, {37, kCPoints}, {1, kAll}, {1, kCPoints}}) {
    Chain chain({.layers = layers, .h = 0.3});
    const Case of = {.coarsening = {}, .levels = 1, .storage = storage};
    Solver solver(chain, OptionsOf(of));
    const auto result = solver.Forward(chain.First(), SolveOptions(kTolerance));
    EXPECT_EQ(result.outcome, UCUDNN_LAYER_PARALLEL_SERIAL);
    EXPECT_EQ(result.cycles, 0);
    EXPECT_EQ(result.residual_count, 0);
    EXPECT_STREQ(result.fallback, "");
    const std::vector<Vector> states = chain.Serial(chain.First());
    EXPECT_EQ(solver.States(), states);
    solver.Adjoint(chain.Last());
    EXPECT_EQ(solver.AdjointStates(), chain.SerialAdjoint(states, chain.Last()));
  }
}

TEST(LayerParallelSolve, LanesAndStorageChangeNoBit) {
  Case of = {.layers = 61, .levels = 3, .coarse = kSum};
  // Holds the states, then the adjoints, and in the last row the measured residuals.
  std::vector<Vector> expected;
  for (const int lanes : {1, 2, 3, 5, 20}) {
    for (const auto storage : {kAll, kCPoints}) {
      SCOPED_TRACE("lanes " + std::to_string(lanes) + ", storage " + std::to_string(storage));
      of.storage = storage;
      Chain chain(OfTime(2, of.layers));
      Solver solver(chain, OptionsOf(of, lanes));
      const auto result = solver.Forward(chain.First(), SolveOptionsOf(of));
      solver.Adjoint(chain.Last(), SolveOptionsOf(of));
      EXPECT_EQ(chain.lanes_seen >> lanes, 0u) << "a lane beyond the last";
      if (lanes <= 5) {
        EXPECT_EQ(chain.lanes_seen + 1, uint64_t{1} << lanes) << "not every lane";
      }
      std::vector<Vector> found = solver.States();
      for (const Vector& adjoint : solver.AdjointStates()) found.push_back(adjoint);
      found.emplace_back(result.residuals + 1, result.residuals + result.residual_count);
      if (expected.empty()) expected = found;
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(LayerParallelSolve, LanesThatAreQueuesChangeNoBit) {
  for (const Case& of : Cases()) {
    for (const int lanes : {1, 3}) {
      SCOPED_TRACE(of.name + " on " + std::to_string(lanes) + " queues");
      Chain chain(OfTime(1, of.layers));
      Solver solver(chain, OptionsOf(of));
      const int cycles = solver.Forward(chain.First(), SolveOptionsOf(of)).cycles;
      solver.Adjoint(chain.Last(), SolveOptionsOf(of));
      const Visits expected(solver, of.layers);

      Chain other(OfTime(1, of.layers));
      Queues queues(lanes);
      ucudnnLayerParallelOptions_t options = OptionsOf(of, lanes);
      options.threads = UCUDNN_LAYER_PARALLEL_THREAD_OF_CALLER;
      Solver queued(other, options, other.QueuedCallbacks(queues));
      EXPECT_EQ(queued.Forward(other.First(), SolveOptionsOf(of)).cycles, cycles);
      EXPECT_TRUE(queues.AreEmpty());
      queued.Adjoint(other.Last(), SolveOptionsOf(of));
      EXPECT_TRUE(queues.AreEmpty());
      EXPECT_EQ(other.lanes_seen, (uint64_t{1} << lanes) - 1);
      EXPECT_EQ(queued.States(), solver.States());
      EXPECT_EQ(queued.AdjointStates(), solver.AdjointStates());
      // A lane's queue reads the states only when it runs, so VisitLayers must have waited for the
      // queues.
      const Visits found(queued, of.layers, &queues);
      EXPECT_TRUE(queues.AreEmpty());
      EXPECT_EQ(found.states, expected.states);
      EXPECT_EQ(found.adjoints, expected.adjoints);
    }
  }
}

double Distance(const Vector& a, const Vector& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

TEST(LayerParallelSolve, ResidualsAreThoseOfEachCycle) {
  Chain chain(OfTime(1, 64));
  Solver solver(chain, Options(), false);
  ucudnnLayerParallelSolveOptions_t options = SolveOptions(kTolerance);
  auto result = solver.Forward(chain.First(), options);
  ASSERT_EQ(result.residual_count, result.cycles + 1);
  EXPECT_GT(result.cycles, 2);
  EXPECT_TRUE(std::isnan(result.residuals[0]));
  for (int k = 2; k <= result.cycles; ++k) {
    EXPECT_LT(result.residuals[k], result.residuals[k - 1]);
  }
  EXPECT_LE(result.residuals[result.cycles], kTolerance);
  EXPECT_GT(result.residuals[result.cycles - 1], kTolerance);
  options.measures_start = 1;
  result = solver.Forward(chain.First(), options);
  // Before the first cycle all states equal the first state, so the residual of each layer is what
  // the layer adds to that state.
  double squares = 0;
  double largest = Distance(chain.First(), {0, 0, 0});
  for (int layer = 0; layer < chain.layers(); ++layer) {
    const double added = Distance(chain.Step(layer, chain.First()), chain.First());
    squares += added * added;
    largest = std::max(largest, Distance(solver.State(layer + 1), {0, 0, 0}));
  }
  EXPECT_NEAR(result.residuals[0], std::sqrt(squares), 1e-14);
  // result.largest_state is the largest norm of C-points only. The last state is a C-point, and
  // neighbouring states differ little.
  EXPECT_NEAR(result.largest_state, largest, 0.01 * largest);
}

TEST(LayerParallelSolve, SaysHowItEnded) {
  auto three_cycles = SolveOptions();
  three_cycles.cycles = 3;
  three_cycles.skips_residuals = 1;
  const struct {
    Chain::Shape shape;
    ucudnnLayerParallelSolveOptions_t options;
    ucudnnLayerParallelOutcome_t outcome;
    int cycles = 0, residuals = 0;
  } rows[] = {
      {OfTime(1, 256), SolveOptions(), UCUDNN_LAYER_PARALLEL_EARLY, 2, 3},
      {OfTime(1, 256), three_cycles, UCUDNN_LAYER_PARALLEL_EARLY, 3, 1},
      // Each cycle of FCF makes 2 of the 4 blocks exact, so the solve is direct after 2 cycles.
      {OfTime(1, 16), SolveOptions(), UCUDNN_LAYER_PARALLEL_DIRECT, 2, 3},
      {{.layers = 256, .h = 1, .gain = 3}, SolveOptions(kTolerance), UCUDNN_LAYER_PARALLEL_SERIAL}};
  std::vector<double> errors;
  for (const auto& row : rows) {
    Chain chain(row.shape);
    Solver solver(chain, Options(), false);
    const auto result = solver.Forward(chain.First(), row.options);
    EXPECT_EQ(result.outcome, row.outcome);
    const bool is_given_up = row.outcome == UCUDNN_LAYER_PARALLEL_SERIAL;
    EXPECT_EQ(std::string(result.fallback).empty(), !is_given_up);
    if (is_given_up) {
      EXPECT_GT(result.cycles, 0);
    } else {
      EXPECT_EQ(result.cycles, row.cycles);
      EXPECT_EQ(result.residual_count, row.residuals);
    }
    errors.push_back(Difference(solver.States(), chain.Serial(chain.First())));
  }
  EXPECT_GT(errors[0], 0);
  EXPECT_LT(errors[1], errors[0] / 2);
  EXPECT_LT(errors[2], 1e-14);
  EXPECT_EQ(errors[3], 0);
}

TEST(LayerParallelSolve, StartsFromThePreviousSolve) {
  Chain chain(OfTime(1, 256));
  Solver solver(chain, Options());
  ucudnnLayerParallelSolveOptions_t options = SolveOptions(kTolerance);
  const int cycles = solver.Forward(chain.First(), options).cycles;
  const int adjoint_cycles = solver.Adjoint(chain.Last(), options).cycles;
  chain.Change(1e-7);
  options.start = UCUDNN_LAYER_PARALLEL_START_PREVIOUS;
  EXPECT_LT(solver.Forward(chain.First(), options).cycles, cycles);
  EXPECT_LT(Difference(solver.States(), chain.Serial(chain.First())), kError);
  EXPECT_LT(solver.Adjoint(chain.Last(), options).cycles, adjoint_cycles);
  EXPECT_LT(Difference(solver.AdjointStates(), chain.SerialAdjoint(solver.States(), chain.Last())),
            kError);
}

TEST(LayerParallelSolve, SolvesAgainFromAnotherFirstState) {
  Chain chain(OfTime(1, 64));
  Solver solver(chain, OptionsOf({.coarsening = {}, .levels = 0, .storage = kCPoints}));
  Vector first = chain.First();
  for (int i = 0; i < 3; ++i) {
    first[0] += 1;
    solver.Forward(first, SolveOptions(kTolerance));
    EXPECT_EQ(solver.State(0), first);
    EXPECT_LT(Difference(solver.States(), chain.Serial(first)), kError);
    Vector last = chain.Last();
    last[0] += i;
    solver.Adjoint(last, SolveOptions(kTolerance));
    EXPECT_EQ(solver.AdjointState(chain.layers()), last);
    EXPECT_LT(Difference(solver.AdjointStates(), chain.SerialAdjoint(chain.Serial(first), last)),
              kError);
  }
}

// --- Layers that steps are asked for -------------------------------------------------------------

using Layers = std::set<std::pair<int, int>>;  // pairs of a first layer and a number of layers

// Returns the ranges of one level. Expects that the factor of each range is `factor`.
Layers LayersOf(const std::vector<ucudnnLayerParallelRange_t>& ranges, int level, double factor) {
  Layers layers;
  for (const ucudnnLayerParallelRange_t& range : ranges) {
    if (range.level != level) continue;
    EXPECT_EQ(range.factor, factor);
    layers.emplace(range.first_layer, range.layers);
  }
  return layers;
}

TEST(LayerParallelSolve, StepsAreAskedForTheirLayers) {
  struct Expected {
    ucudnnLayerParallelCoarse_t coarse;
    double factor;
    Layers layers;  // layers of the steps and of the adjoint steps of level 1
  };
  // Ten layers have two whole blocks of four, 0 to 3 and 4 to 7.
  const std::vector<Expected> all = {{kInject, 4, {{0, 1}, {4, 1}}}, {kSum, 1, {{0, 4}, {4, 4}}}};
  Layers each;
  for (int layer = 0; layer < 10; ++layer) each.emplace(layer, 1);
  for (const Expected& expected : all) {
    SCOPED_TRACE(expected.coarse);
    Chain chain(OfTime(1, 10));
    chain.records = true;
    Case of = {.layers = 10, .coarse = expected.coarse};
    Solver solver(chain, OptionsOf(of));
    solver.Forward(chain.First());
    EXPECT_EQ(LayersOf(chain.steps, 0, 1), each);
    EXPECT_EQ(LayersOf(chain.steps, 1, expected.factor), expected.layers);
    chain.steps.clear();
    solver.Adjoint(chain.Last());
    EXPECT_EQ(LayersOf(chain.adjoint_steps, 0, 1), each);
    EXPECT_EQ(LayersOf(chain.adjoint_steps, 1, expected.factor), expected.layers);
    EXPECT_TRUE(chain.steps.empty());  // all states are kept, so no step computes one again
  }
}

// --- Reading -------------------------------------------------------------------------------------

TEST(LayerParallelSolve, VisitsEachLayerWithWhatItReadAndTheAdjointOfWhatItGave) {
  for (const auto storage : {kAll, kCPoints}) {
    SCOPED_TRACE(storage);
    Case of = {.layers = 61, .levels = 3, .storage = storage};
    Chain chain(OfTime(1, of.layers));
    Solver solver(chain, OptionsOf(of, 3));
    solver.Forward(chain.First(), SolveOptions(kTolerance));
    const Visits forward(solver, of.layers);
    EXPECT_EQ(forward.times, std::vector<int>(of.layers, 1));
    EXPECT_EQ(forward.adjoints, std::vector<Vector>(of.layers)) << "none is solved yet";
    solver.Adjoint(chain.Last(), SolveOptions(kTolerance));
    const Visits both(solver, of.layers);
    EXPECT_EQ(both.times, std::vector<int>(of.layers, 1));
    EXPECT_TRUE(both.is_ordered);
    for (int layer = 0; layer < of.layers; ++layer) {
      EXPECT_EQ(both.states[layer], solver.State(layer));
      EXPECT_EQ(both.adjoints[layer], solver.AdjointState(layer + 1));
    }
  }
}

TEST(LayerParallelSolve, CreatesAsManyStatesAsItSaysAndDestroysThem) {
  for (const Case& of : Cases()) {
    for (const bool with_adjoint : {false, true}) {
      SCOPED_TRACE(of.name + (with_adjoint ? ", with the adjoint" : ""));
      Chain chain(OfTime(1, of.layers));
      const ucudnnLayerParallelOptions_t options = OptionsOf(of, 3);
      const int64_t expected = StateCount(of.layers, options, with_adjoint);
      {
        Solver solver(chain, options, with_adjoint);
        EXPECT_EQ(chain.created, expected);
        solver.Forward(chain.First());
        if (with_adjoint) solver.Adjoint(chain.Last());
        EXPECT_EQ(chain.created, expected) << "a solve creates none";
        EXPECT_EQ(chain.destroyed, 0);
      }
      EXPECT_EQ(chain.destroyed, expected);
    }
  }
}

TEST(LayerParallelSolve, DefaultsFitEveryDepth) {
  for (int layers = 4; layers <= 40; ++layers) {
    SCOPED_TRACE(layers);
    Chain chain(OfTime(1, layers));
    const auto callbacks = chain.Callbacks();
    ucudnnLayerParallelSolver_t of_null = nullptr;
    EXPECT_EQ(ucudnnLayerParallelCreate(&of_null, layers, &callbacks, nullptr), kSuccess);
    EXPECT_EQ(ucudnnLayerParallelDestroy(of_null), kSuccess);
    Solver solver(chain, Options());
    EXPECT_EQ(solver.TryForward(), kSuccess);
    solver.Forward(chain.First(), SolveOptions(kTolerance));
    EXPECT_LT(Difference({solver.State(layers)}, {chain.Serial(chain.First()).back()}), kError);
  }
}

}  // namespace
}  // namespace ucudnn::layer_parallel_test
