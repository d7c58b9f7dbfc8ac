// The chain of a stage on a device, in single precision, as a propagator: each lane is a stream.
// With one lane blocks run one after the other, with more at once, from a host thread each or from
// one (Lanes::Threads).
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/device/device_weights.h"
#include "planner/multigrid/device/step_kernels.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// States are numbers of the device, [batch, C, H, W].
class DeviceChain : public Propagator {
 public:
  // `weights` and `hierarchy` outlive it. All lanes together use at most `workspace_limit` bytes of
  // workspace. kMean is refused.
  static Result<std::unique_ptr<DeviceChain>> Make(const DeviceTarget& target,
                                                   const DeviceWeights& weights,
                                                   const Hierarchy& hierarchy,
                                                   CoarseOperator coarse, double h, int batch,
                                                   int lanes, size_t workspace_limit);

  Result<State> Create() override;
  Status Step(int level, int step, State from, State to, int lane) override;
  Status Combine(State to, double b, double a, State x, int lane) override;
  Status SquaredDistance(State x, State y, double* result, int lane) override;
  Status Join() override;
  Status Wait() override;
  double UnitRoundoff() const override;

  // Between host and device; waits.
  Status Upload(const std::vector<double>& numbers, State to);
  Status Download(State from, std::vector<double>& numbers);

  int64_t convolution_calls() const { return kernels_->convolution_calls(); }

 private:
  struct Pending {
    State x = nullptr;
    State y = nullptr;
    double* result = nullptr;
  };

  DeviceChain(const DeviceTarget& target, const DeviceWeights& weights, const Hierarchy& hierarchy,
              CoarseOperator coarse, double h)
      : target_(target), weights_(weights), hierarchy_(hierarchy), coarse_(coarse), h_(h) {}
  // to = from + the range's layers at `from`, where it is another state.
  Status AddRange(const LayerRange& range, State from, State to, DeviceLane& lane);

  DeviceTarget target_;
  const DeviceWeights& weights_;
  const Hierarchy& hierarchy_;
  CoarseOperator coarse_;
  double h_;
  int64_t size_ = 0;
  std::unique_ptr<StepKernels> kernels_;
  std::vector<std::unique_ptr<DeviceLane>> lanes_;
  std::vector<DeviceNumbers> states_;
  std::vector<std::vector<Pending>> pending_;  // by lane
  std::vector<float> downloaded_[2];
};

}  // namespace ucudnn::multigrid
