// The chain of a stage on a device and the chain's adjoint, as propagators. Either each lane is a
// stream, and one host thread runs all lanes (Lanes::Threads::kCallersAlone), or all blocks run
// side by side on one lane.
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
  kStreams,  // a stream for each lane; with one lane, propagation is serial
  kGrouped   // side by side, as groups of one convolution
};

// The objects that a chain and its adjoint share. If this rank also solves the levels that are not
// distributed, the chain of these levels shares `lanes`, too.
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

  // Copy numbers between host and device, and wait. `to` comes from Create().
  Status Upload(const double* numbers, State to);
  Status Download(State from, double* numbers);

  // Makes later cycles run as CUDA graphs (CycleGraphs).
  Status RecordCycles();

 protected:
  DeviceStates(DeviceRun& run, Direction direction);
  DeviceRun& run() { return run_; }
  // Returns null if lanes are streams.
  SideBySide* side_by_side() { return side_by_side_.get(); }
  // While SideBySide records operations, gives it `operation` and returns true. Otherwise returns
  // false, and the caller must run the operation.
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
  // The numbers of an array, copied to the host. They are valid until the next Wait.
  struct Downloaded {
    const StatesArray* array = nullptr;
    std::vector<double> numbers;
  };

  // A call of Mark whose time is not known yet.
  struct Marked {
    std::unique_ptr<cuda::Event> event;
    double* ms = nullptr;
  };
  // Writes the times of all marks of a lane. REQUIRES: the host has waited for the lane.
  Status TellMarks(int lane);
  // Returns the numbers of the state's array. Downloads them unless a buffer of downloaded_ already
  // has them. Does not overwrite the buffer `kept`.
  Result<const Downloaded*> Read(DeviceLane& lane, State state, const Downloaded* kept);
  Status Measure(DeviceLane& lane, const Pending& pending);

  DeviceRun& run_;
  int64_t size_;
  std::unique_ptr<SideBySide> side_by_side_;
  std::deque<StatesArray> arrays_;  // one for each state that Create made
  std::deque<PlacedState> states_;
  State packed_ = nullptr;  // buffer for Download of states that are not contiguous
  std::vector<std::vector<Pending>> pending_;  // by lane
  Downloaded downloaded_[2];
  std::optional<CycleGraphs> graphs_;
  // The event from which marks are timed; null before the first mark.
  std::unique_ptr<cuda::Event> epoch_;
  std::vector<std::vector<Marked>> marks_;  // by lane
};

class DeviceChain : public DeviceStates {
 public:
  // All lanes together use at most `workspace_limit` bytes of workspace. With Way::kGrouped there
  // is one lane. Everything to which `stage` refers must outlive the chain.
  static Result<std::unique_ptr<DeviceChain>> Make(const DeviceTarget& target,
                                                   const StagePart& stage, size_t workspace_limit,
                                                   std::shared_ptr<DeviceLanes> lanes,
                                                   Way way = Way::kStreams);

  // Loads the host's current parameters. Make has loaded them once.
  Status LoadWeights();

  Status Step(int level, int step, State from, State to, int lane) override;

  // Returns the objects that the adjoint shares.
  DeviceRun& shared() { return *owned_; }

 private:
  explicit DeviceChain(std::unique_ptr<DeviceRun> run)
      : DeviceStates(*run, Direction::kForward), owned_(std::move(run)) {}

  std::unique_ptr<DeviceRun> owned_;
  std::vector<std::vector<StepPlan>> plans_;  // by level and step; empty unless lanes are streams
};

// The adjoint chain w[j] = lambda[N - j] (see HostChain), on the mirrored hierarchy of the chain.
class DeviceAdjoint : public DeviceStates {
 public:
  // `chain` must outlive the adjoint.
  static Result<std::unique_ptr<DeviceAdjoint>> Make(DeviceChain& chain);

  // Sets the states of the chain at which the adjoint is linearised. They must outlive later
  // solves.
  void LineariseAt(StateReader& states) { trajectory_ = &states; }
  // Reads the states of the chain again after they have changed. The caller calls it after Prepare.
  Status Linearise() { return side_by_side() ? side_by_side()->Linearise() : Status::Ok(); }

  // REQUIRES: LineariseAt was called.
  Status Step(int level, int step, State from, State to, int lane) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override;

  // Computes the gradient of a layer, in a run whose key has the phase StageLayers::kGradients.
  // REQUIRES of this function and the next two: the stage has gradients.
  Status Gradient(int layer, State state, State adjoint, int lane);
  // Adds `factor` times the gradients that the run computed for `layers` to `gradient`, and waits.
  Status AddGradients(LayerSpan layers, double factor, Parameters& gradient);
  // Moves the chain's weights along the gradients (see DeviceDescent::Step).
  Status Descend(double factor, const Descent& descent, RankChannel* replicas);

 private:
  explicit DeviceAdjoint(DeviceRun& run) : DeviceStates(run, Direction::kAdjoint) {}
  Status PlanGradients();
  // Copies all gradients to their places in the DeviceDescent, and makes the first lane wait for
  // the copies.
  Result<DeviceDescent*> GatherGradients();

  std::vector<std::vector<StepPlan>> plans_;  // by level and step; empty unless lanes are streams
  std::vector<StepPlan> single_;              // by layer; empty unless lanes are streams
  StateReader* trajectory_ = nullptr;
};

}  // namespace ucudnn::multigrid
