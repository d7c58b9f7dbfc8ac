// The object behind a ucudnnLayerParallelSolver_t. It has the states of both directions, the lanes
// and the program's callbacks. Calls of one solver must not overlap.
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

// A visitor of VisitLayers. It gets the layer's input state, and the adjoint of the layer's output.
// The adjoint is null unless the last adjoint solve succeeded and used the present states.
using Visit = int (*)(void* user, int layer, const void* state, const void* adjoint, int lane);

class Solver {
 public:
  // Creates a solver in `made`. The solver must not move, because its members refer to each other.
  static Answer Make(const ucudnnLayerParallelCallbacks_t& callbacks, Setting setting,
                     std::unique_ptr<ucudnnLayerParallelSolver>& made);

  // Sets `solution` to a member of the solver.
  Answer SolveForward(State first, const multigrid::SolveOptions& options,
                      const multigrid::Solution*& solution);
  Answer SolveAdjoint(State last, const multigrid::SolveOptions& options,
                      const multigrid::Solution*& solution);

  Answer ReadState(int number, State& state);
  Answer ReadAdjoint(int number, State& adjoint);
  Answer VisitLayers(Visit visit, void* user);

  // Returns the flag that is set while a function of the API uses the solver.
  std::atomic<bool>& in_use() { return in_use_; }

  // Constructs a solver without states; only Make calls this.
  Solver(const ucudnnLayerParallelCallbacks_t& callbacks, Setting setting, multigrid::Lanes lanes)
      : setting_(std::move(setting)),
        lanes_(std::move(lanes)),
        caller_(callbacks, setting_.lanes) {}

 private:
  // The data of the forward or of the adjoint direction.
  struct Direction {
    const multigrid::Hierarchy* hierarchy = nullptr;
    std::optional<CallerChain> chain;
    std::optional<multigrid::BlockSystem> system;
    std::optional<multigrid::Trajectory> trajectory;
    multigrid::Solution solution;
    bool has_states = false;  // the last solve succeeded, so the next one may start from its states
  };

  Status Prepare(Direction& direction, const multigrid::Hierarchy& hierarchy,
                 multigrid::StateReader* linearised);
  Status PrepareBoth();
  Answer Solve(Direction& direction, State first, const multigrid::SolveOptions& options);
  // Waits until no lane has work left, and returns the answer for `status`, an error of a callback
  // or of the solver.
  Answer Failure(const Status& status);
  Answer CheckNumber(int number) const;
  Answer Read(Direction& direction, int number, State& state);

  Setting setting_;
  multigrid::Lanes lanes_;
  Caller caller_;
  Direction forward_;
  Direction adjoint_;          // empty without an adjoint_step
  bool adjoint_fits_ = false;  // the last adjoint solve used forward_'s present states
  std::atomic<bool> in_use_ = false;
};

}  // namespace ucudnn::layer_parallel

struct ucudnnLayerParallelSolver final : ucudnn::layer_parallel::Solver {
  using Solver::Solver;
};
