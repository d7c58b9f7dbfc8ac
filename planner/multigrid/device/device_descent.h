// The gradient with respect to a stage's weights on a device, and the descent along it: stochastic
// gradient descent with momentum, in single precision for weights of any precision. All arithmetic
// is calls of cuDNN. Thread-compatible; work that a lane enqueues runs on the lane's stream, in
// order.
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
  // `weights` must outlive the object.
  static Result<std::unique_ptr<DeviceDescent>> Make(const DeviceTarget& target,
                                                     DeviceWeights& weights);

  // Returns the addresses of the gradients of a kind's steps, from step `number` of the kind on.
  ArrangedNumbers Gradient(int kind, int number) const {
    return weights_.layout().InOrder(gradient_->data(), kind, number);
  }
  // Copies gradients that are laid out as `arrangement` to their places.
  Status Put(DeviceLane& lane, const Arrangement& arrangement, const ArrangedNumbers& gradients) {
    return weights_.layout().Copy(lane, NumbersLayout::Move::kScatter, gradient_->data(),
                                  arrangement, gradients);
  }
  // Adds `factor` times the device's gradient to `gradient`, for each node of `layers`, and waits.
  Status AddTo(DeviceLane& lane, LayerSpan layers, double factor, Parameters& gradient) const;

  // Moves the weights along `factor` times the gradient. With `replicas`, takes the mean of this
  // product over the ranks of `replicas`, which must all call Step.
  Status Step(DeviceLane& lane, double factor, const Descent& descent, RankChannel* replicas);
  // Must be called after an upload of the host's parameters. Uploads them also to the copy of the
  // weights in single precision, if there is one.
  Status WeightsLoaded(DeviceLane& lane);
  // Reads the weights in single precision, and waits. Before the first Step, they are the host's.
  Status Read(DeviceLane& lane, Parameters& parameters) const;

 private:
  DeviceDescent(const DeviceTarget& target, DeviceWeights& weights)
      : target_(target), wide_(target), weights_(weights) {
    wide_.precision = &kSinglePrecision;
  }
  bool is_narrow() const { return target_.precision->bytes < kSinglePrecision.bytes; }
  Status MakeMomentum(DeviceLane& lane);
  // Describe a block of numbers in the weights' precision and in single precision.
  TensorNumbers Numbers(Address block) const { return {numbers_.get(), block}; }
  TensorNumbers Wide(Address block) const { return {wide_numbers_.get(), block}; }
  // Computes to = a * from, where `from` and `to` may have different precisions.
  Status Convert(DeviceLane& lane, double a, const TensorNumbers& from,
                 const TensorNumbers& to) const {
    return lane.Apply(convert_.get(), a, from, 0, from, to);
  }

  DeviceTarget target_;
  DeviceTarget wide_;  // as target_, but in single precision
  DeviceWeights& weights_;
  std::optional<DeviceNumbers> gradient_;
  // The first Step makes velocity_; it has as many numbers as the gradient.
  std::optional<DeviceNumbers> velocity_;
  bool has_velocity_ = false;
  // If the weights have fewer bits than single precision, Step computes with these copies of the
  // weights and the gradient in single precision.
  std::optional<DeviceNumbers> master_, wide_gradient_;
  Tensor numbers_, wide_numbers_;  // describe a block in each precision
  OpTensorDescriptor convert_;
};

}  // namespace ucudnn::multigrid
