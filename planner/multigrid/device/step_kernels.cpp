#include "planner/multigrid/device/step_kernels.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cudnn/convolution_call.h"

namespace ucudnn::multigrid {
namespace {

using Kind = StepLayer::Kind;

constexpr float kOne = 1;
constexpr float kZero = 0;
// CUDA kernels can read at full width only from addresses that are multiples of this.
constexpr int64_t kAlignment = 16;  // bytes

}  // namespace

Result<TensorNumbers> StateSums::NumbersOf(const StatesView& view) {
  const std::array<int64_t, 3> key = {view.count, view.image_distance, view.distance};
  auto found = tensors_.find(key);
  if (found == tensors_.end()) {
    // A state that is read `count` times is described as one place, which cuDNN repeats.
    const int places = view.distance == 0 ? 1 : view.count;
    const int64_t distance = view.distance == 0 ? 1 : view.distance;
    UCUDNN_ASSIGN_OR_RETURN(Tensor tensor,
                            MakeTensor(target_, {{{batch_, view.image_distance * state_size_},
                                                  {places, distance * state_size_},
                                                  {1, state_size_},
                                                  {state_size_, 1}}}));
    found = tensors_.emplace(key, std::move(tensor)).first;
  }
  return TensorNumbers{found->second.get(), view.data};
}

Status StateSums::Combine(DeviceLane& lane, double a, const StatesView& x, double b,
                          const StatesView& y) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  UCUDNN_ASSIGN_OR_RETURN(const TensorNumbers from, NumbersOf(x));
  UCUDNN_ASSIGN_OR_RETURN(const TensorNumbers to, NumbersOf(y));
  return lane.Add(a, from, b, to);
}

// A layer of several steps side by side, with its descriptors.
struct StepKernels::PreparedLayer {
  Tensor x, y;     // the layer's input and output; y is packed
  Tensor dx;       // the extents of x, packed
  Tensor numbers;  // one number for each output channel: a bias, or factors
  Filter weights;
  ConvolutionDescriptor convolution;
  int algorithms[3] = {};  // by Operation
  size_t workspace[3] = {};
  int64_t value = 0;  // position of the output in the lane's room

  TensorNumbers X(Address data) const { return {x.get(), data}; }
  TensorNumbers Y(Address data) const { return {y.get(), data}; }
  TensorNumbers Numbers(Address data) const { return {numbers.get(), data}; }
};

struct StepKernels::Prepared {
  Pass pass = Pass::kForward;
  bool spreads_x = false;  // whether each step gets its own copy of a shared input
  std::vector<PreparedLayer> layers;
  Tensor fanned;                          // describes the states of all steps of all groups, packed
  int64_t spread = 0, gradients[2] = {};  // positions in the lane's room
  size_t sum_workspace = 0;
};

// The operands of one call, and what Prepare made for their Width.
struct StepKernels::Call {
  DeviceLane& lane;
  const Prepared& prepared;
  const Operands& operands;
  const DeviceTarget& target;

  Address Room(int64_t place) const { return target.Behind(operands.room, place); }
  // Returns the gradient buffer that `dy` does not occupy, for the result of a layer's backward
  // pass.
  Address Other(Address dy) const {
    const Address first = Room(prepared.gradients[0]);
    return dy == first ? Room(prepared.gradients[1]) : first;
  }
  bool IsInRoom(Address dy) const {
    return dy == Room(prepared.gradients[0]) || dy == Room(prepared.gradients[1]);
  }
  // Returns the states of all steps of all groups, which lie packed from `data` on.
  TensorNumbers Fanned(Address data) const { return {prepared.fanned.get(), data}; }
  const LayerNumbers& Numbers(size_t layer) const { return (*operands.numbers)[layer]; }
};

StepKernels::StepKernels(const DeviceTarget& target, const StepShape& shape, int batch,
                         size_t workspace_limit)
    : target_(target),
      shape_(shape),
      batch_(batch),
      workspace_limit_(workspace_limit),
      states_(target, shape.StateSize(), batch) {}

