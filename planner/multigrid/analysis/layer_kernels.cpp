#include "planner/multigrid/analysis/layer_kernels.h"

#include <algorithm>
#include <span>

#include "base/text.h"
#include "planner/cost/layer_graph.h"

namespace ucudnn::multigrid {
namespace {

using planner::Node;
using planner::NodeId;
using planner::Shape;

constexpr int kSingleBytes = 4;

// A node with its shapes for a mini-batch.
struct SizedNode {
  const Node* node;
  std::vector<Shape> inputs;
  Shape output;
  int64_t parameters = 0;
  // True if the node reads the network's data, so that no gradient of its input is needed.
  bool reads_data = false;

  double in() const { return NumbersOf(inputs.front()); }
  double out() const { return NumbersOf(output); }
  static double NumbersOf(const Shape& shape) {
    return static_cast<double>(shape.n) * static_cast<double>(shape.Features());
  }
};

bool IsConvolution(const Node& node) {
  return std::holds_alternative<planner::Convolution>(node.op) ||
         std::holds_alternative<planner::TransposedConvolution>(node.op);
}

bool IsFullyConnected(const Node& node) {
  return std::holds_alternative<planner::FullyConnected>(node.op);
}

// Returns whether the node is free because it only renames or reshapes numbers.
bool CostsNothing(const Node& node) {
  return node.inputs.empty() || std::holds_alternative<planner::Flatten>(node.op) ||
         std::holds_alternative<planner::Reshape>(node.op) ||
         std::holds_alternative<planner::Dropout>(node.op);
}

class KernelLists {
 public:
  KernelLists(int element_bytes, LayerKind& kind) : bytes_(element_bytes), kind_(kind) {}

  // Adds the node's CUDA kernel of the forward pass. If `shares_input`, the node's input is the
  // same for all layers that are applied to one state.
  void AddForward(const SizedNode& node, bool shares_input);
  // Adds the node's CUDA kernels of the backward pass. If `shares_gradient`, the gradient of the
  // node's output is the same for all layers that are applied to one state. REQUIRES: nodes are
  // added in the order of the backward pass, the last node first.
  void AddBackward(const SizedNode& node, bool shares_gradient);
  // Adds the CUDA kernel of the sum u + h F(u), or of the adjoint's sum. It reads two states, which
  // all layers of one input share, and writes one.
  void AddSum(LayerPass pass, double numbers) {
    Add(pass, {.operations = 2 * numbers,
               .shared_bytes = 2 * numbers * bytes_,
               .own_bytes = numbers * bytes_,
               .threads = numbers});
  }
  void AddUpdate() {
    if (kind_.parameters == 0) return;
    // The update reads weight, gradient and velocity, and writes weight and velocity. With numbers
    // of two bytes, weight and velocity are in fp32. Then the gradient has two bytes, and a copy of
    // the new weight is written in two bytes. Together these are as many bytes as with fp32.
    const auto numbers = static_cast<double>(kind_.parameters);
    Add(LayerPass::kUpdate, {.operations = 4 * numbers,
                             .own_bytes = 5 * numbers * std::max<double>(bytes_, kSingleBytes),
                             .threads = numbers});
  }

 private:
  void Add(LayerPass pass, const LayerKernel& kernel) {
    kind_.passes[static_cast<size_t>(pass)].push_back(kernel);
  }
  LayerKernel Product(const SizedNode& node, double threads) const;

