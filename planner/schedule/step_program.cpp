#include "planner/schedule/step_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "planner/schedule/gradient_sums.h"

namespace ucudnn::planner {
namespace {

enum class Direction { kForward, kBackward };

class ProgramWriter {
 public:
  ProgramWriter(const Schedule& schedule, const std::vector<NodeTimes>& times, StepOverlap overlap)
      : schedule_(schedule), times_(times), overlap_(overlap), sums_(schedule.nodes.size()) {
    program_.devices.resize(static_cast<size_t>(schedule.devices));
    for (size_t sum = 0; sum < schedule.sums.size(); ++sum) {
      const NodeId last = schedule.sums[sum].parameters.back().node;
      sums_[static_cast<size_t>(last)].push_back(static_cast<int>(sum));
    }
  }

  StepProgram Write() {
    const std::vector<ScheduledStep>& order = schedule_.order;
    for (size_t at = 0; at < order.size(); ++at) {
      if (order[at].kind == StepKind::kBackward) {
        BackwardPass(at, order[at].of);
      } else {
        Forward(order[at]);
      }
    }
    for (size_t at = order.size(); at-- > 0;) {
      const ScheduledStep& step = order[at];
      if (step.pass < 0 && step.kind != StepKind::kBackward) Backward(step);
      // The passes have sent back the gradients of the images that they received. The devices that
      // sent these images add up the gradients.
      if (step.pass >= 0 && IsFeeding(step)) FinishExchange(step);
    }
    for (const auto& [device, batch] : awaited_) Act(device, {ActionKind::kWait, "", 0, batch});
    return std::move(program_);
  }

 private:
  bool IsFeeding(const ScheduledStep& step) const {
    return step.kind == StepKind::kExchange &&
           FeedsPasses(schedule_, schedule_.exchanges[static_cast<size_t>(step.of)]);
  }

  void Act(int device, DeviceAction action) {
    program_.devices[static_cast<size_t>(device)].push_back(std::move(action));
  }

  // Returns the devices that send or receive in a batch.
  std::set<int> DevicesOf(int batch) const {
    std::set<int> devices;
    for (const Message& message : program_.batches[static_cast<size_t>(batch)].messages) {
      devices.insert({message.from, message.to});
    }
    return devices;
  }

  void Post(int batch, Communicator communicator) {
    for (const int device : DevicesOf(batch)) {
      Act(device, {ActionKind::kPost, "", 0, batch, communicator});
    }
  }
  void Wait(int batch) {
    for (const int device : DevicesOf(batch)) Act(device, {ActionKind::kWait, "", 0, batch});
  }
  int NewBatch(std::string name, std::vector<Message> messages) {
    program_.batches.push_back({std::move(name), std::move(messages)});
    return static_cast<int>(program_.batches.size()) - 1;
  }

  int BatchOf(int exchange, int pass, Direction direction) {
    const auto [known, added] = exchanges_.try_emplace(std::tuple(exchange, pass, direction), 0);
    if (!added) return known->second;
    const ScheduledExchange& of = schedule_.exchanges[static_cast<size_t>(exchange)];
    std::vector<Message> messages;
    for (const Transfer& one : TransfersOf(schedule_, of, pass)) {
      if (direction == Direction::kBackward && !NodeOf(schedule_, of.node).has_gradient) break;
      Message message{one.from, one.to, Elements(one.box) * kElementBytes};
      if (direction == Direction::kBackward) std::swap(message.from, message.to);
      messages.push_back(message);
    }
    return known->second = NewBatch((direction == Direction::kForward ? "" : "gradient of ") +
                                        std::string("input ") + std::to_string(of.input) + " of " +
                                        NodeOf(schedule_, of.consumer).name,
                                    std::move(messages));
  }

  void Compute(NodeId node, int pass, Direction direction) {
    const auto& [forward_ms, backward_ms] = times_[static_cast<size_t>(node)];
    const double ms = direction == Direction::kForward ? forward_ms : backward_ms;
    if (ms == 0) return;
    const ScheduledNode& of = NodeOf(schedule_, node);
    const int parts = pass < 0 ? 1 : schedule_.passes.Count();
    for (const DeviceBox& one : of.partial.empty() ? of.boxes : of.partial) {
      Act(one.device, {ActionKind::kCompute, of.name, ms / parts});
    }
  }

  void Merge(int statistics, int pass, Direction direction) {
    const int parts = pass < 0 ? 1 : schedule_.passes.Count();
    std::vector<Message> up;
    std::vector<Message> down;
    const Statistics& of = schedule_.statistics[static_cast<size_t>(statistics)];
    if (direction == Direction::kBackward && !NodeOf(schedule_, of.node).has_gradient) return;
    for (const StatisticsGroup& group : of.groups) {
      const int64_t numbers = direction == Direction::kForward ? group.forward : group.backward;
      if (numbers == 0) continue;
      const int64_t bytes = numbers * kElementBytes / parts;
      for (size_t at = 1; at < group.devices.size(); ++at) {
        up.push_back({group.devices[at], group.devices.front(), bytes});
        down.push_back({group.devices.front(), group.devices[at], bytes});
      }
    }
    for (std::vector<Message>* messages : {&up, &down}) {
      if (messages->empty()) continue;
      const int batch =
          NewBatch("statistics of " + NodeOf(schedule_, of.node).name, std::move(*messages));
      Post(batch, Communicator::kExchanges);
      Wait(batch);
    }
  }

