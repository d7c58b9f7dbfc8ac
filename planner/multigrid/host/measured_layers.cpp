#include "planner/multigrid/host/measured_layers.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include "planner/multigrid/analysis/least_ms.h"
#include "planner/multigrid/host/layers.h"
#include "planner/multigrid/host/stage.h"

namespace ucudnn::multigrid {
namespace {

using planner::FullyConnected;
using planner::Node;
using planner::NodeId;
using planner::Shape;

constexpr double kEnoughMs = 10;           // least total time of all runs of one measurement
constexpr double kLongMs = 50;             // a measurement ends after one run that takes longer
constexpr int64_t kMostWeights = 1 << 22;  // of one layer: 32 MiB
constexpr int kSharedLayers = 8;

template <typename Work>
double LeastOfEnoughMs(Work&& work) {
  double least = std::numeric_limits<double>::infinity();
  double all = 0;
  for (int run = 0; run < 2 || all < kEnoughMs; ++run) {
    const double ms = *LeastMs(1, [&] { return work(), Status::Ok(); });
    least = std::min(least, ms);
    all += ms;
    if (least > kLongMs) break;
  }
  return least;
}

struct NodeMs {
  double forward = 0;
  double transposed = 0;
  double gradient = 0;
};

class LayerTimer {
 public:
  LayerTimer(const ResidualChain& chain, int batch) : chain_(chain), batch_(batch) {}

  Result<MeasuredTimes::Kind> MeasureStep(const Stage& stage, const ResidualStep& step);
  Result<MeasuredTimes::Kind> MeasureSection(const SerialSection& section);
  // Returns the ms that copying `numbers` numbers takes.
  double CopyMs(int64_t numbers);
  const std::string& notes() const { return notes_; }

 private:
  const Node& NodeOf(NodeId id) const { return chain_.graph.nodes[id]; }
  const Shape& ShapeOf(NodeId id) const { return chain_.shapes[id]; }
  int64_t NumbersOf(NodeId id) const { return ShapeOf(id).Features() * batch_; }
  std::vector<double> Drawn(int64_t count) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<double> numbers(static_cast<size_t>(count));
    for (double& number : numbers) number = uniform(random_) / 64;
    return numbers;
  }
  NodeWeights DrawnWeights(const HostLayer& layer) {
    const WeightCounts counts = WeightCountsOf(layer);
    return {Drawn(counts.weights), Drawn(counts.bias)};
  }
  Result<NodeMs> MeasureNode(NodeId id);
  NodeMs MeasureLayer(const HostLayer& layer);
  // Returns the ms that an update by stochastic gradient descent with momentum takes.
  double UpdateMs(int64_t parameters);
  Result<double> SharedMs(const Stage& stage, const ResidualStep& step);

