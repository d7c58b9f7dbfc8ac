#include "planner/multigrid/device/device_chain.h"

#include <algorithm>

namespace ucudnn::multigrid {

DeviceStates::DeviceStates(DeviceRun& run)
    : run_(run), size_(run.runner->StateSize() * run.runner->batch()) {
  pending_.resize(run.lanes->count());
  marks_.resize(run.lanes->count());
  for (auto& numbers : downloaded_) numbers.resize(size_);
}

Result<State> DeviceStates::Create() {
  UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers made, DeviceNumbers::Make(run_.runner->target(), size_));
  states_.push_back(std::move(made));
  return State{states_.back().data()};
}

Status DeviceStates::Combine(State to, double b, double a, State x, int lane_number) {
  DeviceLane& lane = run_.lanes->lane(lane_number);
  const Address from = At(x).data;
  if (b == 0 && a == 1) return lane.Copy(from, At(to).data, size_);
  return run_.runner->sums().Combine(lane, a, {.data = from}, b, {.data = At(to).data});
}

Status DeviceStates::SquaredDistance(State x, State y, double* result, int lane) {
  pending_[lane].push_back({x, y, result});
  return Status::Ok();
}

// A graph has the addresses of what it was recorded of: so states that a cycle leaves are where the
// one before left them.
Status DeviceStates::Take(State& to, State& from, int lane) {
  return graphs_ ? Combine(to, 0, 1, from, lane) : Propagator::Take(to, from, lane);
}

Status DeviceStates::RunCycle(int kind, const std::function<Status()>& cycle) {
  return graphs_ ? graphs_->Run(kind, *run_.lanes, cycle) : cycle();
}

