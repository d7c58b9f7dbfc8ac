// The matrix with which an implicit-GEMM convolution multiplies, gathered piece by piece: one row
// per (channel, filter tap), one column per pixel of the result, zero where a tap falls into the
// padding. Forward and backward_filter gather x. Backward_data gathers y: the pixels of x that
// agree modulo the stride (a phase) see the same taps at distance one, so nothing is scattered, and
// no product involves a zero inserted for the stride.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shim/host/engines/element.h"
#include "shim/host/engines/engine.h"

namespace hostgpu {

// One filter tap along one axis: position j of the axis reads source coordinate base + j * step,
// which lies inside the source for first <= j < last.
struct Tap {
  int64_t filter_position;
  int64_t base, first, last;
};

struct Axis {
  int64_t positions;
  int64_t result_first, result_step;  // position j is coordinate result_first + j * result_step
  int64_t source_step;
  std::vector<Tap> taps;
};

// A run of pixels along w: count pixels from position (n, d, h, w), the first being pixel `at` of
// the tile.
struct PixelRun {
  int64_t n, d, h, w, count, at;
};

struct PatchGeometry {
  int64_t images;
  std::array<Axis, 3> axes;  // d, h, w

  int64_t PixelsPerImage() const;
  int64_t Taps() const;
  // Pixels [first, last), counted over n, d, h, w.
  std::vector<PixelRun> Runs(int64_t first, int64_t last) const;
};

// Returns the geometry of forward and backward_filter: pixels of y, gathered from x.
PatchGeometry ForwardGeometry(const ConvolutionShape& shape);
// Returns the geometries of backward_data, which together cover x: pixels of x, gathered from y.
std::vector<PatchGeometry> BackwardDataPhases(const ConvolutionShape& shape);
// Returns the geometry of y itself: it gathers y as a matrix of channels by pixels.
PatchGeometry IdentityGeometry(const ConvolutionShape& shape);

// A row of the matrix, in the order in which the caller multiplies: tap-major or channel-major.
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
  std::array<int64_t, 5> strides;  // n, c, d, h, w
};

// matrix[(row - first) * ld + pixel] for rows [first, last).
template <class T>
void GatherRows(const PatchGeometry& geometry, const std::vector<PatchRow>& rows, int64_t first,
                int64_t last, const std::vector<PixelRun>& runs, const PatchSource<T>& source,
                Accumulator<T>* matrix, int64_t ld);

// Gathers the transpose, matrix[pixel * ld + row - first]: fast if channels are adjacent and rows
// are tap-major.
template <class T>
void GatherColumns(const PatchGeometry& geometry, const std::vector<PatchRow>& rows, int64_t first,
                   int64_t last, const std::vector<PixelRun>& runs, const PatchSource<T>& source,
                   Accumulator<T>* matrix, int64_t ld);

}  // namespace hostgpu
