#include "shim/host/engines/patches.h"

#include <algorithm>

namespace hostgpu {
namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; }

Tap MakeTap(int64_t filter_position, int64_t base, int64_t step, int64_t source_extent,
            int64_t positions) {
  const int64_t first = std::min(CeilDivide(-base, step), positions);
  const int64_t last = std::min(CeilDivide(source_extent - base, step), positions);
  return {filter_position, base, first, std::max(first, last)};
}

// Returns the tap of the cross-correlation that uses the filter element at `position`; a
// convolution uses the elements in reverse order.
int64_t TapOf(const ConvolutionShape& shape, int axis, int64_t position) {
  return shape.flip ? shape.w[axis] - 1 - position : position;
}

Axis ForwardAxis(const ConvolutionShape& shape, int axis) {
  Axis result{shape.y[axis], 0, 1, shape.stride[axis], {}};
  for (int64_t position = 0; position < shape.w[axis]; ++position) {
    const int64_t base = TapOf(shape, axis, position) * shape.dilation[axis] - shape.pad[axis];
    result.taps.push_back(
        MakeTap(position, base, shape.stride[axis], shape.x[axis], result.positions));
  }
  return result;
}

Axis BackwardDataAxis(const ConvolutionShape& shape, int axis, int64_t phase) {
  const int64_t stride = shape.stride[axis];
  Axis result{CeilDivide(shape.x[axis] - phase, stride), phase, stride, 1, {}};
  for (int64_t position = 0; position < shape.w[axis]; ++position) {
    const int64_t distance =
        phase + shape.pad[axis] - TapOf(shape, axis, position) * shape.dilation[axis];
    if (distance % stride != 0) continue;
    result.taps.push_back(MakeTap(position, distance / stride, 1, shape.y[axis], result.positions));
  }
  return result;
}

int64_t Clamp(int64_t value, int64_t low, int64_t high) {
  return std::min(std::max(value, low), high);
}

bool Inside(const Tap& tap, int64_t position) {
  return tap.first <= position && position < tap.last;
}

template <class T>
const T* RowStart(const PatchGeometry& geometry, const PatchRow& row, const PixelRun& run,
                  const PatchSource<T>& source) {
  return source.data + run.n * source.strides[0] + row.channel * source.strides[1] +
         (row.d->base + run.d * geometry.axes[0].source_step) * source.strides[2] +
         (row.h->base + run.h * geometry.axes[1].source_step) * source.strides[3] +
         row.w->base * source.strides[4];
}

}  // namespace

int64_t PatchGeometry::PixelsPerImage() const {
  return axes[0].positions * axes[1].positions * axes[2].positions;
}

int64_t PatchGeometry::Taps() const {
  return static_cast<int64_t>(axes[0].taps.size() * axes[1].taps.size() * axes[2].taps.size());
}

std::vector<PixelRun> PatchGeometry::Runs(int64_t first, int64_t last) const {
  std::vector<PixelRun> runs;
  for (int64_t pixel = first; pixel < last;) {
    int64_t rest = pixel;
    PixelRun run;
    run.w = rest % axes[2].positions;
    rest /= axes[2].positions;
    run.h = rest % axes[1].positions;
    rest /= axes[1].positions;
    run.d = rest % axes[0].positions;
    run.n = rest / axes[0].positions;
    run.count = std::min(axes[2].positions - run.w, last - pixel);
    run.at = pixel - first;
    runs.push_back(run);
    pixel += run.count;
  }
  return runs;
}

PatchGeometry ForwardGeometry(const ConvolutionShape& shape) {
  return {shape.n, {ForwardAxis(shape, 0), ForwardAxis(shape, 1), ForwardAxis(shape, 2)}};
}

std::vector<PatchGeometry> BackwardDataPhases(const ConvolutionShape& shape) {
  std::vector<PatchGeometry> phases;
  for (int64_t d = 0; d < std::min(shape.stride[0], shape.x[0]); ++d) {
    for (int64_t h = 0; h < std::min(shape.stride[1], shape.x[1]); ++h) {
      for (int64_t w = 0; w < std::min(shape.stride[2], shape.x[2]); ++w) {
        phases.push_back({shape.n,
                          {BackwardDataAxis(shape, 0, d), BackwardDataAxis(shape, 1, h),
                           BackwardDataAxis(shape, 2, w)}});
      }
    }
  }
  return phases;
}

