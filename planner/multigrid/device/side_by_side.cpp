#include "planner/multigrid/device/side_by_side.h"

#include <algorithm>
#include <utility>

namespace ucudnn::multigrid {
namespace {

using ChainOperation = SideBySide::Operation;
using Member = State ChainOperation::*;

int64_t IndexOf(State state) { return PlacedState::Of(state).index; }
int NumberOf(State state) { return state == nullptr ? -1 : PlacedState::Of(state).array->number; }

// Orders operations by kind, factors and arrays, and then in the order of the network.
auto OrderOf(const ChainOperation& operation) {
  const State last = operation.to != nullptr ? operation.to : operation.from;
  return std::tuple(operation.kind, operation.a, operation.b, NumberOf(operation.to),
                    NumberOf(operation.from), IndexOf(last));
}

int64_t DistanceOf(std::span<const ChainOperation> operations, Member member) {
  if (operations.size() == 1 || operations[0].*member == nullptr) return 1;
  return IndexOf(operations[1].*member) - IndexOf(operations[0].*member);
}

// Returns whether the operand `member` of the last operation continues the operands `member` of the
// operations before it: all are null, or all are states of one array at equal distances. AreOne
// compares everything else that one call requires.
bool Follows(std::span<const ChainOperation> operations, Member member) {
  const State before = operations[operations.size() - 2].*member;
  const State last = operations.back().*member;
  if (last == nullptr || before == nullptr) return last == before;
  const int64_t distance = DistanceOf(operations, member);
  const bool has_its_distance = operations[0].kind == ChainOperation::Kind::kSum
                                    ? distance >= 0
                                    : distance == 1;  // the groups of one convolution are adjacent
  return PlacedState::Of(before).array == PlacedState::Of(last).array && has_its_distance &&
         IndexOf(last) - IndexOf(before) == distance;
}

bool AreOne(std::span<const ChainOperation> operations) {
  const ChainOperation& first = operations.front();
  const ChainOperation& last = operations.back();
  return first.kind == last.kind && first.a == last.a && first.b == last.b &&
         Follows(operations, &ChainOperation::to) && Follows(operations, &ChainOperation::from);
}

StatesView AllOf(std::span<const ChainOperation> operations, Member member) {
  if (operations[0].*member == nullptr) return {};
  StatesView view = PlacedState::Of(operations[0].*member).view;
  view.count = static_cast<int>(operations.size());
  view.distance = DistanceOf(operations, member);
  return view;
}

StepRunner::States StatesOf(const StatesView& view) { return {view.data, view.image_distance}; }

}  // namespace

Result<const StatesArray*> SideBySide::MakeArray(int64_t count) {
  UCUDNN_ASSIGN_OR_RETURN(
      DeviceNumbers numbers,
      DeviceNumbers::Make(runner_.target(), count * runner_.StateSize() * runner_.batch()));
  const auto number = static_cast<int>(arrays_.size());
  return static_cast<const StatesArray*>(
      &arrays_.emplace_back(StatesArray{std::move(numbers), number, count}));
}

StatesView SideBySide::ViewOf(const StatesArray& array, int64_t index) const {
  return {.data = runner_.target().Behind(array.numbers.data(), index * runner_.StateSize()),
          .image_distance = array.count};
}

// Places states so that operations on many states can be one call. For B blocks of c steps, the B +
// 1 C-points lie side by side in one array, and so do the B states at each place between C-points.
// The right sides of a level are in the order of its steps, as the C-points of the finer level are.
Result<State> SideBySide::Create(const StatePlace& place) {
  const Level& level = runner_.stage().hierarchy.level(place.level);
  const bool is_source = place.role == StatePlace::Role::kSource;
  const bool is_state = place.role == StatePlace::Role::kState;
  const int steps_before = is_source ? place.number - 1 : place.number;
  const int last = is_state ? level.steps : level.steps - 1;
  const int number = direction_ == Direction::kAdjoint ? last - steps_before : steps_before;
  // On the finest level all steps of a block use the same scratch, one after the other.
  const bool has_one_place = !is_state && place.level == 0;
  const int tail = number - level.last_c_point();
  int at = has_one_place ? 0 : number % level.coarsening;
  int64_t count = level.blocks() + (is_state && at == 0 ? 1 : 0);
  int64_t index = number / level.coarsening;
  if (is_source) {
    at = 0;
    count = level.steps;
    index = number;
  } else if (is_state ? tail > 0 : tail >= 0) {
    at = level.coarsening + (has_one_place ? 0 : tail);
    count = 1;
    index = 0;
  }
  const StatesArray*& array = places_[{place.level, place.role, at}];
  if (array == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(array, MakeArray(count));
  }
  return State{&states_.emplace_back(PlacedState{array, index, ViewOf(*array, index)})};
}

Status SideBySide::Run(const RunKey& key, int count, LaneWork chain) {
  auto run = runs_.find(key);
  if (run == runs_.end()) {
    std::vector<std::vector<Operation>> chains(count);
    Status read;
    for (int i = 0; i < count && read.ok(); ++i) {
      reading_ = &chains[i];
      read = chain(i, 0);
    }
    reading_ = nullptr;
    UCUDNN_RETURN_IF_ERROR(std::move(read));
    UCUDNN_ASSIGN_OR_RETURN(std::vector<Call> calls, CallsOf(chains));
    UCUDNN_RETURN_IF_ERROR(lanes_.Reserve(runner_.needs()));
    run = runs_.emplace(key, std::move(calls)).first;
  }
  if (prepares_) return Status::Ok();
  for (const Call& call : run->second) UCUDNN_RETURN_IF_ERROR(Make(call));
  return Status::Ok();
}

Status SideBySide::Prepare(const std::function<Status()>& phases) {
  prepares_ = true;
  Status prepared = phases();
  prepares_ = false;
  return prepared;
}

Status SideBySide::Linearise() {
  for (const Call& call : linearisation_) UCUDNN_RETURN_IF_ERROR(Make(call));
  return Status::Ok();
}

Result<std::vector<SideBySide::Call>> SideBySide::CallsOf(
    const std::vector<std::vector<Operation>>& chains) {
  std::vector<Call> calls;
  std::vector<Operation> operations;
  for (size_t k = 0; k == 0 || !operations.empty(); ++k) {
    operations.clear();
    for (const std::vector<Operation>& chain : chains) {
      if (k < chain.size()) operations.push_back(chain[k]);
    }
    UCUDNN_RETURN_IF_ERROR(Group(operations, calls));
  }
  return calls;
}

Status SideBySide::Group(std::vector<Operation>& operations, std::vector<Call>& calls) {
  std::stable_sort(
      operations.begin(), operations.end(),
      [](const Operation& one, const Operation& other) { return OrderOf(one) < OrderOf(other); });
  const std::span<const Operation> all(operations);
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    for (end = begin + 1; end < all.size(); ++end) {
      if (!AreOne(all.subspan(begin, end + 1 - begin))) break;
    }
    UCUDNN_ASSIGN_OR_RETURN(Call call, CallOf(all.subspan(begin, end - begin)));
    calls.push_back(std::move(call));
  }
  return Status::Ok();
}

