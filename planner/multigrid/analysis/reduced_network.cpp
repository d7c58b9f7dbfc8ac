#include "planner/multigrid/analysis/reduced_network.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "planner/cost/layer_graph.h"

namespace ucudnn::multigrid {
namespace {

using planner::Convolution;
using planner::FullyConnected;
using planner::Node;
using planner::NodeId;
using planner::Reshape;
using planner::Shape;

// The ways in which the reduced network is smaller than the stage.
struct Reduction {
  Spatial extents = {1, 1, 1};  // extents of the reduced network's states
  int channel_divisor = 1;
  int stride = 1;
};

class Reducer {
 public:
  Reducer(const ResidualChain& chain, const Stage& stage) : chain_(chain), stage_(stage) {}

  Result<ReducedNetwork> Make(const Reduction& reduction) const;
  // Returns the operations of one forward pass of the reduced network.
  double Operations(const Reduction& reduction) const;

  bool HasFullyConnected() const {
    return Any([](const Node& node) { return std::holds_alternative<FullyConnected>(node.op); });
  }
  // Returns the least extent that the reduced network may have along an axis: half of the largest
  // window, but at least 4, and at most the stage's extent.
  int32_t LeastExtent(size_t axis) const;
  bool DividesChannels(int divisor) const;

 private:
  const Node& NodeOf(NodeId id) const { return chain_.graph.nodes[id]; }
  template <typename Test>
  bool Any(Test&& test) const {
    return std::any_of(stage_.steps.begin(), stage_.steps.end(), [&](const ResidualStep& step) {
      return std::any_of(step.transformation.begin(), step.transformation.end(),
                         [&](NodeId id) { return test(NodeOf(id)); });
    });
  }
  std::vector<int> Layers(int stride) const;
  Shape StateOf(const Reduction& reduction) const;
  planner::Operator Reduced(const Node& node, const Shape& output,
                            const Reduction& reduction) const;
  double BorderFactor(const Reduction& reduction) const;
  std::string Differences(const Reduction& reduction) const;

