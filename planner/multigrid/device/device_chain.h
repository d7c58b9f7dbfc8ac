// The chain of a stage on a device and its adjoint, as propagators. Either each lane is a stream
// and one host thread serves all lanes (Lanes::Threads::kCallersAlone), or all blocks run side by
// side on one lane.
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
  kStreams,  // a stream for each lane; one lane for serial propagation
  kGrouped   // side by side, as one grouped convolution
};

// What a chain and its adjoint share. They share the lanes with the chains of other levels, too.
struct DeviceRun {
  std::unique_ptr<StepRunner> runner;
  std::shared_ptr<DeviceLanes> lanes;
  Way way = Way::kStreams;
};

// A propagator whose states are PlacedStates.
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

  // Copy between host and device, and wait. `to` comes from Create().
  Status Upload(const double* numbers, State to);
  Status Download(State from, double* numbers);

  // Records cycles as graphs from now on.
  Status RecordCycles();
  const Precision& precision() const { return *run_.runner->target().precision; }

 protected:
  DeviceStates(DeviceRun& run, Direction direction);
  DeviceRun& run() { return run_; }
  // Returns null if lanes are streams.
  SideBySide* side_by_side() { return side_by_side_.get(); }
  // Reads `operation` and returns true if chains are being read; else the caller runs it.
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
  // The numbers of an array on the host, valid until the next Wait.
  struct Downloaded {
    const StatesArray* array = nullptr;
    std::vector<double> numbers;
  };

  // A call of Mark that has not been answered.
  struct Marked {
    std::unique_ptr<cuda::Event> event;
    double* ms = nullptr;
  };
  // Answers all marks of a lane. REQUIRES: the lane has been waited for.
  Status TellMarks(int lane);
  bool IsPacked(const StatesView& view) const {
    return view.image_distance == 1 || run_.runner->batch() == 1;
  }
  // Returns the numbers of the state's array. Does not replace `kept`.
  Result<const Downloaded*> Read(DeviceLane& lane, State state, const Downloaded* kept);
  Status Measure(DeviceLane& lane, const Pending& pending);

  DeviceRun& run_;
  int64_t size_;
  std::unique_ptr<SideBySide> side_by_side_;
  std::deque<StatesArray> arrays_;  // of one state each
  std::deque<PlacedState> states_;
  State packed_ = nullptr;  // Download copies states here whose numbers are apart
  std::vector<std::vector<Pending>> pending_;  // by lane
  Downloaded downloaded_[2];
  std::optional<CycleGraphs> graphs_;
  std::unique_ptr<cuda::Event> epoch_;      // of marks; null before the first one
  std::vector<std::vector<Marked>> marks_;  // by lane
};

class DeviceChain : public DeviceStates {
 public:
  // All lanes together use at most `workspace_limit` bytes. With Way::kGrouped there is one lane.
  // What `stage` refers to outlives the chain.
  static Result<std::unique_ptr<DeviceChain>> Make(const DeviceTarget& target,
                                                   const StagePart& stage, size_t workspace_limit,
                                                   std::shared_ptr<DeviceLanes> lanes,
                                                   Way way = Way::kStreams);

  // Loads the parameters that the host has now. Make has loaded them once.
  Status LoadWeights();

  Status Step(int level, int step, State from, State to, int lane) override;

  // The adjoint shares these, too.
  DeviceRun& shared() { return *owned_; }
  int64_t convolution_calls() const { return owned_->runner->convolution_calls(); }

 private:
  explicit DeviceChain(std::unique_ptr<DeviceRun> run)
      : DeviceStates(*run, Direction::kForward), owned_(std::move(run)) {}

  std::unique_ptr<DeviceRun> owned_;
  std::vector<std::vector<StepPlan>> plans_;  // by level and step; empty unless lanes are streams
};

// The adjoint chain w[j] = lambda[N - j] (HostChain), on the mirrored hierarchy of the chain.
class DeviceAdjoint : public DeviceStates {
 public:
  // `chain` outlives the adjoint.
  static Result<std::unique_ptr<DeviceAdjoint>> Make(DeviceChain& chain);

  // Linearises at `states`, states of the chain, which outlive the solves that follow.
  void LineariseAt(StateReader& states) { trajectory_ = &states; }
  // Reads the states, which have changed. Called after Prepare.
  Status Linearise() { return side_by_side() ? side_by_side()->Linearise() : Status::Ok(); }

  // REQUIRES: LineariseAt.
  Status Step(int level, int step, State from, State to, int lane) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override;

  // Computes the gradient of a layer, in a run with the key StageLayers::kGradients. This function
  // and the next two REQUIRE: the stage has gradients.
  Status Gradient(int layer, State state, State adjoint, int lane);
  // Adds `factor` times the gradients that the run computed for `layers` to `gradient`; waits.
  Status AddGradients(LayerSpan layers, double factor, Parameters& gradient);
  // Moves the chain's weights along the gradients (DeviceDescent::Step).
  Status Descend(double factor, const Descent& descent, RankChannel* replicas);

 private:
  explicit DeviceAdjoint(DeviceRun& run) : DeviceStates(run, Direction::kAdjoint) {}
  Status PlanGradients();
  // Puts all gradients in their places, and makes the first lane wait for that.
  Result<DeviceDescent*> GatherGradients();

  std::vector<std::vector<StepPlan>> plans_;  // by level and step; empty unless lanes are streams
  std::vector<StepPlan> single_;              // by layer; empty unless lanes are streams
  StateReader* trajectory_ = nullptr;
};

}  // namespace ucudnn::multigrid