  const ResidualChain& chain_;
  const int batch_;
  std::mt19937_64 random_;
  std::string notes_;
};

double LayerTimer::CopyMs(int64_t numbers) {
  const std::vector<double> from = Drawn(numbers);
  std::vector<double> to(from.size());
  return LeastOfEnoughMs([&] { std::copy(from.begin(), from.end(), to.begin()); });
}

NodeMs LayerTimer::MeasureLayer(const HostLayer& layer) {
  const NodeWeights weights = DrawnWeights(layer);
  NodeWeights gradient = weights;
  std::vector<double> scratch(ScratchOf(layer));
  const std::vector<double> x = Drawn(layer.input.Features() * batch_);
  std::vector<double> y = Drawn(layer.output.Features() * batch_);
  std::vector<double> dx(x.size());
  const LayerCall call = {layer, weights, batch_, scratch.data()};
  NodeMs ms;
  ms.forward = LeastOfEnoughMs([&] { Forward(call, x.data(), y.data()); });
  const std::vector<double> dy = Drawn(static_cast<int64_t>(y.size()));
  ms.transposed =
      LeastOfEnoughMs([&] { TransposedJacobian(call, x.data(), y.data(), dy.data(), dx.data()); });
  if (!IsTrained(layer.op) || (weights.weights.empty() && weights.bias.empty())) return ms;
  ms.gradient = LeastOfEnoughMs([&] { AddGradient(call, x.data(), dy.data(), 1, gradient); });
  return ms;
}

Result<NodeMs> LayerTimer::MeasureNode(NodeId id) {
  const Node& node = NodeOf(id);
  if (node.inputs.empty()) return NodeMs{};
  if (std::holds_alternative<planner::Add>(node.op) ||
      std::holds_alternative<planner::Softmax>(node.op)) {
    const double copy_ms = CopyMs(NumbersOf(id));
    return NodeMs{copy_ms, copy_ms, 0};
  }
  HostLayer layer = LayerOf(chain_, id);
  UCUDNN_RETURN_IF_ERROR(CheckHostLayer(node.name, layer));
  auto* connected = std::get_if<FullyConnected>(&layer.op);
  const int64_t weights = WeightCountsOf(layer).weights;
  if (connected == nullptr || weights <= kMostWeights) return MeasureLayer(layer);
  // The time is proportional to the number of outputs, because all outputs cost the same.
  const int32_t all = connected->outputs;
  const auto some = static_cast<int32_t>(
      std::max<int64_t>(1, kMostWeights / std::max<int64_t>(1, layer.input.Features())));
  connected->outputs = layer.output.c = some;
  notes_ = "fully connected layers timed on " + std::to_string(some) + " of " +
           std::to_string(all) + " outputs";
  const NodeMs ms = MeasureLayer(layer);
  const double factor = static_cast<double>(all) / some;
  return NodeMs{ms.forward * factor, ms.transposed * factor, ms.gradient * factor};
}

double LayerTimer::UpdateMs(int64_t parameters) {
  if (parameters == 0) return 0;
  const int64_t some = std::min(parameters, kMostWeights);
  std::vector<double> weights = Drawn(some);
  std::vector<double> velocity = weights;
  std::vector<double> gradient = weights;
  const double ms = LeastOfEnoughMs([&] {
    for (size_t i = 0; i < weights.size(); ++i) {
      velocity[i] = 0.5 * velocity[i] + gradient[i];
      weights[i] -= 1e-3 * velocity[i];
      gradient[i] = 0;
    }
  });
  return ms * static_cast<double>(parameters) / static_cast<double>(some);
}

// Measures a coarse step that applies several layers of this kind to one input. Returns the ms per
// layer.
Result<double> LayerTimer::SharedMs(const Stage& stage, const ResidualStep& step) {
  Stage repeated = stage;
  repeated.steps.assign(kSharedLayers, step);
  Parameters parameters(chain_.graph.nodes.size());
  Shape input = stage.shape;
  for (const NodeId id : step.transformation) {
    const HostLayer layer = {NodeOf(id).op, input, ShapeOf(id)};
    if (WeightCountsOf(layer).weights > kMostWeights) return 0.0;  // 0: not measured
    parameters[id] = DrawnWeights(layer);
    input = layer.output;
  }
  UCUDNN_ASSIGN_OR_RETURN(const HostStage made,
                          HostStage::Make(chain_, repeated, parameters, batch_, 1));
  const std::vector<double> u = Drawn(made.state_size());
  std::vector<double> out = u;
  const LayerRange all = {0, kSharedLayers, 1};
  return LeastOfEnoughMs([&] { made.AddTransformed(all, u.data(), out.data(), 0); }) /
         kSharedLayers;
}

Result<MeasuredTimes::Kind> LayerTimer::MeasureStep(const Stage& stage, const ResidualStep& step) {
  NodeMs sum;
  double first_transposed = 0;
  int64_t parameters = 0;
  for (const NodeId id : step.transformation) {
    UCUDNN_ASSIGN_OR_RETURN(const NodeMs ms, MeasureNode(id));
    if (id == step.transformation.front()) first_transposed = ms.transposed;
    sum.forward += ms.forward;
    sum.transposed += ms.transposed;
    sum.gradient += ms.gradient;
    parameters += planner::ParametersOf(NodeOf(id), ShapeOf(NodeOf(id).inputs.front())).trained;
  }
  // A step first copies the state to which F(u) is added. The addition takes about as long as the
  // copy.
  const double add_ms = 2 * CopyMs(NumbersOf(step.sum));
  MeasuredTimes::Kind kind;
  // The adjoint and the gradient compute the step's forward pass again. The gradient needs no
  // transposed Jacobian of the step's first node.
  kind.ms = {sum.forward + add_ms, sum.forward + sum.transposed + add_ms,
             sum.forward + sum.transposed - first_transposed + sum.gradient, UpdateMs(parameters)};
  UCUDNN_ASSIGN_OR_RETURN(kind.shared_ms, SharedMs(stage, step));
  return kind;
}

Result<MeasuredTimes::Kind> LayerTimer::MeasureSection(const SerialSection& section) {
  MeasuredTimes::Kind kind;
  int64_t parameters = 0;
  for (const NodeId id : section.nodes) {
    UCUDNN_ASSIGN_OR_RETURN(const NodeMs ms, MeasureNode(id));
    kind.ms[static_cast<size_t>(LayerPass::kForward)] += ms.forward;
    kind.ms[static_cast<size_t>(LayerPass::kGradient)] += ms.gradient;
    const Node& node = NodeOf(id);
    if (node.inputs.empty()) continue;
    if (!NodeOf(node.inputs.front()).inputs.empty()) {
      kind.ms[static_cast<size_t>(LayerPass::kAdjoint)] += ms.transposed;
    }
    parameters += planner::ParametersOf(node, ShapeOf(node.inputs.front())).trained;
  }
  kind.ms[static_cast<size_t>(LayerPass::kUpdate)] = UpdateMs(parameters);
  return kind;
}

}  // namespace

Result<HostMeasurement> MeasureLayers(const ResidualChain& chain, const NetworkLayers& network) {
  LayerTimer timer(chain, network.batch);
  HostMeasurement measurement;
  for (const LayerKind& kind : network.kinds) {
    const auto& section = chain.sections[kind.section];
    const auto* stage = std::get_if<Stage>(&section);
    UCUDNN_ASSIGN_OR_RETURN(const MeasuredTimes::Kind measured,
                            stage != nullptr
                                ? timer.MeasureStep(*stage, stage->steps[kind.position])
                                : timer.MeasureSection(std::get<SerialSection>(section)));
    measurement.kinds.push_back(measured);
  }
  measurement.notes = timer.notes();
  const int longest = network.LongestStage();
  if (longest >= 0) {
    const int64_t numbers = network.sections[longest].state_numbers;
    const double bytes = static_cast<double>(numbers) * sizeof(double);
    measurement.copy_gb_per_s = bytes / (timer.CopyMs(numbers) * 1e6);
  }
  return measurement;
}

}  // namespace ucudnn::multigrid
