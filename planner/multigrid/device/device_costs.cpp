#include "planner/multigrid/device/device_costs.h"

#include <algorithm>
#include <memory>

#include "planner/multigrid/analysis/least_ms.h"
#include "planner/multigrid/device/device_chain.h"
#include "planner/multigrid/host/layers.h"

namespace ucudnn::multigrid {
namespace {

// Returns parameters for the stage's steps. All are 0, because times do not depend on values.
Parameters ZerosOf(const ResidualChain& chain, const Stage& stage) {
  Parameters parameters(chain.graph.nodes.size());
  for (const ResidualStep& step : stage.steps) {
    for (const planner::NodeId id : step.transformation) {
      const WeightCounts counts = WeightCountsOf(chain, id);
      parameters[id].weights.assign(counts.weights, 0.0);
      parameters[id].bias.assign(counts.bias, 0.0);
    }
  }
  return parameters;
}

// Runs several rounds, and returns the ms of the fastest one. A round calls work(), which enqueues
// work on the device, and waits for that work.
Result<double> LeastMsOf(Propagator& waits, const auto& work) {
  constexpr int kRounds = 5;
  return LeastMs(kRounds, [&]() -> Status {
    UCUDNN_RETURN_IF_ERROR(work());
    return waits.Wait();
  });
}

// Some steps of a stage on a device, with all parameters and states 0.
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
                                                            .batch = batch},
                                                           workspace_limit, std::move(lanes)));
    UCUDNN_ASSIGN_OR_RETURN(made->from, made->chain->Create());
    UCUDNN_ASSIGN_OR_RETURN(made->to, made->chain->Create());
    const std::vector<double> zeros(static_cast<size_t>(stage.shape.Features() * batch));
    UCUDNN_RETURN_IF_ERROR(made->chain->Upload(zeros.data(), made->from));
    return made;
  }

  Result<double> ForwardMs(int level) {
    return LeastMsOf(*chain, [&] { return chain->Step(level, 0, from, to, 0); });
  }
  // Returns the ms of one pass of all layers side by side.
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
  UCUDNN_ASSIGN_OR_RETURN(const StepPlan plan, runner.Plan(ranges, run.lanes->first()));
  const Pass prepared = pass == LayerPass::kForward   ? Pass::kForward
                        : pass == LayerPass::kAdjoint ? Pass::kAdjoint
                                                      : Pass::kGradient;
  UCUDNN_RETURN_IF_ERROR(runner.Prepare(plan, layers, prepared));
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
      const ArrangedMemory gradients,
      ArrangedMemory::Make(runner.target(), runner.shapes(), plan.calls.front().steps));
  DeviceLane& lane = run.lanes->first();
  return LeastMsOf(*chain, [&]() -> Status {
    switch (pass) {
      case LayerPass::kForward:
        return runner.Step(plan, states(0), states(1), lane);
      case LayerPass::kAdjoint:
        return runner.AdjointStep(plan, {states(2), states(0), states(1)}, lane);
      default:
        return runner.Gradient(plan, states(0), states(1), {gradients.numbers}, lane);
    }
  });
}

// Returns half of the least ms in which `numbers` numbers travel from rank 0 to rank 1 and back.
// Only rank 0 gets a valid result.
Result<double> MessageMs(const DeviceTarget& target, const std::shared_ptr<RankChannel>& channel,
                         Peers& peers, int64_t numbers) {
  UCUDNN_ASSIGN_OR_RETURN(auto made, DeviceLanes::Make(target, 1, true));
  const std::shared_ptr<DeviceLanes> lanes = std::move(made);
  DeviceExchange exchange(target, channel, lanes,
                          {.peers = peers, .ranks = peers.size(), .state_size = numbers});
  UCUDNN_RETURN_IF_ERROR(exchange.Reserve({.message = 1, .sent = 1, .received = 1}));
  UCUDNN_ASSIGN_OR_RETURN(const DeviceNumbers memory, DeviceNumbers::Make(target, numbers));
  PlacedState placed = {.view = {memory.data()}};
  const State state = &placed;
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
  UCUDNN_ASSIGN_OR_RETURN(const double ms, LeastMs(kRounds, there_and_back));
  return ms / 2;
}

// Returns the number of layers to time on one input; twice as many are timed side by side.
// `parameters` is the number of parameters of one layer. Returns 1 if the weights of several layers
// would take long to upload.
int TimedTogether(int64_t parameters) {
  constexpr int64_t kMostTogether = 8;
  constexpr int64_t kMostNumbers = int64_t{1} << 27;
  const int64_t fitting = kMostNumbers / std::max<int64_t>(1, 2 * parameters);
  return fitting < 2 ? 1 : static_cast<int>(std::min(fitting, kMostTogether));
}

