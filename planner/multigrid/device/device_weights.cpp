#include "planner/multigrid/device/device_weights.h"

#include <algorithm>
#include <tuple>

#include "planner/multigrid/device/tensors.h"

namespace ucudnn::multigrid {
namespace {

int64_t CountOfSteps(const StepShape& shape, int64_t steps) {
  int64_t count = 0;
  for (const StepLayer& layer : shape.layers) {
    count += Aligned(layer.weights * steps) + Aligned(layer.bias * steps);
  }
  return count;
}

// Returns the layout of the numbers of `steps` steps from `address` on. For each layer, the weights
// of all steps come first, and then the biases of all steps.
ArrangedNumbers LaidOut(const DeviceTarget& target, const StepShape& shape, int64_t steps,
                        Address address) {
  ArrangedNumbers numbers;
  const auto take = [&](int64_t size) -> Address {
    if (size == 0) return nullptr;
    const Address taken = address;
    address = target.Behind(address, Aligned(size * steps));
    return taken;
  };
  for (const StepLayer& layer : shape.layers) {
    const Address weights = take(layer.weights);
    numbers.push_back({weights, take(layer.bias)});
  }
  return numbers;
}

ArrangedNumbers MovedBehind(const DeviceTarget& target, const StepShape& shape,
                            const ArrangedNumbers& numbers, int64_t steps) {
  ArrangedNumbers behind = numbers;
  for (size_t i = 0; i < behind.size(); ++i) {
    behind[i].weights = target.Behind(behind[i].weights, steps * shape.layers[i].weights);
    behind[i].bias = target.Behind(behind[i].bias, steps * shape.layers[i].bias);
  }
  return behind;
}

}  // namespace

bool Arrangement::operator<(const Arrangement& other) const {
  return std::tie(kind, first, distance, count, fan) <
         std::tie(other.kind, other.first, other.distance, other.count, other.fan);
}

Result<ArrangedMemory> ArrangedMemory::Make(const DeviceTarget& target, const StageShapes& shapes,
                                            const Arrangement& arrangement) {
  const StepShape& shape = shapes.kinds[arrangement.kind];
  const int64_t steps = int64_t{arrangement.count} * arrangement.fan;
  UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers memory,
                          DeviceNumbers::Make(target, CountOfSteps(shape, steps)));
  const Address begin = memory.data();
  return ArrangedMemory{std::move(memory), LaidOut(target, shape, steps, begin)};
}

NumbersLayout::NumbersLayout(const DeviceTarget& target, const StagePart& stage,
                             const StageShapes& shapes)
    : target_(target), shapes_(shapes) {
  for (size_t kind = 0; kind < shapes.kinds.size(); ++kind) {
    const std::vector<int>& steps = shapes.steps[kind];
    const auto count = static_cast<int64_t>(steps.size());
    begins_.push_back(count_);
    int64_t begin = count_;
    for (const StepLayer& layer : shapes.kinds[kind].layers) {
      const auto add = [&](int64_t size, std::vector<double> NodeWeights::*member) {
        for (int64_t i = 0; size > 0 && i < count; ++i) {
          const planner::NodeId node = stage.stage.steps[steps[i]].transformation[layer.node];
          places_.push_back({steps[i], node, member, begin + i * size, size});
        }
        begin += Aligned(size * count);
      };
      add(layer.weights, &NodeWeights::weights);
      add(layer.bias, &NodeWeights::bias);
    }
    count_ = begin;
  }
  count_ = Aligned(count_, kRow);
}

ArrangedNumbers NumbersLayout::InOrder(Address block, int kind, int number) const {
  const StepShape& shape = shapes_.kinds[kind];
  const auto steps = static_cast<int64_t>(shapes_.steps[kind].size());
  return MovedBehind(target_, shape,
                     LaidOut(target_, shape, steps, target_.Behind(block, begins_[kind])), number);
}

Status NumbersLayout::Copy(DeviceLane& lane, Move move, Address block,
                           const Arrangement& arrangement, const ArrangedNumbers& together) const {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  const StepShape& shape = shapes_.kinds[arrangement.kind];
  const ArrangedNumbers apart = InOrder(block, arrangement.kind, arrangement.first);
  const auto copy = [&](int64_t size, Address of_block, Address of_groups) -> Status {
    if (size == 0) return Status::Ok();
    const int64_t group = arrangement.fan * size;
    const auto tensor = [&](int64_t distance) {
      return MakeTensor(target_, {{{1, arrangement.count * distance},
                                   {arrangement.count, distance},
                                   {1, group},
                                   {group, 1}}});
    };
    UCUDNN_ASSIGN_OR_RETURN(const Tensor strided, tensor(arrangement.distance * size));
    UCUDNN_ASSIGN_OR_RETURN(const Tensor packed, tensor(group));
    const TensorNumbers in_block = {strided.get(), of_block};
    const TensorNumbers in_groups = {packed.get(), of_groups};
    return move == Move::kGather ? lane.Add(1, in_block, 0, in_groups)
                                 : lane.Add(1, in_groups, 0, in_block);
  };
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const StepLayer& layer = shape.layers[i];
    UCUDNN_RETURN_IF_ERROR(copy(layer.weights, apart[i].weights, together[i].weights));
    UCUDNN_RETURN_IF_ERROR(copy(layer.bias, apart[i].bias, together[i].bias));
  }
  return Status::Ok();
}