PatchGeometry IdentityGeometry(const ConvolutionShape& shape) {
  PatchGeometry result{shape.n, {}};
  for (int axis = 0; axis < 3; ++axis) {
    result.axes[axis] = {shape.y[axis], 0, 1, 1, {MakeTap(0, 0, 1, shape.y[axis], shape.y[axis])}};
  }
  return result;
}

std::vector<PatchRow> PatchRows(const PatchGeometry& geometry, int64_t channels, bool tap_major) {
  std::vector<PatchRow> rows;
  rows.reserve(geometry.Taps() * channels);
  const int64_t outer = tap_major ? 1 : channels;
  const int64_t inner = tap_major ? channels : 1;
  for (int64_t o = 0; o < outer; ++o) {
    for (const Tap& d : geometry.axes[0].taps) {
      for (const Tap& h : geometry.axes[1].taps) {
        for (const Tap& w : geometry.axes[2].taps) {
          for (int64_t i = 0; i < inner; ++i) rows.push_back({o + i, &d, &h, &w});
        }
      }
    }
  }
  return rows;
}

template <class T>
void GatherRows(const PatchGeometry& geometry, const std::vector<PatchRow>& rows, int64_t first,
                int64_t last, const std::vector<PixelRun>& runs, const PatchSource<T>& source,
                Accumulator<T>* matrix, int64_t ld) {
  using Acc = Accumulator<T>;
  const int64_t step = geometry.axes[2].source_step * source.strides[4];
  for (int64_t r = first; r < last; ++r) {
    const PatchRow& row = rows[r];
    Acc* to_row = matrix + (r - first) * ld;
    for (const PixelRun& run : runs) {
      Acc* to = to_row + run.at;
      if (!Inside(*row.d, run.d) || !Inside(*row.h, run.h)) {
        std::fill(to, to + run.count, Acc{0});
        continue;
      }
      const int64_t begin = Clamp(row.w->first, run.w, run.w + run.count);
      const int64_t end = Clamp(row.w->last, begin, run.w + run.count);
      std::fill(to, to + (begin - run.w), Acc{0});
      LoadRun(RowStart(geometry, row, run, source) + begin * step, step, to + (begin - run.w),
              end - begin);
      std::fill(to + (end - run.w), to + run.count, Acc{0});
    }
  }
}

template <class T>
void GatherColumns(const PatchGeometry& geometry, const std::vector<PatchRow>& rows, int64_t first,
                   int64_t last, const std::vector<PixelRun>& runs, const PatchSource<T>& source,
                   Accumulator<T>* matrix, int64_t ld) {
  using Acc = Accumulator<T>;
  const int64_t step = geometry.axes[2].source_step * source.strides[4];
  for (int64_t r = first; r < last;) {
    const PatchRow& row = rows[r];
    int64_t end = r + 1;  // [r, end) are rows with the same tap and consecutive channels
    while (end < last && rows[end].channel == rows[end - 1].channel + 1 && rows[end].d == row.d &&
           rows[end].h == row.h && rows[end].w == row.w) {
      ++end;
    }
    for (const PixelRun& run : runs) {
      const bool inside = Inside(*row.d, run.d) && Inside(*row.h, run.h);
      for (int64_t i = 0; i < run.count; ++i) {
        Acc* to = matrix + (run.at + i) * ld + (r - first);
        if (inside && Inside(*row.w, run.w + i)) {
          LoadRun(RowStart(geometry, row, run, source) + (run.w + i) * step, source.strides[1], to,
                  end - r);
        } else {
          std::fill(to, to + (end - r), Acc{0});
        }
      }
    }
    r = end;
  }
}

#define HOSTGPU_INSTANTIATE(T)                                                                 \
  template void GatherRows<T>(const PatchGeometry&, const std::vector<PatchRow>&, int64_t,     \
                              int64_t, const std::vector<PixelRun>&, const PatchSource<T>&,    \
                              Accumulator<T>*, int64_t);                                       \
  template void GatherColumns<T>(const PatchGeometry&, const std::vector<PatchRow>&, int64_t,  \
                                 int64_t, const std::vector<PixelRun>&, const PatchSource<T>&, \
                                 Accumulator<T>*, int64_t);
HOSTGPU_INSTANTIATE(float)
HOSTGPU_INSTANTIATE(Half)
HOSTGPU_INSTANTIATE(Bfloat16)
HOSTGPU_INSTANTIATE(double)
HOSTGPU_INSTANTIATE(int8_t)
#undef HOSTGPU_INSTANTIATE

}  // namespace hostgpu
