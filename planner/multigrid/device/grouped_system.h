// The states of a chain on a device so that all blocks of a level step at once: their k-th layers
// are one convolution of as many groups, on states that lie side by side on the channel axis. The
// weights are stored in the same order, so an F-relaxation of any depth is coarsening - 1
// convolution calls and copies no state.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/device/device_weights.h"
#include "planner/multigrid/device/step_kernels.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/layer_system.h"

namespace ucudnn::multigrid {

class GroupedSystem : public LayerSystem {
 public:
  // The parameters are copied. kMean and kSum2 are refused.
  static Result<std::unique_ptr<GroupedSystem>> Make(const DeviceTarget& target,
                                                     const DeviceStage& stage);
  ~GroupedSystem() override;

  // u0, [batch, C, H, W], before the first solve.
  Status SetFirst(const std::vector<double>& first);
  // Any state of the finest level; waits.
  Result<std::vector<double>> ReadState(int number);

  Status Broadcast() override;
  Status RelaxF(int level, Source source) override;
  Status Advance(int level) override;
  Status RelaxC(int level, double weight) override;
  Status Restrict(int level) override;
  Status SolveSerially(int level, Source source) override;
  Status Correct(int level) override;
  Result<double> ResidualNorm() override;
  Result<double> ResidualNormByState() override;
  Result<double> FullResidualNorm() override;
  Result<StateNorms> Norms() override;
  double UnitRoundoff() const override;

  int64_t convolution_calls() const { return kernels_->convolution_calls(); }

 private:
  struct Grid;

  GroupedSystem(const DeviceTarget& target, const Hierarchy& hierarchy);
  Status MakeGrid(const DeviceStage& stage, int level);
  Result<std::vector<std::unique_ptr<DeviceWeights>>> WeightsOf(const DeviceStage& stage, int level,
                                                                const std::vector<int>& steps);
  // The states at one place of every block: 0 is the C-point, and the C-point behind it is what
  // place `coarsening` would be.
  StatesView Place(int level, int place) const;
  // The shorter block behind the last C-point.
  StatesView TailPlace(int level, int place) const;
  // out = Phi(x), of as many steps as x has states, with the weights at `first` of each layer that
  // a step of this level applies.
  Status StepAll(const std::vector<std::unique_ptr<DeviceWeights>>& weights, int first,
                 const StatesView& x, const StatesView& out, double factor);
  // The steps behind the last C-point, one after the other; `adds` the right side.
  Status RelaxTail(int level, bool adds);
  double FactorOf(int level) const;
  // Of the finest level's C-points, or of what Advance would change them by; waits.
  Result<std::vector<double>> SquaredNorms(bool of_residuals) const;

  DeviceTarget target_;
  const Hierarchy& hierarchy_;
  CoarseOperator coarse_ = CoarseOperator::kInject;
  double h_ = 1;
  int batch_ = 1;
  int64_t state_ = 0;  // numbers of one image's state
  std::unique_ptr<StepKernels> kernels_;
  std::unique_ptr<DeviceLane> lane_;
  std::vector<std::unique_ptr<Grid>> grids_;  // by level
};

}  // namespace ucudnn::multigrid
