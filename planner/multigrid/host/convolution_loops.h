// Loops of convolutions on the host: the forward pass, and the gradients of the input and of the
// weights. Plain values; thread-compatible. REQUIRES: only one call at a time uses a caller's
// scratch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "planner/graph/graph.h"
#include "planner/graph/shapes.h"
#include "planner/multigrid/host/correlation.h"

namespace ucudnn::multigrid {

// Runs a convolution on one image and one group at a time. The input is padded in scratch, so that
// the innermost loops need no bounds. If windows move by one pixel along h and w ("dense"), each
// row of outputs gets the length of a row of the padded input. Then one loop sums all rows of one
// depth, and the additional numbers between two rows are dropped.
struct ConvolutionLoops {
  const planner::Convolution& op;
  Spatial in, out;
  Spatial padded;  // extents of the padded input, which the windows of all outputs cover
  int channels;    // channels of one group
  int filters;     // filters of one group

  ConvolutionLoops(const planner::Convolution& convolution, const Spatial& input,
                   const Spatial& output, int group_channels, int group_filters)
      : op(convolution), in(input), out(output), channels(group_channels), filters(group_filters) {
    for (int axis = 0; axis < 3; ++axis) {
      padded[axis] = std::max(
          (out[axis] - 1) * op.stride[axis] + (op.window[axis] - 1) * op.dilation[axis] + 1,
          in[axis] + op.pad[axis]);
    }
  }
  ConvolutionLoops(const planner::Convolution& convolution, const planner::Shape& input,
                   const planner::Shape& output)
      : ConvolutionLoops(convolution, input.extents, output.extents, input.c / convolution.groups,
                         output.c / convolution.groups) {}

  int64_t PaddedPixels() const { return int64_t{padded[0]} * padded[1] * padded[2]; }
  int64_t Taps() const { return int64_t{op.window[0]} * op.window[1] * op.window[2]; }
  int64_t InPixels() const { return int64_t{in[0]} * in[1] * in[2]; }
  int64_t OutPixels() const { return int64_t{out[0]} * out[1] * out[2]; }
  bool IsDense() const { return op.stride[1] == 1 && op.stride[2] == 1; }
  // Returns how many numbers the outputs of one depth occupy if their rows are as long as the rows
  // of the padded input.
  int64_t LongRows() const { return int64_t{out[1]} * padded[2]; }
  // Returns the number of doubles that Forward needs: the padded input, and the outputs of one
  // depth in long rows.
  int64_t Scratch() const { return channels * PaddedPixels() + LongRows(); }

  // Transposed() returns the convolution that computes the gradient of the input from the gradient
  // of the output. It exists if all strides are 1 and no padding is larger than the window's extent
  // - 1.
  bool HasTransposed() const {
    for (int axis = 0; axis < 3; ++axis) {
      if (op.stride[axis] != 1 || op.pad[axis] > (op.window[axis] - 1) * op.dilation[axis]) {
        return false;
      }
    }
    return true;
  }
  planner::Convolution Transposed() const {
    planner::Convolution transposed = op;
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

  // Calls visit(tap, padded offset) for each row of taps of the outputs at depth `d`.
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
  // Calls visit(tap, padded offset, output offset) for each tap and each row of outputs. Outputs of
  // a row are stride_w apart in the padded input.
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
    const planner::Convolution transposed = Transposed();
    const ConvolutionLoops loops(transposed, out, in, filters, channels);
    // The layout of `reversed` is [C, K, taps in reverse order].
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
    const planner::Convolution transposed = Transposed();
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

  // Returns the number of doubles that BackwardFilter needs: the padded input, the gradient of one
  // output channel in long rows, and the sums of one row of taps.
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

// The offsets of one image and group in the four tensors of a convolution. ForEachGroup calls
// visit(offsets) for each image and group.
struct GroupOffsets {
  int64_t x, y, weights, bias;
};
template <typename Visit>
void ForEachGroup(const ConvolutionLoops& loops, int batch, Visit&& visit) {
  for (int n = 0; n < batch; ++n) {
    for (int g = 0; g < loops.op.groups; ++g) {
      const int64_t number = int64_t{n} * loops.op.groups + g;
      visit(GroupOffsets{
          number * loops.channels * loops.InPixels(), number * loops.filters * loops.OutPixels(),
          int64_t{g} * loops.filters * loops.channels * loops.Taps(), int64_t{g} * loops.filters});
    }
  }
}

}  // namespace ucudnn::multigrid
