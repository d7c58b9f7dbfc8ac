#include "planner/graph/networks/chain.h"

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

Chain::Chain(const std::string& network, int32_t channels, int32_t extent) : builder_(network) {
  last_ = builder_.Add("data", Input{channels, {1, extent, extent}, 2}, {});
}

void Chain::Append(const std::string& name, const Operator& op) { Join(name, op, {last_}); }

void Chain::Join(const std::string& name, const Operator& op, const std::vector<NodeId>& inputs) {
  last_ = builder_.Add(name, op, inputs);
}

void Chain::MaxPool(const std::string& name, int32_t window, int32_t stride, int32_t pad,
                    bool round_up) {
  Append(name, SquarePooling(PoolingKind::kMaximum, window, stride, pad, round_up));
}

void Chain::AveragePool(const std::string& name, int32_t window, int32_t stride, int32_t pad) {
  Append(name, SquarePooling(PoolingKind::kAverage, window, stride, pad));
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
