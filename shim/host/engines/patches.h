// The matrix with which an implicit-GEMM convolution multiplies. It has a row for each pair of
// channel and filter tap, and a column for each pixel of the result (in backward_filter, of y). An
// element is zero if its tap falls into the padding. The matrix is gathered piece by piece.
//
// Forward and backward_filter gather x. Backward_data gathers y, one phase at a time: a phase is
// the set of pixels of x with equal coordinates modulo the stride. All pixels of a phase use the
// same taps, and neighbouring pixels read neighbouring pixels of y. So the products contain no
// zeros from the stride, and results need not be scattered.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shim/host/engines/element.h"
#include "shim/host/engines/engine.h"

namespace hostgpu {

// One filter tap along one axis. Position j of the axis reads the source at base + j * step, where
// step is Axis::source_step. That coordinate is inside the source for first <= j < last.
struct Tap {
  int64_t filter_position;
  int64_t base, first, last;
};

struct Axis {
  int64_t positions;
  // Position j is coordinate result_first + j * result_step of the result.
  int64_t result_first, result_step;
  int64_t source_step;
  std::vector<Tap> taps;
};

// A run of `count` pixels along w, beginning at position (n, d, h, w). If columns of the matrix are
// gathered for several runs, the columns of this run begin at column `at`.
struct PixelRun {
  int64_t n, d, h, w, count, at;
};

struct PatchGeometry {
  int64_t images;
  std::array<Axis, 3> axes;  // in the order d, h, w

  int64_t PixelsPerImage() const;
  int64_t Taps() const;
  // Returns the runs of the pixels from `first` up to `last` - 1, counted over n, d, h, w.
  std::vector<PixelRun> Runs(int64_t first, int64_t last) const;
};

// Returns the geometry of forward and backward_filter: for each pixel of y, the matrix gathers from
// x.
PatchGeometry ForwardGeometry(const ConvolutionShape& shape);
// Returns the geometries of the phases of backward_data. Each pixel of x is in one phase; for it,
// the matrix gathers from y.
std::vector<PatchGeometry> BackwardDataPhases(const ConvolutionShape& shape);
// Returns the geometry with which y itself is gathered as a matrix of channels by pixels.
PatchGeometry IdentityGeometry(const ConvolutionShape& shape);

// A row of the matrix. PatchRows returns the rows in the order of their taps if `tap_major`, else
// in the order of their channels.
struct PatchRow {
  int64_t channel;
  const Tap* d;
  const Tap* h;
  const Tap* w;
};
std::vector<PatchRow> PatchRows(const PatchGeometry& geometry, int64_t channels, bool tap_major);

template <class T>
struct PatchSource {
  const T* data;
  std::array<int64_t, 5> strides;  // in the order n, c, d, h, w
};

// Sets matrix[(row - first) * ld + pixel] for the rows from `first` up to `last` - 1.
template <class T>
void GatherRows(const PatchGeometry& geometry, const std::vector<PatchRow>& rows, int64_t first,
                int64_t last, const std::vector<PixelRun>& runs, const PatchSource<T>& source,
                Accumulator<T>* matrix, int64_t ld);

// Gathers the transposed matrix: sets matrix[pixel * ld + row - first]. This is fast if channels
// are adjacent in memory and rows are tap-major.
template <class T>
void GatherColumns(const PatchGeometry& geometry, const std::vector<PatchRow>& rows, int64_t first,
                   int64_t last, const std::vector<PixelRun>& runs, const PatchSource<T>& source,
                   Accumulator<T>* matrix, int64_t ld);

}  // namespace hostgpu
