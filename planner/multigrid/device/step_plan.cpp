#include "planner/multigrid/device/step_plan.h"

#include <algorithm>
#include <utility>

namespace ucudnn::multigrid {
namespace {

// Returns whether the groups that begin with `next` continue the groups in `parts` at the same
// distance.
bool Continues(const std::vector<Arrangement>& parts, const std::vector<Arrangement>& next) {
  return std::equal(parts.begin(), parts.end(), next.begin(), next.end(),
                    [](const Arrangement& a, const Arrangement& b) {
                      const int distance = b.first - a.first - (a.count - 1) * a.distance;
                      return a.kind == b.kind && a.fan == b.fan && distance > 0 &&
                             (a.count == 1 || distance == a.distance);
                    });
}

}  // namespace

Result<std::unique_ptr<StepRunner>> StepRunner::Make(const DeviceTarget& target,
                                                     const StagePart& stage, size_t workspace_limit,
                                                     int lanes) {
  UCUDNN_ASSIGN_OR_RETURN(StageShapes shapes, ShapesOf(stage.chain, stage.stage, stage.used));
  std::unique_ptr<StepRunner> runner(new StepRunner(target, stage, std::move(shapes)));
  // Each lane runs every kernel, so each lane gets an equal share of the workspace. Each kernel
  // gets the fastest algorithm that fits the share. This is concurrent Workspace Division with
  // equal slots (planning/network_division.h).
  for (const StepShape& shape : runner->shapes_.kinds) {
    UCUDNN_ASSIGN_OR_RETURN(auto kernels,
                            StepKernels::Make(target, shape, stage.batch, workspace_limit / lanes));
    runner->kernels_.push_back(std::move(kernels));
  }
  UCUDNN_ASSIGN_OR_RETURN(runner->weights_, DeviceWeights::Make(target, stage, runner->shapes_));
  return runner;
}

std::vector<Arrangement> StepRunner::PartsOf(const LayerRange& range) const {
  std::vector<Arrangement> parts;
  for (int layer = range.begin; layer < range.end; ++layer) {
    const int kind = shapes_.kind_of[layer];
    const int number = shapes_.number_of[layer];
    // Consecutive layers of one kind have consecutive numbers.
    if (!parts.empty() && parts.back().kind == kind) {
      ++parts.back().fan;
    } else {
      parts.push_back({.kind = kind, .first = number});
    }
  }
  return parts;
}

Result<StepPlan> StepRunner::Plan(const std::vector<LayerRange>& ranges, DeviceLane& lane) {
  StepPlan plan;
  const int positions = static_cast<int>(ranges.size());
  for (int begin = 0; begin < positions;) {
    const LayerRange& range = ranges[begin];
    std::vector<Arrangement> parts = PartsOf(range);
    int end = begin + 1;
    for (; end < positions; ++end) {
      const std::vector<Arrangement> next = PartsOf(ranges[end]);
      if (!Continues(parts, next)) break;
      for (size_t i = 0; i < parts.size(); ++i) {
        Arrangement& part = parts[i];
        if (part.count++ == 1) part.distance = next[i].first - part.first;
      }
    }
    for (const Arrangement& part : parts) {
      UCUDNN_ASSIGN_OR_RETURN(const ArrangedNumbers* numbers, weights_->Arrange(part, lane));
      plan.calls.push_back({part, begin, range.factor, &part == &parts.front(), numbers});
    }
    begin = end;
  }
  return plan;
}

Status StepRunner::Prepare(const StepPlan& plan, int64_t distance, Pass pass) {
  for (const StepCall& call : plan.calls) {
    StepKernels& kernels = *kernels_[call.steps.kind];
    for (const int count : {call.steps.count, 1}) {
      UCUDNN_RETURN_IF_ERROR(kernels.Prepare({count, call.steps.fan, distance}, pass));
    }
  }
  for (const auto& kernels : kernels_) needs_.Include(kernels->needs());
  return Status::Ok();
}

StepRunner::States StepRunner::Moved(const States& states, int positions) const {
  return {target_.Behind(states.data, positions * StateSize()), states.distance};
}

StepKernels::Operands StepRunner::OperandsOf(const StepCall& call, const DeviceLane& lane) const {
  StepKernels::Operands operands;
  operands.count = call.steps.count;
  operands.fan = call.steps.fan;
  operands.numbers = call.numbers;
  operands.factor = call.factor;
  operands.room = lane.room();
  return operands;
}

Status StepRunner::Step(const StepPlan& plan, const States& from, const States& out,
                        DeviceLane& lane) {
  for (const StepCall& call : plan.calls) {
    StepKernels::Operands operands = OperandsOf(call, lane);
    operands.x = Moved(from, call.first);
    operands.out = Moved(out, call.first);
    operands.from = call.is_first ? operands.x : operands.out;
    UCUDNN_RETURN_IF_ERROR(kernels_[call.steps.kind]->Step(lane, operands));
  }
  return Status::Ok();
}

Status StepRunner::AdjointStep(const StepPlan& plan, const AdjointStates& states,
                               DeviceLane& lane) {
  for (const StepCall& call : plan.calls) {
    StepKernels::Operands operands = OperandsOf(call, lane);
    operands.x = Moved(states.linearised, call.first);
    operands.input = Moved(states.from, call.first);
    operands.out = Moved(states.out, call.first);
    operands.from = call.is_first ? operands.input : operands.out;
    UCUDNN_RETURN_IF_ERROR(kernels_[call.steps.kind]->AdjointStep(lane, operands));
  }
  return Status::Ok();
}

Status StepRunner::Gradient(const StepPlan& plan, const States& states, const States& adjoints,
                            const std::vector<ArrangedNumbers>& gradients, DeviceLane& lane) {
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    const StepCall& call = plan.calls[i];
    StepKernels::Operands operands = OperandsOf(call, lane);
    operands.x = Moved(states, call.first);
    operands.input = Moved(adjoints, call.first);
    UCUDNN_RETURN_IF_ERROR(kernels_[call.steps.kind]->Gradient(lane, operands, gradients[i]));
  }
  return Status::Ok();
}

Result<DeviceDescent*> StepRunner::Descent() {
  if (!descent_) {
    UCUDNN_ASSIGN_OR_RETURN(descent_, DeviceDescent::Make(target_, *weights_));
  }
  return descent_.get();
}

Status StepRunner::LoadWeights(DeviceLane& lane) {
  UCUDNN_RETURN_IF_ERROR(weights_->Upload(lane));
  return descent_ ? descent_->WeightsLoaded(lane) : Status::Ok();
}

}  // namespace ucudnn::multigrid
