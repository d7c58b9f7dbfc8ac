// The library calls of residual steps of one kind on a device, of one step or of many side by side:
// u + factor * F(u), its adjoint and the gradient of its numbers; sums of states. No kernels of
// ours. Thread-compatible; what a lane enqueues runs on its stream, in order.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/device/step_shape.h"
#include "planner/multigrid/device/tensors.h"

namespace ucudnn::multigrid {

// States of all images side by side: that of image n and place i begins (n * image_distance + i *
// distance) states behind `data`.
struct StatesView {
  Address data = nullptr;
  int count = 1;
  int64_t image_distance = 1;
  int64_t distance = 1;  // 0: one state, read `count` times
};

// Copies and sums of states, whatever steps they are of.
class StateSums {
 public:
  // Numbers of one image's state. The target's functions and context outlive it.
  StateSums(const DeviceTarget& target, int64_t state_size, int batch)
      : target_(target), state_size_(state_size), batch_(batch) {}

  // y = a * x + b * y, of as many states; what is multiplied by 0 is not read.
  Status Combine(DeviceLane& lane, double a, const StatesView& x, double b, const StatesView& y);
  // A view with its descriptor, which is made at its first use.
  Result<TensorNumbers> NumbersOf(const StatesView& view);

 private:
  DeviceTarget target_;
  int64_t state_size_;
  int batch_;
  // By count and the distances of images and states.
  std::map<std::array<int64_t, 3>, Tensor> tensors_;
};

// What steps side by side are asked for; each asks for those before it, too.
enum class Pass { kForward, kAdjoint, kGradient };

// The numbers of a layer, of many steps one behind the other: weights [step, ...], bias [step,
// ...]. Null where it has none.
struct LayerNumbers {
  Address weights = nullptr;
  Address bias = nullptr;
};

class StepKernels {
 public:
  // For `batch` images and steps of `shape`, with engines whose workspace is at most
  // `workspace_limit` bytes.
  static Result<std::unique_ptr<StepKernels>> Make(const DeviceTarget& target,
                                                   const StepShape& shape, int batch,
                                                   size_t workspace_limit);
  ~StepKernels();

  // `count` groups of steps side by side. The `fan` steps of a group have one input, and what they
  // give is summed: a coarse step of many layers. One image's states begin `x_distance` behind
  // those of the image before.
  struct Width {
    int count = 1;
    int fan = 1;
    int64_t x_distance = 1;
  };
  // Makes ready for `pass`, with fan 1 for kGradient. REQUIRES: no lane uses it.
  Status Prepare(const Width& width, Pass pass);
  // What any call of what was prepared needs.
  const LaneNeeds& needs() const { return needs_; }

  // A state of each of `count` places, side by side on the channel axis.
  struct States {
    Address data = nullptr;
    int64_t distance = 1;  // of an image's states to those of the image before
  };
  // What one call works on. REQUIRES: Prepare of this width.
  struct Operands {
    int count = 1;
    int fan = 1;
    const std::vector<LayerNumbers>* numbers = nullptr;  // by layer
    States x;                                            // what goes into the steps
    States input;  // of the adjoint and the gradient: what comes back to the steps
    double factor = 1;
    States from, out;  // out = from + ...; they may be the same
    Address room = nullptr;
  };
  // out = from + factor * sum of F(x) over the fan. One call for each layer.
  Status Step(DeviceLane& lane, const Operands& operands);
  // out = from + factor * sum of J_F(x)^T input.
  Status AdjointStep(DeviceLane& lane, const Operands& operands);
  // `gradient`, laid out as the numbers are, becomes (the derivative of F(x) by them)^T input, of
  // each step.
  Status Gradient(DeviceLane& lane, const Operands& operands,
                  const std::vector<LayerNumbers>& gradient);

  // Counts the calls of forward convolutions, in all passes.
  int64_t convolution_calls() const { return convolution_calls_; }

 private:
  struct Prepared;
  struct PreparedLayer;
  struct Call;  // operands with what was prepared for them

  StepKernels(const DeviceTarget& target, const StepShape& shape, int batch,
              size_t workspace_limit);
  Result<Call> CallOf(DeviceLane& lane, const Operands& operands);
  Status PrepareLayers(Prepared& prepared, const Width& width, Pass pass);
  Status PrepareConvolution(PreparedLayer& made, const StepLayer& layer, int copies, int groups,
                            Pass pass);
  Status PrepareSums(Prepared& prepared, const Width& width);
  cudnnActivationDescriptor_t ActivationOf(const StepLayer& layer) const {
    return layer.kind == StepLayer::Kind::kRelu ? relu_.get() : tanh_.get();
  }
  // The fastest algorithm by cuDNN's own ranking whose workspace is allowed.
  Status Choose(Operation operation, const PreparedLayer& made, const StepLayer& layer,
                int& algorithm, size_t& workspace) const;
  // The distance from image to image of `count` states: a single image has none, so all distances
  // count as one.
  int64_t DistanceOf(int count, int64_t distance) const { return batch_ == 1 ? count : distance; }
  // `count` states, one for each place.
  Result<TensorNumbers> StatesOf(int count, const States& states);

  // F(x) of all steps, in the room: where it is.
  Result<Address> Transform(const Call& call);
  Status Convolve(const Call& call, size_t layer, Address x, Address y, bool with_relu);
  Status Scale(const Call& call, size_t layer, Address x, Address y);
  Status AddBias(const Call& call, size_t layer, Address y);
  // What comes back to the output of the last layer, packed, once for each step.
  Result<Address> Spread(const Call& call);
  // dy of the layer's input, from that of its output.
  Result<Address> Back(const Call& call, size_t layer, Address dy);
  // Sums over images and pixels: one number for each output channel.
  Status SumToNumbers(const Call& call, const PreparedLayer& made, Address dy,
                      Address numbers) const;
  Status LayerGradient(const Call& call, size_t layer, Address dy, const LayerNumbers& gradient);
  // out = from + factor * the sum of `value` over the fan, which is summed up already or not.
  Status AddUp(const Call& call, Address value, bool is_summed);

  DeviceTarget target_;
  StepShape shape_;
  int batch_;
  size_t workspace_limit_;
  LaneNeeds needs_;
  ActivationDescriptor relu_, tanh_;
  OpTensorDescriptor add_, multiply_;
  ReductionDescriptor sum_;
  // By count, fan and the distance of x.
  std::map<std::array<int64_t, 3>, std::unique_ptr<Prepared>> prepared_;
  StateSums states_;
  int64_t convolution_calls_ = 0;
};

}  // namespace ucudnn::multigrid