StepKernels::~StepKernels() = default;

Result<std::unique_ptr<StepKernels>> StepKernels::Make(const DeviceTarget& target,
                                                       const StepShape& shape, int batch,
                                                       size_t workspace_limit) {
  const cudnn::Functions& functions = *target.functions;
  if (!functions.HasActivations() || !functions.HasOpTensor() ||
      functions.cudnnAddTensor == nullptr || functions.cudnnConvolutionBackwardBias == nullptr) {
    return Status::Error(
        "cuDNN lacks cudnnActivationForward, cudnnOpTensor, cudnnReduceTensor or cudnnAddTensor, "
        "which layers on a device need; expected a release that has them");
  }
  std::unique_ptr<StepKernels> kernels(new StepKernels(target, shape, batch, workspace_limit));
  UCUDNN_ASSIGN_OR_RETURN(kernels->relu_, MakeActivation(target, CUDNN_ACTIVATION_RELU));
  UCUDNN_ASSIGN_OR_RETURN(kernels->tanh_, MakeActivation(target, CUDNN_ACTIVATION_TANH));
  UCUDNN_ASSIGN_OR_RETURN(kernels->add_, MakeOpTensor(target, CUDNN_OP_TENSOR_ADD));
  UCUDNN_ASSIGN_OR_RETURN(kernels->multiply_, MakeOpTensor(target, CUDNN_OP_TENSOR_MUL));
  UCUDNN_ASSIGN_OR_RETURN(kernels->sum_, MakeSum(target));
  return kernels;
}

Status StepKernels::Choose(Operation operation, const PreparedLayer& made, const StepLayer& layer,
                           int& algorithm, size_t& workspace) const {
  const cudnn::Functions& functions = *target_.functions;
  UCUDNN_ASSIGN_OR_RETURN(const Owned<cudnnHandle_t> handle, MakeHandle(target_));
  std::vector<cudnn::AlgorithmPerformance> ranking;
  const Tensor& x = operation == Operation::kBackwardData ? made.dx : made.x;
  const cudnnStatus_t status =
      RankAlgorithms(functions, operation, handle.get(),
                     {x.get(), made.weights.get(), made.y.get(), made.convolution.get()}, ranking);
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions, status, "cudnnGetConvolution*Algorithm_v7"));
  const int64_t bytes = target_.precision->bytes;
  const bool is_aligned =
      shape_.StateSize() * bytes % kAlignment == 0 && layer.weights * bytes % kAlignment == 0;
  // Takes the fastest algorithm with the requested arithmetic. Algorithms that are not
  // deterministic are used only if no other one fits, because a solve compares results of different
  // calls.
  for (const bool must_be_deterministic : {true, false}) {
    for (const cudnn::AlgorithmPerformance& ranked : ranking) {
      const bool is_exact =
          target_.precision->math != CUDNN_FMA_MATH || ranked.math == CUDNN_FMA_MATH;
      if (ranked.status != CUDNN_STATUS_SUCCESS || ranked.workspace_bytes > workspace_limit_ ||
          !is_exact || (!is_aligned && ranked.algorithm != 0) ||
          (must_be_deterministic && ranked.determinism != CUDNN_DETERMINISTIC)) {
        continue;
      }
      algorithm = ranked.algorithm;
      workspace = ranked.workspace_bytes;
      return Status::Ok();
    }
  }
  return Status::Error("no algorithm of cuDNN serves a layer of " +
                       std::to_string(layer.output.channels) + " channels within " +
                       std::to_string(workspace_limit_) + " bytes of workspace");
}

Status StepKernels::PrepareConvolution(PreparedLayer& made, const StepLayer& layer, int copies,
                                       int groups, Pass pass) {
  UCUDNN_ASSIGN_OR_RETURN(made.weights, MakeFilter(target_, {copies * layer.output.channels,
                                                             layer.input.channels / layer.groups,
                                                             layer.window[0], layer.window[1]}));
  UCUDNN_ASSIGN_OR_RETURN(made.convolution,
                          multigrid::MakeConvolution(target_, layer, groups * layer.groups));
  constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                       Operation::kBackwardFilter};
  for (int i = 0; i <= static_cast<int>(pass); ++i) {
    UCUDNN_RETURN_IF_ERROR(
        Choose(kOperations[i], made, layer, made.algorithms[i], made.workspace[i]));
    needs_.workspace = std::max(needs_.workspace, made.workspace[i]);
  }
  return Status::Ok();
}

