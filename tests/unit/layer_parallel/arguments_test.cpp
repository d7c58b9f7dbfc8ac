// Tests that every wrong argument is refused, and the words of each refusal.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "unit/layer_parallel/chain.h"

namespace ucudnn::layer_parallel_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Expects `expected` as the status, and returns the words of the refusal.
std::string Refusal(ucudnnLayerParallelStatus_t status,
                    ucudnnLayerParallelStatus_t expected = UCUDNN_LAYER_PARALLEL_BAD_PARAM) {
  EXPECT_EQ(status, expected);
  return ucudnnLayerParallelGetLastError();
}

// --- Create --------------------------------------------------------------------------------------

// Holds the arguments of Create.
struct Given : ucudnnLayerParallelOptions_t {
  ucudnnLayerParallelCallbacks_t callbacks;
  int layers;
};

struct CreateCase {
  std::function<void(Given&)> change;
  std::string words;
};

const int kEighty = 80;

std::vector<CreateCase> WrongCreates() {
  using Callbacks = ucudnnLayerParallelCallbacks_t;
  const std::string size = std::to_string(sizeof(Callbacks));
  const std::string options_size = std::to_string(sizeof(ucudnnLayerParallelOptions_t));
  return {
      {[](Given& g) { g.callbacks.struct_size = 0; },
       "callbacks->struct_size is 0; " + size + " is expected"},
      {[](Given& g) { g.callbacks.create = nullptr; }, "callbacks->create is a null pointer"},
      {[](Given& g) { g.callbacks.destroy = nullptr; }, "callbacks->destroy is a null pointer"},
      {[](Given& g) { g.callbacks.combine = nullptr; }, "callbacks->combine is a null pointer"},
      {[](Given& g) { g.callbacks.squared_distance = nullptr; },
       "callbacks->squared_distance is a null pointer"},
      {[](Given& g) { g.callbacks.step = nullptr; }, "callbacks->step is a null pointer"},
      {[](Given& g) { g.callbacks.join = [](void*) { return 0; }; },
       "one of callbacks->join and callbacks->wait is a null pointer, the other is not; lanes that "
       "are queues need both"},
      {[](Given& g) { g.struct_size = 1; },
       "options->struct_size is 1; " + options_size + " is expected"},
      {[](Given& g) { g.layers = 1; },
       "a chain of 1 residual layers has nothing to solve at once; 2 and more are expected"},
      {[](Given& g) { g.layers = 3; },
       "a chain of 3 residual layers is too short for two levels; 4 layers and more, or one level, "
       "are expected"},
      {[](Given& g) { g.layers = std::numeric_limits<int>::max(); },
       "2147483647 layers; at most 1073741824 are expected"},
      {[](Given& g) { g.coarsening_count = -1; },
       "coarsening_count is -1; 0 and more are expected"},
      {[](Given& g) { g.coarsening_count = 2; },
       "coarsening_count is 2 without values: a null pointer"},
      {[](Given& g) { g.coarsening = &kEighty, g.coarsening_count = 1; },
       "coarsening by 80 of 64 layers leaves fewer than 2; at most 32 is expected"},
      {[](Given& g) { g.coarse = static_cast<ucudnnLayerParallelCoarse_t>(3); },
       "coarse is 3; 0 (inject) or 2 (sum) is expected"},
      {[](Given& g) { g.coarse = static_cast<ucudnnLayerParallelCoarse_t>(1); },
       "coarse is 1; 0 (inject) or 2 (sum) is expected"},
      {[](Given& g) { g.storage = static_cast<ucudnnLayerParallelStorage_t>(2); },
       "storage is 2; 0 to 1 are expected"},
      {[](Given& g) { g.lanes = -1; }, "lanes is -1; 1 to 1024 are expected, or 0 for one"},
      {[](Given& g) { g.lanes = 1025; }, "lanes is 1025; 1 to 1024 are expected, or 0 for one"},
      {[](Given& g) { g.threads = static_cast<ucudnnLayerParallelThreads_t>(2); },
       "threads is 2; 0 to 1 are expected"},
      {[](Given& g) { g.unit_roundoff = 1; },
       "unit_roundoff is 1; a number below 1 is expected, or 0 for double's"},
      {[](Given& g) { g.unit_roundoff = -1e-8; },
       "unit_roundoff is -1e-08; a number below 1 is expected, or 0 for double's"},
      {[](Given& g) { g.unit_roundoff = kNaN; },
       "unit_roundoff is nan; a number below 1 is expected, or 0 for double's"},
  };
}

