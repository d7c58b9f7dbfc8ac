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

// The parameters of one step as zeros.
Parameters ZerosOf(const ResidualChain& chain, const ResidualStep& step) {
  Parameters parameters(chain.graph.nodes.size());
  for (const planner::NodeId id : step.transformation) {
    const planner::Node& node = chain.graph.nodes[id];
    const WeightCounts counts =
        WeightCountsOf({node.op, chain.shapes[node.inputs[0]], chain.shapes[id]});
    parameters[id].weights.assign(counts.weights, 0.0);
    parameters[id].bias.assign(counts.bias, 0.0);
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

Result<double> MsOf(const DeviceTarget& target, const ResidualChain& chain, const Stage& stage,
                    int step, int batch, bool trains, size_t workspace_limit) {
  Stage one = {.input = stage.input, .shape = stage.shape, .steps = {stage.steps[step]}};
  const Parameters parameters = ZerosOf(chain, one.steps[0]);
  UCUDNN_ASSIGN_OR_RETURN(const Hierarchy hierarchy, Hierarchy::Make(1, {}, 1));
  UCUDNN_ASSIGN_OR_RETURN(auto made_lanes, DeviceLanes::Make(target, 1));
  const std::shared_ptr<DeviceLanes> lanes = std::move(made_lanes);
  UCUDNN_ASSIGN_OR_RETURN(const auto forward,
                          DeviceChain::Make(target,
                                            {.chain = chain,
                                             .stage = one,
                                             .parameters = parameters,
                                             .hierarchy = hierarchy,
                                             .h = 1,
                                             .batch = batch,
                                             .workspace_limit = workspace_limit},
                                            lanes));
  UCUDNN_ASSIGN_OR_RETURN(const State from, forward->Create());
  UCUDNN_ASSIGN_OR_RETURN(const State to, forward->Create());
  const std::vector<double> zeros(static_cast<size_t>(one.shape.Features() * batch));
  UCUDNN_RETURN_IF_ERROR(forward->Upload(zeros.data(), from));
  UCUDNN_ASSIGN_OR_RETURN(double ms,
                          LeastMs(*forward, [&] { return forward->Step(0, 0, from, to, 0); }));
  if (!trains) return ms;
  UCUDNN_ASSIGN_OR_RETURN(const auto adjoint, DeviceAdjoint::Make(*forward));
  UCUDNN_ASSIGN_OR_RETURN(Lanes host, Lanes::Start(1, Lanes::Threads::kCallersAlone));
  OneState state(from);
  adjoint->LineariseAt(state);
  Parameters gradient = ZerosLike(parameters);
  UCUDNN_ASSIGN_OR_RETURN(const double backward, LeastMs(*forward, [&]() -> Status {
                            UCUDNN_RETURN_IF_ERROR(adjoint->Step(0, 0, from, to, 0));
                            return adjoint->AddGradient({0, 1}, state, state, host, 1, gradient);
                          }));
  return ms + backward;
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
    for (const std::vector<int>& steps : shapes.steps) {
      UCUDNN_ASSIGN_OR_RETURN(of_kinds.emplace_back(), MsOf(target, chain, *stage, steps.front(),
                                                            batch, trains, workspace_limit));
    }
    for (const int kind : shapes.kind_of) all[at].push_back(of_kinds[kind]);
  }
  return all;
}

}  // namespace ucudnn::multigrid
