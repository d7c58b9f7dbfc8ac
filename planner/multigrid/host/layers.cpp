#include "planner/multigrid/host/layers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "planner/multigrid/host/correlation.h"

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

// A convolution of one image with one group at a time, over an input that is padded into scratch,
// so that the innermost loops have no bounds to test. Where windows move by one pixel along h and w
// ("dense"), outputs are summed in rows as long as the padded input's, so that those of all rows
// follow each other; what stands between two rows is left out in the end.
struct ConvolutionLoops {
  const Convolution& op;
  Spatial in, out;
  Spatial padded;  // extents of the padded input: what the windows of all outputs cover
  int channels;    // of a group
  int filters;     // of a group

  ConvolutionLoops(const Convolution& convolution, const Spatial& input, const Spatial& output,
                   int group_channels, int group_filters)
      : op(convolution), in(input), out(output), channels(group_channels), filters(group_filters) {
    for (int axis = 0; axis < 3; ++axis) {
      padded[axis] = std::max(
          (out[axis] - 1) * op.stride[axis] + (op.window[axis] - 1) * op.dilation[axis] + 1,
          in[axis] + op.pad[axis]);
    }
  }
  ConvolutionLoops(const Convolution& convolution, const Shape& input, const Shape& output)
      : ConvolutionLoops(convolution, input.extents, output.extents, input.c / convolution.groups,
                         output.c / convolution.groups) {}

  int64_t PaddedPixels() const { return int64_t{padded[0]} * padded[1] * padded[2]; }
  int64_t Taps() const { return int64_t{op.window[0]} * op.window[1] * op.window[2]; }
  int64_t InPixels() const { return int64_t{in[0]} * in[1] * in[2]; }
  int64_t OutPixels() const { return int64_t{out[0]} * out[1] * out[2]; }
  bool IsDense() const { return op.stride[1] == 1 && op.stride[2] == 1; }
  int64_t LongRows() const { return int64_t{out[1]} * padded[2]; }  // outputs of one depth
  // The padded input, and outputs in long rows.
  int64_t Scratch() const { return channels * PaddedPixels() + LongRows(); }

  // The convolution that gives the gradient of the input from that of the output, where the stride
  // is 1 everywhere and there is no more padding than windows reach.
  bool HasTransposed() const {
    for (int axis = 0; axis < 3; ++axis) {
      if (op.stride[axis] != 1 || op.pad[axis] > (op.window[axis] - 1) * op.dilation[axis]) {
        return false;
      }
    }
    return true;
  }
  Convolution Transposed() const {
    Convolution transposed = op;
    for (int axis = 0; axis < 3; ++axis) {
      transposed.pad[axis] = (op.window[axis] - 1) * op.dilation[axis] - op.pad[axis];
    }
    return transposed;
  }

  // Calls visit(padded offset, image offset) for each row of the image.
  template <typename Visit>
  void ForEachInputRow(Visit&& visit) const {
    for (int d = 0; d < in[0]; ++d) {
      for (int h = 0; h < in[1]; ++h) {
        visit((int64_t{d + op.pad[0]} * padded[1] + h + op.pad[1]) * padded[2] + op.pad[2],
              (int64_t{d} * in[1] + h) * in[2]);
      }
    }
  }
  void Pad(const double* image, double* to) const {
    std::fill_n(to, channels * PaddedPixels(), 0.0);
    for (int c = 0; c < channels; ++c, image += InPixels()) {
      ForEachInputRow([&](int64_t to_row, int64_t from_row) {
        std::copy_n(image + from_row, in[2], to + c * PaddedPixels() + to_row);
      });
    }
  }

