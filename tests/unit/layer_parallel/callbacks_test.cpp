// Tests callbacks that fail on any lane: the solve returns their code, nothing leaks, and the
// solver can be used again. Also tests solvers on several threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "unit/layer_parallel/chain.h"

namespace ucudnn::layer_parallel_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Chain::Shape Short(unsigned seed = 1) { return {.layers = 61, .h = 1.0 / 61, .seed = seed}; }

ucudnnLayerParallelOptions_t ThreeLevels(
    int lanes, ucudnnLayerParallelStorage_t storage = UCUDNN_LAYER_PARALLEL_STORE_C_POINTS) {
  ucudnnLayerParallelOptions_t options = Options();
  options.levels = 3;
  options.coarse = UCUDNN_LAYER_PARALLEL_COARSE_SUM;
  options.storage = storage;
  options.lanes = lanes;
  return options;
}

TEST(LayerParallelCallbacks, AStateThatCannotBeCreatedLeavesNoSolver) {
  const ucudnnLayerParallelOptions_t options = ThreeLevels(2);
  const int64_t states = StateCount(61, options, true);
  ASSERT_GT(states, 0);
  for (int call = 1; call <= states; ++call) {
    Chain chain(Short());
    chain.Fail({"create", call, 12});
    const auto callbacks = chain.Callbacks();
    auto solver = reinterpret_cast<ucudnnLayerParallelSolver_t>(&chain);
    ASSERT_EQ(ucudnnLayerParallelCreate(&solver, 61, &callbacks, &options), kCallbackFailed);
    EXPECT_EQ(solver, nullptr);
    EXPECT_EQ(ucudnnLayerParallelGetCallbackCode(), 12);
    EXPECT_THAT(
        ucudnnLayerParallelGetLastError(),
        StartsWith("ucudnnLayerParallelCreate: the create callback returned 12 for state "));
    EXPECT_EQ(chain.created, call - 1);
    EXPECT_EQ(chain.destroyed, call - 1);
  }
}

TEST(LayerParallelCallbacks, AStateThatIsANullPointerLeavesNoSolver) {
  Chain chain(Short());
  chain.Fail({"null", 1000000});
  const auto callbacks = chain.Callbacks();
  ucudnnLayerParallelSolver_t solver = nullptr;
  ASSERT_EQ(ucudnnLayerParallelCreate(&solver, 61, &callbacks, nullptr), kCallbackFailed);
  EXPECT_EQ(ucudnnLayerParallelGetCallbackCode(), 0);
  EXPECT_STREQ(ucudnnLayerParallelGetLastError(),
               "ucudnnLayerParallelCreate: the create callback made a null pointer for state 0");
}

// Makes the callback fail at its first call in one solve, and at later and later calls in further
// solves, until a solve needs fewer calls and succeeds.
TEST(LayerParallelCallbacks, WhicheverCallFailsItsCodeComesBackAndTheSolverWorksOn) {
  for (const std::string name : {"combine", "squared_distance", "step", "adjoint_step"}) {
    for (const int lanes : {1, 3}) {
      SCOPED_TRACE(name + " of " + std::to_string(lanes) + " lanes");
      Chain chain(Short());
      Solver solver(chain, ThreeLevels(lanes));
      int failures = 0;
      for (int call = 1;; call += 1 + call / 8) {
        ASSERT_EQ(solver.TryForward(), kSuccess);
        chain.Fail({name, call, 1000 + call});
        const bool is_adjoint = name == "adjoint_step";
        const auto status = is_adjoint ? solver.TryAdjoint() : solver.TryForward();
        chain.FailNothing();
        if (status == kSuccess) break;
        ++failures;
        ASSERT_EQ(status, kCallbackFailed);
        EXPECT_EQ(ucudnnLayerParallelGetCallbackCode(), 1000 + call);
        EXPECT_THAT(ucudnnLayerParallelGetLastError(),
                    HasSubstr("the " + name + " callback returned " + std::to_string(1000 + call)));
        const void* state = nullptr;
        EXPECT_EQ(is_adjoint ? ucudnnLayerParallelGetAdjoint(solver.get(), 3, &state)
                             : ucudnnLayerParallelGetState(solver.get(), 3, &state),
                  kNotSupported);
        EXPECT_EQ(ucudnnLayerParallelGetCallbackCode(), 0) << "that was no callback";
        auto previous = SolveOptions();
        previous.start = UCUDNN_LAYER_PARALLEL_START_PREVIOUS;
        EXPECT_EQ(is_adjoint ? solver.TryAdjoint(&previous) : solver.TryForward(&previous),
                  kNotSupported);
      }
      EXPECT_GT(failures, 5);
      solver.Forward(chain.First(), SolveOptions(kTolerance));
      EXPECT_LT(Difference(solver.States(), chain.Serial(chain.First())), kError);
    }
  }
}