  const double bytes_;
  LayerKind& kind_;
};

// Returns the CUDA kernel of one pass of a convolution or a fully connected layer. It reads or
// writes input, output and weights once each. A fully connected layer has at least as many threads
// as weights, because libraries split its sums over threads.
LayerKernel KernelLists::Product(const SizedNode& node, double threads) const {
  planner::PlannedLayer layer;
  layer.op = node.node->op;
  layer.inputs = {{0, node.inputs.front()}};
  layer.output = node.output;
  const auto weights = static_cast<double>(node.parameters);
  return {.operations = planner::ForwardOperations(layer),
          .own_bytes = (node.in() + node.out() + weights) * bytes_,
          .threads = IsFullyConnected(*node.node) ? std::max(threads, weights) : threads};
}

void KernelLists::AddForward(const SizedNode& node, bool shares_input) {
  if (CostsNothing(*node.node)) return;
  LayerKernel kernel;
  if (IsConvolution(*node.node) || IsFullyConnected(*node.node)) {
    kernel = Product(node, node.out());
  } else {
    double numbers = node.out();
    for (const Shape& input : node.inputs) numbers += SizedNode::NumbersOf(input);
    kernel = {.operations = node.out(), .own_bytes = numbers * bytes_, .threads = node.out()};
  }
  if (shares_input) {
    kernel.shared_bytes = node.in() * bytes_;
    kernel.own_bytes -= kernel.shared_bytes;
  }
  Add(LayerPass::kForward, kernel);
}

void KernelLists::AddBackward(const SizedNode& node, bool shares_gradient) {
  if (CostsNothing(*node.node)) return;
  LayerKernel kernel;
  if (IsConvolution(*node.node) || IsFullyConnected(*node.node)) {
    kernel = Product(node, node.in());
    Add(LayerPass::kGradient, Product(node, node.out()));
  } else {
    // The kernel reads the gradient of the output, and the output that the forward pass has kept.
    double numbers = 2 * node.out();
    for (const Shape& input : node.inputs) numbers += SizedNode::NumbersOf(input);
    kernel = {.operations = node.out(), .own_bytes = numbers * bytes_, .threads = node.in()};
    if (node.parameters > 0) Add(LayerPass::kGradient, kernel);
  }
  if (node.reads_data) return;
  if (shares_gradient) {
    kernel.shared_bytes = node.out() * bytes_;
    kernel.own_bytes -= kernel.shared_bytes;
  }
  Add(LayerPass::kAdjoint, kernel);
}

std::string WindowText(const planner::Convolution& convolution, int rank) {
  std::vector<std::string> extents;
  for (size_t axis = kMaxSpatial - static_cast<size_t>(rank); axis < kMaxSpatial; ++axis) {
    extents.push_back(std::to_string(convolution.window[axis]));
  }
  return Join(extents, "x");
}

// Returns the names of the convolutions and fully connected layers among `nodes`, such as "7x7
// convolution", or `otherwise` if there are none.
std::string NameOf(const std::vector<SizedNode>& nodes, const std::string& otherwise) {
  std::vector<std::string> windows;
  std::vector<std::string> parts;
  for (const SizedNode& sized : nodes) {
    if (const auto* convolution = std::get_if<planner::Convolution>(&sized.node->op)) {
      windows.push_back(WindowText(*convolution, sized.output.spatial_rank));
    } else if (IsFullyConnected(*sized.node)) {
      parts.push_back("fully connected, " + std::to_string(sized.inputs.front().Features()) +
                      " to " + std::to_string(sized.output.Features()));
    }
  }
  if (!windows.empty()) {
    parts.insert(parts.begin(),
                 Join(windows, ", ") + (windows.size() == 1 ? " convolution" : " convolutions"));
  }
  return parts.empty() ? otherwise : Join(parts, ", ");
}

class LayerReader {
 public:
  LayerReader(const ResidualChain& chain, int batch, int element_bytes)
      : chain_(chain), element_bytes_(element_bytes) {
    shapes_ = chain.shapes;
    for (Shape& shape : shapes_) shape.n = batch;
  }

  LayerKind KindOf(const ResidualStep& step) const {
    std::vector<SizedNode> nodes = SizedNodes(step.transformation);
    LayerKind kind = Begin(nodes, "step without weights");
    KernelLists lists(element_bytes_, kind);
    const Shape& state = shapes_[step.sum];
    for (size_t i = 0; i < nodes.size(); ++i) lists.AddForward(nodes[i], IsFirst(nodes, i));
    lists.AddSum(LayerPass::kForward, SizedNode::NumbersOf(state));
    std::reverse(nodes.begin(), nodes.end());
    for (size_t i = 0; i < nodes.size(); ++i) lists.AddBackward(nodes[i], IsFirst(nodes, i));
    lists.AddSum(LayerPass::kAdjoint, SizedNode::NumbersOf(state));
    lists.AddUpdate();
    return kind;
  }

