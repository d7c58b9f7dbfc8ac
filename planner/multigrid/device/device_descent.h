// The gradient by a stage's weights on a device, and the descent along it: stochastic gradient
// descent with momentum, in single precision whatever the weights' precision is. Calls of cuDNN, no
// kernels of ours. Thread-compatible; what a lane enqueues runs on its stream, in order.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/device_exchange.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/device/device_weights.h"
#include "planner/multigrid/device/tensors.h"
#include "planner/multigrid/parameters.h"

namespace ucudnn::multigrid {

class DeviceDescent {
 public:
  // `weights` outlive it.
  static Result<std::unique_ptr<DeviceDescent>> Make(const DeviceTarget& target,
                                                     DeviceWeights& weights);

  // Where the gradient of a kind's steps from `number` on is written.
  ArrangedNumbers Gradient(int kind, int number) const {
    return weights_.layout().InOrder(gradient_->data(), kind, number);
  }
  // Puts gradients that lie as `arrangement` has them in their places.
  Status Put(DeviceLane& lane, const Arrangement& arrangement, const ArrangedNumbers& gradients) {
    return weights_.layout().Copy(lane, NumbersLayout::Move::kScatter, gradient_->data(),
                                  arrangement, gradients);
  }
  // gradient of each node of these layers += factor * what is on the device; waits.
  Status AddTo(DeviceLane& lane, LayerSpan layers, double factor, Parameters& gradient) const;

  // The weights descend along factor * the gradient, or along its mean over the ranks of
  // `replicas`, which all call it.
  Status Step(DeviceLane& lane, double factor, const Descent& descent, RankChannel* replicas);
  // The host's parameters were brought to the device.
  Status WeightsLoaded(DeviceLane& lane);
  // Brings the weights to the host, as single precision has them; waits.
  Status Read(DeviceLane& lane, Parameters& parameters) const;

 private:
  DeviceDescent(const DeviceTarget& target, DeviceWeights& weights)
      : target_(target), wide_(target), weights_(weights) {
    wide_.precision = &kSinglePrecision;
  }
  bool is_narrow() const { return target_.precision->bytes < kSinglePrecision.bytes; }
  Status MakeMomentum(DeviceLane& lane);
  // A block in the weights' precision, or in single precision.
  TensorNumbers Numbers(Address block) const { return {numbers_.get(), block}; }
  TensorNumbers Wide(Address block) const { return {wide_numbers_.get(), block}; }
  // to = a * from, between the two precisions.
  Status Convert(DeviceLane& lane, double a, const TensorNumbers& from,
                 const TensorNumbers& to) const {
    return lane.Apply(convert_.get(), a, from, 0, from, to);
  }

  DeviceTarget target_;
  DeviceTarget wide_;  // the same in single precision
  DeviceWeights& weights_;
  std::optional<DeviceNumbers> gradient_;
  // From the first Step on, of as many numbers.
  std::optional<DeviceNumbers> velocity_;
  bool has_velocity_ = false;
  // Where the weights' precision is another: the weights and gradients that count.
  std::optional<DeviceNumbers> master_, wide_gradient_;
  Tensor numbers_, wide_numbers_;  // a block of either precision
  OpTensorDescriptor convert_;
};

}  // namespace ucudnn::multigrid
