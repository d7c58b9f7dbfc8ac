#include "planner/multigrid/device/device_chain.h"

#include <algorithm>

namespace ucudnn::multigrid {

DeviceStates::DeviceStates(DeviceRun& run, Direction direction)
    : run_(run), size_(run.runner->StateSize() * run.runner->batch()) {
  pending_.resize(run.lanes->count());
  marks_.resize(run.lanes->count());
  if (run.way == Way::kGrouped) {
    side_by_side_ = std::make_unique<SideBySide>(*run.runner, *run.lanes, direction);
  }
}

Result<State> DeviceStates::Create() {
  UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers numbers, DeviceNumbers::Make(run_.runner->target(), size_));
  const StatesArray& array =
      arrays_.emplace_back(StatesArray{std::move(numbers), static_cast<int>(arrays_.size())});
  return State{&states_.emplace_back(PlacedState{&array, 0, {array.numbers.data()}})};
}

Result<State> DeviceStates::CreateAt(const StatePlace& place) {
  return side_by_side_ ? side_by_side_->Create(place) : Create();
}

Status DeviceStates::Prepare(const std::function<Status()>& phases) {
  return side_by_side_ ? side_by_side_->Prepare(phases) : Status::Ok();
}

Status DeviceStates::Run(const RunKey& key, int count, LaneWork chain, Lanes& lanes) {
  return side_by_side_ ? side_by_side_->Run(key, count, chain)
                       : Propagator::Run(key, count, chain, lanes);
}

bool DeviceStates::Reads(const SideBySide::Operation& operation) {
  if (!side_by_side_ || !side_by_side_->reads()) return false;
  side_by_side_->Read(operation);
  return true;
}

Status DeviceStates::Combine(State to, double b, double a, State x, int lane_number) {
  if (Reads({.a = a, .b = b, .from = x, .to = to})) return Status::Ok();
  DeviceLane& lane = run_.lanes->lane(lane_number);
  const StatesView& from = PlacedState::Of(x).view;
  const StatesView& sum = PlacedState::Of(to).view;
  StateSums& sums = run_.runner->sums();
  return b == 0 && a == 1 ? sums.Copy(lane, from, sum) : sums.Combine(lane, a, from, b, sum);
}

Status DeviceStates::SquaredDistance(State x, State y, double* result, int lane) {
  pending_[lane].push_back({x, y, result});
  return Status::Ok();
}

// A recorded graph, and the calls of SideBySide, contain the addresses of states. A cycle must
// therefore leave states at the same addresses as the cycle before it, so Take copies.
Status DeviceStates::Take(State& to, State& from, int lane) {
  return graphs_ || side_by_side_ ? Combine(to, 0, 1, from, lane)
                                  : Propagator::Take(to, from, lane);
}

Status DeviceStates::RunCycle(int kind, const std::function<Status()>& cycle) {
  return graphs_ ? graphs_->Run(kind, *run_.lanes, cycle) : cycle();
}

Status DeviceStates::RecordCycles() {
  UCUDNN_ASSIGN_OR_RETURN(graphs_, CycleGraphs::Make(run_.runner->target()));
  return Status::Ok();
}

Status DeviceStates::Mark(int lane_number, double* ms) {
  const DeviceTarget& target = run_.runner->target();
  const cuda::ContextScope scope(*target.driver, target.context);
  const CUstream stream = run_.lanes->lane(lane_number).stream();
  const auto record = [&](std::unique_ptr<cuda::Event>& event) -> Status {
    event = std::make_unique<cuda::Event>(*target.driver);
    UCUDNN_RETURN_IF_ERROR(event->Create());
    return event->Record(stream);
  };
  if (!epoch_) UCUDNN_RETURN_IF_ERROR(record(epoch_));
  Marked mark = {.event = nullptr, .ms = ms};
  UCUDNN_RETURN_IF_ERROR(record(mark.event));
  marks_[lane_number].push_back(std::move(mark));
  return Status::Ok();
}

Status DeviceStates::TellMarks(int lane) {
  if (marks_[lane].empty()) return Status::Ok();
  const DeviceTarget& target = run_.runner->target();
  const cuda::ContextScope scope(*target.driver, target.context);
  for (const Marked& mark : marks_[lane]) {
    UCUDNN_ASSIGN_OR_RETURN(*mark.ms, mark.event->MillisecondsSince(*epoch_));
  }
  marks_[lane].clear();
  return Status::Ok();
}

Result<const DeviceStates::Downloaded*> DeviceStates::Read(DeviceLane& lane, State state,
                                                           const Downloaded* kept) {
  const StatesArray* const array = PlacedState::Of(state).array;
  for (const Downloaded& held : downloaded_) {
    if (held.array == array) return &held;
  }
  Downloaded& read = downloaded_[kept == &downloaded_[0] ? 1 : 0];
  read.array = array;
  read.numbers.resize(array->numbers.count());
  UCUDNN_RETURN_IF_ERROR(
      lane.Download(array->numbers.data(), read.numbers.data(), array->numbers.count()));
  return static_cast<const Downloaded*>(&read);
}