  // Calls visit(tap, padded offset) for each row of taps of the outputs of depth `d`.
  template <typename Visit>
  void ForEachTapRow(int d, Visit&& visit) const {
    for (int td = 0; td < op.window[0]; ++td) {
      for (int th = 0; th < op.window[1]; ++th) {
        const int64_t row_d = int64_t{d} * op.stride[0] + td * op.dilation[0];
        visit((int64_t{td} * op.window[1] + th) * op.window[2],
              (row_d * padded[1] + th * op.dilation[1]) * padded[2]);
      }
    }
  }
  // The same for each output of a row and each tap: visit(tap, padded offset, output offset), where
  // the row's outputs are stride_w apart in the padded input.
  template <typename Visit>
  void ForEachTap(Visit&& visit) const {
    for (int d = 0; d < out[0]; ++d) {
      ForEachTapRow(d, [&](int64_t tap, int64_t from) {
        for (int tw = 0; tw < op.window[2]; ++tw) {
          for (int h = 0; h < out[1]; ++h) {
            visit(tap + tw, from + int64_t{h} * op.stride[1] * padded[2] + tw * op.dilation[2],
                  (int64_t{d} * out[1] + h) * out[2]);
          }
        }
      });
    }
  }

  void Forward(const double* x, const double* weights, const double* bias, double* y,
               double* scratch) const {
    Pad(x, scratch);
    double* const rows = scratch + channels * PaddedPixels();
    for (int k = 0; k < filters; ++k, y += OutPixels(), weights += channels * Taps()) {
      const double first = bias != nullptr ? bias[k] : 0.0;
      if (IsDense()) {
        ForwardDense(scratch, weights, first, y, rows);
      } else {
        ForwardApart(scratch, weights, first, y);
      }
    }
  }
  void ForwardDense(const double* x, const double* weights, double first, double* y,
                    double* rows) const {
    const int64_t count = LongRows() - (padded[2] - out[2]);
    for (int d = 0; d < out[0]; ++d) {
      std::fill_n(rows, LongRows(), first);
      for (int c = 0; c < channels; ++c) {
        ForEachTapRow(d, [&](int64_t tap, int64_t from) {
          AddCorrelation(x + c * PaddedPixels() + from, weights + c * Taps() + tap, op.window[2],
                         op.dilation[2], rows, count);
        });
      }
      for (int h = 0; h < out[1]; ++h, y += out[2]) {
        std::copy_n(rows + int64_t{h} * padded[2], out[2], y);
      }
    }
  }
  void ForwardApart(const double* x, const double* weights, double first, double* y) const {
    std::fill_n(y, OutPixels(), first);
    for (int c = 0; c < channels; ++c, x += PaddedPixels(), weights += Taps()) {
      ForEachTap([&](int64_t tap, int64_t from, int64_t to) {
        for (int w = 0; w < out[2]; ++w) y[to + w] += weights[tap] * x[from + w * op.stride[2]];
      });
    }
  }

  void BackwardData(const double* dy, const double* weights, double* dx, double* scratch) const {
    if (!HasTransposed()) return BackwardDataApart(dy, weights, dx, scratch);
    const Convolution transposed = Transposed();
    const ConvolutionLoops loops(transposed, out, in, filters, channels);
    // [C, K, taps in reverse order]
    double* const reversed = scratch + loops.Scratch();
    for (int k = 0; k < filters; ++k) {
      for (int c = 0; c < channels; ++c, weights += Taps()) {
        std::reverse_copy(weights, weights + Taps(),
                          reversed + (int64_t{c} * filters + k) * Taps());
      }
    }
    loops.Forward(dy, reversed, nullptr, dx, scratch);
  }
  int64_t BackwardDataScratch() const {
    if (!HasTransposed()) return channels * PaddedPixels();
    const Convolution transposed = Transposed();
    return ConvolutionLoops(transposed, out, in, filters, channels).Scratch() +
           int64_t{filters} * channels * Taps();
  }
  void BackwardDataApart(const double* dy, const double* weights, double* dx,
                         double* scratch) const {
    std::fill_n(scratch, channels * PaddedPixels(), 0.0);
    for (int k = 0; k < filters; ++k, dy += OutPixels()) {
      for (int c = 0; c < channels; ++c, weights += Taps()) {
        double* const plane = scratch + c * PaddedPixels();
        ForEachTap([&](int64_t tap, int64_t to, int64_t from) {
          for (int w = 0; w < out[2]; ++w) {
            plane[to + w * op.stride[2]] += weights[tap] * dy[from + w];
          }
        });
      }
    }
    for (int c = 0; c < channels; ++c, dx += InPixels()) {
      ForEachInputRow([&](int64_t from_row, int64_t to_row) {
        std::copy_n(scratch + c * PaddedPixels() + from_row, in[2], dx + to_row);
      });
    }
  }