  void Forward(const ScheduledStep& step) {
    switch (step.kind) {
      case StepKind::kForward:
        Compute(step.of, step.pass, Direction::kForward);
        break;
      case StepKind::kExchange:
        if (overlap_ == StepOverlap::kFull) {
          Post(BatchOf(step.of, step.pass, Direction::kForward), Communicator::kExchanges);
        }
        break;
      case StepKind::kWait: {
        const int batch = BatchOf(step.of, step.pass, Direction::kForward);
        if (overlap_ == StepOverlap::kNone) Post(batch, Communicator::kExchanges);
        Wait(batch);
        break;
      }
      case StepKind::kStatistics:
        Merge(step.of, step.pass, Direction::kForward);
        break;
      case StepKind::kBackward:
        break;
    }
  }

  void Backward(const ScheduledStep& step) {
    switch (step.kind) {
      case StepKind::kForward:
        Compute(step.of, step.pass, Direction::kBackward);
        if (step.pass < 0 || step.pass + 1 == schedule_.passes.Count()) {
          for (const int sum : sums_[static_cast<size_t>(step.of)]) AddUp(sum);
        }
        break;
      case StepKind::kWait:
        if (overlap_ == StepOverlap::kFull) {
          Post(BatchOf(step.of, step.pass, Direction::kBackward), Communicator::kExchanges);
        }
        break;
      case StepKind::kExchange:
        FinishExchange(step);
        break;
      case StepKind::kStatistics:
        Merge(step.of, step.pass, Direction::kBackward);
        break;
      case StepKind::kBackward:
        break;
    }
  }

  void FinishExchange(const ScheduledStep& step) {
    const int batch = BatchOf(step.of, step.pass, Direction::kBackward);
    if (overlap_ == StepOverlap::kNone) Post(batch, Communicator::kExchanges);
    Wait(batch);
  }

  // Appends the backward pass of those steps of pass `pass` that stand before position `end` of the
  // order, the last step first.
  void BackwardPass(size_t end, int pass) {
    for (size_t at = end; at-- > 0;) {
      const ScheduledStep& step = schedule_.order[at];
      if (step.pass == pass && !IsFeeding(step)) Backward(step);
    }
  }

  void AddUp(int sum) {
    const GradientSum& of = schedule_.sums[static_cast<size_t>(sum)];
    for (const std::vector<SumMessage>& phase : PhasesOf(schedule_, of)) {
      std::vector<Message> messages;
      for (const SumMessage& one : phase) {
        messages.push_back({one.from, one.to, one.elements.Length() * kElementBytes});
      }
      const int batch = NewBatch("sum " + std::to_string(sum), std::move(messages));
      Post(batch, Communicator::kSums);
      if (overlap_ == StepOverlap::kNone) {
        Wait(batch);
      } else {
        for (const int device : DevicesOf(batch)) awaited_.emplace_back(device, batch);
      }
    }
  }

  const Schedule& schedule_;
  const std::vector<NodeTimes>& times_;
  const StepOverlap overlap_;
  StepProgram program_;
  // By exchange, pass and direction: the batch.
  std::map<std::tuple<int, int, Direction>, int> exchanges_;
  std::vector<std::vector<int>> sums_;  // by the node whose gradient completes the sum
  // Pairs (device, batch): the device waits for the batch at the end of the step.
  std::vector<std::pair<int, int>> awaited_;
};

}  // namespace

std::vector<NodeTimes> TimesOf(const Schedule& schedule, const PlanningProblem& problem,
                               const Assignment& assignment) {
  std::vector<NodeTimes> times;
  for (const ScheduledNode& node : schedule.nodes) {
    times.emplace_back();
    const int at = problem.graph.Find(node.name);
    if (at < 0) continue;
    const auto layer = static_cast<size_t>(at);
    const double ms = problem.compute[layer][static_cast<size_t>(assignment[layer])].ms;
    const PlannedLayer& planned = problem.graph.layers[layer];
    const bool has_input_gradient =
        std::any_of(planned.inputs.begin(), planned.inputs.end(),
                    [](const LayerInput& input) { return input.has_gradient; });
    const int gradients = (has_input_gradient ? 1 : 0) + (planned.trains_weights ? 1 : 0);
    times.back().forward_ms = ms / (1 + gradients);
    times.back().backward_ms = ms - times.back().forward_ms;
  }
  return times;
}

StepProgram ProgramOf(const Schedule& schedule, const std::vector<NodeTimes>& times,
                      StepOverlap overlap) {
  return ProgramWriter(schedule, times, overlap).Write();
}

}  // namespace ucudnn::planner
