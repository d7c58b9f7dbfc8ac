// Runs chains whose k-th operations form one call. Steps on states that lie side by side on the
// channel axis are one convolution, with a group for each step. The convolution's weights are
// stored in the order of the steps. Sums of states at equal distances are one call, too. For each
// RunKey, the operations of the chains are recorded once, and every run then repeats them as a few
// calls. Thread-compatible.
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
  // `direction` is the direction of the chain. The states of an adjoint are placed in the order of
  // the network. `runner` and `lanes` must outlive the object. REQUIRES: there is one lane.
  SideBySide(StepRunner& runner, DeviceLanes& lanes, Direction direction)
      : runner_(runner), lanes_(lanes), direction_(direction) {}

  // Creates a state of a system. The state is valid as long as this object exists.
  Result<State> Create(const StatePlace& place);

  // An operation of a chain.
  struct Operation {
    enum class Kind { kSum, kStep, kAdjointStep, kGradient };
    Kind kind = Kind::kSum;
    Pass pass = Pass::kForward;  // the pass for which the layers are prepared
    LayerRange layers = {};      // kStep, kAdjointStep and kGradient: the layers that are applied
    double a = 1, b = 0;         // kSum: to = a * from + b * to
    State from = nullptr;        // kGradient: the adjoint; otherwise the input
    State to = nullptr;          // null for kGradient
    State linearised = nullptr;  // kAdjointStep and kGradient: the state at which F is linearised
  };
  // Returns whether operations are being recorded. If so, the chain passes them to Read instead of
  // running them.
  bool reads() const { return reading_ != nullptr; }
  void Read(const Operation& operation) { reading_->push_back(operation); }

  Status Run(const RunKey& key, int count, LaneWork chain);
  // See Propagator::Prepare.
  Status Prepare(const std::function<Status()>& phases);
  // If the states at which adjoint steps are linearised do not lie side by side, copies them.
  Status Linearise();
  // Copies the gradients of the run `key` to their places in the DeviceDescent.
  Status PutGradients(const RunKey& key);

 private:
  // Operations that run as one call.
  struct Call {
    Operation::Kind kind = Operation::Kind::kSum;
    double a = 1, b = 0;
    StatesView from, to, linearised;
    StepPlan plan;
    std::vector<ArrangedMemory> gradients;  // by StepCall of `plan`
    std::vector<ArrangedNumbers> numbers;   // addresses in `gradients`
  };

  Result<const StatesArray*> MakeArray(int64_t count);
  StatesView ViewOf(const StatesArray& array, int64_t index) const;
  // Returns the calls of `chains`: first the calls of all chains' first operations, then of all
  // second operations, and so on.
  Result<std::vector<Call>> CallsOf(const std::vector<std::vector<Operation>>& chains);
  // Appends the calls of operations that may run at the same time.
  Status Group(std::vector<Operation>& operations, std::vector<Call>& calls);
  Result<Call> CallOf(std::span<const Operation> operations);
  Result<StatesView> LinearisedOf(std::span<const Operation> operations);
  Status Make(const Call& call);

  StepRunner& runner_;
  DeviceLanes& lanes_;
  const Direction direction_;
  std::deque<StatesArray> arrays_;
  std::deque<PlacedState> states_;
  // By level, role and place in a block. The places of the shorter last block follow the places of
  // the other blocks.
  std::map<std::tuple<int, StatePlace::Role, int>, const StatesArray*> places_;
  std::map<RunKey, std::vector<Call>> runs_;
  std::vector<Operation>* reading_ = nullptr;
  bool prepares_ = false;
  // Copies of linearised states, by the first layer, the distance in layers between two states and
  // the number of states.
  std::map<std::tuple<int, int, size_t>, StatesView> linearised_;
  std::vector<Call> linearisation_;
};

}  // namespace ucudnn::multigrid