// A step to time: `together` layers on one input, and twice as many layers side by side.
struct TimedKind {
  const Stage& stage;
  int position = 0;  // position of the step in the stage
  int batch = 1;
  int together = 1;
};

Result<MeasuredBatches::Kind> TimeKind(const DeviceTarget& target, const ResidualChain& chain,
                                       const TimedKind& kind, std::span<const LayerPass> passes,
                                       size_t workspace_limit) {
  const auto repeated = [&](int count) {
    Stage stage = {.input = kind.stage.input, .shape = kind.stage.shape, .steps = {}};
    stage.steps.assign(count, kind.stage.steps[kind.position]);
    return stage;
  };
  const auto timed = [&](int layers, const Hierarchy& hierarchy) {
    return TimedSteps::Make(target, chain, repeated(layers), hierarchy, kind.batch,
                            workspace_limit);
  };
  MeasuredBatches::Kind made;
  made.is_measured = true;
  UCUDNN_ASSIGN_OR_RETURN(const Hierarchy alone, Hierarchy::Make(1, {}, 1));
  UCUDNN_ASSIGN_OR_RETURN(const auto one, timed(1, alone));
  for (const LayerPass pass : passes) {
    UCUDNN_ASSIGN_OR_RETURN(made.ms[static_cast<size_t>(pass)], one->SideBySideMs(pass));
  }
  if (kind.together == 1) {  // assumes that one layer fills the device
    for (size_t at = 0; at < made.ms.size(); ++at) made.side_by_side[at].ms = 2 * made.ms[at];
    made.together.ms = 2 * made.ms[0];
    return made;
  }
  UCUDNN_ASSIGN_OR_RETURN(const Hierarchy two_blocks,
                          Hierarchy::Make(2 * kind.together, {kind.together}, 2));
  UCUDNN_ASSIGN_OR_RETURN(const auto many, timed(2 * kind.together, two_blocks));
  for (const LayerPass pass : passes) {
    MeasuredBatches::Batch& batch = made.side_by_side[static_cast<size_t>(pass)];
    batch.layers = 2 * kind.together;
    UCUDNN_ASSIGN_OR_RETURN(batch.ms, many->SideBySideMs(pass));
  }
  made.together.layers = kind.together;
  UCUDNN_ASSIGN_OR_RETURN(made.together.ms, many->ForwardMs(1));
  return made;
}

}  // namespace

Result<double> MeasureSumCost(const DeviceTarget& target, const ResidualChain& chain,
                              const Stage& stage, int batch, int layers, size_t workspace_limit) {
  constexpr LayerPass kForward[] = {LayerPass::kForward};
  UCUDNN_ASSIGN_OR_RETURN(
      const MeasuredBatches::Kind kind,
      TimeKind(target, chain, {stage, 0, batch, layers}, kForward, workspace_limit));
  return kind.together.ms / kind.ms[static_cast<size_t>(LayerPass::kForward)];
}

Result<MessageCosts> MeasureDeviceMessages(const DeviceTarget& target, Peers& peers,
                                           const RankTransport& how, int64_t state_numbers) {
  UCUDNN_ASSIGN_OR_RETURN(const auto channel, RankChannel::Open(target, peers, peers.size(), how));
  MessageCosts costs;
  UCUDNN_ASSIGN_OR_RETURN(costs.message, MessageMs(target, channel, peers, 1));
  UCUDNN_ASSIGN_OR_RETURN(const double with_state,
                          MessageMs(target, channel, peers, state_numbers));
  costs.state = std::max(0.0, with_state - costs.message);
  return costs;
}

Result<std::vector<MeasuredBatches::Kind>> MeasureDeviceLayers(
    const DeviceTarget& target, const ResidualChain& chain, const NetworkLayers& network,
    StepsAtOnce at_once, std::span<const LayerPass> passes, size_t workspace_limit) {
  std::vector<MeasuredBatches::Kind> kinds;
  for (const LayerKind& kind : network.kinds) {
    MeasuredBatches::Kind& made = kinds.emplace_back();
    const auto* stage = std::get_if<Stage>(&chain.sections[kind.section]);
    if (stage == nullptr) continue;
    const int together = at_once == StepsAtOnce::kOne ? 1 : TimedTogether(kind.parameters);
    UCUDNN_ASSIGN_OR_RETURN(
        made, TimeKind(target, chain, {*stage, kind.position, network.batch, together}, passes,
                       workspace_limit));
  }
  return kinds;
}

}  // namespace ucudnn::multigrid