TEST(LayerParallelArguments, CreateRefusesEach) {
  for (const CreateCase& wrong : WrongCreates()) {
    SCOPED_TRACE(wrong.words);
    Chain chain({});
    Given given = {Options(), chain.Callbacks(), chain.layers()};
    wrong.change(given);
    auto solver = reinterpret_cast<ucudnnLayerParallelSolver_t>(&chain);
    EXPECT_EQ(Refusal(ucudnnLayerParallelCreate(&solver, given.layers, &given.callbacks, &given)),
              "ucudnnLayerParallelCreate: " + wrong.words);
    EXPECT_EQ(solver, nullptr);
    EXPECT_EQ(chain.created, 0);
  }
}

TEST(LayerParallelArguments, CreateWantsItsPointers) {
  Chain chain({});
  const auto callbacks = chain.Callbacks();
  ucudnnLayerParallelSolver_t solver = nullptr;
  EXPECT_EQ(Refusal(ucudnnLayerParallelCreate(nullptr, 64, &callbacks, nullptr)),
            "ucudnnLayerParallelCreate: there is nowhere to write the solver");
  EXPECT_EQ(Refusal(ucudnnLayerParallelCreate(&solver, 64, nullptr, nullptr)),
            "ucudnnLayerParallelCreate: callbacks is a null pointer");
  EXPECT_EQ(ucudnnLayerParallelDestroy(nullptr), kSuccess);
}

TEST(LayerParallelArguments, StateCountRefusesWhatCreateRefuses) {
  auto options = Options();
  int64_t states = -1;
  EXPECT_EQ(Refusal(ucudnnLayerParallelGetStateCount(1, &options, 0, &states)),
            "ucudnnLayerParallelGetStateCount: a chain of 1 residual layers has nothing to solve "
            "at once; 2 and more are expected");
  EXPECT_EQ(Refusal(ucudnnLayerParallelGetStateCount(64, &options, 0, nullptr)),
            "ucudnnLayerParallelGetStateCount: there is nowhere to write the number");
  options.struct_size = 8;
  Refusal(ucudnnLayerParallelGetStateCount(64, &options, 0, &states));
  EXPECT_EQ(states, -1);
}

// --- Solve ---------------------------------------------------------------------------------------

struct SolveCase {
  std::function<void(ucudnnLayerParallelSolveOptions_t&)> change;
  std::string words;
};

const int kNegativeSweeps = -1;
const double kWeight = 0.9;

std::vector<SolveCase> WrongSolves() {
  using Given = ucudnnLayerParallelSolveOptions_t;
  const std::string size = std::to_string(sizeof(Given));
  return {
      {[](Given& o) { o.struct_size = sizeof o - 4; }, "options->struct_size is " +
                                                           std::to_string(sizeof(Given) - 4) +
                                                           "; " + size + " is expected"},
      {[](Given& o) { o.tolerance = kNaN; }, "tolerance nan; a number above 0 is expected"},
      {[](Given& o) { o.scale = static_cast<ucudnnLayerParallelScale_t>(2); },
       "scale is 2; 0 to 1 are expected"},
      {[](Given& o) { o.cycles = -2; }, "-2 cycles; 1 and more are expected"},
      {[](Given& o) { o.start = static_cast<ucudnnLayerParallelStart_t>(3); },
       "start is 3; 0 to 2 are expected"},
      {[](Given& o) { o.reserved_cycle = 1; },
       "reserved_cycle is 1; 0 is expected: all cycles are V-cycles"},
      {[](Given& o) { o.relaxation_count = -1; },
       "relaxation_count is -1; 0 and more are expected"},
      {[](Given& o) { o.relaxation_count = 1; },
       "relaxation_count is 1 without values: a null pointer"},
      {[](Given& o) { o.c_sweeps = &kNegativeSweeps, o.relaxation_count = 1; },
       "-1 sweeps of C-relaxation; 0 (F), 1 (FCF) and more are expected"},
      {[](Given& o) { o.reserved_c_weights = &kWeight; },
       "reserved_c_weights is no null pointer; one is expected: C-relaxation has no weights"},
  };
}

