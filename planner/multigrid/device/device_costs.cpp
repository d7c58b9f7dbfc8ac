#include "planner/multigrid/device/device_costs.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "planner/multigrid/device/device_chain.h"
#include "planner/multigrid/host/layers.h"

namespace ucudnn::multigrid {
namespace {

// One state for all.
class OneState : public StateReader {
 public:
  explicit OneState(State state) : state_(state) {}
  Result<State> At(int, int) override { return state_; }

 private:
  State state_;
};

// The parameters of a stage's steps as zeros.
Parameters ZerosOf(const ResidualChain& chain, const Stage& stage) {
  Parameters parameters(chain.graph.nodes.size());
  for (const ResidualStep& step : stage.steps) {
    for (const planner::NodeId id : step.transformation) {
      const planner::Node& node = chain.graph.nodes[id];
      const WeightCounts counts =
          WeightCountsOf({node.op, chain.shapes[node.inputs[0]], chain.shapes[id]});
      parameters[id].weights.assign(counts.weights, 0.0);
      parameters[id].bias.assign(counts.bias, 0.0);
    }
  }
  return parameters;
}

// The least ms of `work`, which leaves its work on the device.
Result<double> LeastMs(Propagator& waits, const auto& work) {
  constexpr int kRounds = 5;
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    UCUDNN_RETURN_IF_ERROR(work());
    UCUDNN_RETURN_IF_ERROR(waits.Wait());
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - begin;
    least = std::min(least, taken.count());
  }
  return least;
}

// Some steps of a stage on a device, whose numbers are 0.
struct TimedSteps {
  static Result<std::unique_ptr<TimedSteps>> Make(const DeviceTarget& target,
                                                  const ResidualChain& chain, const Stage& stage,
                                                  const Hierarchy& hierarchy, int batch,
                                                  size_t workspace_limit) {
    auto made = std::make_unique<TimedSteps>(TimedSteps{stage, hierarchy, ZerosOf(chain, stage)});
    UCUDNN_ASSIGN_OR_RETURN(auto lanes, DeviceLanes::Make(target, 1));
    UCUDNN_ASSIGN_OR_RETURN(made->chain, DeviceChain::Make(target,
                                                           {.chain = chain,
                                                            .stage = made->stage,
                                                            .parameters = made->parameters,
                                                            .hierarchy = made->hierarchy,
                                                            .coarse = CoarseOperator::kSum,
                                                            .h = 1,
                                                            .batch = batch,
                                                            .workspace_limit = workspace_limit},
                                                           std::move(lanes)));
    UCUDNN_ASSIGN_OR_RETURN(made->from, made->chain->Create());
    UCUDNN_ASSIGN_OR_RETURN(made->to, made->chain->Create());
    const std::vector<double> zeros(static_cast<size_t>(stage.shape.Features() * batch));
    UCUDNN_RETURN_IF_ERROR(made->chain->Upload(zeros.data(), made->from));
    return made;
  }

  Result<double> ForwardMs(int level) {
    return LeastMs(*chain, [&] { return chain->Step(level, 0, from, to, 0); });
  }
  // Of the adjoint of layer 0, and its gradient.
  Result<double> BackwardMs() {
    UCUDNN_ASSIGN_OR_RETURN(const auto adjoint, DeviceAdjoint::Make(*chain));
    UCUDNN_ASSIGN_OR_RETURN(Lanes host, Lanes::Start(1, Lanes::Threads::kCallersAlone));
    OneState state(from);
    adjoint->LineariseAt(state);
    Parameters gradient = ZerosLike(parameters);
    return LeastMs(*chain, [&]() -> Status {
      UCUDNN_RETURN_IF_ERROR(adjoint->Step(0, 0, from, to, 0));
      return adjoint->AddGradient({0, 1}, state, state, host, 1, gradient);
    });
  }

  // Of one pass of all layers side by side.
  Result<double> SideBySideMs(LayerPass pass);

