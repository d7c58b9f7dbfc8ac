#include "planner/graph/networks/chain.h"

#include <utility>

namespace ucudnn::planner {

Convolution Square(int32_t filters, int32_t window, int32_t stride, int32_t pad, bool bias) {
  Convolution convolution;
  convolution.filters = filters;
  convolution.window = {1, window, window};
  convolution.stride = {1, stride, stride};
  convolution.pad = {0, pad, pad};
  convolution.bias = bias;
  return convolution;
}

Convolution Depthwise(int32_t channels, int32_t window, int32_t stride, int32_t pad) {
  Convolution convolution = Square(channels, window, stride, pad);
  convolution.groups = channels;
  return convolution;
}

Pooling SquarePooling(PoolingKind kind, int32_t window, int32_t stride, int32_t pad,
                      bool round_up) {
  return {kind, {1, window, window}, {1, stride, stride}, {0, pad, pad}, round_up};
}

Chain::Chain(const std::string& network, int32_t channels, int32_t extent)
    : Chain(network, Input{channels, {1, extent, extent}, 2}) {}

Chain::Chain(const std::string& network, const Input& images) : builder_(network) {
  Join("data", images, {});
}

void Chain::Append(const std::string& name, const Operator& op) { Join(name, op, {last_}); }

void Chain::Join(const std::string& name, const Operator& op, const std::vector<NodeId>& inputs) {
  Put(name, op, inputs, {});
}

void Chain::Put(const std::string& name, const Operator& op, const std::vector<NodeId>& inputs,
                std::vector<Parameter> parameters) {
  std::vector<Shape> shapes;
  for (const NodeId input : inputs) shapes.push_back(shapes_[static_cast<size_t>(input)]);
  const Result<Shape> shape = OutputShape(op, shapes, 1);
  last_ = builder_.Add(name, op, inputs, std::move(parameters));
  shapes_.push_back(shape.ok() ? *shape : Shape{});
}

void Chain::MaxPool(const std::string& name, int32_t window, int32_t stride, int32_t pad,
                    bool round_up) {
  Append(name, SquarePooling(PoolingKind::kMaximum, window, stride, pad, round_up));
}

void Chain::AveragePool(const std::string& name, int32_t window, int32_t stride, int32_t pad) {
  Append(name, SquarePooling(PoolingKind::kAverage, window, stride, pad));
}

int32_t Chain::Positions() const {
  const Spatial& extents = shape().extents;
  return extents[0] * extents[1] * extents[2];
}

void Chain::Normalised(const std::string& name, const Convolution& convolution) {
  Append(name, convolution);
  Append(name + ".bn", BatchNormalization{});
}

void Chain::Unit(const std::string& name, const Convolution& convolution,
                 ActivationKind activation) {
  Normalised(name, convolution);
  Append(name + ".act", Activation{activation});
}

void Chain::PreActivated(const std::string& name, const Convolution& convolution) {
  Append(name + ".bn", BatchNormalization{});
  Relu(name + ".act");
  Append(name, convolution);
}

void Chain::Classify(int32_t classes, double dropout) {
  Append("pool", GlobalPooling{PoolingKind::kAverage});
  if (dropout > 0) Append("drop", Dropout{dropout});
  Append("fc", FullyConnected{classes, true});
  Append("prob", Softmax{});
}

}  // namespace ucudnn::planner
