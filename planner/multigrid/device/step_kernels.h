// The library calls on a device for residual steps of one kind, u + factor * F(u), for their
// adjoints and for the gradients of their numbers. A call computes one step, or many side by side.
// Also sums of states. ucudnn has no CUDA kernels of its own. Thread-compatible; work that a lane
// enqueues runs on the lane's stream, in order.
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

// States of all images. The state of image n at place i begins (n * image_distance + i * distance)
// states after `data`.
struct StatesView {
  Address data = nullptr;
  int count = 1;
  int64_t image_distance = 1;
  int64_t distance = 1;  // 0 for one state that is read `count` times
};

// Copies and adds states, for all kinds of steps.
class StateSums {
 public:
  // `state_size` is the number of numbers in one image's state. The target's functions and context
  // must outlive the object.
  StateSums(const DeviceTarget& target, int64_t state_size, int batch)
      : target_(target), state_size_(state_size), batch_(batch) {}

  // Computes y = a * x + b * y for all states. `x` and `y` have equally many states. An operand
  // whose factor is 0 is not read.
  Status Combine(DeviceLane& lane, double a, const StatesView& x, double b, const StatesView& y);
  // Returns whether the numbers of one state are contiguous.
  bool IsPacked(const StatesView& state) const { return state.image_distance == 1 || batch_ == 1; }
  // Copies one state.
  Status Copy(DeviceLane& lane, const StatesView& from, const StatesView& to) {
    if (!IsPacked(from) || !IsPacked(to)) return Combine(lane, 1, from, 0, to);
    return lane.Copy(from.data, to.data, state_size_ * batch_);
  }
  // Returns the numbers of a view with their descriptor, which is made at its first use.
  Result<TensorNumbers> NumbersOf(const StatesView& view);

 private:
  DeviceTarget target_;
  int64_t state_size_;
  int batch_;
  // By count, distance of images and distance of states.
  std::map<std::array<int64_t, 3>, Tensor> tensors_;
};

// The passes for which steps are prepared. Each pass includes the passes before it.
enum class Pass { kForward, kAdjoint, kGradient };

// The numbers of a layer for many steps: weights [step, ...] and bias [step, ...]. A layer without
// weights or bias has a null address instead.
struct LayerNumbers {
  Address weights = nullptr;
  Address bias = nullptr;
};

class StepKernels {
 public:
  // Makes the object for `batch` images and steps of `shape`. Its algorithms use at most
  // `workspace_limit` bytes of workspace.
  static Result<std::unique_ptr<StepKernels>> Make(const DeviceTarget& target,
                                                   const StepShape& shape, int batch,
                                                   size_t workspace_limit);
  ~StepKernels();

  // `count` groups of steps run side by side. The `fan` steps of a group share one input, and their
  // results are added up, as in a coarse step of many layers. The input states of successive images
  // are `x_distance` states apart.
  struct Width {
    int count = 1;
    int fan = 1;
    int64_t x_distance = 1;
  };
  // Prepares the calls of `pass` for steps of this width. REQUIRES: the fan is 1 for kGradient, and
  // no lane is using the kernels.
  Status Prepare(const Width& width, Pass pass);
  // Returns what a lane needs for any prepared call.
  const LaneNeeds& needs() const { return needs_; }

  // One state for each of `count` places, which lie side by side on the channel axis.
  struct States {
    Address data = nullptr;
    int64_t distance = 1;  // the states of image n + 1 begin this many states after those of n
  };
  // The operands of one call. REQUIRES: Prepare was called for this width.
  struct Operands {
    int count = 1;
    int fan = 1;
    const std::vector<LayerNumbers>* numbers = nullptr;  // by layer
    States x;                                            // the input of the steps
    States input;  // for AdjointStep and Gradient: the state that is propagated backward
    double factor = 1;
    States from, out;  // out = from + ...; `out` may be `from`
    Address room = nullptr;
  };
  // Computes out = from + factor * (sum of F(x) over the group), with one library call for each
  // layer.
  Status Step(DeviceLane& lane, const Operands& operands);
  // Computes out = from + factor * (sum of J_F(x)^T input over the group).
  Status AdjointStep(DeviceLane& lane, const Operands& operands);
  // Writes the gradient of each step's numbers, (dF(x) / d numbers)^T input, into `gradient`, which
  // has the layout of the numbers.
  Status Gradient(DeviceLane& lane, const Operands& operands,
                  const std::vector<LayerNumbers>& gradient);

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
  // Chooses the first algorithm in cuDNN's ranking that fits the workspace limit, the arithmetic
  // and the alignment, if possible a deterministic one.
  Status Choose(Operation operation, const PreparedLayer& made, const StepLayer& layer,
                int& algorithm, size_t& workspace) const;
  // Returns the distance between the states of two images. With one image the distance does not
  // matter. Then returns `count` for every distance, so that all distances share what was prepared.
  int64_t DistanceOf(int count, int64_t distance) const { return batch_ == 1 ? count : distance; }
  // Returns the numbers of `count` states, one for each place, with their descriptor.
  Result<TensorNumbers> StatesOf(int count, const States& states);

  // Computes F(x) of all steps. Uses the lane's memory for intermediate results, in which the
  // results are, too. Returns the address of the results.
  Result<Address> Transform(const Call& call);
  Status Convolve(const Call& call, size_t layer, Address x, Address y, bool with_relu);
  Status Scale(const Call& call, size_t layer, Address x, Address y);
  Status AddBias(const Call& call, size_t layer, Address y);
  // Returns the packed states that are propagated backward from the last layer's output, one copy
  // for each step.
  Result<Address> Spread(const Call& call);
  // Computes the gradient of the layer's input from the gradient `dy` of its output, and returns
  // its address.
  Result<Address> Back(const Call& call, size_t layer, Address dy);
  // Sums `dy` over images and pixels, to one number for each output channel.
  Status SumToNumbers(const Call& call, const PreparedLayer& made, Address dy,
                      Address numbers) const;
  Status LayerGradient(const Call& call, size_t layer, Address dy, const LayerNumbers& gradient);
  // Computes out = from + factor * (sum of `value` over the group). If `is_summed`, `value` is
  // already that sum.
  Status AddUp(const Call& call, Address value, bool is_summed);

  DeviceTarget target_;
  StepShape shape_;
  int batch_;
  size_t workspace_limit_;
  LaneNeeds needs_;
  ActivationDescriptor relu_, tanh_;
  OpTensorDescriptor add_, multiply_;
  ReductionDescriptor sum_;
  // By count, fan and the distance between images of x.
  std::map<std::array<int64_t, 3>, std::unique_ptr<Prepared>> prepared_;
  StateSums states_;
};

}  // namespace ucudnn::multigrid