  // The padded input, the gradient of one output channel in long rows, sums of one row of taps.
  int64_t BackwardFilterScratch() const {
    return channels * PaddedPixels() + out[0] * LongRows() + op.window[2];
  }
  void BackwardFilter(const double* x, const double* dy, double factor, double* gradient,
                      double* scratch) const {
    Pad(x, scratch);
    double* const rows = scratch + channels * PaddedPixels();
    for (int k = 0; k < filters; ++k, dy += OutPixels(), gradient += channels * Taps()) {
      if (IsDense()) {
        BackwardFilterDense(scratch, dy, factor, gradient, rows);
      } else {
        BackwardFilterApart(scratch, dy, factor, gradient);
      }
    }
  }
  void BackwardFilterDense(const double* x, const double* dy, double factor, double* gradient,
                           double* rows) const {
    std::fill_n(rows, out[0] * LongRows(), 0.0);
    for (int row = 0; row < out[0] * out[1]; ++row, dy += out[2]) {
      std::copy_n(dy, out[2], rows + int64_t{row} * padded[2]);
    }
    double* const sums = rows + out[0] * LongRows();
    const int64_t count = LongRows() - (padded[2] - out[2]);
    for (int c = 0; c < channels; ++c, x += PaddedPixels(), gradient += Taps()) {
      for (int d = 0; d < out[0]; ++d) {
        ForEachTapRow(d, [&](int64_t tap, int64_t from) {
          std::fill_n(sums, op.window[2], 0.0);
          AddDotProducts(rows + d * LongRows(), x + from, op.window[2], op.dilation[2], sums,
                         count);
          for (int tw = 0; tw < op.window[2]; ++tw) gradient[tap + tw] += factor * sums[tw];
        });
      }
    }
  }
  void BackwardFilterApart(const double* x, const double* dy, double factor,
                           double* gradient) const {
    for (int c = 0; c < channels; ++c, x += PaddedPixels(), gradient += Taps()) {
      ForEachTap([&](int64_t tap, int64_t from, int64_t to) {
        double sum = 0;
        for (int w = 0; w < out[2]; ++w) sum += x[from + w * op.stride[2]] * dy[to + w];
        gradient[tap] += factor * sum;
      });
    }
  }
};

// Calls visit(image, group, loops' pointers' offsets) for each image and group of a convolution.
struct GroupOffsets {
  int64_t x, y, weights, bias;
};
template <typename Visit>
void ForEachGroup(const ConvolutionLoops& loops, int batch, Visit&& visit) {
  const int64_t pixels_in = int64_t{loops.in[0]} * loops.in[1] * loops.in[2];
  for (int n = 0; n < batch; ++n) {
    for (int g = 0; g < loops.op.groups; ++g) {
      const int64_t number = int64_t{n} * loops.op.groups + g;
      visit(GroupOffsets{
          number * loops.channels * pixels_in, number * loops.filters * loops.OutPixels(),
          int64_t{g} * loops.filters * loops.channels * loops.Taps(), int64_t{g} * loops.filters});
    }
  }
}

// Calls visit(input offset, output offset, window's pixels inside) for each output of a pooling.
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
// Calls visit(input offset) for each pixel of the window of output `place` that the image has.
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

Pooling AsWindow(const GlobalPooling& op, const Shape& in) {
  return Pooling{.kind = op.kind, .window = in.extents, .stride = {1, 1, 1}};
}