Status DeviceStates::RecordCycles() {
  UCUDNN_ASSIGN_OR_RETURN(CycleGraphs graphs, CycleGraphs::Make(run_.runner->target()));
  graphs_.emplace(std::move(graphs));
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

// Sums in double precision on the host: a residual is a small difference of large numbers.
Status DeviceStates::Wait() {
  for (int i = 0; i < run_.lanes->count(); ++i) {
    DeviceLane& lane = run_.lanes->lane(i);
    UCUDNN_RETURN_IF_ERROR(lane.Wait());
    UCUDNN_RETURN_IF_ERROR(TellMarks(i));
    for (const Pending& pending : pending_[i]) {
      std::vector<double>& x = downloaded_[0];
      std::vector<double>& y = downloaded_[1];
      UCUDNN_RETURN_IF_ERROR(lane.Download(At(pending.x).data, x.data(), size_));
      if (pending.y != nullptr) {
        UCUDNN_RETURN_IF_ERROR(lane.Download(At(pending.y).data, y.data(), size_));
      } else {
        std::fill(y.begin(), y.end(), 0.0);
      }
      double sum = 0;
      for (int64_t k = 0; k < size_; ++k) sum += (x[k] - y[k]) * (x[k] - y[k]);
      *pending.result = sum;
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
  return run_.lanes->first().Download(At(from).data, numbers, size_);
}

namespace {

// By level and step: the plan of what `ranges` says of a step.
template <typename Ranges>
Result<std::vector<std::vector<StepPlan>>> PlanSteps(StepRunner& runner, const Ranges& ranges,
                                                     Pass pass) {
  const Hierarchy& hierarchy = runner.stage().hierarchy;
  std::vector<std::vector<StepPlan>> plans(hierarchy.levels());
  for (int level = 0; level < hierarchy.levels(); ++level) {
    for (int step = 0; step < hierarchy.level(level).steps; ++step) {
      UCUDNN_ASSIGN_OR_RETURN(StepPlan plan, runner.Plan({ranges(hierarchy.level(level), step)}));
      UCUDNN_RETURN_IF_ERROR(runner.Prepare(plan, {1}, pass));
      plans[level].push_back(std::move(plan));
    }
  }
  return plans;
}

}  // namespace

Result<std::unique_ptr<DeviceChain>> DeviceChain::Make(const DeviceTarget& target,
                                                       const DeviceStage& stage,
                                                       std::shared_ptr<DeviceLanes> lanes) {
  auto run = std::make_unique<DeviceRun>();
  UCUDNN_ASSIGN_OR_RETURN(run->runner, StepRunner::Make(target, stage, lanes->count()));
  run->lanes = std::move(lanes);
  std::unique_ptr<DeviceChain> chain(new DeviceChain(std::move(run)));
  DeviceRun& shared = *chain->owned_;
  const auto ranges = [&](const Level& level, int step) {
    return LayersOf(stage.coarse, level, step, stage.h);
  };
  UCUDNN_ASSIGN_OR_RETURN(chain->plans_, PlanSteps(*shared.runner, ranges, Pass::kForward));
  UCUDNN_RETURN_IF_ERROR(shared.lanes->Reserve(shared.runner->needs()));
  UCUDNN_RETURN_IF_ERROR(chain->WeightsChanged());
  return chain;
}

Status DeviceChain::WeightsChanged() {
  UCUDNN_RETURN_IF_ERROR(owned_->lanes->Wait());
  return owned_->runner->weights().Upload(owned_->lanes->first());
}

Status DeviceChain::Step(int level, int step, State from, State to, int lane) {
  return owned_->runner->Step(plans_[level][step], {}, At(from), At(to), owned_->lanes->lane(lane));
}

Result<std::unique_ptr<DeviceAdjoint>> DeviceAdjoint::Make(DeviceChain& chain) {
  DeviceRun& run = chain.shared();
  StepRunner& runner = *run.runner;
  std::unique_ptr<DeviceAdjoint> adjoint(new DeviceAdjoint(run));
  const DeviceStage& stage = runner.stage();
  const int layers = stage.has_gradients ? static_cast<int>(stage.stage.steps.size()) : 0;
  const auto ranges = [&](const Level& level, int step) {
    return AdjointLayersOf(stage.coarse, level, step, stage.h);
  };
  UCUDNN_ASSIGN_OR_RETURN(adjoint->plans_, PlanSteps(runner, ranges, Pass::kAdjoint));
  for (int layer = 0; layer < layers; ++layer) {
    UCUDNN_ASSIGN_OR_RETURN(StepPlan plan, runner.Plan({{layer, layer + 1, stage.h}}));
    UCUDNN_RETURN_IF_ERROR(runner.Prepare(plan, {1}, Pass::kGradient));
    adjoint->single_.push_back(std::move(plan));
  }
  const StageShapes& shapes = runner.shapes();
  for (size_t kind = 0; stage.has_gradients && kind < shapes.kinds.size(); ++kind) {
    const Arrangement in_order = {.kind = static_cast<int>(kind),
                                  .count = static_cast<int>(shapes.steps[kind].size())};
    UCUDNN_ASSIGN_OR_RETURN(DeviceGradients gradients,
                            DeviceGradients::Make(runner.target(), shapes, in_order));
    adjoint->gradients_.push_back(std::move(gradients));
  }
  UCUDNN_RETURN_IF_ERROR(run.lanes->Reserve(runner.needs()));
  return adjoint;
}

Status DeviceAdjoint::Step(int level, int step, State from, State to, int lane) {
  const StepPlan& plan = plans_[level][step];
  UCUDNN_ASSIGN_OR_RETURN(const State state, trajectory_->At(plan.begin, lane));
  return run().runner->AdjointStep(plan, {}, {At(state), At(from), At(to)},
                                   run().lanes->lane(lane));
}

// What is computed again of the states belongs to each cycle, since a graph has it all.
Status DeviceAdjoint::RunCycle(int kind, const std::function<Status()>& cycle) {
  trajectory_->Reset();
  Status ran = DeviceStates::RunCycle(kind, cycle);
  trajectory_->Reset();
  return ran;
}

Status DeviceAdjoint::AddGradient(LayerSpan layers, StateReader& states, StateReader& adjoints,
                                  Lanes& lanes, double factor, Parameters& gradient) {
  StepRunner& runner = *run().runner;
  const StageShapes& shapes = runner.shapes();
  const int steps = static_cast<int>(single_.size());
  const int coarsening = runner.stage().hierarchy.level(0).coarsening;
  const int blocks = (layers.end - layers.begin + coarsening - 1) / coarsening;
  UCUDNN_RETURN_IF_ERROR(lanes.ForEach(blocks, [&](int block, int lane) -> Status {
    const int begin = layers.begin + block * coarsening;
    for (int n = begin; n < std::min(begin + coarsening, layers.end); ++n) {
      // Layer n's gradient needs the state before it and the adjoint behind it.
      UCUDNN_ASSIGN_OR_RETURN(const State state, states.At(n, lane));
      UCUDNN_ASSIGN_OR_RETURN(const State adjoint, adjoints.At(steps - 1 - n, lane));
      UCUDNN_RETURN_IF_ERROR(runner.Gradient(
          single_[n], At(state), At(adjoint),
          {gradients_[shapes.kind_of[n]].Behind(shapes.number_of[n])}, run().lanes->lane(lane)));
    }
    return Status::Ok();
  }));
  UCUDNN_RETURN_IF_ERROR(run().lanes->Wait());
  for (size_t kind = 0; kind < gradients_.size(); ++kind) {
    const std::vector<int>& of_kind = shapes.steps[kind];
    const auto number = [&](int layer) {
      return static_cast<int>(std::lower_bound(of_kind.begin(), of_kind.end(), layer) -
                              of_kind.begin());
    };
    UCUDNN_RETURN_IF_ERROR(
        gradients_[kind].AddTo(run().lanes->first(), runner.stage(), shapes,
                               {number(layers.begin), number(layers.end), factor}, gradient));
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
