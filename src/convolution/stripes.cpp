#include "convolution/stripes.h"

#include <string>
#include <utility>

namespace ucudnn {
namespace {

constexpr std::array<char, kMaxSpatial> kAxisLetters = {'d', 'h', 'w'};

// Calls visit(a, b, c) for every choice of one element from each list. The element of the last list
// changes fastest.
template <typename Lists, typename Visit>
void ForEachChoice(const Lists& d, const Lists& h, const Lists& w, const Visit& visit) {
  for (const auto& of_d : d) {
    for (const auto& of_h : h) {
      for (const auto& of_w : w) visit(of_d, of_h, of_w);
    }
  }
}

std::array<int, kMaxSpatial> PartsOf(const SpatialGrid& grid, int cell) {
  const GridCell at = grid.CellOf(cell);
  return {at.d, at.h, at.w};
}

HaloBlock BlockOf(const AxisRun& d, const AxisRun& h, const AxisRun& w) {
  HaloBlock block = {{d.range, h.range, w.range}, {}};
  block.terms.reserve(d.terms.size() * h.terms.size() * w.terms.size());
  ForEachChoice(d.terms, h.terms, w.terms,
                [&](const AxisTerm& of_d, const AxisTerm& of_h, const AxisTerm& of_w) {
                  block.terms.push_back({of_d, of_h, of_w});
                });
  return block;
}

// Changes the order of taps to that of the filter in memory for the mode kConvolution, in which the
// first tap is the filter's last element.
void FlipTaps(int64_t taps, std::vector<AxisSource>& sources) {
  for (AxisSource& source : sources) {
    for (AxisRun& run : source.runs) {
      for (AxisTerm& term : run.terms) term.taps = {taps - term.taps.end, taps - term.taps.begin};
    }
  }
}

// A part of one axis that reads positions of another part, and the ranges that it reads.
struct Destination {
  int part = 0;
  std::vector<Interval> ranges;
};

// Returns the parts along one axis that read positions of `part`, in ascending order, with the
// ranges that each of them reads. `part` itself is one of them if it reads its own positions.
std::vector<Destination> DestinationsOf(const AxisCut& cut, int part, Exchanged exchanged) {
  std::vector<Destination> destinations;
  for (int needing = 0; needing < cut.Parts(); ++needing) {
    Destination to = {needing, RunsOf(cut, needing, part, exchanged)};
    if (!to.ranges.empty()) destinations.push_back(std::move(to));
  }
  return destinations;
}

}  // namespace

SpatialBox Intersection(const SpatialBox& a, const SpatialBox& b) {
  SpatialBox both;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) both[axis] = Intersection(a[axis], b[axis]);
  return both;
}

int64_t Elements(const SpatialBox& box) {
  int64_t elements = 1;
  for (const Interval& interval : box) elements *= interval.Length();
  return elements;
}

int64_t HaloMessage::ElementsPerImage() const {
  int64_t elements = 0;
  for (const HaloBlock& block : blocks) elements += Elements(block.box);
  return elements;
}

Result<AxisExtents> ExtentsOf(const SpatialGrid& grid, std::span<const Spatial> ranks) {
  if (ranks.size() != static_cast<size_t>(grid.GroupSize())) {
    return Status::Error("grid " + grid.Text() + " has groups of " +
                         std::to_string(grid.GroupSize()) + " ranks, but " +
                         std::to_string(ranks.size()) + " gave their extents");
  }
  AxisExtents extents;
  // For each part of each axis, the first rank that has this part. Further ranks with the same part
  // must have the same extent.
  std::array<std::vector<int>, kMaxSpatial> named_by;
  for (int cell = 0; cell < grid.GroupSize(); ++cell) {
    const auto part = PartsOf(grid, cell);
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      const size_t at = part[axis];
      const int64_t extent = ranks[cell][axis];
      if (at == extents[axis].size()) {
        extents[axis].push_back(extent);
        named_by[axis].push_back(cell);
      } else if (extents[axis][at] != extent) {
        return Status::Error(std::string(1, kAxisLetters[axis]) + ": rank " + std::to_string(cell) +
                             " of the group has extent " + std::to_string(extent) + " where rank " +
                             std::to_string(named_by[axis][at]) + ", in the same part, has " +
                             std::to_string(extents[axis][at]));
      }
    }
  }
  return extents;
}

