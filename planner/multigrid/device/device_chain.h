// The chain of a stage on a device and its adjoint, as propagators: each lane is a stream, all from
// one host thread (Lanes::Threads::kCallersAlone). With one lane blocks run one after the other.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/cycle_graphs.h"
#include "planner/multigrid/device/step_plan.h"
#include "planner/multigrid/distributed/stage_layers.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/propagator.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

// What a chain and its adjoint share; lanes also with the chains of other levels.
struct DeviceRun {
  std::unique_ptr<StepRunner> runner;
  std::shared_ptr<DeviceLanes> lanes;
};

// States are numbers of the device, [batch, C, H, W].
class DeviceStates : public Propagator {
 public:
  Result<State> Create() override;
  Status Combine(State to, double b, double a, State x, int lane) override;
  Status SquaredDistance(State x, State y, double* result, int lane) override;
  // REQUIRES: cycles are not recorded.
  Status Mark(int lane, double* ms) override;
  Status Take(State& to, State& from, int lane) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override;
  Status Join() override { return run_.lanes->Join(); }
  Status Wait() override;
  double UnitRoundoff() const override;

  // Between host and device; wait.
  Status Upload(const double* numbers, State to);
  Status Download(State from, double* numbers);

  // From now on cycles are recorded and run as graphs.
  Status RecordCycles();
  const Precision& precision() const { return *run_.runner->target().precision; }

 protected:
  explicit DeviceStates(DeviceRun& run);
  DeviceRun& run() { return run_; }
  StepRunner::States At(State state) const { return {static_cast<Address>(state), 1}; }

 private:
  struct Pending {
    State x = nullptr;
    State y = nullptr;
    double* result = nullptr;
  };

  // A moment of a lane that somebody asks for.
  struct Marked {
    std::unique_ptr<cuda::Event> event;
    double* ms = nullptr;
  };
  // Of all marks of a lane, once it has been waited for.
  Status TellMarks(int lane);

  DeviceRun& run_;
  int64_t size_;
  std::vector<DeviceNumbers> states_;
  std::vector<std::vector<Pending>> pending_;  // by lane
  std::vector<double> downloaded_[2];
  std::optional<CycleGraphs> graphs_;
  std::unique_ptr<cuda::Event> epoch_;      // of marks; null: there were none
  std::vector<std::vector<Marked>> marks_;  // by lane
};

class DeviceChain : public DeviceStates {
 public:
  // What `stage` refers to outlives the chain. All lanes together use at most its workspace limit.
  static Result<std::unique_ptr<DeviceChain>> Make(const DeviceTarget& target,
                                                   const DeviceStage& stage,
                                                   std::shared_ptr<DeviceLanes> lanes);

  // The parameters as they are now are what the chain has from now on; Make has done it.
  Status WeightsChanged();

  Status Step(int level, int step, State from, State to, int lane) override;

  // Also for the adjoint, which shares runner and lanes.
  DeviceRun& shared() { return *owned_; }
  int64_t convolution_calls() const { return owned_->runner->convolution_calls(); }

 private:
  explicit DeviceChain(std::unique_ptr<DeviceRun> run)
      : DeviceStates(*run), owned_(std::move(run)) {}

  std::unique_ptr<DeviceRun> owned_;
  std::vector<std::vector<StepPlan>> plans_;  // by level and step
};

// The adjoint chain w[j] = lambda[N - j], as HostAdjoint has it, on the chain's hierarchy mirrored.
class DeviceAdjoint : public DeviceStates {
 public:
  // `chain` outlives it.
  static Result<std::unique_ptr<DeviceAdjoint>> Make(DeviceChain& chain);

  // `states`, of the chain, outlive the solves that follow.
  void LineariseAt(StateReader& states) { trajectory_ = &states; }

  // REQUIRES: LineariseAt.
  Status Step(int level, int step, State from, State to, int lane) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override;

  // gradient of the nodes of the layers begin..end - 1 += factor * what `states` and `adjoints`
  // give, block by block on `lanes`; waits. REQUIRES: the stage has gradients.
  Status AddGradient(LayerSpan layers, StateReader& states, StateReader& adjoints, Lanes& lanes,
                     double factor, Parameters& gradient);

 private:
  explicit DeviceAdjoint(DeviceRun& run) : DeviceStates(run) {}

  std::vector<std::vector<StepPlan>> plans_;  // by level and step
  std::vector<StepPlan> single_;              // by layer
  std::vector<DeviceGradients> gradients_;    // by kind
  StateReader* trajectory_ = nullptr;
};

}  // namespace ucudnn::multigrid