void PoolForward(const Pooling& op, const Shape& in, const Shape& out, const double* x, double* y) {
  ForEachWindow(in, out, [&](int64_t plane, int64_t to, const Spatial& place) {
    double sum = 0;
    double largest = -std::numeric_limits<double>::infinity();
    int64_t count = 0;
    ForEachPixel(op, in, place, [&](int64_t pixel) {
      sum += x[plane + pixel];
      // A NaN is the largest.
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

// Whose output are the numbers of its input.
bool IsCopy(const planner::Operator& op) {
  return std::holds_alternative<planner::Flatten>(op) ||
         std::holds_alternative<planner::Reshape>(op);
}

bool IsChannelScale(const planner::Operator& op) {
  return std::holds_alternative<BatchNormalization>(op) || std::holds_alternative<Scale>(op);
}

}  // namespace

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
  if (const auto* op = std::get_if<BatchNormalization>(&layer.op)) {
    return op->scale_and_shift ? WeightCounts{in.c, in.c} : WeightCounts{};
  }
  if (const auto* op = std::get_if<Scale>(&layer.op)) {
    return {op->scale ? in.c : 0, op->shift ? in.c : 0};
  }
  return {};
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
  const auto& [layer, weights, batch, scratch] = call;
  const int64_t size = layer.output.Features() * batch;
  if (const auto* op = std::get_if<Convolution>(&layer.op)) {
    const ConvolutionLoops loops(*op, layer.input, layer.output);
    ForEachGroup(loops, batch, [&](const GroupOffsets& at) {
      loops.Forward(x + at.x, weights.weights.data() + at.weights,
                    op->bias ? weights.bias.data() + at.bias : nullptr, y + at.y, scratch);
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
    // A NaN stays one: a solve that diverges must be seen to.
    for (int64_t i = 0; i < size; ++i) y[i] = is_relu ? (x[i] < 0 ? 0 : x[i]) : std::tanh(x[i]);
  } else if (IsChannelScale(layer.op)) {
    ScaleChannels(layer.input, batch, weights, x, y, true);
  } else if (IsCopy(layer.op)) {
    std::copy_n(x, size, y);
  } else {
    const auto* pooling = std::get_if<Pooling>(&layer.op);
    const auto* global = std::get_if<GlobalPooling>(&layer.op);
    const Pooling window = pooling != nullptr ? *pooling : AsWindow(*global, layer.input);
    for (int n = 0; n < batch; ++n) {
      PoolForward(window, layer.input, layer.output, x + n * layer.input.Features(),
                  y + n * layer.output.Features());
    }
  }
}

void TransposedJacobian(const LayerCall& call, const double* x, const double* y, const double* dy,
                        double* dx) {
  const auto& [layer, weights, batch, scratch] = call;
  const int64_t size = layer.output.Features() * batch;
  if (const auto* op = std::get_if<Convolution>(&layer.op)) {
    const ConvolutionLoops loops(*op, layer.input, layer.output);
    ForEachGroup(loops, batch, [&](const GroupOffsets& at) {
      loops.BackwardData(dy + at.y, weights.weights.data() + at.weights, dx + at.x, scratch);
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
    const auto* pooling = std::get_if<Pooling>(&layer.op);
    const auto* global = std::get_if<GlobalPooling>(&layer.op);
    const Pooling window = pooling != nullptr ? *pooling : AsWindow(*global, layer.input);
    for (int n = 0; n < batch; ++n) {
      PoolBackward(window, layer.input, layer.output, x + n * layer.input.Features(),
                   dy + n * layer.output.Features(), dx + n * layer.input.Features());
    }
  }
}

void AddGradient(const LayerCall& call, const double* x, const double* dy, double factor,
                 NodeWeights& gradient) {
  const auto& [layer, weights, batch, scratch] = call;
  const Shape& out = layer.output;
  if (!gradient.bias.empty()) {
    // One number an output channel; of a fully connected layer, an output.
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
                           scratch);
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