struct LayerParallelArgumentsOfSolver : ::testing::Test {
  Chain chain{Chain::Shape()};
  Solver solver{chain, Options()};
};

TEST_F(LayerParallelArgumentsOfSolver, SolvesRefuseEach) {
  solver.Forward(chain.First());
  const std::vector<Vector> states = solver.States();
  for (const SolveCase& wrong : WrongSolves()) {
    SCOPED_TRACE(wrong.words);
    auto options = SolveOptions();
    wrong.change(options);
    EXPECT_EQ(Refusal(solver.TryForward(&options)),
              "ucudnnLayerParallelSolveForward: " + wrong.words);
    EXPECT_EQ(solver.States(), states) << "what was solved stays";
    EXPECT_EQ(Refusal(solver.TryAdjoint(&options)),
              "ucudnnLayerParallelSolveAdjoint: " + wrong.words);
  }
}

TEST_F(LayerParallelArgumentsOfSolver, SolvesWantTheirPointers) {
  const Vector vector = chain.First();
  const void* first = Chain::StateOf(vector);
  EXPECT_EQ(Refusal(ucudnnLayerParallelSolveForward(nullptr, first, nullptr, nullptr)),
            "ucudnnLayerParallelSolveForward: the solver is a null pointer");
  EXPECT_EQ(Refusal(ucudnnLayerParallelSolveForward(solver.get(), nullptr, nullptr, nullptr)),
            "ucudnnLayerParallelSolveForward: the first state is a null pointer");
  EXPECT_EQ(Refusal(ucudnnLayerParallelSolveAdjoint(nullptr, first, nullptr, nullptr)),
            "ucudnnLayerParallelSolveAdjoint: the solver is a null pointer");
  EXPECT_EQ(Refusal(ucudnnLayerParallelSolveAdjoint(solver.get(), nullptr, nullptr, nullptr)),
            "ucudnnLayerParallelSolveAdjoint: the last adjoint is a null pointer");
}

TEST_F(LayerParallelArgumentsOfSolver, AResultOfUnknownSizeIsNotWritten) {
  ucudnnLayerParallelResult_t result = {.struct_size = sizeof result + 8, .cycles = -1};
  EXPECT_EQ(Refusal(solver.TryForward(nullptr, &result)),
            "ucudnnLayerParallelSolveForward: result->struct_size is " +
                std::to_string(sizeof result + 8) + "; " + std::to_string(sizeof result) +
                " is expected");
  EXPECT_EQ(result.cycles, -1);
  const void* state = nullptr;
  EXPECT_EQ(ucudnnLayerParallelGetState(solver.get(), 0, &state), kNotSupported)
      << "nothing was solved";
}

TEST(LayerParallelArguments, AToleranceBelowThePrecisionIsRefused) {
  Chain chain({});
  auto options = Options();
  options.unit_roundoff = 0x1p-24;
  Solver solver(chain, options);
  const auto wanted = SolveOptions(1e-9);
  const std::string words = Refusal(solver.TryForward(&wanted));
  EXPECT_EQ(words.find("ucudnnLayerParallelSolveForward: tolerance 1e-09 is below what states of "
                       "this precision can reach, about "),
            0u)
      << words;
  solver.Forward(chain.First(), SolveOptions(1e-5));
}

// --- What was not solved -------------------------------------------------------------------------

