#include "planner/multigrid/device/device_weights.h"

#include <tuple>

#include "planner/multigrid/device/tensors.h"

namespace ucudnn::multigrid {
namespace {

// Memory for the numbers of so many steps.
Result<ArrangedNumbers> TakeMemory(const DeviceTarget& target, const StepShape& shape, int steps,
                                   std::vector<DeviceNumbers>& memory) {
  ArrangedNumbers numbers;
  const auto take = [&](int64_t size) -> Result<Address> {
    if (size == 0) return Address{nullptr};
    UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers made, DeviceNumbers::Make(target, size * steps));
    memory.push_back(std::move(made));
    return memory.back().data();
  };
  for (const StepLayer& layer : shape.layers) {
    LayerNumbers of_layer;
    UCUDNN_ASSIGN_OR_RETURN(of_layer.weights, take(layer.weights));
    UCUDNN_ASSIGN_OR_RETURN(of_layer.bias, take(layer.bias));
    numbers.push_back(of_layer);
  }
  return numbers;
}

ArrangedNumbers MovedBehind(const DeviceTarget& target, const StepShape& shape,
                            const ArrangedNumbers& numbers, int steps) {
  ArrangedNumbers behind = numbers;
  for (size_t i = 0; i < behind.size(); ++i) {
    behind[i].weights = target.Behind(behind[i].weights, steps * shape.layers[i].weights);
    behind[i].bias = target.Behind(behind[i].bias, steps * shape.layers[i].bias);
  }
  return behind;
}

}  // namespace

DeviceStage OnDevice(const StagePart& part, size_t workspace_limit) {
  return {.chain = part.chain,
          .stage = part.stage,
          .parameters = part.parameters,
          .hierarchy = part.hierarchy,
          .coarse = part.coarse,
          .h = part.h,
          .batch = part.batch,
          .workspace_limit = workspace_limit,
          .used = part.used,
          .has_gradients = part.has_gradients};
}

bool Arrangement::operator<(const Arrangement& other) const {
  return std::tie(kind, first, distance, count, fan) <
         std::tie(other.kind, other.first, other.distance, other.count, other.fan);
}

Result<std::unique_ptr<DeviceWeights>> DeviceWeights::Make(const DeviceTarget& target,
                                                           const DeviceStage& stage,
                                                           const StageShapes& shapes) {
  std::unique_ptr<DeviceWeights> made(new DeviceWeights(target, stage, shapes));
  for (size_t kind = 0; kind < shapes.kinds.size(); ++kind) {
    UCUDNN_ASSIGN_OR_RETURN(ArrangedNumbers numbers,
                            TakeMemory(target, shapes.kinds[kind],
                                       static_cast<int>(shapes.steps[kind].size()), made->memory_));
    made->in_order_.push_back(std::move(numbers));
  }
  return made;
}

Result<const ArrangedNumbers*> DeviceWeights::Arrange(const Arrangement& arrangement,
                                                      DeviceLane& lane) {
  std::unique_ptr<Arranged>& slot = arranged_[arrangement];
  if (slot) return static_cast<const ArrangedNumbers*>(&slot->numbers);
  auto made = std::make_unique<Arranged>();
  const StepShape& shape = shapes_.kinds[arrangement.kind];
  if (arrangement.is_contiguous()) {
    made->numbers = MovedBehind(target_, shape, in_order_[arrangement.kind], arrangement.first);
  } else {
    UCUDNN_ASSIGN_OR_RETURN(
        made->numbers,
        TakeMemory(target_, shape, arrangement.count * arrangement.fan, made->memory));
    UCUDNN_RETURN_IF_ERROR(Gather(lane, arrangement, *made));
  }
  slot = std::move(made);
  return static_cast<const ArrangedNumbers*>(&slot->numbers);
}