Result<Stripes> Stripes::Make(const ConvolutionProblem& local, const SpatialGrid& grid, int cell,
                              const AxisExtents& extents) {
  if (local.spatial_rank < kMaxSpatial && grid.d > 1) {
    return Status::Error("grid " + grid.Text() +
                         " cuts d, which a convolution of two axes does not have");
  }
  Stripes stripes;
  stripes.local = local;
  stripes.grid = grid;
  stripes.cell = cell;
  stripes.part = PartsOf(grid, cell);
  const std::array<int, kMaxSpatial> parts = grid.Parts();
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const char letter = kAxisLetters[axis];
    if (extents[axis].size() != static_cast<size_t>(parts[axis])) {
      return Status::Error(std::string(1, letter) + ": " + std::to_string(extents[axis].size()) +
                           " extents are not the " + std::to_string(parts[axis]) +
                           " parts of grid " + grid.Text());
    }
    if (extents[axis][stripes.part[axis]] != local.x[axis]) {
      return Status::Error(std::string(1, letter) + ": the rank's own extent " +
                           std::to_string(local.x[axis]) + " is not the " +
                           std::to_string(extents[axis][stripes.part[axis]]) + " of its part");
    }
    if (local.extra_pad[axis] != 0) {
      return Status::Error(std::string(1, letter) + ": the pad before it, " +
                           std::to_string(local.pad[axis]) + ", is not the one behind it, " +
                           std::to_string(local.pad[axis] + local.extra_pad[axis]));
    }
    UCUDNN_ASSIGN_OR_RETURN(stripes.cuts[axis],
                            CutAxis(letter, WindowOf(local, axis), extents[axis]));
  }
  return stripes;
}

std::array<std::vector<AxisSource>, kMaxSpatial> Stripes::Sources() const {
  const Exchanged exchanged = ExchangedBy(local.operation);
  std::array<std::vector<AxisSource>, kMaxSpatial> sources;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    sources[axis] = SourcesOf(cuts[axis], part[axis], exchanged);
    if (local.mode == ConvolutionMode::kConvolution) FlipTaps(local.w[axis], sources[axis]);
  }
  return sources;
}

int Stripes::CellAt(const std::array<int, kMaxSpatial>& at) const {
  return grid.RankOf({0, at[0], at[1], at[2]});
}

std::vector<HaloMessage> Stripes::Received() const {
  const auto sources = Sources();
  std::vector<HaloMessage> messages;
  ForEachChoice(sources[0], sources[1], sources[2],
                [&](const AxisSource& d, const AxisSource& h, const AxisSource& w) {
                  const int peer = CellAt({d.part, h.part, w.part});
                  if (peer == cell) return;
                  HaloMessage message = {peer, {}};
                  ForEachChoice(d.runs, h.runs, w.runs,
                                [&](const AxisRun& of_d, const AxisRun& of_h, const AxisRun& of_w) {
                                  message.blocks.push_back(BlockOf(of_d, of_h, of_w));
                                });
                  messages.push_back(std::move(message));
                });
  return messages;
}

std::vector<HaloSend> Stripes::Sent() const {
  const Exchanged exchanged = ExchangedBy(local.operation);
  std::array<std::vector<Destination>, kMaxSpatial> to;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    to[axis] = DestinationsOf(cuts[axis], part[axis], exchanged);
  }
  std::vector<HaloSend> sends;
  ForEachChoice(
      to[0], to[1], to[2], [&](const Destination& d, const Destination& h, const Destination& w) {
        const int peer = CellAt({d.part, h.part, w.part});
        if (peer == cell) return;
        HaloSend send = {peer, {}};
        ForEachChoice(d.ranges, h.ranges, w.ranges,
                      [&](const Interval& of_d, const Interval& of_h, const Interval& of_w) {
                        send.boxes.push_back({of_d, of_h, of_w});
                      });
        sends.push_back(std::move(send));
      });
  return sends;
}

int Stripes::ExchangedChannels() const {
  return ExchangedBy(local.operation) == Exchanged::kElements ? local.c : local.k;
}

int64_t Stripes::BytesPerImage(int64_t elements_per_image) const {
  return elements_per_image * ExchangedChannels() * static_cast<int64_t>(ElementBytes(local.type));
}

}  // namespace ucudnn