Status StepKernels::PrepareLayers(Prepared& prepared, const Width& width, Pass pass) {
  const int copies = width.count * width.fan;
  int64_t place = 0;
  // Takes room for `size` numbers for each image of each step.
  const auto take = [&](int64_t size) {
    return std::exchange(place, place + Aligned(size * batch_ * copies));
  };
  if (prepared.spreads_x) prepared.spread = take(shape_.StateSize());
  for (size_t i = 0; i < shape_.layers.size(); ++i) {
    const StepLayer& layer = shape_.layers[i];
    const StepLayer::Extents& in = layer.input;
    const StepLayer::Extents& out = layer.output;
    const bool reads_x = i == 0 && !prepared.spreads_x;
    const int inputs = reads_x ? width.count : copies;
    PreparedLayer made;
    UCUDNN_ASSIGN_OR_RETURN(
        made.dx, MakePacked(target_, batch_, int64_t{inputs} * in.channels, in.rows, in.columns));
    const int64_t image = reads_x ? width.x_distance : inputs;
    UCUDNN_ASSIGN_OR_RETURN(
        made.x,
        MakeTensor(target_, {{{batch_, image * in.Count()},
                              {int64_t{inputs} * in.channels, int64_t{in.rows} * in.columns},
                              {in.rows, in.columns},
                              {in.columns, 1}}}));
    UCUDNN_ASSIGN_OR_RETURN(
        made.y, MakePacked(target_, batch_, int64_t{copies} * out.channels, out.rows, out.columns));
    UCUDNN_ASSIGN_OR_RETURN(made.numbers,
                            MakePacked(target_, 1, int64_t{copies} * out.channels, 1, 1));
    // An activation may overwrite its input, because the activation's slope follows from its
    // output. An input that another activation has computed is kept, because the slope of that
    // other activation follows from it.
    const bool is_in_place =
        layer.is_activation() && !reads_x && (i == 0 || !shape_.layers[i - 1].is_activation());
    made.value = !is_in_place ? take(out.Count())
                 : i == 0     ? prepared.spread
                              : prepared.layers[i - 1].value;
    if (layer.kind == Kind::kConvolution) {
      UCUDNN_RETURN_IF_ERROR(PrepareConvolution(made, layer, copies, inputs, pass));
    }
    prepared.layers.push_back(std::move(made));
  }
  if (pass != Pass::kForward) {
    for (int64_t& gradient : prepared.gradients) gradient = take(shape_.LargestValue());
  }
  needs_.room = std::max(needs_.room, place);
  return Status::Ok();
}

Status StepKernels::PrepareSums(Prepared& prepared, const Width& width) {
  const int64_t state = shape_.StateSize();
  UCUDNN_ASSIGN_OR_RETURN(prepared.fanned,
                          MakeTensor(target_, {{{batch_, width.count * width.fan * state},
                                                {width.count, width.fan * state},
                                                {width.fan, state},
                                                {state, 1}}}));
  if (width.fan == 1) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(const TensorNumbers packed,
                          StatesOf(width.count, {nullptr, width.count}));
  UCUDNN_ASSIGN_OR_RETURN(const Owned<cudnnHandle_t> handle, MakeHandle(target_));
  UCUDNN_RETURN_IF_ERROR(UCUDNN_CUDNN(target_, cudnnGetReductionWorkspaceSize, handle.get(),
                                      sum_.get(), prepared.fanned.get(), packed.tensor,
                                      &prepared.sum_workspace));
  needs_.workspace = std::max(needs_.workspace, prepared.sum_workspace);
  return Status::Ok();
}

