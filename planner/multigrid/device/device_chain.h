// The chain of a stage on a device and its adjoint, as propagators: each lane is a stream, all from
// one host thread (Lanes::Threads::kCallersAlone), or all blocks run side by side on one.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/cycle_graphs.h"
#include "planner/multigrid/device/placed_state.h"
#include "planner/multigrid/device/side_by_side.h"
#include "planner/multigrid/device/step_plan.h"
#include "planner/multigrid/distributed/stage_layers.h"
#include "planner/multigrid/propagator.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

// How the blocks of a level run at once.
enum class Way {
  kStreams,  // a stream for each lane; one for serial propagation
  kGrouped   // side by side, as one grouped convolution
};

// What a chain and its adjoint share; lanes also with the chains of other levels.
struct DeviceRun {
  std::unique_ptr<StepRunner> runner;
  std::shared_ptr<DeviceLanes> lanes;
  Way way = Way::kStreams;
};

// States are PlacedStates.
class DeviceStates : public Propagator {
 public:
  Result<State> Create() override;
  Result<State> CreateAt(const StatePlace& place) override;
  bool RunsSideBySide() const override { return side_by_side_ != nullptr; }
  Status Prepare(const std::function<Status()>& phases) override;
  Status Run(const RunKey& key, int count, LaneWork chain, Lanes& lanes) override;
  Status Combine(State to, double b, double a, State x, int lane) override;
  Status SquaredDistance(State x, State y, double* result, int lane) override;
  // REQUIRES: cycles are not recorded.
  Status Mark(int lane, double* ms) override;
  Status Take(State& to, State& from, int lane) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override;
  Status Join() override { return run_.lanes->Join(); }
  Status Wait() override;
  double UnitRoundoff() const override;

  // Between host and device; wait. `to` is of Create().
  Status Upload(const double* numbers, State to);
  Status Download(State from, double* numbers);

  // From now on cycles are recorded and run as graphs.
  Status RecordCycles();
  const Precision& precision() const { return *run_.runner->target().precision; }

 protected:
  DeviceStates(DeviceRun& run, Direction direction);
  DeviceRun& run() { return run_; }
  // Null where lanes are streams.
  SideBySide* side_by_side() { return side_by_side_.get(); }
  // Whether `operation` is read, and not to be run.
  bool Reads(const SideBySide::Operation& operation);
  static StepRunner::States At(State state) {
    const StatesView& view = PlacedState::Of(state).view;
    return {view.data, view.image_distance};
  }

 private:
  struct Pending {
    State x = nullptr;
    State y = nullptr;
    double* result = nullptr;
  };
  // An array's numbers on the host, until the next Wait.
  struct Downloaded {
    const StatesArray* array = nullptr;
    std::vector<double> numbers;
  };

  // A moment of a lane that somebody asks for.
  struct Marked {
    std::unique_ptr<cuda::Event> event;
    double* ms = nullptr;
  };
  // Of all marks of a lane, once it has been waited for.
  Status TellMarks(int lane);
  bool IsPacked(const StatesView& view) const {
    return view.image_distance == 1 || run_.runner->batch() == 1;
  }
  // The numbers of the state's array; not in the place of those of `kept`.
  Result<const Downloaded*> Read(DeviceLane& lane, State state, const Downloaded* kept);
  Status Measure(DeviceLane& lane, const Pending& pending);

  DeviceRun& run_;
  int64_t size_;
  std::unique_ptr<SideBySide> side_by_side_;
  std::deque<StatesArray> arrays_;  // of one state each
  std::deque<PlacedState> states_;
  State packed_ = nullptr;  // what is downloaded is copied into it, where it is not together
  std::vector<std::vector<Pending>> pending_;  // by lane
  Downloaded downloaded_[2];
  std::optional<CycleGraphs> graphs_;
  std::unique_ptr<cuda::Event> epoch_;      // of marks; null: there were none
  std::vector<std::vector<Marked>> marks_;  // by lane
};

class DeviceChain : public DeviceStates {
 public:
  // What `stage` refers to outlives the chain. All lanes together use at most `workspace_limit`
  // bytes. Side by side `lanes` are one.
  static Result<std::unique_ptr<DeviceChain>> Make(const DeviceTarget& target,
                                                   const StagePart& stage, size_t workspace_limit,
                                                   std::shared_ptr<DeviceLanes> lanes,
                                                   Way way = Way::kStreams);

  // The parameters as the host has them now are the chain's from now on; Make has done it.
  Status LoadWeights();

  Status Step(int level, int step, State from, State to, int lane) override;

  // Also for the adjoint, which shares runner and lanes.
  DeviceRun& shared() { return *owned_; }
  int64_t convolution_calls() const { return owned_->runner->convolution_calls(); }

 private:
  explicit DeviceChain(std::unique_ptr<DeviceRun> run)
      : DeviceStates(*run, Direction::kForward), owned_(std::move(run)) {}

  std::unique_ptr<DeviceRun> owned_;
  std::vector<std::vector<StepPlan>> plans_;  // by level and step, of streams
};

// The adjoint chain w[j] = lambda[N - j], as HostChain has it, on the chain's hierarchy mirrored.
class DeviceAdjoint : public DeviceStates {
 public:
  // `chain` outlives it.
  static Result<std::unique_ptr<DeviceAdjoint>> Make(DeviceChain& chain);

  // `states`, of the chain, outlive the solves that follow.
  void LineariseAt(StateReader& states) { trajectory_ = &states; }
  // The states have changed; behind Prepare.
  Status Linearise() { return side_by_side() ? side_by_side()->Linearise() : Status::Ok(); }

  // REQUIRES: LineariseAt.
  Status Step(int level, int step, State from, State to, int lane) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override;

  // Computes the gradient of a layer, in a run of StageLayers::kGradients.
  // REQUIRES, as what follows: the stage has gradients.
  Status Gradient(int layer, State state, State adjoint, int lane);
  // Adds what that run computed for `layers` to `gradient`; waits.
  Status AddGradients(LayerSpan layers, double factor, Parameters& gradient);
  // The chain's weights descend along it (DeviceDescent::Step).
  Status Descend(double factor, const Descent& descent, RankChannel* replicas);

 private:
  explicit DeviceAdjoint(DeviceRun& run) : DeviceStates(run, Direction::kAdjoint) {}
  Status PlanGradients();
  // What the first lane is given is behind the gradients, which lie in their places.
  Result<DeviceDescent*> GatherGradients();

  std::vector<std::vector<StepPlan>> plans_;  // by level and step, of streams
  std::vector<StepPlan> single_;              // by layer, of streams
  StateReader* trajectory_ = nullptr;
};

}  // namespace ucudnn::multigrid
