// A CNN as a directed acyclic graph of named nodes, without a batch size. Plain values: whoever has
// a Graph from GraphBuilder::Build() has a valid one, whose shapes can be inferred.
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
  Spatial extra_pad = {0, 0, 0};  // at the end of each axis, beyond `pad`; may be negative
};
// The gradient of a convolution as a layer: one input pixel puts a window into the output.
struct TransposedConvolution {
  int32_t filters = 1;  // output channels
  Spatial window = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Spatial pad = {0, 0, 0};  // what is cut off both ends of the output
  Spatial dilation = {1, 1, 1};
  int32_t groups = 1;
  bool bias = true;
  Spatial extra_extent = {0, 0, 0};  // of the output, at its end; may be negative
};
enum class PoolingKind { kMaximum, kAverage };
struct Pooling {
  PoolingKind kind = PoolingKind::kMaximum;
  Spatial window = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Spatial pad = {0, 0, 0};
  // A last window that hangs over the padded image counts, as in Caffe, if it starts inside.
  bool round_up = false;
  Spatial extra_pad = {0, 0, 0};  // as a convolution's
};
struct GlobalPooling {
  PoolingKind kind = PoolingKind::kAverage;
};
struct FullyConnected {  // flattens its input
  int32_t outputs = 1;
  bool bias = true;
};
struct Linear {  // of the channels at each position
  int32_t outputs = 1;
  bool bias = true;
};
// softmax(q k^T) v over positions, with scaling and biases of the scores. Its three inputs are the
// queries, the keys and the values; a head has as many adjacent channels of each as another.
struct Attention {
  int32_t heads = 1;
  // Windows that tile queries, keys and values: a query meets keys of its own window alone. 0: the
  // whole axis.
  Spatial window = {0, 0, 0};
  int32_t keys = 1;  // that one query meets
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
// By the mean and the variance of each image's groups of channels: over all positions, or at each
// position by itself (one group by position is layer normalization of channels).
struct GroupNormalization {
  int32_t groups = 1;  // of equally many channels
  bool by_position = false;
  bool scale_and_shift = true;  // a number a channel
};
struct Scale {  // by trainable numbers, one a channel unless Node::parameters says otherwise
  bool scale = true;
  bool shift = true;
};
struct LocalResponseNormalization {
  int32_t size = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
};
struct Dropout {
  double rate = 0.5;
};
struct Add {};       // of two or more inputs of one shape
struct Multiply {};  // of two inputs of one shape; extents of 1 (a gate) are repeated
enum class ConcatAxis { kChannels, kDepth, kHeight, kWidth };
struct Concat {
  ConcatAxis axis = ConcatAxis::kChannels;
};
struct Upsampling {
  Spatial factor = {1, 1, 1};
  int32_t reach = 0;  // positions beyond the nearest one that interpolation reads, on either side
};
// With zeros, or with parameters where the node has some; negative numbers cut off.
struct Padding {
  Spatial before = {0, 0, 0};
  Spatial after = {0, 0, 0};
  int32_t channels_before = 0;
  int32_t channels_after = 0;
};
struct Roll {  // position i becomes position i + shift, around the end of the axis
  Spatial shift = {0, 0, 0};
};
struct Flatten {};
// The same numbers as an image, in the order channel, d, h, w.
struct Reshape {
  int32_t channels = 1;
  Spatial extents = {1, 1, 1};
  int32_t spatial_rank = 2;
};
struct Softmax {};  // over the channels
// Losses of an output, which they give on as it is: one number of all images beside it.
struct CrossEntropy {};  // of a softmax over the channels, against one label each
struct LogisticLoss {};  // of each channel by itself
// Any other operator on the images of its inputs, each by itself: known by what it gives of one
// image, and by the axes along which it computes every position from the same position of those
// inputs that have the axis, and from all of the others.
struct Opaque {
  std::string kind;  // the file's name of it
  int32_t channels = 1;
  Spatial extents = {1, 1, 1};
  int32_t spatial_rank = 2;
  int32_t channel_parts = 1;  // equal parts of the channels that do not meet
  bool rows = false;          // does not mix positions along h
  bool columns = false;       // does not mix positions along w
  bool sums = false;          // mixes positions by means and variances alone
  double operations = 0;      // of one image's forward pass; a multiply-add is two
};

using Operator =
    std::variant<Input, Convolution, Pooling, GlobalPooling, FullyConnected, Activation,
                 BatchNormalization, LocalResponseNormalization, Dropout, Add, Concat, Flatten,
                 Softmax, TransposedConvolution, Multiply, Upsampling, Padding, Scale, Reshape,
                 Linear, Attention, Roll, Opaque, GroupNormalization, CrossEntropy, LogisticLoss>;

using NodeId = int;  // position in Graph::nodes

// A tensor that a node reads beside its inputs: a filter, a bias, scales.
struct Parameter {
  int64_t elements = 0;
  int tensor = -1;      // nodes that name the same tensor read the same numbers; -1: no other does
  bool trained = true;  // else the tensor takes memory and is never updated

  bool operator==(const Parameter&) const = default;
};

struct Node {
  std::string name;
  Operator op;
  std::vector<NodeId> inputs;
  // Weights (or scales) before biases (or shifts), where a file says which tensors they are. Empty:
  // as many as the operator has, of no other node.
  std::vector<Parameter> parameters = {};
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;  // every node after its inputs
  // Operators of a file that are not known and were passed through, each with its nodes, in words.
  std::vector<std::string> passed_through;

  // The node called `name`, or null.
  const Node* Find(const std::string& node_name) const;
};

// Collects nodes and checks the whole at the end; the first fault is the one reported. After a
// fault the builder takes further nodes and ignores them, so that callers need not check each.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name) { graph_.name = std::move(name); }

  NodeId Add(const std::string& name, Operator op, const std::vector<NodeId>& inputs,
             std::vector<Parameter> parameters = {});

  // The graph; an error names the node, its values and what was expected of them: names are unique
  // and not empty, inputs exist and are as many as the operator takes, shapes fit.
  Result<Graph> Build() const;

 private:
  Graph graph_;
  std::unordered_set<std::string> names_;
  Status fault_;
};

}  // namespace ucudnn::planner
