// Chains whose k-th operations run as one: steps of states that lie side by side on the channel
// axis are one convolution of as many groups, with weights stored in the same order, and sums of
// states at equal distances are one call. What a system runs on its states is read once, by the key
// of the run, and then made with as few calls as that. Thread-compatible.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/cycle_graphs.h"
#include "planner/multigrid/device/device_weights.h"
#include "planner/multigrid/device/placed_state.h"
#include "planner/multigrid/device/step_plan.h"
#include "planner/multigrid/distributed/stage_layers.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

class SideBySide {
 public:
  // `direction` is that of the chain whose states it places: an adjoint's lie in the order of the
  // network. `runner` outlives it; `lanes` are one.
  SideBySide(StepRunner& runner, DeviceLanes& lanes, Direction direction)
      : runner_(runner), lanes_(lanes), direction_(direction) {}

  // A state of a system; it lives as long as this.
  Result<State> Create(const StatePlace& place);

  // An operation of a chain.
  struct Operation {
    enum class Kind { kSum, kStep, kAdjointStep, kGradient };
    Kind kind = Kind::kSum;
    Pass pass = Pass::kForward;  // that steps get ready for
    LayerRange layers = {};      // of a step
    double a = 1, b = 0;         // of a sum: to = a * from + b * to
    State from = nullptr;        // of a gradient: the adjoint
    State to = nullptr;          // null for a gradient
    State linearised = nullptr;  // what adjoint steps and gradients are linearised at
  };
  // Whether operations are read now, and not run.
  bool reads() const { return reading_ != nullptr; }
  void Read(const Operation& operation) { reading_->push_back(operation); }

  Status Run(const RunKey& key, int count, LaneWork chain);
  // As Propagator::Prepare has it.
  Status Prepare(const std::function<Status()>& phases);
  // Copies what adjoint steps are linearised at to where it lies side by side.
  Status Linearise();
  // Puts the gradients of the run of `key` where the descent has them.
  Status PutGradients(const RunKey& key);

 private:
  // Operations that are made at once.
  struct Call {
    Operation::Kind kind = Operation::Kind::kSum;
    double a = 1, b = 0;
    StatesView from, to, linearised;
    StepPlan plan;
    std::vector<ArrangedMemory> gradients;  // by call of the plan
    std::vector<ArrangedNumbers> numbers;   // of the gradients
  };

  Result<const StatesArray*> MakeArray(int64_t count);
  StatesView ViewOf(const StatesArray& array, int64_t index) const;
  // The calls of `chains`, their first operations before the second ones.
  Result<std::vector<Call>> CallsOf(const std::vector<std::vector<Operation>>& chains);
  // Appends those of operations that may run at the same time.
  Status Group(std::vector<Operation>& operations, std::vector<Call>& calls);
  Result<Call> CallOf(std::span<const Operation> operations);
  Result<StatesView> LinearisedOf(std::span<const Operation> operations);
  Status Make(const Call& call);

  StepRunner& runner_;
  DeviceLanes& lanes_;
  const Direction direction_;
  std::deque<StatesArray> arrays_;
  std::deque<PlacedState> states_;
  // By level, role and place in a block; the places of the shorter block behind all others follow.
  std::map<std::tuple<int, StatePlace::Role, int>, const StatesArray*> places_;
  std::map<RunKey, std::vector<Call>> runs_;
  std::vector<Operation>* reading_ = nullptr;
  bool prepares_ = false;
  // By the first layer, the number of layers of one and how many there are.
  std::map<std::tuple<int, int, size_t>, StatesView> linearised_;
  std::vector<Call> linearisation_;
};

}  // namespace ucudnn::multigrid