// Calls visit(kind, layers) for each stretch of consecutive layers of one kind. Ranks may number
// kinds differently, but all have the same stretches.
template <typename Visit>
Status NumbersLayout::ForEachStretch(std::span<const int> layers, const Visit& visit) const {
  for (size_t begin = 0, end = 0; begin < layers.size(); begin = end) {
    const int kind = shapes_.kind_of[layers[begin]];
    while (end < layers.size() && shapes_.kind_of[layers[end]] == kind) ++end;
    UCUDNN_RETURN_IF_ERROR(visit(kind, layers.subspan(begin, end - begin)));
  }
  return Status::Ok();
}

int64_t NumbersLayout::CountOf(std::span<const int> layers) const {
  int64_t count = 0;
  static_cast<void>(ForEachStretch(layers, [&](int kind, std::span<const int> stretch) {
    count += CountOfSteps(shapes_.kinds[kind], static_cast<int64_t>(stretch.size()));
    return Status::Ok();
  }));
  return count;
}

Status NumbersLayout::CopyLayers(DeviceLane& lane, Move move, Address block,
                                 std::span<const int> layers, Address message) const {
  return ForEachStretch(layers, [&](int kind, std::span<const int> stretch) -> Status {
    const StepShape& shape = shapes_.kinds[kind];
    const auto steps = static_cast<int64_t>(stretch.size());
    const ArrangedNumbers packed = LaidOut(target_, shape, steps, message);
    message = target_.Behind(message, CountOfSteps(shape, steps));
    const auto number = [&](size_t at) { return shapes_.number_of[stretch[at]]; };
    // Copies each run of steps at equal distances with one call.
    for (size_t begin = 0, end = 0; begin < stretch.size(); begin = end) {
      Arrangement run = {.kind = kind, .first = number(begin)};
      for (end = begin + 1; end < stretch.size(); ++end, ++run.count) {
        const int distance = number(end) - number(end - 1);
        if (run.count == 1) run.distance = distance;
        if (distance != run.distance) break;
      }
      UCUDNN_RETURN_IF_ERROR(
          Copy(lane, move, block, run,
               MovedBehind(target_, shape, packed, static_cast<int64_t>(begin))));
    }
    return Status::Ok();
  });
}

Result<std::unique_ptr<DeviceWeights>> DeviceWeights::Make(const DeviceTarget& target,
                                                           const StagePart& stage,
                                                           const StageShapes& shapes) {
  std::unique_ptr<DeviceWeights> made(new DeviceWeights(target, stage, shapes));
  UCUDNN_ASSIGN_OR_RETURN(made->in_order_, DeviceNumbers::Make(target, made->layout_.count()));
  return made;
}

Result<const ArrangedNumbers*> DeviceWeights::Arrange(const Arrangement& arrangement,
                                                      DeviceLane& lane) {
  const auto known = arranged_.find(arrangement);
  if (known != arranged_.end()) return static_cast<const ArrangedNumbers*>(&known->second->numbers);
  auto made = std::make_unique<Arranged>();
  if (arrangement.is_contiguous()) {
    made->numbers = layout_.InOrder(in_order(), arrangement.kind, arrangement.first);
  } else {
    UCUDNN_ASSIGN_OR_RETURN(made->memory, ArrangedMemory::Make(target_, shapes_, arrangement));
    made->numbers = made->memory->numbers;
    UCUDNN_RETURN_IF_ERROR(
        layout_.Copy(lane, NumbersLayout::Move::kGather, in_order(), arrangement, made->numbers));
  }
  const ArrangedNumbers* const numbers = &made->numbers;
  arranged_.emplace(arrangement, std::move(made));
  return numbers;
}

std::vector<double> DeviceWeights::HostBlock() const {
  std::vector<double> block(static_cast<size_t>(layout_.count()));
  for (const NumbersLayout::Place& place : layout_.places()) {
    const std::vector<double>& numbers = stage_.parameters[place.node].*place.member;
    std::copy_n(numbers.begin(), place.count, block.begin() + place.begin);
  }
  return block;
}

Status DeviceWeights::Upload(DeviceLane& lane) {
  UCUDNN_RETURN_IF_ERROR(lane.Upload(HostBlock().data(), in_order(), layout_.count()));
  UCUDNN_RETURN_IF_ERROR(InOrderChanged(lane));
  return lane.Wait();
}

Status DeviceWeights::InOrderChanged(DeviceLane& lane) {
  for (const auto& [arrangement, arranged] : arranged_) {
    if (arrangement.is_contiguous()) continue;
    UCUDNN_RETURN_IF_ERROR(layout_.Copy(lane, NumbersLayout::Move::kGather, in_order(), arrangement,
                                        arranged->numbers));
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