  LayerKind KindOf(const SerialSection& section) const {
    const std::vector<SizedNode> nodes = SizedNodes(section.nodes);
    LayerKind kind = Begin(nodes, "layers between stages");
    KernelLists lists(element_bytes_, kind);
    for (const SizedNode& node : nodes) lists.AddForward(node, false);
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) lists.AddBackward(*node, false);
    lists.AddUpdate();
    return kind;
  }

  int64_t NumbersOf(NodeId id) const {
    const Shape& shape = shapes_[id];
    return shape.n * shape.Features();
  }

 private:
  // Returns whether all nodes before position `at` cost nothing.
  static bool IsFirst(const std::vector<SizedNode>& nodes, size_t at) {
    return std::all_of(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(at),
                       [](const SizedNode& node) { return CostsNothing(*node.node); });
  }

  std::vector<SizedNode> SizedNodes(const std::vector<NodeId>& ids) const {
    std::vector<SizedNode> nodes;
    for (const NodeId id : ids) {
      const Node& node = chain_.graph.nodes[id];
      SizedNode sized{&node, {}, shapes_[id]};
      for (const NodeId input : node.inputs) {
        sized.inputs.push_back(shapes_[input]);
        sized.reads_data |= chain_.graph.nodes[input].inputs.empty();
      }
      if (!node.inputs.empty()) {
        sized.parameters = planner::ParametersOf(node, sized.inputs.front()).trained;
      }
      nodes.push_back(std::move(sized));
    }
    return nodes;
  }

  static LayerKind Begin(const std::vector<SizedNode>& nodes, const std::string& otherwise) {
    LayerKind kind;
    kind.name = NameOf(nodes, otherwise);
    for (const SizedNode& node : nodes) {
      kind.parameters += node.parameters;
      if (!CostsNothing(*node.node)) kind.kept += static_cast<int64_t>(node.out());
    }
    return kind;
  }

  const ResidualChain& chain_;
  const int element_bytes_;
  std::vector<Shape> shapes_;
};

int NumberOf(LayerKind kind, int section, int position, std::vector<LayerKind>& kinds) {
  const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& known) {
    return known.passes == kind.passes && known.parameters == kind.parameters &&
           known.name == kind.name;
  });
  if (same != kinds.end()) return static_cast<int>(same - kinds.begin());
  kind.section = section;
  kind.position = position;
  kinds.push_back(std::move(kind));
  return static_cast<int>(kinds.size()) - 1;
}

}  // namespace

int64_t NetworkLayers::TrainedBytes() const {
  if (element_bytes >= kSingleBytes) return 3 * element_bytes;
  return 2 * element_bytes + 3 * kSingleBytes;
}

int NetworkLayers::LongestStage() const {
  int longest = -1;
  for (size_t i = 0; i < sections.size(); ++i) {
    if (!sections[i].is_stage) continue;
    if (longest < 0 || sections[i].kinds.size() > sections[longest].kinds.size()) {
      longest = static_cast<int>(i);
    }
  }
  return longest;
}

int NetworkLayers::Layers() const {
  size_t layers = 0;
  for (const LayerSection& section : sections) layers += section.kinds.size();
  return static_cast<int>(layers);
}

NetworkLayers LayersOfNetwork(const ResidualChain& chain, int batch, int element_bytes) {
  NetworkLayers layers;
  layers.name = chain.graph.name;
  layers.batch = batch;
  layers.element_bytes = element_bytes;
  const LayerReader reader(chain, batch, element_bytes);
  for (size_t number = 0; number < chain.sections.size(); ++number) {
    LayerSection section;
    const auto at = static_cast<int>(number);
    if (const auto* stage = std::get_if<Stage>(&chain.sections[number])) {
      section.is_stage = true;
      for (const ResidualStep& step : stage->steps) {
        const auto position = static_cast<int>(section.kinds.size());
        section.kinds.push_back(NumberOf(reader.KindOf(step), at, position, layers.kinds));
      }
      section.state_numbers = reader.NumbersOf(stage->steps.back().sum);
    } else {
      const auto& serial = std::get<SerialSection>(chain.sections[number]);
      section.kinds.push_back(NumberOf(reader.KindOf(serial), at, 0, layers.kinds));
      section.state_numbers = reader.NumbersOf(serial.nodes.back());
    }
    layers.sections.push_back(std::move(section));
  }
  return layers;
}

}  // namespace ucudnn::multigrid