// Sums in double precision on the host, because a residual is a small difference of large numbers.
Status DeviceStates::Measure(DeviceLane& lane, const Pending& pending) {
  const Downloaded* y = nullptr;
  UCUDNN_ASSIGN_OR_RETURN(const Downloaded* const x, Read(lane, pending.x, nullptr));
  if (pending.y != nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(y, Read(lane, pending.y, x));
  }
  const bool is_alone = x->array->count == 1 && (y == nullptr || y->array->count == 1);
  const int64_t size = is_alone ? size_ : run_.runner->StateSize();
  const auto numbers_of = [&](const Downloaded* read, State state, int64_t image) {
    return read->numbers.data() +
           (image * read->array->count + PlacedState::Of(state).index) * size;
  };
  *pending.result = 0;
  for (int64_t image = 0; image < size_ / size; ++image) {
    const double* const first = numbers_of(x, pending.x, image);
    const double* const second = y != nullptr ? numbers_of(y, pending.y, image) : nullptr;
    double sum = 0;
    for (int64_t k = 0; k < size; ++k) {
      const double difference = first[k] - (second != nullptr ? second[k] : 0);
      sum += difference * difference;
    }
    *pending.result += sum;
  }
  return Status::Ok();
}

Status DeviceStates::Wait() {
  UCUDNN_RETURN_IF_ERROR(run_.lanes->Wait());
  for (Downloaded& read : downloaded_) read.array = nullptr;
  for (int i = 0; i < run_.lanes->count(); ++i) {
    UCUDNN_RETURN_IF_ERROR(TellMarks(i));
    for (const Pending& pending : pending_[i]) {
      UCUDNN_RETURN_IF_ERROR(Measure(run_.lanes->lane(i), pending));
    }
    pending_[i].clear();
  }
  return Status::Ok();
}

double DeviceStates::UnitRoundoff() const { return run_.runner->target().precision->unit_roundoff; }

Status DeviceStates::Upload(const double* numbers, State to) {
  return run_.lanes->first().Upload(numbers, At(to).data, size_);
}

Status DeviceStates::Download(State from, double* numbers) {
  if (!run_.runner->sums().IsPacked(PlacedState::Of(from).view)) {
    if (packed_ == nullptr) {
      UCUDNN_ASSIGN_OR_RETURN(packed_, Create());
    }
    UCUDNN_RETURN_IF_ERROR(Combine(packed_, 0, 1, from, 0));
    from = packed_;
  }
  return run_.lanes->first().Download(At(from).data, numbers, size_);
}

namespace {

// Returns plans by level and step. The plan of a step applies the layers that ranges(level, step)
// returns. Returns no plans unless lanes are streams.
template <typename Ranges>
Result<std::vector<std::vector<StepPlan>>> PlanSteps(DeviceRun& run, const Ranges& ranges,
                                                     Pass pass) {
  StepRunner& runner = *run.runner;
  const Hierarchy& hierarchy = runner.stage().hierarchy;
  std::vector<std::vector<StepPlan>> plans(run.way == Way::kStreams ? hierarchy.levels() : 0);
  for (size_t number = 0; number < plans.size(); ++number) {
    const Level& level = hierarchy.level(static_cast<int>(number));
    for (int step = 0; step < level.steps; ++step) {
      UCUDNN_ASSIGN_OR_RETURN(StepPlan plan,
                              runner.Plan({ranges(level, step)}, run.lanes->first()));
      UCUDNN_RETURN_IF_ERROR(runner.Prepare(plan, 1, pass));
      plans[number].push_back(std::move(plan));
    }
  }
  return plans;
}

}  // namespace

Result<std::unique_ptr<DeviceChain>> DeviceChain::Make(const DeviceTarget& target,
                                                       const StagePart& stage,
                                                       size_t workspace_limit,
                                                       std::shared_ptr<DeviceLanes> lanes,
                                                       Way way) {
  auto run = std::make_unique<DeviceRun>();
  UCUDNN_ASSIGN_OR_RETURN(run->runner,
                          StepRunner::Make(target, stage, workspace_limit, lanes->count()));
  run->lanes = std::move(lanes);
  run->way = way;
  std::unique_ptr<DeviceChain> chain(new DeviceChain(std::move(run)));
  DeviceRun& shared = *chain->owned_;
  const auto ranges = [&](const Level& level, int step) {
    return LayersOf(stage.coarse, level, step, stage.h);
  };
  UCUDNN_ASSIGN_OR_RETURN(chain->plans_, PlanSteps(shared, ranges, Pass::kForward));
  UCUDNN_RETURN_IF_ERROR(shared.lanes->Reserve(shared.runner->needs()));
  UCUDNN_RETURN_IF_ERROR(chain->LoadWeights());
  return chain;
}

Status DeviceChain::LoadWeights() {
  UCUDNN_RETURN_IF_ERROR(owned_->lanes->Wait());
  return owned_->runner->LoadWeights(owned_->lanes->first());
}