  Stage stage;
  Hierarchy hierarchy;
  Parameters parameters;
  std::unique_ptr<DeviceChain> chain;
  State from = nullptr;
  State to = nullptr;
};

Result<double> TimedSteps::SideBySideMs(LayerPass pass) {
  DeviceRun& run = chain->shared();
  StepRunner& runner = *run.runner;
  const int layers = static_cast<int>(stage.steps.size());
  std::vector<LayerRange> ranges;
  for (int layer = 0; layer < layers; ++layer) ranges.push_back({layer, layer + 1, 1});
  UCUDNN_ASSIGN_OR_RETURN(const StepPlan plan, runner.Plan(ranges));
  UCUDNN_RETURN_IF_ERROR(runner.Prepare(plan, {layers}, Pass::kGradient));
  UCUDNN_RETURN_IF_ERROR(run.lanes->Reserve(runner.needs()));
  std::vector<DeviceNumbers> numbers;
  for (int i = 0; i < 3; ++i) {
    UCUDNN_ASSIGN_OR_RETURN(
        DeviceNumbers made,
        DeviceNumbers::Make(runner.target(), layers * runner.StateSize() * runner.batch()));
    numbers.push_back(std::move(made));
  }
  const auto states = [&](int i) { return StepRunner::States{numbers[i].data(), layers}; };
  UCUDNN_ASSIGN_OR_RETURN(
      const DeviceGradients gradients,
      DeviceGradients::Make(runner.target(), runner.shapes(), plan.calls.front().steps));
  DeviceLane& lane = run.lanes->first();
  return LeastMs(*chain, [&]() -> Status {
    switch (pass) {
      case LayerPass::kForward:
        return runner.Step(plan, {0, layers}, states(0), states(1), lane);
      case LayerPass::kAdjoint:
        return runner.AdjointStep(plan, {0, layers}, {states(2), states(0), states(1)}, lane);
      default:
        return runner.Gradient(plan, states(0), states(1), {gradients.numbers()}, lane);
    }
  });
}

// Half the least time in which so many numbers go to rank 1 and come back, on rank 0.
Result<double> MessageMs(const DeviceTarget& target, const std::shared_ptr<RankChannel>& channel,
                         Peers& peers, int64_t numbers) {
  UCUDNN_ASSIGN_OR_RETURN(auto made, DeviceLanes::Make(target, 1, true));
  const std::shared_ptr<DeviceLanes> lanes = std::move(made);
  DeviceExchange exchange(
      target, channel, lanes,
      {.peers = peers,
       .ranks = {0, peers.size()},
       .state_size = numbers,
       .view_of = [](State state) { return StatesView{static_cast<Address>(state)}; }});
  UCUDNN_RETURN_IF_ERROR(exchange.Reserve({.message = 1, .sent = 1, .received = 1}));
  UCUDNN_ASSIGN_OR_RETURN(const DeviceNumbers memory, DeviceNumbers::Make(target, numbers));
  const State state = memory.data();
  if (peers.rank() > 1) return 0.0;
  const auto there_and_back = [&]() -> Status {
    if (peers.rank() == 0) {
      UCUDNN_RETURN_IF_ERROR(exchange.Send(1, {&state, 1}));
      UCUDNN_RETURN_IF_ERROR(exchange.Receive(1, {&state, 1}));
    } else {
      UCUDNN_RETURN_IF_ERROR(exchange.Receive(0, {&state, 1}));
      UCUDNN_RETURN_IF_ERROR(exchange.Send(0, {&state, 1}));
    }
    UCUDNN_RETURN_IF_ERROR(lanes->Wait());
    return exchange.Check();
  };
  constexpr int kRounds = 10;
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    UCUDNN_RETURN_IF_ERROR(there_and_back());
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - begin;
    least = std::min(least, taken.count() / 2);
  }
  return least;
}

// `count` times the step at a place of the chain.
Stage Repeated(const ResidualChain& chain, const LayerKind& kind, int count) {
  const auto& stage = std::get<Stage>(chain.sections[static_cast<size_t>(kind.section)]);
  Stage repeated = {.input = stage.input, .shape = stage.shape, .steps = {}};
  repeated.steps.assign(count, stage.steps[static_cast<size_t>(kind.position)]);
  return repeated;
}

constexpr LayerPass kTimedPasses[] = {LayerPass::kForward, LayerPass::kAdjoint,
                                      LayerPass::kGradient};

// How many layers of a kind are timed of one input; twice as many side by side. 1 where the weights
// of more would take long to bring to the device.
int TimedTogether(const LayerKind& kind) {
  constexpr int64_t kMostTogether = 8;
  constexpr int64_t kMostNumbers = int64_t{1} << 27;
  const int64_t fitting = kMostNumbers / std::max<int64_t>(1, 2 * kind.parameters);
  return fitting < 2 ? 1 : static_cast<int>(std::min(fitting, kMostTogether));
}

// Steps `begin`..`end` - 1 of a stage.
Stage PartOf(const Stage& stage, int begin, int end) {
  Stage part = {.input = stage.input, .shape = stage.shape, .steps = {}};
  part.steps.assign(stage.steps.begin() + begin, stage.steps.begin() + end);
  return part;
}

}  // namespace