Result<SideBySide::Call> SideBySide::CallOf(std::span<const Operation> operations) {
  const Operation& first = operations.front();
  Call call = {.kind = first.kind, .a = first.a, .b = first.b};
  call.from = AllOf(operations, &Operation::from);
  call.to = AllOf(operations, &Operation::to);
  if (first.kind == Operation::Kind::kSum) return call;
  std::vector<LayerRange> ranges;
  for (const Operation& operation : operations) ranges.push_back(operation.layers);
  UCUDNN_ASSIGN_OR_RETURN(call.plan, runner_.Plan(ranges, lanes_.first()));
  StatesView x = call.from;
  if (first.kind != Operation::Kind::kStep) {
    UCUDNN_ASSIGN_OR_RETURN(call.linearised, LinearisedOf(operations));
    x = call.linearised;
  }
  UCUDNN_RETURN_IF_ERROR(runner_.Prepare(call.plan, x.image_distance, first.pass));
  for (const StepCall& step : call.plan.calls) {
    if (first.kind != Operation::Kind::kGradient) break;
    UCUDNN_ASSIGN_OR_RETURN(ArrangedMemory made,
                            ArrangedMemory::Make(runner_.target(), runner_.shapes(), step.steps));
    call.numbers.push_back(made.numbers);
    call.gradients.push_back(std::move(made));
  }
  return call;
}

// Returns the states at which `operations` are linearised. On a coarse level these states are one
// block apart, so copies of them are placed side by side.
Result<StatesView> SideBySide::LinearisedOf(std::span<const Operation> operations) {
  const Operation& first = operations.front();
  bool are_beside = true;
  for (size_t i = 1; i < operations.size() && are_beside; ++i) {
    are_beside = Follows(operations.first(i + 1), &Operation::linearised);
  }
  if (are_beside) return AllOf(operations, &Operation::linearised);
  const int distance = operations[1].layers.begin - first.layers.begin;
  StatesView& view = linearised_[{first.layers.begin, distance, operations.size()}];
  if (view.data != nullptr) return view;
  UCUDNN_ASSIGN_OR_RETURN(const StatesArray* const array,
                          MakeArray(static_cast<int64_t>(operations.size())));
  std::vector<PlacedState> places;
  for (size_t i = 0; i < operations.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    places.push_back({array, index, ViewOf(*array, index)});
  }
  std::vector<Operation> copies;
  for (size_t i = 0; i < operations.size(); ++i) {
    copies.push_back({.from = operations[i].linearised, .to = &places[i]});
  }
  view = places.front().view;
  view.count = static_cast<int>(operations.size());
  UCUDNN_RETURN_IF_ERROR(Group(copies, linearisation_));
  return view;
}

Status SideBySide::Make(const Call& call) {
  DeviceLane& lane = lanes_.first();
  switch (call.kind) {
    case Operation::Kind::kSum:
      return runner_.sums().Combine(lane, call.a, call.from, call.b, call.to);
    case Operation::Kind::kStep:
      return runner_.Step(call.plan, StatesOf(call.from), StatesOf(call.to), lane);
    case Operation::Kind::kAdjointStep:
      return runner_.AdjointStep(
          call.plan, {StatesOf(call.linearised), StatesOf(call.from), StatesOf(call.to)}, lane);
    case Operation::Kind::kGradient:
      return runner_.Gradient(call.plan, StatesOf(call.linearised), StatesOf(call.from),
                              call.numbers, lane);
  }
  return Status::Ok();
}

Status SideBySide::PutGradients(const RunKey& key) {
  UCUDNN_ASSIGN_OR_RETURN(DeviceDescent* const descent, runner_.Descent());
  for (const Call& call : runs_.at(key)) {
    for (size_t i = 0; i < call.numbers.size(); ++i) {
      UCUDNN_RETURN_IF_ERROR(
          descent->Put(lanes_.first(), call.plan.calls[i].steps, call.numbers[i]));
    }
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
