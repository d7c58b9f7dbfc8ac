// The library calls of residual steps of one kind on a device, for one step or many side by side: u
// + factor * F(u), its adjoint and the gradient of its numbers; and sums of states. There are no
// kernels of our own. Thread-compatible; what a lane enqueues runs on its stream, in order.
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

// States of all images side by side: the state of image n at place i begins (n * image_distance + i
// * distance) states behind `data`.
struct StatesView {
  Address data = nullptr;
  int count = 1;
  int64_t image_distance = 1;
  int64_t distance = 1;  // 0: one state, read `count` times
};

// Copies and adds states of any kind of step.
class StateSums {
 public:
  // `state_size` counts the numbers of one image's state. The target's functions and context
  // outlive the object.
  StateSums(const DeviceTarget& target, int64_t state_size, int batch)
      : target_(target), state_size_(state_size), batch_(batch) {}

  // Computes y = a * x + b * y, for as many states in x as in y. An operand whose factor is 0 is
  // not read.
  Status Combine(DeviceLane& lane, double a, const StatesView& x, double b, const StatesView& y);
  // Returns a view with its descriptor, which is made at the first use.
  Result<TensorNumbers> NumbersOf(const StatesView& view);

 private:
  DeviceTarget target_;
  int64_t state_size_;
  int batch_;
  // By count, distance of images and distance of states.
  std::map<std::array<int64_t, 3>, Tensor> tensors_;
};

// What steps side by side are prepared for. Each pass includes the passes before it.
enum class Pass { kForward, kAdjoint, kGradient };

// The numbers of a layer for many steps, one step behind the other: weights [step, ...], bias
// [step, ...]. Null if the layer has none.
struct LayerNumbers {
  Address weights = nullptr;
  Address bias = nullptr;
};

class StepKernels {
 public:
  // Makes kernels for `batch` images and steps of `shape`, with engines whose workspace is at most
  // `workspace_limit` bytes.
  static Result<std::unique_ptr<StepKernels>> Make(const DeviceTarget& target,
                                                   const StepShape& shape, int batch,
                                                   size_t workspace_limit);
  ~StepKernels();

  // `count` groups of steps side by side. The `fan` steps of a group share one input, and their
  // results are summed: a coarse step of many layers. From one image to the next, the input states
  // are `x_distance` states apart.
  struct Width {
    int count = 1;
    int fan = 1;
    int64_t x_distance = 1;
  };
  // Prepares `pass`, with fan 1 for kGradient. REQUIRES: no lane is using the kernels.
  Status Prepare(const Width& width, Pass pass);
  // Returns what a lane needs for any call that was prepared.
  const LaneNeeds& needs() const { return needs_; }

  // One state for each of `count` places, side by side on the channel axis.
  struct States {
    Address data = nullptr;
    int64_t distance = 1;  // states from one image's to the next image's
  };
  // The operands of one call. REQUIRES: Prepare for this width.
  struct Operands {
    int count = 1;
    int fan = 1;
    const std::vector<LayerNumbers>* numbers = nullptr;  // by layer
    States x;                                            // the input of the steps
    States input;  // of the adjoint and the gradient: what is propagated back
    double factor = 1;
    States from, out;  // out = from + ...; out may be from
    Address room = nullptr;
  };
  // Computes out = from + factor * sum of F(x) over the fan, with one library call for each layer.
  Status Step(DeviceLane& lane, const Operands& operands);
  // Computes out = from + factor * sum of J_F(x)^T input.
  Status AdjointStep(DeviceLane& lane, const Operands& operands);
  // Writes (derivative of F(x) by the step's numbers)^T input of each step into `gradient`, which
  // has the layout of the numbers.
  Status Gradient(DeviceLane& lane, const Operands& operands,
                  const std::vector<LayerNumbers>& gradient);

  // Counts the forward convolutions in all passes.
  int64_t convolution_calls() const { return convolution_calls_; }

 private:
  struct Prepared;
  struct PreparedLayer;
  struct Call;  // operands with their Prepared

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
  // Chooses the fastest algorithm in cuDNN's own ranking whose workspace is allowed.
  Status Choose(Operation operation, const PreparedLayer& made, const StepLayer& layer,
                int& algorithm, size_t& workspace) const;
  // Returns the distance between the states of two images. A single image has no such distance, so
  // every distance then counts as `count`.
  int64_t DistanceOf(int count, int64_t distance) const { return batch_ == 1 ? count : distance; }
  // Describes `count` states, one for each place.
  Result<TensorNumbers> StatesOf(int count, const States& states);

  // Computes F(x) of all steps in the room. Returns the address of F(x).
  Result<Address> Transform(const Call& call);
  Status Convolve(const Call& call, size_t layer, Address x, Address y, bool with_relu);
  Status Scale(const Call& call, size_t layer, Address x, Address y);
  Status AddBias(const Call& call, size_t layer, Address y);
  // Returns what is propagated back to the last layer's output, packed, once for each step.
  Result<Address> Spread(const Call& call);
  // Computes the gradient of the layer's input from the gradient `dy` of its output. Returns the
  // address of the result.
  Result<Address> Back(const Call& call, size_t layer, Address dy);
  // Sums over images and pixels: one number for each output channel.
  Status SumToNumbers(const Call& call, const PreparedLayer& made, Address dy,
                      Address numbers) const;
  Status LayerGradient(const Call& call, size_t layer, Address dy, const LayerNumbers& gradient);
  // Computes out = from + factor * the sum of `value` over the fan. `is_summed`: `value` is that
  // sum already.
  Status AddUp(const Call& call, Address value, bool is_summed);

  DeviceTarget target_;
  StepShape shape_;
  int batch_;
  size_t workspace_limit_;
  LaneNeeds needs_;
  ActivationDescriptor relu_, tanh_;
  OpTensorDescriptor add_, multiply_;
  ReductionDescriptor sum_;
  // By count, fan and the image distance of x.
  std::map<std::array<int64_t, 3>, std::unique_ptr<Prepared>> prepared_;
  StateSums states_;
  int64_t convolution_calls_ = 0;
};

}  // namespace ucudnn::multigrid
