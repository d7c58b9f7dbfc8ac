#include "planner/multigrid/host/layers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "planner/multigrid/host/convolution_loops.h"

namespace ucudnn::multigrid {
namespace {

using planner::Activation;
using planner::ActivationKind;
using planner::BatchNormalization;
using planner::Convolution;
using planner::FullyConnected;
using planner::GlobalPooling;
using planner::Pooling;
using planner::PoolingKind;
using planner::Scale;
using planner::Shape;

int64_t Pixels(const Shape& shape) {
  return int64_t{shape.extents[0]} * shape.extents[1] * shape.extents[2];
}

// Calls visit(offset of the input plane, output offset, position of the output) for each output of
// a pooling.
template <typename Visit>
void ForEachWindow(const Shape& in, const Shape& out, Visit&& visit) {
  const Spatial& extents = out.extents;
  for (int c = 0; c < out.c; ++c) {
    const int64_t plane = c * Pixels(in);
    int64_t to = c * Pixels(out);
    for (int d = 0; d < extents[0]; ++d) {
      for (int h = 0; h < extents[1]; ++h) {
        for (int w = 0; w < extents[2]; ++w, ++to) visit(plane, to, Spatial{d, h, w});
      }
    }
  }
}
// Calls visit(input offset) for each pixel of the image in the window of the output at `place`.
template <typename Visit>
void ForEachPixel(const Pooling& op, const Shape& in, const Spatial& place, Visit&& visit) {
  Spatial begin, end;
  for (int axis = 0; axis < 3; ++axis) {
    const int first = place[axis] * op.stride[axis] - op.pad[axis];
    begin[axis] = std::max(first, 0);
    end[axis] = std::min(first + op.window[axis], in.extents[axis]);
  }
  for (int d = begin[0]; d < end[0]; ++d) {
    for (int h = begin[1]; h < end[1]; ++h) {
      for (int w = begin[2]; w < end[2]; ++w) {
        visit((int64_t{d} * in.extents[1] + h) * in.extents[2] + w);
      }
    }
  }
}

// Returns the pooling of a layer. The window of a global pooling is the whole image.
Pooling WindowOf(const HostLayer& layer) {
  const auto* global = std::get_if<GlobalPooling>(&layer.op);
  if (global == nullptr) return std::get<Pooling>(layer.op);
  return {.kind = global->kind, .window = layer.input.extents, .stride = {1, 1, 1}};
}

void PoolForward(const Pooling& op, const Shape& in, const Shape& out, const double* x, double* y) {
  ForEachWindow(in, out, [&](int64_t plane, int64_t to, const Spatial& place) {
    double sum = 0;
    double largest = -std::numeric_limits<double>::infinity();
    int64_t count = 0;
    ForEachPixel(op, in, place, [&](int64_t pixel) {
      sum += x[plane + pixel];
      // A NaN is taken as the largest number.
      if (x[plane + pixel] > largest || std::isnan(x[plane + pixel])) largest = x[plane + pixel];
      ++count;
    });
    y[to] = op.kind == PoolingKind::kMaximum ? largest : sum / static_cast<double>(count);
  });
}

void PoolBackward(const Pooling& op, const Shape& in, const Shape& out, const double* x,
                  const double* dy, double* dx) {
  std::fill_n(dx, in.c * Pixels(in), 0.0);
  ForEachWindow(in, out, [&](int64_t plane, int64_t to, const Spatial& place) {
    int64_t count = 0;
    int64_t largest = -1;
    ForEachPixel(op, in, place, [&](int64_t pixel) {
      if (largest < 0 || x[plane + pixel] > x[plane + largest]) largest = pixel;
      ++count;
    });
    if (op.kind == PoolingKind::kMaximum) {
      dx[plane + largest] += dy[to];
      return;
    }
    const double share = dy[to] / static_cast<double>(count);
    ForEachPixel(op, in, place, [&](int64_t pixel) { dx[plane + pixel] += share; });
  });
}

void ScaleChannels(const Shape& shape, int batch, const NodeWeights& weights, const double* x,
                   double* y, bool shifts) {
  const int64_t pixels = Pixels(shape);
  for (int n = 0; n < batch; ++n) {
    for (int c = 0; c < shape.c; ++c) {
      const double factor = weights.weights.empty() ? 1 : weights.weights[c];
      const double shift = shifts && !weights.bias.empty() ? weights.bias[c] : 0;
      for (int64_t i = 0; i < pixels; ++i) *y++ = factor * *x++ + shift;
    }
  }
}

// Returns whether the output has the same numbers as the input in the same order.
bool IsCopy(const planner::Operator& op) {
  return std::holds_alternative<planner::Flatten>(op) ||
         std::holds_alternative<planner::Reshape>(op);
}

bool IsChannelScale(const planner::Operator& op) {
  return std::holds_alternative<BatchNormalization>(op) || std::holds_alternative<Scale>(op);
}

}  // namespace

HostLayer LayerOf(const ResidualChain& chain, planner::NodeId id) {
  const planner::Node& node = chain.graph.nodes[id];
  return {node.op, chain.shapes[node.inputs.front()], chain.shapes[id]};
}

Status CheckHostLayer(const std::string& node, const HostLayer& layer) {
  const planner::Operator& op = layer.op;
  if (const auto* activation = std::get_if<Activation>(&op)) {
    if (activation->kind == ActivationKind::kRelu || activation->kind == ActivationKind::kTanh) {
      return Status::Ok();
    }
    return Status::Error(Quoted(node) + " has an activation that is not computed here; relu and " +
                         "tanh are");
  }
  if (std::holds_alternative<Convolution>(op) || std::holds_alternative<FullyConnected>(op) ||
      std::holds_alternative<Pooling>(op) || std::holds_alternative<GlobalPooling>(op) ||
      IsCopy(op) || IsChannelScale(op)) {
    return Status::Ok();
  }
  return Status::Error(Quoted(node) +
                       " is not computed here; convolutions, fully connected layers, relu, tanh, "
                       "poolings, frozen normalisations and scales are");
}

WeightCounts WeightCountsOf(const HostLayer& layer) {
  const Shape& in = layer.input;
  const Shape& out = layer.output;
  if (const auto* op = std::get_if<Convolution>(&layer.op)) {
    const int64_t taps = int64_t{op->window[0]} * op->window[1] * op->window[2];
    return {int64_t{out.c} * (in.c / op->groups) * taps, op->bias ? out.c : 0};
  }
  if (const auto* op = std::get_if<FullyConnected>(&layer.op)) {
    return {in.Features() * op->outputs, op->bias ? op->outputs : 0};
  }
  if (std::holds_alternative<BatchNormalization>(layer.op)) return {in.c, in.c};
  if (const auto* op = std::get_if<Scale>(&layer.op)) {
    return {op->scale ? in.c : 0, op->shift ? in.c : 0};
  }
  return {};
}

WeightCounts WeightCountsOf(const ResidualChain& chain, planner::NodeId id) {
  return chain.graph.nodes[id].inputs.empty() ? WeightCounts{} : WeightCountsOf(LayerOf(chain, id));
}

bool IsTrained(const planner::Operator& op) {
  const auto* norm = std::get_if<BatchNormalization>(&op);
  return norm == nullptr || norm->scale_and_shift;
}

Status CheckWeights(const std::string& node, const HostLayer& layer, const NodeWeights& weights) {
  const WeightCounts expected = WeightCountsOf(layer);
  const auto have_weights = static_cast<int64_t>(weights.weights.size());
  const auto have_bias = static_cast<int64_t>(weights.bias.size());
  if (have_weights == expected.weights && have_bias == expected.bias) return Status::Ok();
  return Status::Error("the weights of " + Quoted(node) + " are " + std::to_string(have_weights) +
                       " and " + std::to_string(have_bias) + " of bias; " +
                       std::to_string(expected.weights) + " and " + std::to_string(expected.bias) +
                       " are expected");
}

size_t ScratchOf(const HostLayer& layer) {
  const auto* op = std::get_if<Convolution>(&layer.op);
  if (op == nullptr) return 0;
  const ConvolutionLoops loops(*op, layer.input, layer.output);
  return static_cast<size_t>(
      std::max({loops.Scratch(), loops.BackwardDataScratch(), loops.BackwardFilterScratch()}));
}

void Forward(const LayerCall& call, const double* x, double* y) {
  const HostLayer& layer = call.layer;
  const NodeWeights& weights = call.weights;
  const int batch = call.batch;
  const int64_t size = layer.output.Features() * batch;
  if (const auto* op = std::get_if<Convolution>(&layer.op)) {
    const ConvolutionLoops loops(*op, layer.input, layer.output);
    ForEachGroup(loops, batch, [&](const GroupOffsets& at) {
      loops.Forward(x + at.x, weights.weights.data() + at.weights,
                    op->bias ? weights.bias.data() + at.bias : nullptr, y + at.y, call.scratch);
    });
  } else if (const auto* op = std::get_if<FullyConnected>(&layer.op)) {
    const int64_t inputs = layer.input.Features();
    for (int n = 0; n < batch; ++n, x += inputs) {
      const double* row = weights.weights.data();
      for (int o = 0; o < op->outputs; ++o, row += inputs) {
        double sum = op->bias ? weights.bias[o] : 0;
        for (int64_t i = 0; i < inputs; ++i) sum += row[i] * x[i];
        *y++ = sum;
      }
    }
  } else if (const auto* op = std::get_if<Activation>(&layer.op)) {
    const bool is_relu = op->kind == ActivationKind::kRelu;
    // A NaN stays a NaN, so that a diverging solve is noticed.
    for (int64_t i = 0; i < size; ++i) y[i] = is_relu ? (x[i] < 0 ? 0 : x[i]) : std::tanh(x[i]);
  } else if (IsChannelScale(layer.op)) {
    ScaleChannels(layer.input, batch, weights, x, y, true);
  } else if (IsCopy(layer.op)) {
    std::copy_n(x, size, y);
  } else {
    const Pooling window = WindowOf(layer);
    for (int n = 0; n < batch; ++n) {
      PoolForward(window, layer.input, layer.output, x + n * layer.input.Features(),
                  y + n * layer.output.Features());
    }
  }
}

void TransposedJacobian(const LayerCall& call, const double* x, const double* y, const double* dy,
                        double* dx) {
  const HostLayer& layer = call.layer;
  const NodeWeights& weights = call.weights;
  const int batch = call.batch;
  const int64_t size = layer.output.Features() * batch;
  if (const auto* op = std::get_if<Convolution>(&layer.op)) {
    const ConvolutionLoops loops(*op, layer.input, layer.output);
    ForEachGroup(loops, batch, [&](const GroupOffsets& at) {
      loops.BackwardData(dy + at.y, weights.weights.data() + at.weights, dx + at.x, call.scratch);
    });
  } else if (const auto* op = std::get_if<FullyConnected>(&layer.op)) {
    const int64_t inputs = layer.input.Features();
    std::fill_n(dx, inputs * batch, 0.0);
    for (int n = 0; n < batch; ++n, dx += inputs) {
      const double* row = weights.weights.data();
      for (int o = 0; o < op->outputs; ++o, row += inputs) {
        const double factor = *dy++;
        for (int64_t i = 0; i < inputs; ++i) dx[i] += factor * row[i];
      }
    }
  } else if (const auto* op = std::get_if<Activation>(&layer.op)) {
    const bool is_relu = op->kind == ActivationKind::kRelu;
    for (int64_t i = 0; i < size; ++i) {
      dx[i] = is_relu ? (y[i] > 0 ? dy[i] : 0) : (1 - y[i] * y[i]) * dy[i];
    }
  } else if (IsChannelScale(layer.op)) {
    ScaleChannels(layer.input, batch, weights, dy, dx, false);
  } else if (IsCopy(layer.op)) {
    std::copy_n(dy, size, dx);
  } else {
    const Pooling window = WindowOf(layer);
    for (int n = 0; n < batch; ++n) {
      PoolBackward(window, layer.input, layer.output, x + n * layer.input.Features(),
                   dy + n * layer.output.Features(), dx + n * layer.input.Features());
    }
  }
}

void AddGradient(const LayerCall& call, const double* x, const double* dy, double factor,
                 NodeWeights& gradient) {
  const HostLayer& layer = call.layer;
  if (!IsTrained(layer.op)) return;
  const int batch = call.batch;
  const Shape& out = layer.output;
  if (!gradient.bias.empty()) {
    // The bias has one number for each output channel; the output channels of a fully connected
    // layer are its outputs.
    const auto numbers = static_cast<int64_t>(gradient.bias.size());
    const int64_t pixels = out.Features() / numbers;
    for (int n = 0; n < batch; ++n) {
      for (int64_t c = 0; c < numbers; ++c) {
        const double* const plane = dy + (n * numbers + c) * pixels;
        double sum = 0;
        for (int64_t i = 0; i < pixels; ++i) sum += plane[i];
        gradient.bias[c] += factor * sum;
      }
    }
  }
  if (gradient.weights.empty()) return;
  if (const auto* op = std::get_if<Convolution>(&layer.op)) {
    const ConvolutionLoops loops(*op, layer.input, layer.output);
    ForEachGroup(loops, batch, [&](const GroupOffsets& at) {
      loops.BackwardFilter(x + at.x, dy + at.y, factor, gradient.weights.data() + at.weights,
                           call.scratch);
    });
  } else if (const auto* op = std::get_if<FullyConnected>(&layer.op)) {
    const int64_t inputs = layer.input.Features();
    for (int n = 0; n < batch; ++n, x += inputs) {
      double* row = gradient.weights.data();
      for (int o = 0; o < op->outputs; ++o, row += inputs) {
        const double scaled = factor * *dy++;
        for (int64_t i = 0; i < inputs; ++i) row[i] += scaled * x[i];
      }
    }
  } else if (IsChannelScale(layer.op)) {
    const int64_t pixels = Pixels(out);
    for (int n = 0; n < batch; ++n) {
      for (int c = 0; c < out.c; ++c) {
        const int64_t plane = (int64_t{n} * out.c + c) * pixels;
        double sum = 0;
        for (int64_t i = 0; i < pixels; ++i) sum += x[plane + i] * dy[plane + i];
        gradient.weights[c] += factor * sum;
      }
    }
  }
}

}  // namespace ucudnn::multigrid
