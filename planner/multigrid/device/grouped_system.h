// The states of a chain on a device so that all blocks of a level step at once: their k-th layers
// are one convolution of as many groups, on states that lie side by side on the channel axis. The
// weights are stored in the same order, so an F-relaxation of any depth is coarsening - 1
// convolution calls and copies no state. The adjoint chain lies the same way, in the order of the
// network: its blocks are those of the states, passed through backwards.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/carried_start.h"
#include "planner/multigrid/chain_part.h"
#include "planner/multigrid/device/cycle_graphs.h"
#include "planner/multigrid/device/step_plan.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

class GroupedSystem : public ChainPart {
 public:
  // What systems of one stage share: their kernels and weights, and one lane.
  struct Run;
  // What `stage` refers to outlives the run. `lanes` are one, or one with an exchange.
  static Result<std::shared_ptr<Run>> MakeRun(const DeviceTarget& target, const DeviceStage& stage,
                                              std::shared_ptr<DeviceLanes> lanes);

  // With the parameters as they are now.
  static Result<std::unique_ptr<GroupedSystem>> Make(std::shared_ptr<Run> run,
                                                     const PartTraits& traits);
  // Of lambda, whose level l ends in state 0: lambda[n] = lambda[n + 1] + h J_n^T lambda[n + 1], on
  // the same hierarchy mirrored: steps behind the last C-point lead to it. `states` outlives it.
  static Result<std::unique_ptr<GroupedSystem>> MakeAdjoint(GroupedSystem& states,
                                                            const PartTraits& traits);
  ~GroupedSystem() override;

  // The parameters as they are now are what all systems of the run have from now on.
  static Status LoadWeights(Run& run);
  // From now on cycles are recorded and run as graphs.
  Status RecordCycles();

  // A state is a StatesView of one. These live as long as the system.
  static const StatesView& ViewOf(State state) { return *static_cast<StatesView*>(state); }
  // Any state of the finest level, by its number in the network.
  State ReadState(int number);

  // Adds what the first state changes by to all states (carried_start.h).
  Status CarryOver(const FirstStateChange& change);
  // Of an adjoint, before its solves: at the states as they are now, or, of coarse levels, at those
  // that `states` has.
  Status LineariseAt(StateReader* states);
  // Of an adjoint: gradient of the steps' nodes += factor * what states and adjoints give; waits.
  Status AddGradient(double factor, Parameters& gradient);

  void SetInlet(Inlet& inlet) override { inlet_ = &inlet; }
  Status SetFirst(State first) override;
  Result<std::span<const double>> Parts(NormParts parts) override;
  State first() override { return state(0, 0); }
  State last() override { return state(0, LevelOf(0).steps); }
  State c_point(int level, int number) override;
  State state(int level, int number) override;
  State source(int level, int number) override;
  Status Copy(State from, State to) override { return Combine(1, ViewOf(from), 0, ViewOf(to)); }
  Status Join() override;

  Status Broadcast() override;
  Status StepLead(int level, Source source) override;
  Status RelaxF(int level, Source source) override;
  Status Advance(int level) override;
  Status RelaxC(int level) override;
  Status Restrict(int level) override;
  Status SolveSerially(int level, Source source) override;
  Status Correct(int level) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override;
  double UnitRoundoff() const override;

  int64_t convolution_calls() const { return runner().convolution_calls(); }
  int64_t backward_calls() const { return runner().backward_calls(); }

 private:
  struct Grid;

  // Which of a level's states, by its number in the network.
  enum class Kind { kState, kSource };

  GroupedSystem(std::shared_ptr<Run> run, GroupedSystem* states, const PartTraits& traits);
  StepRunner& runner() const;
  DeviceLane& lane() const;
  const Level& LevelOf(int level) const;

  bool is_adjoint() const { return states_ != nullptr; }
  bool HasSources(int level) const { return level > 0 || traits_.has_source; }
  // A number that counts in the direction of the chain, in that of the network.
  int InNetwork(int level, int number) const {
    return is_adjoint() ? LevelOf(level).steps - number : number;
  }
  Status AwaitFirst(int level) {
    return traits_.has_inlet ? inlet_->AwaitFirst(level, 0) : Status::Ok();
  }
  State Handle(Kind kind, int level, int number, const StatesView& view);
  StatesView StateView(int level, int number) const;
  StatesView SourceView(int level, int step) const;
  // The state that step `i` of a level begins with and that it gives.
  int FromOf(int i) const { return is_adjoint() ? i + 1 : i; }
  int ToOf(int i) const { return is_adjoint() ? i : i + 1; }
  Status MakeGrid(int level);
  Result<StepPlan> PlanOf(int level, const std::vector<int>& steps);
  // Room for what coarse adjoint steps are linearised at, and filling it from the states.
  Status MakeLinear(Grid& grid);
  Status Linearise();
  Status LineariseOnOthers(StateReader& states);
  // Of the states, every `distance`-th from number `begin` on.
  Status GatherStates(int begin, int distance, const StatesView& to);
  // Copies every so many states, `distance` apart, from number `begin` of `points` on.
  Status GatherPoints(const Grid& from, const DeviceNumbers& points, int begin, int distance,
                      const StatesView& to);
  // The right side of the coarse step behind `place` from what Advance made of the finer level.
  Status MakeSource(int level, int place, bool is_tail);

  // `count` of the view's states from number `states` on.
  StatesView Part(const StatesView& view, int64_t states, int count) const;
  // The states at one place of every block: 0 is the C-point before, places() the one behind.
  StatesView Place(int level, int place) const;
  // The shorter block behind the last C-point, which is its place 0.
  StatesView TailPlace(int level, int place) const;
  // The C-points of a level that are computed, of `points`.
  StatesView Computed(int level, const DeviceNumbers& points) const;
  // The state that all of a level follow from, of `points`.
  StatesView Given(int level) const;

  // Place `place` of every block, or of block `block` alone: out = Phi(from).
  Status StepBlocks(int level, int place, const StatesView& from, const StatesView& out, int block);
  Status StepTail(int level, int place, const StatesView& from, const StatesView& out);
  Status StepPlanned(const StepPlan& plan, const StepRunner::Positions& positions,
                     const StatesView& linearised, const StatesView& from, const StatesView& out);
  // What a step at a place of all blocks, or of the tail, is linearised at.
  StatesView LinearOf(int level, int place) const;
  StatesView LinearOfTail(int level, int place) const;
  // The steps behind the last C-point, one after the other; `adds` the right side.
  Status RelaxTail(int level, bool adds);
  Status Combine(double a, const StatesView& x, double b, const StatesView& y);
  // Of the finest level's C-points, or of what Advance would change them by; waits. By C-point in
  // the network.
  Result<const std::vector<double>*> SquaredNorms(bool of_residuals);
  Result<double> SquaredNormOf(const StatesView& states);
  Status MeasureResidual(bool by_state);
  Status MeasureFullResidual();
  Status MeasureStates();

  std::shared_ptr<Run> run_;
  GroupedSystem* states_;  // of an adjoint
  PartTraits traits_;
  Inlet* inlet_ = nullptr;
  std::vector<std::unique_ptr<Grid>> grids_;  // by level
  std::optional<CycleGraphs> graphs_;
  std::vector<double> downloaded_[2];
  std::vector<double> squares_;
  std::vector<double> residual_squares_;
  std::vector<double> parts_;
  std::map<std::tuple<Kind, int, int>, std::unique_ptr<StatesView>> handles_;
};

}  // namespace ucudnn::multigrid