Status StepKernels::Prepare(const Width& width, Pass pass) {
  const int64_t distance = DistanceOf(width.count, width.x_distance);
  auto& slot = prepared_[{width.count, width.fan, distance}];
  if (slot && slot->pass >= pass) return Status::Ok();
  const cuda::ContextScope scope(*target_.driver, target_.context);
  auto made = std::make_unique<Prepared>();
  made->pass = pass;
  const StepLayer& first = shape_.layers.front();
  const bool shares_x = width.fan == 1 || (first.kind == Kind::kConvolution && first.groups == 1);
  made->spreads_x = !shares_x;
  UCUDNN_RETURN_IF_ERROR(PrepareLayers(*made, {width.count, width.fan, distance}, pass));
  UCUDNN_RETURN_IF_ERROR(PrepareSums(*made, width));
  slot = std::move(made);
  return Status::Ok();
}

Result<TensorNumbers> StepKernels::StatesOf(int count, const States& states) {
  return states_.NumbersOf({states.data, count, DistanceOf(count, states.distance)});
}

Result<StepKernels::Call> StepKernels::CallOf(DeviceLane& lane, const Operands& operands) {
  const int64_t distance = DistanceOf(operands.count, operands.x.distance);
  const auto found = prepared_.find({operands.count, operands.fan, distance});
  if (found == prepared_.end()) {
    return Status::Error(std::to_string(operands.count) + " steps side by side, " +
                         std::to_string(operands.fan) + " of one input, were not prepared");
  }
  return Call{lane, *found->second, operands, target_};
}

Status StepKernels::Convolve(const Call& call, size_t number, Address x, Address y,
                             bool with_relu) {
  const PreparedLayer& made = call.prepared.layers[number];
  const cudnnHandle_t handle = call.lane.handle();
  const Address weights = call.Numbers(number).weights;
  const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(made.algorithms[0]);
  if (with_relu) {
    return UCUDNN_CUDNN(target_, cudnnConvolutionBiasActivationForward, handle, &kOne, made.x.get(),
                        x, made.weights.get(), weights, made.convolution.get(), algorithm,
                        call.lane.workspace(), made.workspace[0], &kZero, made.y.get(), y,
                        made.numbers.get(), call.Numbers(number).bias, relu_.get(), made.y.get(),
                        y);
  }
  UCUDNN_RETURN_IF_ERROR(UCUDNN_CUDNN(target_, cudnnConvolutionForward, handle, &kOne, made.x.get(),
                                      x, made.weights.get(), weights, made.convolution.get(),
                                      algorithm, call.lane.workspace(), made.workspace[0], &kZero,
                                      made.y.get(), y));
  return AddBias(call, number, y);
}

Status StepKernels::Scale(const Call& call, size_t number, Address x, Address y) {
  const PreparedLayer& made = call.prepared.layers[number];
  UCUDNN_RETURN_IF_ERROR(shape_.layers[number].weights > 0
                             ? call.lane.Apply(multiply_.get(), 1, made.X(x), 1,
                                               made.Numbers(call.Numbers(number).weights),
                                               made.Y(y))
                             : call.lane.Add(1, made.X(x), 0, made.Y(y)));
  return AddBias(call, number, y);
}

Status StepKernels::AddBias(const Call& call, size_t number, Address y) {
  if (shape_.layers[number].bias == 0) return Status::Ok();
  const PreparedLayer& made = call.prepared.layers[number];
  return call.lane.Add(1, made.Numbers(call.Numbers(number).bias), 1, made.Y(y));
}

