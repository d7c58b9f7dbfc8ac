// One convolution cut over the cells of one group of ranks: what each rank owns, what it receives
// from which peer, what it sends, and what the received rows contribute to its result. Pure
// geometry: plain values and pure functions, thread-compatible, the same on every rank that has the
// same arguments. Axes are d, h, w; the d of a 2-D convolution is 1 and not cut.
//
// In forward, ranks exchange x and compute y. In backward_data and backward_filter they exchange
// dy, and compute dx and their part of dw. A rank's own rows contribute through the caller's own
// local call. Each message contributes through further convolutions between slices of the message
// and of the other tensors; their results are added to the result of the local call. So no rows of
// zeros are sent, and nothing is unpacked. recomputation.h describes the alternative for calls
// whose sum must not be made in two steps.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "convolution/axis_cut.h"
#include "convolution/axis_sources.h"
#include "convolution/problem.h"

namespace ucudnn {

using SpatialBox = std::array<Interval, kMaxSpatial>;  // d, h, w
// One AxisTerm for each of d, h and w; the term is their product.
using HaloTerm = std::array<AxisTerm, kMaxSpatial>;
using AxisExtents = std::array<std::vector<int64_t>, kMaxSpatial>;  // by axis, for all parts

int64_t Elements(const SpatialBox& box);  // per image and channel; 0 if any interval is empty
SpatialBox Intersection(const SpatialBox& a, const SpatialBox& b);

// A box of the exchanged tensor that lies in a message as a separate tensor, and the terms that it
// contributes. Terms are disjoint. A term has positions in three tensors:
//
//                    windows     taps   elements
//   forward          of y        of w   of the box
//   backward_data    of the box  of w   of dx
//   backward_filter  of the box  of dw  of x
//
// Positions of the box are counted from its beginning, windows and elements of other tensors from
// the beginning of this rank's part. Taps are counted in the order of the filter in memory. So the
// filter of a term is a slice of that memory, which the term uses in the caller's mode. Along an
// axis on which the peer and this rank hold the same part, a term has the caller's pad. Along other
// axes its pad is 0.
struct HaloBlock {
  SpatialBox box;  // of the peer's own tensor
  std::vector<HaloTerm> terms;

  bool operator==(const HaloBlock&) const = default;
};

// The message that one peer sends to this rank, block after block. It has several blocks only if
// the windows skip rows, which they can do only with both a dilation and a stride.
struct HaloMessage {
  int peer = 0;  // the sender's number in the group
  std::vector<HaloBlock> blocks;

  bool operator==(const HaloMessage&) const = default;
  int64_t ElementsPerImage() const;  // per image and channel
};

// The message that this rank sends to one peer: boxes of its own tensor, in the order of the peer's
// blocks.
struct HaloSend {
  int peer = 0;
  std::vector<SpatialBox> boxes;

  bool operator==(const HaloSend&) const = default;
};

// Returns the extents of all parts along each axis. `ranks` are the extents that each rank of one
// group owns, by number in the group. An error names two ranks that hold the same part of an axis
// but have different extents.
Result<AxisExtents> ExtentsOf(const SpatialGrid& grid, std::span<const Spatial> ranks);

struct Stripes {
  ConvolutionProblem local;  // this rank's call as the program makes it
  SpatialGrid grid;
  int cell = 0;  // this rank's number in its group
  std::array<int, kMaxSpatial> part = {0, 0, 0};
  std::array<AxisCut, kMaxSpatial> cuts;

  // Fails if the caller's local calls do not compute the whole convolution (CutAxis), if `extents`
  // do not match the grid or `local`, if a pad differs at the two ends of an axis, or if a 2-D
  // convolution is to be cut along d. If the ranks' problems differ in extents alone, and `extents`
  // is the result of ExtentsOf(), Make fails on all ranks or on none. REQUIRES: 0 <= cell <
  // grid.GroupSize().
  static Result<Stripes> Make(const ConvolutionProblem& local, const SpatialGrid& grid, int cell,
                              const AxisExtents& extents);

  // Messages are in ascending order of peers, at most one for each peer. The boxes that this rank's
  // Received() lists from a peer are the boxes that the peer's Sent() lists for this rank, in the
  // same order. No halo row is in two messages, and the receiver reads all halo rows that it gets.
  std::vector<HaloMessage> Received() const;
  std::vector<HaloSend> Sent() const;

  // Returns the number of channels of the exchanged tensor, which is x or dy.
  int ExchangedChannels() const;
  // Returns the bytes of one image of a message that has `elements_per_image` elements per image
  // and channel.
  int64_t BytesPerImage(int64_t elements_per_image) const;

  // Returns SourcesOf() of each axis, with taps counted in the order of the filter in memory.
  std::array<std::vector<AxisSource>, kMaxSpatial> Sources() const;
  // Returns the number of the rank that holds part at[axis] of each axis.
  int CellAt(const std::array<int, kMaxSpatial>& at) const;
};

}  // namespace ucudnn