  const ResidualChain& chain_;
  const Stage& stage_;
};

int32_t Reducer::LeastExtent(size_t axis) const {
  int32_t window = 1;
  Any([&](const Node& node) {
    const auto* convolution = std::get_if<Convolution>(&node.op);
    if (convolution != nullptr) {
      const int32_t reach = (convolution->window[axis] - 1) * convolution->dilation[axis] + 1;
      window = std::max(window, reach + convolution->stride[axis] - 1);
    }
    return false;
  });
  constexpr int32_t kLeast = 4;
  return std::min(stage_.shape.extents[axis], std::max(kLeast, (window + 1) / 2));
}

bool Reducer::DividesChannels(int divisor) const {
  constexpr int kFewestChannels = 4;
  const auto divides = [&](int32_t channels) {
    return channels % divisor == 0 && channels / divisor >= kFewestChannels;
  };
  if (!divides(stage_.shape.c)) return false;
  return !Any([&](const Node& node) {
    const auto* convolution = std::get_if<Convolution>(&node.op);
    if (convolution != nullptr) {
      return convolution->groups != 1 || !divides(convolution->filters);
    }
    const auto* reshape = std::get_if<Reshape>(&node.op);
    return reshape != nullptr && !divides(reshape->channels);
  });
}

std::vector<int> Reducer::Layers(int stride) const {
  std::vector<int> layers;
  for (int layer = 0; layer < static_cast<int>(stage_.steps.size()); layer += stride) {
    layers.push_back(layer);
  }
  return layers;
}

Shape Reducer::StateOf(const Reduction& reduction) const {
  Shape state = stage_.shape;
  state.extents = reduction.extents;
  state.c /= reduction.channel_divisor;
  return state;
}

// Returns the operator that the reduced network has in place of `node`. `output` is the shape of
// the node's output in the network.
planner::Operator Reducer::Reduced(const Node& node, const Shape& output,
                                   const Reduction& reduction) const {
  const Shape state = StateOf(reduction);
  planner::Operator op = node.op;
  if (auto* convolution = std::get_if<Convolution>(&op)) {
    convolution->filters /= reduction.channel_divisor;
  } else if (auto* connected = std::get_if<FullyConnected>(&op)) {
    const double share =
        static_cast<double>(state.Features()) / static_cast<double>(stage_.shape.Features());
    connected->outputs =
        std::max(1, static_cast<int32_t>(std::lround(share * static_cast<double>(output.c))));
  } else if (auto* reshape = std::get_if<Reshape>(&op)) {
    reshape->channels = state.c;
    reshape->extents = state.extents;
  }
  return op;
}

double Reducer::Operations(const Reduction& reduction) const {
  const Shape state = StateOf(reduction);
  const double places = static_cast<double>(state.extents[0]) * state.extents[1] *
                        state.extents[2] /
                        (static_cast<double>(stage_.shape.extents[0]) * stage_.shape.extents[1] *
                         stage_.shape.extents[2]);
  double operations = 0;
  for (const int layer : Layers(reduction.stride)) {
    const ResidualStep& step = stage_.steps[layer];
    Shape input = stage_.shape;
    for (const NodeId id : step.transformation) {
      planner::PlannedLayer sized;
      sized.op = NodeOf(id).op;
      sized.inputs = {{0, input}};
      sized.output = chain_.shapes[id];
      // A fully connected layer has a product for each pair of an input and an output. The numbers
      // of inputs and of outputs both shrink by the factor `places`.
      const bool is_connected = std::holds_alternative<FullyConnected>(sized.op);
      operations += planner::ForwardOperations(sized) * places * (is_connected ? places : 1) /
                    (static_cast<double>(reduction.channel_divisor) * reduction.channel_divisor);
      input = sized.output;
    }
  }
  return operations;
}

// Returns the share of a window's taps, over all positions of an axis, that read the map and not
// the zeros around the map.
double SeenShare(int32_t extent, const Convolution& convolution, size_t axis) {
  const int32_t window = convolution.window[axis];
  int seen = 0;
  for (int32_t position = 0; position < extent; ++position) {
    for (int32_t tap = 0; tap < window; ++tap) {
      const int32_t at = position - convolution.pad[axis] + tap * convolution.dilation[axis];
      seen += at >= 0 && at < extent ? 1 : 0;
    }
  }
  return static_cast<double>(seen) / (static_cast<double>(extent) * window);
}

// Returns the factor by which a step of the stage is larger than a step of the reduced network
// because more taps of the stage's windows read the map. The size of a step is estimated as the
// square root of the number of terms in its sums. The first step of the stage represents all steps.
double Reducer::BorderFactor(const Reduction& reduction) const {
  double factor = 1;
  for (const NodeId id : stage_.steps.front().transformation) {
    const auto* convolution = std::get_if<Convolution>(&NodeOf(id).op);
    if (convolution == nullptr) continue;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      factor *= std::sqrt(SeenShare(stage_.shape.extents[axis], *convolution, axis) /
                          SeenShare(reduction.extents[axis], *convolution, axis));
    }
  }
  return factor;
}

std::string Reducer::Differences(const Reduction& reduction) const {
  std::vector<std::string> words;
  if (reduction.extents != stage_.shape.extents) {
    std::vector<std::string> extents;
    for (size_t axis = kMaxSpatial - static_cast<size_t>(stage_.shape.spatial_rank);
         axis < kMaxSpatial; ++axis) {
      extents.push_back(std::to_string(reduction.extents[axis]));
    }
    words.push_back("maps of " + Join(extents, "x"));
  }
  if (reduction.channel_divisor > 1) {
    words.push_back(std::to_string(stage_.shape.c / reduction.channel_divisor) + " of " +
                    std::to_string(stage_.shape.c) + " channels");
  }
  if (reduction.stride > 1) {
    words.push_back("one of " + std::to_string(reduction.stride) + " layers");
  }
  return Join(words, ", ");
}

Result<ReducedNetwork> Reducer::Make(const Reduction& reduction) const {
  ReducedNetwork made;
  const Shape state = StateOf(reduction);
  planner::GraphBuilder builder(chain_.graph.name);
  NodeId last =
      builder.Add("state", planner::Input{state.c, state.extents, state.spatial_rank}, {});
  made.layers = Layers(reduction.stride);
  for (const int layer : made.layers) {
    const ResidualStep& step = stage_.steps[layer];
    const NodeId input = last;
    for (const NodeId id : step.transformation) {
      const Node& node = NodeOf(id);
      last = builder.Add(node.name, Reduced(node, chain_.shapes[id], reduction), {last});
    }
    last = builder.Add(NodeOf(step.sum).name, planner::Add{}, {last, input});
  }
  UCUDNN_ASSIGN_OR_RETURN(const planner::Graph graph, builder.Build());
  // MakeResidualChain accepted `chain_`, so batch normalisations in its steps are frozen.
  UCUDNN_ASSIGN_OR_RETURN(made.chain, MakeResidualChain(graph, BatchNorms::kFrozen));
  made.stage_steps = static_cast<int>(stage_.steps.size());
  made.h_factor = reduction.stride * BorderFactor(reduction);
  made.state_factor =
      static_cast<double>(stage_.shape.Features()) / static_cast<double>(state.Features());
  made.differences = Differences(reduction);
  return made;
}

}  // namespace

Result<ReducedNetwork> MakeReducedNetwork(const ResidualChain& chain, const Stage& stage,
                                          bool draws, double operations) {
  const Reducer reducer(chain, stage);
  Reduction reduction;
  reduction.extents = stage.shape.extents;
  const auto is_too_much = [&] { return reducer.Operations(reduction) > operations; };
  const bool may_shrink = draws || !reducer.HasFullyConnected();
  for (bool shrinks = may_shrink; shrinks && is_too_much();) {
    shrinks = false;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      if (reduction.extents[axis] <= reducer.LeastExtent(axis)) continue;
      --reduction.extents[axis];
      shrinks = true;
    }
  }
  for (int divisor = 2; draws && is_too_much() && reducer.DividesChannels(divisor); divisor *= 2) {
    reduction.channel_divisor = divisor;
  }
  constexpr int kFewestLayers = 128;
  while (is_too_much() &&
         static_cast<int>(stage.steps.size()) / (2 * reduction.stride) >= kFewestLayers) {
    reduction.stride *= 2;
  }
  return reducer.Make(reduction);
}

}  // namespace ucudnn::multigrid
