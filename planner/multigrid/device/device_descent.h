// The gradient by a stage's weights on a device, and the descent along it: stochastic gradient
// descent with momentum, in single precision for weights of any precision. Uses calls of cuDNN
// only. Thread-compatible; what a lane enqueues runs on its stream, in order.
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
  // `weights` outlives the object.
  static Result<std::unique_ptr<DeviceDescent>> Make(const DeviceTarget& target,
                                                     DeviceWeights& weights);

  // Returns where to write the gradient of the steps of a kind from `number` on.
  ArrangedNumbers Gradient(int kind, int number) const {
    return weights_.layout().InOrder(gradient_->data(), kind, number);
  }
  // Copies gradients laid out in `arrangement` to their places.
  Status Put(DeviceLane& lane, const Arrangement& arrangement, const ArrangedNumbers& gradients) {
    return weights_.layout().Copy(lane, NumbersLayout::Move::kScatter, gradient_->data(),
                                  arrangement, gradients);
  }
  // Adds `factor` times the device's gradient to `gradient`, for each node of these layers; waits.
  Status AddTo(DeviceLane& lane, LayerSpan layers, double factor, Parameters& gradient) const;

  // Moves the weights along `factor` times the gradient. With `replicas`, takes the mean of that
  // over their ranks, which must all call it.
  Status Step(DeviceLane& lane, double factor, const Descent& descent, RankChannel* replicas);
  // Notes that the host's parameters were uploaded.
  Status WeightsLoaded(DeviceLane& lane);
  // Downloads the weights in single precision; waits.
  Status Read(DeviceLane& lane, Parameters& parameters) const;

 private:
  DeviceDescent(const DeviceTarget& target, DeviceWeights& weights)
      : target_(target), wide_(target), weights_(weights) {
    wide_.precision = &kSinglePrecision;
  }
  bool is_narrow() const { return target_.precision->bytes < kSinglePrecision.bytes; }
  Status MakeMomentum(DeviceLane& lane);
  // Describe a block in the weights' precision and in single precision.
  TensorNumbers Numbers(Address block) const { return {numbers_.get(), block}; }
  TensorNumbers Wide(Address block) const { return {wide_numbers_.get(), block}; }
  // Computes to = a * from, from one of the two precisions to the other.
  Status Convert(DeviceLane& lane, double a, const TensorNumbers& from,
                 const TensorNumbers& to) const {
    return lane.Apply(convert_.get(), a, from, 0, from, to);
  }

  DeviceTarget target_;
  DeviceTarget wide_;  // the target in single precision
  DeviceWeights& weights_;
  std::optional<DeviceNumbers> gradient_;
  // Made by the first Step; as many numbers as the gradient.
  std::optional<DeviceNumbers> velocity_;
  bool has_velocity_ = false;
  // If the weights are narrower than single precision: the weights and the gradient that Step
  // computes with.
  std::optional<DeviceNumbers> master_, wide_gradient_;
  Tensor numbers_, wide_numbers_;  // a block in either precision
  OpTensorDescriptor convert_;
};

}  // namespace ucudnn::multigrid