// The queues must be empty when a failed solve returns, because the program may free the memory of
// states next.
TEST(LayerParallelCallbacks, WhereQueuesFailNothingIsUnderWay) {
  for (const std::string name : {"combine", "squared_distance", "step", "join", "wait"}) {
    for (int call = 1; call < 200; call += 1 + call / 4) {
      SCOPED_TRACE(name + ", call " + std::to_string(call));
      Chain chain(Short());
      Queues queues(3);
      ucudnnLayerParallelOptions_t options = ThreeLevels(3);
      options.threads = UCUDNN_LAYER_PARALLEL_THREAD_OF_CALLER;
      Solver solver(chain, options, chain.QueuedCallbacks(queues));
      chain.Fail({name, call, 31});
      const auto status = solver.TryForward();
      EXPECT_TRUE(queues.AreEmpty());
      if (status == kSuccess) break;
      EXPECT_EQ(ucudnnLayerParallelGetCallbackCode(), 31);
      EXPECT_THAT(ucudnnLayerParallelGetLastError(),
                  HasSubstr("the " + name + " callback returned 31"));
    }
  }
}

TEST(LayerParallelCallbacks, AFailedStepSaysItsLayers) {
  Chain chain(Short());
  Solver solver(chain, ThreeLevels(1, UCUDNN_LAYER_PARALLEL_STORE_ALL));
  chain.Fail({"step", 4, 9});
  EXPECT_EQ(solver.TryForward(), kCallbackFailed);
  // F-relaxation runs layers 0 to 2 of the first block, so the fourth step is layer 4 in the second
  // block.
  EXPECT_STREQ(
      ucudnnLayerParallelGetLastError(),
      "ucudnnLayerParallelSolveForward: the step callback returned 9 for layer 4 of level 0");
  ASSERT_EQ((chain.FailNothing(), solver.TryForward()), kSuccess);
  chain.records = true;
  ASSERT_EQ(solver.TryForward(), kSuccess);
  int first_coarse = 0;
  while (chain.steps[first_coarse].level == 0) ++first_coarse;
  chain.Fail({"step", first_coarse + 1, 9});
  EXPECT_EQ(solver.TryForward(), kCallbackFailed);
  EXPECT_STREQ(ucudnnLayerParallelGetLastError(),
               "ucudnnLayerParallelSolveForward: the step callback returned 9 for layers 0 to 3 of "
               "level 1");
}

TEST(LayerParallelCallbacks, OfSeveralLanesTheFirstIsHeard) {
  Chain chain(Short());
  Solver solver(chain, ThreeLevels(4, UCUDNN_LAYER_PARALLEL_STORE_ALL));
  for (int i = 0; i < 20; ++i) {
    chain.Fail({.callback = "step", .call = 1, .on_all_lanes = true});
    ASSERT_EQ(solver.TryForward(), kCallbackFailed);
    EXPECT_EQ(ucudnnLayerParallelGetCallbackCode(), 100);
  }
}

struct LayerParallelCallbacksOfOneLane : ::testing::Test {
  Chain chain{Short()};
  Solver solver{chain, ThreeLevels(1)};
};