Result<Address> StepKernels::Transform(const Call& call) {
  const Operands& operands = call.operands;
  Address x = operands.x.data;
  if (call.prepared.spreads_x) {
    UCUDNN_ASSIGN_OR_RETURN(const TensorNumbers from, StatesOf(operands.count, operands.x));
    x = call.Room(call.prepared.spread);
    UCUDNN_RETURN_IF_ERROR(call.lane.Add(1, from, 0, call.Fanned(x)));
  }
  const std::vector<StepLayer>& layers = shape_.layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    const PreparedLayer& made = call.prepared.layers[i];
    const Address y = call.Room(made.value);
    if (layers[i].kind == Kind::kConvolution) {
      // cuDNN runs a convolution, its bias and a ReLU in one call.
      const bool with_relu =
          layers[i].bias > 0 && i + 1 < layers.size() && layers[i + 1].kind == Kind::kRelu;
      UCUDNN_RETURN_IF_ERROR(Convolve(call, i, x, y, with_relu));
      if (with_relu) ++i;
    } else if (layers[i].kind == Kind::kScale) {
      UCUDNN_RETURN_IF_ERROR(Scale(call, i, x, y));
    } else {
      UCUDNN_RETURN_IF_ERROR(UCUDNN_CUDNN(target_, cudnnActivationForward, call.lane.handle(),
                                          ActivationOf(layers[i]), &kOne, made.x.get(), x, &kZero,
                                          made.y.get(), y));
    }
    x = y;
  }
  return x;
}

Status StepKernels::AddUp(const Call& call, Address value, bool is_summed) {
  const Operands& operands = call.operands;
  UCUDNN_ASSIGN_OR_RETURN(const TensorNumbers from, StatesOf(operands.count, operands.from));
  UCUDNN_ASSIGN_OR_RETURN(const TensorNumbers out, StatesOf(operands.count, operands.out));
  if (is_summed) {
    UCUDNN_ASSIGN_OR_RETURN(const TensorNumbers packed,
                            StatesOf(operands.count, {value, operands.count}));
    return call.lane.Apply(add_.get(), 1, from, operands.factor, packed, out);
  }
  if (from.data != out.data) UCUDNN_RETURN_IF_ERROR(call.lane.Add(1, from, 0, out));
  const auto factor = static_cast<float>(operands.factor);
  return UCUDNN_CUDNN(target_, cudnnReduceTensor, call.lane.handle(), sum_.get(), nullptr, 0,
                      call.lane.workspace(), call.prepared.sum_workspace, &factor,
                      call.prepared.fanned.get(), value, &kOne, out.tensor, out.data);
}

Status StepKernels::Step(DeviceLane& lane, const Operands& operands) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  UCUDNN_ASSIGN_OR_RETURN(const Call call, CallOf(lane, operands));
  UCUDNN_ASSIGN_OR_RETURN(const Address value, Transform(call));
  return AddUp(call, value, operands.fan == 1);
}

Result<Address> StepKernels::Spread(const Call& call) {
  const Operands& operands = call.operands;
  const bool is_packed = batch_ == 1 || operands.input.distance == operands.count;
  if (operands.fan == 1 && is_packed) return operands.input.data;
  const Address spread = call.Room(call.prepared.gradients[0]);
  UCUDNN_ASSIGN_OR_RETURN(const TensorNumbers from, StatesOf(operands.count, operands.input));
  UCUDNN_RETURN_IF_ERROR(call.lane.Add(1, from, 0, call.Fanned(spread)));
  return spread;
}

Result<Address> StepKernels::Back(const Call& call, size_t number, Address dy) {
  const StepLayer& layer = shape_.layers[number];
  const PreparedLayer& made = call.prepared.layers[number];
  const cudnnHandle_t handle = call.lane.handle();
  const Address weights = call.Numbers(number).weights;
  if (layer.is_activation()) {
    const Address dx = call.IsInRoom(dy) ? dy : call.Other(dy);
    const Address y = call.Room(made.value);
    UCUDNN_RETURN_IF_ERROR(UCUDNN_CUDNN(target_, cudnnActivationBackward, handle,
                                        ActivationOf(layer), &kOne, made.y.get(), y, made.y.get(),
                                        dy, made.y.get(), y, &kZero, made.y.get(), dx));
    return dx;
  }
  if (layer.kind == Kind::kScale && layer.weights == 0) return dy;
  const Address dx = call.Other(dy);
  if (layer.kind == Kind::kScale) {
    UCUDNN_RETURN_IF_ERROR(call.lane.Apply(multiply_.get(), 1, made.Y(dy), 1, made.Numbers(weights),
                                           {made.dx.get(), dx}));
    return dx;
  }
  UCUDNN_RETURN_IF_ERROR(
      UCUDNN_CUDNN(target_, cudnnConvolutionBackwardData, handle, &kOne, made.weights.get(),
                   weights, made.y.get(), dy, made.convolution.get(),
                   static_cast<cudnnConvolutionBwdDataAlgo_t>(made.algorithms[1]),
                   call.lane.workspace(), made.workspace[1], &kZero, made.dx.get(), dx));
  return dx;
}