TEST_F(LayerParallelArgumentsOfSolver, WhatIsNotSolvedIsNotRead) {
  const void* state = nullptr;
  const std::string no_states = ": there are no states of a forward solve";
  EXPECT_EQ(Refusal(ucudnnLayerParallelGetState(solver.get(), 0, &state), kNotSupported),
            "ucudnnLayerParallelGetState" + no_states);
  EXPECT_EQ(Refusal(solver.TryAdjoint(), kNotSupported),
            "ucudnnLayerParallelSolveAdjoint" + no_states);
  const auto visit = [](void*, int, const void*, const void*, int) { return 0; };
  EXPECT_EQ(Refusal(ucudnnLayerParallelVisitLayers(solver.get(), visit, nullptr), kNotSupported),
            "ucudnnLayerParallelVisitLayers" + no_states);
  auto previous = SolveOptions();
  previous.start = UCUDNN_LAYER_PARALLEL_START_PREVIOUS;
  EXPECT_EQ(Refusal(solver.TryForward(&previous), kNotSupported),
            "ucudnnLayerParallelSolveForward: start is the previous solve, and there is none that "
            "succeeded");
}

TEST_F(LayerParallelArgumentsOfSolver, AdjointsAreThoseOfTheLastForwardSolve) {
  const void* adjoint = nullptr;
  const std::string words =
      "ucudnnLayerParallelGetAdjoint: there are no adjoints of the states of the last forward "
      "solve";
  for (int i = 0; i < 2; ++i) {
    solver.Forward(chain.First());
    EXPECT_EQ(Refusal(ucudnnLayerParallelGetAdjoint(solver.get(), 0, &adjoint), kNotSupported),
              words);
    solver.Adjoint(chain.Last());
    EXPECT_EQ(solver.AdjointState(chain.layers()), chain.Last());
  }
}

TEST(LayerParallelArguments, WithoutAdjointStepsNoAdjointIsSolved) {
  Chain chain({});
  Solver solver(chain, Options(), false);
  solver.Forward(chain.First());
  EXPECT_EQ(Refusal(solver.TryAdjoint(), kNotSupported),
            "ucudnnLayerParallelSolveAdjoint: the callbacks have no adjoint_step");
}

TEST_F(LayerParallelArgumentsOfSolver, ReadingWantsANumberAndAPointer) {
  solver.Forward(chain.First());
  solver.Adjoint(chain.Last());
  const void* state = nullptr;
  for (const int number : {-1, 65}) {
    const std::string words = "number is " + std::to_string(number) + "; 0 to 64 are expected";
    EXPECT_EQ(Refusal(ucudnnLayerParallelGetState(solver.get(), number, &state)),
              "ucudnnLayerParallelGetState: " + words);
    EXPECT_EQ(Refusal(ucudnnLayerParallelGetAdjoint(solver.get(), number, &state)),
              "ucudnnLayerParallelGetAdjoint: " + words);
  }
  EXPECT_EQ(state, nullptr);
  EXPECT_EQ(Refusal(ucudnnLayerParallelGetState(solver.get(), 0, nullptr)),
            "ucudnnLayerParallelGetState: there is nowhere to write the state's pointer");
  EXPECT_EQ(Refusal(ucudnnLayerParallelGetAdjoint(solver.get(), 0, nullptr)),
            "ucudnnLayerParallelGetAdjoint: there is nowhere to write the adjoint's pointer");
  EXPECT_EQ(Refusal(ucudnnLayerParallelGetState(nullptr, 0, &state)),
            "ucudnnLayerParallelGetState: the solver is a null pointer");
  EXPECT_EQ(Refusal(ucudnnLayerParallelGetAdjoint(nullptr, 0, &state)),
            "ucudnnLayerParallelGetAdjoint: the solver is a null pointer");
  EXPECT_EQ(Refusal(ucudnnLayerParallelVisitLayers(solver.get(), nullptr, nullptr)),
            "ucudnnLayerParallelVisitLayers: visit is a null pointer");
  EXPECT_EQ(Refusal(ucudnnLayerParallelVisitLayers(nullptr, nullptr, nullptr)),
            "ucudnnLayerParallelVisitLayers: the solver is a null pointer");
}

TEST(LayerParallelArguments, VersionIsTheProjects) {
  EXPECT_STREQ(ucudnnLayerParallelGetVersionString(), UCUDNN_TEST_VERSION);
}

}  // namespace
}  // namespace ucudnn::layer_parallel_test
