// Plans the library calls with which many steps of a level run at once, and makes these calls.
// Steps of one kind are one call if their positions in the kind (StageShapes::number_of) are at
// equal distances. All layers that a coarse step applies to one input are one call, too.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/device/device_descent.h"
#include "planner/multigrid/device/device_weights.h"
#include "planner/multigrid/device/step_kernels.h"

namespace ucudnn::multigrid {

// One call of StepKernels, for positions first to first + steps.count - 1 of the plan.
struct StepCall {
  Arrangement steps;
  int first = 0;
  double factor = 1;
  // True for the first call for these positions. Its sum begins with `from`, and later calls add to
  // that sum.
  bool is_first = true;
  const ArrangedNumbers* numbers = nullptr;
};

// The calls for the steps at several positions. The step at each position has its own input.
struct StepPlan {
  std::vector<StepCall> calls;
};

// Runs plans of one stage. Thread-compatible; lanes may run at once.
class StepRunner {
 public:
  using States = StepKernels::States;

  static Result<std::unique_ptr<StepRunner>> Make(const DeviceTarget& target,
                                                  const StagePart& stage, size_t workspace_limit,
                                                  int lanes);

  // Plans one step for each of `ranges`, which are the layers that the steps apply.
  Result<StepPlan> Plan(const std::vector<LayerRange>& ranges, DeviceLane& lane);
  // Prepares the calls of `pass` at the plan's positions, both for all positions at once and for
  // each alone. The input states of successive images are `distance` states apart.
  Status Prepare(const StepPlan& plan, int64_t distance, Pass pass);
  const LaneNeeds& needs() const { return needs_; }

  struct AdjointStates {
    States linearised, from, out;
  };
  // Computes out = Phi(from).
  Status Step(const StepPlan& plan, const States& from, const States& out, DeviceLane& lane);
  // Computes out = (dPhi)^T from, linearised at states.linearised.
  Status AdjointStep(const StepPlan& plan, const AdjointStates& states, DeviceLane& lane);
  // Computes each step's own gradient. gradients[i] gets the gradients of the plan's call i.
  Status Gradient(const StepPlan& plan, const States& states, const States& adjoints,
                  const std::vector<ArrangedNumbers>& gradients, DeviceLane& lane);

  const DeviceTarget& target() const { return target_; }
  const StagePart& stage() const { return stage_; }
  const StageShapes& shapes() const { return shapes_; }
  DeviceWeights& weights() { return *weights_; }
  // Returns the descent, which the first call of this function makes.
  Result<DeviceDescent*> Descent();
  // Uploads the host's parameters, and waits.
  Status LoadWeights(DeviceLane& lane);
  StateSums& sums() { return sums_; }
  int64_t StateSize() const { return shapes_.StateSize(); }
  int batch() const { return stage_.batch; }

 private:
  StepRunner(const DeviceTarget& target, const StagePart& stage, StageShapes shapes)
      : target_(target),
        stage_(stage),
        shapes_(std::move(shapes)),
        sums_(target, shapes_.StateSize(), stage.batch) {}
  // Splits a range of layers into stretches of one kind. Each stretch is an Arrangement of one
  // group.
  std::vector<Arrangement> PartsOf(const LayerRange& range) const;
  StepKernels::Operands OperandsOf(const StepCall& call, const DeviceLane& lane) const;
  States Moved(const States& states, int positions) const;

  DeviceTarget target_;
  StagePart stage_;
  StageShapes shapes_;
  StateSums sums_;
  std::unique_ptr<DeviceWeights> weights_;
  std::unique_ptr<DeviceDescent> descent_;             // null until Descent() is called
  std::vector<std::unique_ptr<StepKernels>> kernels_;  // by kind
  LaneNeeds needs_;
};

}  // namespace ucudnn::multigrid