Result<std::vector<std::vector<double>>> MeasureDeviceSteps(const DeviceTarget& target,
                                                            const ResidualChain& chain, int batch,
                                                            bool trains, size_t workspace_limit) {
  std::vector<std::vector<double>> all(chain.sections.size());
  for (size_t at = 0; at < chain.sections.size(); ++at) {
    const auto* stage = std::get_if<Stage>(&chain.sections[at]);
    if (stage == nullptr) continue;
    UCUDNN_ASSIGN_OR_RETURN(const StageShapes shapes, ShapesOf(chain, *stage));
    std::vector<double> of_kinds;
    UCUDNN_ASSIGN_OR_RETURN(const Hierarchy alone, Hierarchy::Make(1, {}, 1));
    for (const std::vector<int>& steps : shapes.steps) {
      const Stage one = PartOf(*stage, steps.front(), steps.front() + 1);
      UCUDNN_ASSIGN_OR_RETURN(const auto timed,
                              TimedSteps::Make(target, chain, one, alone, batch, workspace_limit));
      UCUDNN_ASSIGN_OR_RETURN(of_kinds.emplace_back(), timed->ForwardMs(0));
      if (!trains) continue;
      UCUDNN_ASSIGN_OR_RETURN(const double backward, timed->BackwardMs());
      of_kinds.back() += backward;
    }
    for (const int kind : shapes.kind_of) all[at].push_back(of_kinds[kind]);
  }
  return all;
}

Result<double> MeasureSumCost(const DeviceTarget& target, const ResidualChain& chain,
                              const Stage& stage, int batch, int layers, size_t workspace_limit) {
  constexpr int kCoarseSteps = 2;
  const int steps = kCoarseSteps * layers;
  UCUDNN_ASSIGN_OR_RETURN(const Hierarchy hierarchy, Hierarchy::Make(steps, {layers}, 2));
  UCUDNN_ASSIGN_OR_RETURN(const auto timed, TimedSteps::Make(target, chain, PartOf(stage, 0, steps),
                                                             hierarchy, batch, workspace_limit));
  UCUDNN_ASSIGN_OR_RETURN(const double one, timed->ForwardMs(0));
  UCUDNN_ASSIGN_OR_RETURN(const double sum, timed->ForwardMs(1));
  return sum / one;
}

Result<MessageCosts> MeasureDeviceMessages(const DeviceTarget& target, Peers& peers,
                                           const RankTransport& how, int64_t state_numbers) {
  UCUDNN_ASSIGN_OR_RETURN(const auto channel,
                          RankChannel::Open(target, peers, {0, peers.size()}, how));
  MessageCosts costs;
  UCUDNN_ASSIGN_OR_RETURN(costs.message, MessageMs(target, channel, peers, 1));
  UCUDNN_ASSIGN_OR_RETURN(const double with_state,
                          MessageMs(target, channel, peers, state_numbers));
  costs.state = std::max(0.0, with_state - costs.message);
  return costs;
}

Result<std::vector<MeasuredBatches::Kind>> MeasureDeviceLayers(const DeviceTarget& target,
                                                               const ResidualChain& chain,
                                                               const NetworkLayers& network,
                                                               size_t workspace_limit) {
  std::vector<MeasuredBatches::Kind> kinds;
  for (const LayerKind& kind : network.kinds) {
    MeasuredBatches::Kind& made = kinds.emplace_back();
    if (!network.sections[static_cast<size_t>(kind.section)].is_stage) continue;
    const auto timed = [&](int layers, const Hierarchy& hierarchy) {
      return TimedSteps::Make(target, chain, Repeated(chain, kind, layers), hierarchy,
                              network.batch, workspace_limit);
    };
    UCUDNN_ASSIGN_OR_RETURN(const Hierarchy alone, Hierarchy::Make(1, {}, 1));
    UCUDNN_ASSIGN_OR_RETURN(const auto one, timed(1, alone));
    made.is_measured = true;
    for (const LayerPass pass : kTimedPasses) {
      UCUDNN_ASSIGN_OR_RETURN(made.ms[static_cast<size_t>(pass)], one->SideBySideMs(pass));
    }
    const int together = TimedTogether(kind);
    if (together == 1) {  // one fills the device
      for (size_t at = 0; at < made.ms.size(); ++at) made.side_by_side[at].ms = 2 * made.ms[at];
      made.together.ms = 2 * made.ms[0];
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(const Hierarchy two_blocks,
                            Hierarchy::Make(2 * together, {together}, 2));
    UCUDNN_ASSIGN_OR_RETURN(const auto many, timed(2 * together, two_blocks));
    for (const LayerPass pass : kTimedPasses) {
      MeasuredBatches::Batch& batch = made.side_by_side[static_cast<size_t>(pass)];
      batch.layers = 2 * together;
      UCUDNN_ASSIGN_OR_RETURN(batch.ms, many->SideBySideMs(pass));
    }
    made.together.layers = together;
    UCUDNN_ASSIGN_OR_RETURN(made.together.ms, many->ForwardMs(1));
  }
  return kinds;
}

}  // namespace ucudnn::multigrid