Status DeviceWeights::Gather(DeviceLane& lane, const Arrangement& arrangement,
                             Arranged& arranged) const {
  if (arrangement.is_contiguous()) return Status::Ok();
  const cuda::ContextScope scope(*target_.driver, target_.context);
  const cudnn::Functions& functions = *target_.functions;
  const StepShape& shape = shapes_.kinds[arrangement.kind];
  const ArrangedNumbers from =
      MovedBehind(target_, shape, in_order_[arrangement.kind], arrangement.first);
  const float one = 1, zero = 0;
  const auto gather = [&](int64_t size, Address source, Address destination) -> Status {
    if (size == 0) return Status::Ok();
    const int64_t group = arrangement.fan * size;
    const auto tensor = [&](int64_t distance) {
      return MakeTensor(target_, {{{1, arrangement.count * distance},
                                   {arrangement.count, distance},
                                   {1, group},
                                   {group, 1}}});
    };
    UCUDNN_ASSIGN_OR_RETURN(const Tensor apart, tensor(arrangement.distance * size));
    UCUDNN_ASSIGN_OR_RETURN(const Tensor together, tensor(group));
    return CudnnStatus(functions,
                       functions.cudnnAddTensor(lane.handle(), &one, apart.get(), source, &zero,
                                                together.get(), destination),
                       "cudnnAddTensor");
  };
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const LayerNumbers& to = arranged.numbers[i];
    UCUDNN_RETURN_IF_ERROR(gather(shape.layers[i].weights, from[i].weights, to.weights));
    UCUDNN_RETURN_IF_ERROR(gather(shape.layers[i].bias, from[i].bias, to.bias));
  }
  return Status::Ok();
}

Status DeviceWeights::Upload(DeviceLane& lane) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  const auto upload = [&](int kind, const StepLayer& layer, auto member, Address to) -> Status {
    if (to == nullptr) return Status::Ok();
    staging_.clear();
    for (const int step : shapes_.steps[kind]) {
      const planner::NodeId node = stage_.stage.steps[step].transformation[layer.node];
      const std::vector<double>& numbers = stage_.parameters[node].*member;
      staging_.insert(staging_.end(), numbers.begin(), numbers.end());
    }
    return lane.Upload(staging_.data(), to, static_cast<int64_t>(staging_.size()));
  };
  for (size_t kind = 0; kind < shapes_.kinds.size(); ++kind) {
    const StepShape& shape = shapes_.kinds[kind];
    for (size_t i = 0; i < shape.layers.size(); ++i) {
      const LayerNumbers& to = in_order_[kind][i];
      const auto number = static_cast<int>(kind);
      UCUDNN_RETURN_IF_ERROR(upload(number, shape.layers[i], &NodeWeights::weights, to.weights));
      UCUDNN_RETURN_IF_ERROR(upload(number, shape.layers[i], &NodeWeights::bias, to.bias));
    }
  }
  for (const auto& [arrangement, arranged] : arranged_) {
    UCUDNN_RETURN_IF_ERROR(Gather(lane, arrangement, *arranged));
  }
  return lane.Wait();
}

Result<DeviceGradients> DeviceGradients::Make(const DeviceTarget& target, const StageShapes& shapes,
                                              const Arrangement& arrangement) {
  DeviceGradients made(target, shapes.kinds[arrangement.kind], arrangement);
  UCUDNN_ASSIGN_OR_RETURN(made.numbers_, TakeMemory(target, shapes.kinds[arrangement.kind],
                                                    arrangement.count, made.memory_));
  return made;
}

ArrangedNumbers DeviceGradients::Behind(int number) const {
  return MovedBehind(target_, *shape_, numbers_, number);
}

Status DeviceGradients::AddTo(DeviceLane& lane, const DeviceStage& stage, const StageShapes& shapes,
                              const Share& share, Parameters& gradient) const {
  const StepShape& shape = shapes.kinds[arrangement_.kind];
  const int count = share.end - share.begin;
  std::vector<double> numbers;
  const auto add = [&](const StepLayer& layer, int64_t size, Address from, auto member) -> Status {
    if (size == 0 || count == 0) return Status::Ok();
    numbers.resize(static_cast<size_t>(size * count));
    UCUDNN_RETURN_IF_ERROR(lane.Download(target_.Behind(from, share.begin * size), numbers.data(),
                                         static_cast<int64_t>(numbers.size())));
    for (int i = 0; i < count; ++i) {
      const int number = arrangement_.first + (share.begin + i) * arrangement_.distance;
      const int step = shapes.steps[arrangement_.kind][number];
      const planner::NodeId node = stage.stage.steps[step].transformation[layer.node];
      std::vector<double>& sum = gradient[node].*member;
      for (int64_t k = 0; k < size; ++k) sum[k] += share.factor * numbers[i * size + k];
    }
    return Status::Ok();
  };
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const StepLayer& layer = shape.layers[i];
    UCUDNN_RETURN_IF_ERROR(add(layer, layer.weights, numbers_[i].weights, &NodeWeights::weights));
    UCUDNN_RETURN_IF_ERROR(add(layer, layer.bias, numbers_[i].bias, &NodeWeights::bias));
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