Status StepKernels::AdjointStep(DeviceLane& lane, const Operands& operands) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  UCUDNN_ASSIGN_OR_RETURN(const Call call, CallOf(lane, operands));
  UCUDNN_RETURN_IF_ERROR(Transform(call).status());
  UCUDNN_ASSIGN_OR_RETURN(Address dy, Spread(call));
  for (size_t i = shape_.layers.size(); i-- > 0;) {
    UCUDNN_ASSIGN_OR_RETURN(dy, Back(call, i, dy));
  }
  // If the steps of a group share one input, the convolution's gradient of that input is already
  // the sum over the group.
  return AddUp(call, dy, operands.fan == 1 || !call.prepared.spreads_x);
}

Status StepKernels::SumToNumbers(const Call& call, const PreparedLayer& made, Address dy,
                                 Address numbers) const {
  return UCUDNN_CUDNN(target_, cudnnConvolutionBackwardBias, call.lane.handle(), &kOne,
                      made.y.get(), dy, &kZero, made.numbers.get(), numbers);
}

Status StepKernels::LayerGradient(const Call& call, size_t number, Address dy,
                                  const LayerNumbers& gradient) {
  const StepLayer& layer = shape_.layers[number];
  const PreparedLayer& made = call.prepared.layers[number];
  if (!layer.is_trained) {  // the gradient is 0
    const TensorNumbers factors = made.Numbers(call.Numbers(number).weights);
    UCUDNN_RETURN_IF_ERROR(call.lane.Add(0, factors, 0, made.Numbers(gradient.weights)));
    return call.lane.Add(0, factors, 0, made.Numbers(gradient.bias));
  }
  const Address x =
      number == 0 ? call.operands.x.data : call.Room(call.prepared.layers[number - 1].value);
  if (layer.kind == Kind::kConvolution) {
    UCUDNN_RETURN_IF_ERROR(UCUDNN_CUDNN(
        target_, cudnnConvolutionBackwardFilter, call.lane.handle(), &kOne, made.x.get(), x,
        made.y.get(), dy, made.convolution.get(),
        static_cast<cudnnConvolutionBwdFilterAlgo_t>(made.algorithms[2]), call.lane.workspace(),
        made.workspace[2], &kZero, made.weights.get(), gradient.weights));
  } else if (layer.weights > 0) {
    const Address products = call.Other(dy);
    UCUDNN_RETURN_IF_ERROR(
        call.lane.Apply(multiply_.get(), 1, made.Y(dy), 1, made.X(x), made.Y(products)));
    UCUDNN_RETURN_IF_ERROR(SumToNumbers(call, made, products, gradient.weights));
  }
  return layer.bias == 0 ? Status::Ok() : SumToNumbers(call, made, dy, gradient.bias);
}

Status StepKernels::Gradient(DeviceLane& lane, const Operands& operands,
                             const std::vector<LayerNumbers>& gradient) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  UCUDNN_ASSIGN_OR_RETURN(const Call call, CallOf(lane, operands));
  UCUDNN_RETURN_IF_ERROR(Transform(call).status());
  UCUDNN_ASSIGN_OR_RETURN(Address dy, Spread(call));
  for (size_t i = shape_.layers.size(); i-- > 0;) {
    UCUDNN_RETURN_IF_ERROR(LayerGradient(call, i, dy, gradient[i]));
    if (i == 0) break;
    UCUDNN_ASSIGN_OR_RETURN(dy, Back(call, i, dy));
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