// The header says that an exception ends the program, so not even a catch-all handler of the
// program may catch it.
TEST_F(LayerParallelCallbacksOfOneLane, AnExceptionEndsTheProgram) {
  chain.Fail({.callback = "step", .call = 1, .code = 0});
  const auto catches = [&] {
    try {
      solver.TryForward();
    } catch (...) {
      std::exit(0);
    }
    std::exit(0);
  };
  EXPECT_EXIT(catches(), ::testing::KilledBySignal(SIGABRT), "");
}

TEST_F(LayerParallelCallbacksOfOneLane, AVisitEndsWithTheVisitorsCode) {
  solver.Forward(chain.First());
  int visited = 0;
  const auto visit = [](void* user, int layer, const void*, const void*, int) {
    ++*static_cast<int*>(user);
    return layer == 20 ? -5 : 0;
  };
  EXPECT_EQ(ucudnnLayerParallelVisitLayers(solver.get(), visit, &visited), kCallbackFailed);
  EXPECT_EQ(ucudnnLayerParallelGetCallbackCode(), -5);
  EXPECT_EQ(visited, 21);
}

// Reading a state may run a step, which may fail as well. The next reading tries again.
TEST_F(LayerParallelCallbacksOfOneLane, AStateThatCannotBeComputedIsNotRead) {
  solver.Forward(chain.First(), SolveOptions(kTolerance));
  const void* state = nullptr;
  chain.Fail({"step", 2, 3});
  EXPECT_EQ(ucudnnLayerParallelGetState(solver.get(), 3, &state), kCallbackFailed);
  EXPECT_EQ(state, nullptr);
  chain.FailNothing();
  EXPECT_LT(Difference({solver.State(3)}, {chain.Serial(chain.First())[3]}), kError);
}

// --- Threads -------------------------------------------------------------------------------------

TEST(LayerParallelCallbacks, TwoSolversWorkAtOnce) {
  const auto solve = [](unsigned seed, std::vector<Vector>& states) {
    Chain chain(Short(seed));
    Solver solver(chain, ThreeLevels(3));
    for (int i = 0; i < 10; ++i) {
      solver.Forward(chain.First(), SolveOptions(kTolerance));
      solver.Adjoint(chain.Last(), SolveOptions(kTolerance));
    }
    states = solver.AdjointStates();
  };
  std::vector<Vector> alone[2], together[2];
  for (const unsigned seed : {0u, 1u}) solve(seed, alone[seed]);
  std::thread other([&] { solve(0, together[0]); });
  solve(1, together[1]);
  other.join();
  for (const unsigned seed : {0u, 1u}) EXPECT_EQ(together[seed], alone[seed]);
}

TEST(LayerParallelCallbacks, WordsAreOfTheThreadWhoseCallFailed) {
  EXPECT_EQ(ucudnnLayerParallelSolveForward(nullptr, nullptr, nullptr, nullptr),
            UCUDNN_LAYER_PARALLEL_BAD_PARAM);
  std::string other = "unset";
  std::thread([&] { other = ucudnnLayerParallelGetLastError(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_THAT(ucudnnLayerParallelGetLastError(), HasSubstr("null pointer"));
}

struct Nested {
  ucudnnLayerParallelSolver_t solver = nullptr;
  ucudnnLayerParallelStatus_t statuses[3] = {};

  static int Visit(void* user, int, const void* state, const void*, int) {
    auto& nested = *static_cast<Nested*>(user);
    nested.statuses[0] = ucudnnLayerParallelGetState(nested.solver, 0, &state);
    nested.statuses[1] = ucudnnLayerParallelSolveForward(nested.solver, state, nullptr, nullptr);
    nested.statuses[2] = ucudnnLayerParallelDestroy(nested.solver);
    return 1;
  }
};

TEST_F(LayerParallelCallbacksOfOneLane, ASolverIsNotUsedByItsOwnCallbacks) {
  solver.Forward(chain.First());
  Nested nested = {.solver = solver.get()};
  ASSERT_EQ(ucudnnLayerParallelVisitLayers(solver.get(), &Nested::Visit, &nested), kCallbackFailed);
  for (const auto status : nested.statuses) {
    EXPECT_EQ(status, kNotSupported);
  }
  EXPECT_EQ(solver.State(0), chain.First());
}

}  // namespace
}  // namespace ucudnn::layer_parallel_test
