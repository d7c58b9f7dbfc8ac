// The object behind a ucudnnLayerParallelSolver_t: the states of both directions, the lanes and the
// program's callbacks. Calls of one solver do not overlap.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "layer_parallel/answer.h"
#include "layer_parallel/arguments.h"
#include "layer_parallel/caller.h"
#include "layer_parallel/caller_chain.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/solver.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::layer_parallel {

// Called for a layer with the state that it read, and the adjoint of its result, or null.
using Visit = int (*)(void* user, int layer, const void* state, const void* adjoint, int lane);

class Solver {
 public:
  // Sets `made`, which does not move afterwards.
  static Answer Make(const ucudnnLayerParallelCallbacks_t& callbacks, Setting setting,
                     std::unique_ptr<ucudnnLayerParallelSolver>& made);

  // `solution` points to a member of the solver.
  Answer SolveForward(State first, const multigrid::SolveOptions& options,
                      const multigrid::Solution*& solution);
  Answer SolveAdjoint(State last, const multigrid::SolveOptions& options,
                      const multigrid::Solution*& solution);

  Answer ReadState(int number, State& state);
  Answer ReadAdjoint(int number, State& adjoint);
  Answer VisitLayers(Visit visit, void* user);

  // Set while a function of the API uses the solver.
  std::atomic<bool>& in_use() { return in_use_; }

  // Makes a solver without states, for Make.
  Solver(const ucudnnLayerParallelCallbacks_t& callbacks, Setting setting, multigrid::Lanes lanes)
      : setting_(std::move(setting)),
        lanes_(std::move(lanes)),
        caller_(callbacks, setting_.lanes) {}

 private:
  // The forward direction, or the adjoint.
  struct Direction {
    const multigrid::Hierarchy* hierarchy = nullptr;
    std::optional<CallerChain> chain;
    std::optional<multigrid::BlockSystem> system;
    std::optional<multigrid::Trajectory> trajectory;
    multigrid::Solution solution;
    bool has_states = false;  // of a solve; a later one may start from them
  };

  Status Prepare(Direction& direction, const multigrid::Hierarchy& hierarchy,
                 multigrid::StateReader* linearised);
  Status PrepareBoth();
  Answer Solve(Direction& direction, State first, const multigrid::SolveOptions& options);
  // Returns the answer for `status`, an error of a callback or of the solver. When it returns, no
  // work of the lanes is left.
  Answer Failure(const Status& status);
  Answer CheckNumber(int number) const;
  Answer Read(Direction& direction, int number, State& state);

  Setting setting_;
  multigrid::Lanes lanes_;
  Caller caller_;
  Direction forward_;
  Direction adjoint_;          // empty if there is no adjoint_step
  bool adjoint_fits_ = false;  // it was solved at the present states of forward_
  std::atomic<bool> in_use_ = false;
};

}  // namespace ucudnn::layer_parallel

struct ucudnnLayerParallelSolver final : ucudnn::layer_parallel::Solver {
  using Solver::Solver;
};