Status DeviceChain::Step(int level, int step, State from, State to, int lane) {
  const StagePart& stage = owned_->runner->stage();
  if (Reads({.kind = SideBySide::Operation::Kind::kStep,
             .layers = LayersOf(stage.coarse, stage.hierarchy.level(level), step, stage.h),
             .from = from,
             .to = to})) {
    return Status::Ok();
  }
  return owned_->runner->Step(plans_[level][step], At(from), At(to), owned_->lanes->lane(lane));
}

Result<std::unique_ptr<DeviceAdjoint>> DeviceAdjoint::Make(DeviceChain& chain) {
  DeviceRun& run = chain.shared();
  std::unique_ptr<DeviceAdjoint> adjoint(new DeviceAdjoint(run));
  if (run.way == Way::kGrouped) return adjoint;
  const StagePart& stage = run.runner->stage();
  const auto ranges = [&](const Level& level, int step) {
    return AdjointLayersOf(stage.coarse, level, step, stage.h);
  };
  UCUDNN_ASSIGN_OR_RETURN(adjoint->plans_, PlanSteps(run, ranges, Pass::kAdjoint));
  if (stage.has_gradients) UCUDNN_RETURN_IF_ERROR(adjoint->PlanGradients());
  UCUDNN_RETURN_IF_ERROR(run.lanes->Reserve(run.runner->needs()));
  return adjoint;
}

Status DeviceAdjoint::PlanGradients() {
  StepRunner& runner = *run().runner;
  const int layers = static_cast<int>(runner.stage().stage.steps.size());
  for (int layer = 0; layer < layers; ++layer) {
    UCUDNN_ASSIGN_OR_RETURN(
        StepPlan plan, runner.Plan({{layer, layer + 1, runner.stage().h}}, run().lanes->first()));
    UCUDNN_RETURN_IF_ERROR(runner.Prepare(plan, 1, Pass::kGradient));
    single_.push_back(std::move(plan));
  }
  return runner.Descent().status();
}

Status DeviceAdjoint::Step(int level, int step, State from, State to, int lane) {
  const StagePart& stage = run().runner->stage();
  const LayerRange range =
      AdjointLayersOf(stage.coarse, stage.hierarchy.level(level), step, stage.h);
  UCUDNN_ASSIGN_OR_RETURN(const State state, trajectory_->At(range.begin, lane));
  if (Reads({.kind = SideBySide::Operation::Kind::kAdjointStep,
             .pass = stage.has_gradients && level == 0 ? Pass::kGradient : Pass::kAdjoint,
             .layers = range,
             .from = from,
             .to = to,
             .linearised = state})) {
    return Status::Ok();
  }
  return run().runner->AdjointStep(plans_[level][step], {At(state), At(from), At(to)},
                                   run().lanes->lane(lane));
}

// Before and after the cycle, drops the chain's states that were computed from C-points, because
// the graph of the cycle must contain their computation.
Status DeviceAdjoint::RunCycle(int kind, const std::function<Status()>& cycle) {
  trajectory_->Reset();
  Status ran = DeviceStates::RunCycle(kind, cycle);
  trajectory_->Reset();
  return ran;
}

Status DeviceAdjoint::Gradient(int layer, State state, State adjoint, int lane) {
  StepRunner& runner = *run().runner;
  if (Reads({.kind = SideBySide::Operation::Kind::kGradient,
             .pass = Pass::kGradient,
             .layers = {layer, layer + 1, runner.stage().h},
             .from = adjoint,
             .linearised = state})) {
    return Status::Ok();
  }
  const StageShapes& shapes = runner.shapes();
  UCUDNN_ASSIGN_OR_RETURN(DeviceDescent* const descent, runner.Descent());
  return runner.Gradient(single_[layer], At(state), At(adjoint),
                         {descent->Gradient(shapes.kind_of[layer], shapes.number_of[layer])},
                         run().lanes->lane(lane));
}

Result<DeviceDescent*> DeviceAdjoint::GatherGradients() {
  UCUDNN_RETURN_IF_ERROR(side_by_side() ? side_by_side()->PutGradients(StageLayers::kGradients)
                                        : run().lanes->Gather());
  return run().runner->Descent();
}

Status DeviceAdjoint::AddGradients(LayerSpan layers, double factor, Parameters& gradient) {
  UCUDNN_ASSIGN_OR_RETURN(DeviceDescent* const descent, GatherGradients());
  return descent->AddTo(run().lanes->first(), layers, factor, gradient);
}

Status DeviceAdjoint::Descend(double factor, const Descent& step, RankChannel* replicas) {
  UCUDNN_ASSIGN_OR_RETURN(DeviceDescent* const descent, GatherGradients());
  UCUDNN_RETURN_IF_ERROR(descent->Step(run().lanes->first(), factor, step, replicas));
  return run().lanes->Fork();
}

}  // namespace ucudnn::multigrid
