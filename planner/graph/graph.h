// A CNN as a directed acyclic graph of named nodes, without a batch size. Plain values: whoever has
// a Graph from GraphBuilder::Build() has a valid one, whose shapes can be inferred.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"

namespace ucudnn::planner {

// Axis order of every Spatial is d, h, w; d is 1 (pad 0) in two dimensions.
struct Input {
  int32_t channels = 1;
  Spatial extents = {1, 1, 1};
  int32_t spatial_rank = 2;
};
struct Convolution {
  int32_t filters = 1;  // output channels
  Spatial window = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Spatial pad = {0, 0, 0};
  Spatial dilation = {1, 1, 1};
  int32_t groups = 1;
  bool bias = true;
};
enum class PoolingKind { kMaximum, kAverage };
struct Pooling {
  PoolingKind kind = PoolingKind::kMaximum;
  Spatial window = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Spatial pad = {0, 0, 0};
  // A last window that hangs over the padded image counts, as in Caffe, if it starts inside.
  bool round_up = false;
};
struct GlobalPooling {
  PoolingKind kind = PoolingKind::kAverage;
};
struct FullyConnected {  // flattens its input
  int32_t outputs = 1;
  bool bias = true;
};
enum class ActivationKind { kRelu, kSigmoid, kTanh };
struct Activation {
  ActivationKind kind = ActivationKind::kRelu;
};
struct BatchNormalization {};  // with scale and shift
struct LocalResponseNormalization {
  int32_t size = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
};
struct Dropout {
  double rate = 0.5;
};
struct Add {};     // of two or more inputs of one shape
struct Concat {};  // along the channels
struct Flatten {};
struct Softmax {};

using Operator = std::variant<Input, Convolution, Pooling, GlobalPooling, FullyConnected,
                              Activation, BatchNormalization, LocalResponseNormalization, Dropout,
                              Add, Concat, Flatten, Softmax>;

using NodeId = int;  // position in Graph::nodes

struct Node {
  std::string name;
  Operator op;
  std::vector<NodeId> inputs;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;  // every node after its inputs

  // The node called `name`, or null.
  const Node* Find(const std::string& node_name) const;
};

// Collects nodes and checks the whole at the end; the first fault is the one reported. After a
// fault the builder takes further nodes and ignores them, so that callers need not check each.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name) { graph_.name = std::move(name); }

  NodeId Add(const std::string& name, Operator op, const std::vector<NodeId>& inputs);

  // The graph; an error names the node, its values and what was expected of them: names are unique
  // and not empty, inputs exist and are as many as the operator takes, shapes fit.
  Result<Graph> Build() const;

 private:
  Graph graph_;
  Status fault_;
};

}  // namespace ucudnn::planner
