// The weights of a stage's steps on a device, in single precision. Immutable.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/step_kernels.h"
#include "planner/multigrid/host/stage.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

// The one shape of all steps of `stage`: a convolution with stride 1 and a bias, then ReLU or tanh.
// The error names a step that is something else: those run on the host alone.
Result<StepShape> ShapeOfSteps(const ResidualChain& chain, const Stage& stage);

class DeviceWeights {
 public:
  // Steps in the given order, by their numbers in the stage: step i of what is made is order[i].
  static Result<std::unique_ptr<DeviceWeights>> Make(const DeviceTarget& target,
                                                     const ResidualChain& chain, const Stage& stage,
                                                     const Parameters& parameters,
                                                     const std::vector<int>& order);

  const StepShape& shape() const { return shape_; }
  int steps() const { return steps_; }
  // Those of the steps from `number` on, one behind the other.
  const float* weights(int number) const {
    return weights_->data() + number * shape_.WeightCount();
  }
  const float* bias(int number) const { return bias_->data() + int64_t{number} * shape_.channels; }

 private:
  DeviceWeights() = default;

  StepShape shape_;
  int steps_ = 0;
  std::optional<DeviceNumbers> weights_;
  std::optional<DeviceNumbers> bias_;
};

}  // namespace ucudnn::multigrid
