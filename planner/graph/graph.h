// A CNN as a directed acyclic graph of named nodes, without a batch size. Plain values. A Graph
// that GraphBuilder::Build() returns is valid, and its shapes can be inferred for a batch of 1.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <variant>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"

namespace ucudnn::planner {

// Every Spatial has the order d, h, w. In two dimensions d is 1 in extents, windows, strides,
// dilations and factors, and 0 in pads, margins and shifts and in Attention::window.
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
  Spatial extra_pad = {0, 0, 0};  // pixels added to `pad` at the end of each axis; may be negative
};
// The data gradient of a convolution, used as a layer. It multiplies the filter by each input
// pixel, and adds each product to a window of the output.
struct TransposedConvolution {
  int32_t filters = 1;  // output channels
  Spatial window = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Spatial pad = {0, 0, 0};  // pixels cut off both ends of the output
  Spatial dilation = {1, 1, 1};
  int32_t groups = 1;
  bool bias = true;
  Spatial extra_extent = {0, 0, 0};  // pixels added at the end of the output; may be negative
};
enum class PoolingKind { kMaximum, kAverage };
struct Pooling {
  PoolingKind kind = PoolingKind::kMaximum;
  Spatial window = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Spatial pad = {0, 0, 0};
  // Whether output extents are rounded up, as in Caffe: a last window that begins inside the padded
  // image counts even if it extends beyond the image.
  bool round_up = false;
  Spatial extra_pad = {0, 0, 0};  // as Convolution::extra_pad
};
struct GlobalPooling {
  PoolingKind kind = PoolingKind::kAverage;
};
struct FullyConnected {  // flattens its input
  int32_t outputs = 1;
  bool bias = true;
};
struct Linear {  // multiplies the channels of each position by a matrix
  int32_t outputs = 1;
  bool bias = true;
};
// Computes softmax(q k^T) v over positions, with scaling and biases of the scores. The inputs are
// the queries q, the keys k and the values v. Each head has an equal number of adjacent channels of
// each input.
struct Attention {
  int32_t heads = 1;
  // Extents of the windows that tile queries, keys and values; a query attends only to keys of its
  // own window. An extent of 0 means the whole axis.
  Spatial window = {0, 0, 0};
  int32_t keys = 1;  // number of keys to which each query attends
};
enum class ActivationKind {
  kRelu,
  kSigmoid,
  kTanh,
  kRelu6,
  kLeakyRelu,
  kElu,
  kGelu,
  kSwish,
  kHardSigmoid,
  kHardSwish,
  kOther  // any other function of one number
};
struct Activation {
  ActivationKind kind = ActivationKind::kRelu;
};
struct BatchNormalization {
  bool scale_and_shift = true;
};
// Normalizes each group of channels of each image by its mean and variance. Mean and variance are
// taken over all positions or, with `by_position`, at each position separately. One group with
// `by_position` is layer normalization over channels.
struct GroupNormalization {
  int32_t groups = 1;  // number of groups; all have equally many channels
  bool by_position = false;
  bool scale_and_shift = true;  // whether each channel has a trained scale and shift
};
struct Scale {  // trained numbers, one per channel unless Node::parameters says otherwise
  bool scale = true;
  bool shift = true;
};
struct LocalResponseNormalization {
  int32_t size = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
};
enum class DropoutUnit { kElement, kChannel, kImage };
struct Dropout {
  double rate = 0.5;
  DropoutUnit per = DropoutUnit::kElement;  // the unit that is kept or dropped as a whole
};
struct Add {};       // adds two or more inputs of one shape
struct Multiply {};  // multiplies two inputs of one shape; an extent of 1 (a gate) is broadcast
enum class ConcatAxis { kChannels, kDepth, kHeight, kWidth };
struct Concat {
  ConcatAxis axis = ConcatAxis::kChannels;
};
struct Upsampling {
  Spatial factor = {1, 1, 1};
  int32_t reach = 0;  // positions that interpolation reads on each side of the nearest one
};
// Pads with zeros, or with parameters if the node has any. Negative numbers crop.
struct Padding {
  Spatial before = {0, 0, 0};
  Spatial after = {0, 0, 0};
  int32_t channels_before = 0;
  int32_t channels_after = 0;
};
struct Roll {  // moves position i to position (i + shift) modulo the extent
  Spatial shift = {0, 0, 0};
};
struct Flatten {};
// Arranges the numbers of its input, in their order, as an image with the axes channel, d, h, w.
struct Reshape {
  int32_t channels = 1;
  Spatial extents = {1, 1, 1};
  int32_t spatial_rank = 2;
};
struct Softmax {};  // over the channels
// Losses. A loss node returns its input unchanged. In addition it computes one number for all
// images.
struct CrossEntropy {};  // the loss of a softmax over the channels, with one label per position
struct LogisticLoss {};  // a separate loss of each channel
// Any other operator that works on each image separately. The graph knows its number of operations,
// the shape of its output for one image, and along which axes it mixes positions. Along every other
// axis, an output position depends only on the same position of those inputs that have the axis.
struct Opaque {
  std::string kind;  // the operator's name in the file
  int32_t channels = 1;
  Spatial extents = {1, 1, 1};
  int32_t spatial_rank = 2;
  int32_t channel_parts = 1;  // number of equal runs of channels that do not mix with each other
  bool rows = false;          // whether positions along h do not mix
  bool columns = false;       // whether positions along w do not mix
  bool sums = false;          // whether positions affect each other only by means and variances
  double operations = 0;      // of one image's forward pass; a multiply-add counts as two
};

using Operator =
    std::variant<Input, Convolution, Pooling, GlobalPooling, FullyConnected, Activation,
                 BatchNormalization, LocalResponseNormalization, Dropout, Add, Concat, Flatten,
                 Softmax, TransposedConvolution, Multiply, Upsampling, Padding, Scale, Reshape,
                 Linear, Attention, Roll, Opaque, GroupNormalization, CrossEntropy, LogisticLoss>;

using NodeId = int;  // position in Graph::nodes

// A tensor that a node reads in addition to its inputs, such as a filter, a bias or scales.
struct Parameter {
  int64_t elements = 0;
  int tensor = -1;  // nodes with the same number read the same tensor; -1: only this node reads it
  bool trained = true;  // if false, the tensor needs memory but is never updated

  bool operator==(const Parameter&) const = default;
};

struct Node {
  std::string name;
  Operator op;
  std::vector<NodeId> inputs;
  // The tensors that the node reads, if the file names them: weights (or scales) before biases (or
  // shifts). If empty, the node has the operator's usual parameters and shares none.
  std::vector<Parameter> parameters = {};
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;  // in an order in which every node comes after its inputs
  // One text for each type of unknown operator that was passed through: the type, its first node
  // and the number of its other nodes.
  std::vector<std::string> passed_through;

  // Returns the node called `name`, or null.
  const Node* Find(const std::string& node_name) const;
};

// Collects and checks nodes. Callers need not check each Add(), because Build() returns the first
// fault.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name) { graph_.name = std::move(name); }

  NodeId Add(const std::string& name, Operator op, const std::vector<NodeId>& inputs,
             std::vector<Parameter> parameters = {});

  // Returns the graph. Checks that names are unique and not empty, that inputs exist, that each
  // operator has the right number of inputs, and that shapes fit. An error names the node, its
  // values and what was expected.
  Result<Graph> Build() const;

 private:
  Graph graph_;
  std::unordered_set<std::string> names_;
  Status fault_;
};

}  // namespace ucudnn::planner
