#include "convolution/recomputation.h"

#include <algorithm>

namespace ucudnn {
namespace {

// An interval of the result along one axis, and the interval of the exchanged tensor that is
// assembled to compute it.
struct AxisRegion {
  Interval result;
  Interval assembled;  // in positions of this rank's part of the exchanged tensor
  // The part of `assembled` that may differ from zero, in the same positions.
  Interval filled;
  int64_t pad = 0;
};

// One axis of this rank's part.
struct AxisRows {
  const AxisCut* cut = nullptr;
  int part = 0;
  Exchanged exchanged = Exchanged::kElements;
  std::vector<AxisSource> sources;
  std::vector<Interval> touched;  // intervals of the result to which halos of this axis contribute
  std::vector<Interval> untouched;  // the other intervals of the result

  bool HasHalo() const { return !touched.empty(); }
  Interval Elements() const { return {0, cut->elements[part].Length()}; }
  Interval Windows() const { return {0, cut->windows[part].Length()}; }
  Interval Result() const { return exchanged == Exchanged::kElements ? Windows() : Elements(); }
};

AxisRows RowsOf(const Stripes& stripes, size_t axis) {
  AxisRows rows;
  rows.cut = &stripes.cuts[axis];
  rows.part = stripes.part[axis];
  rows.exchanged = ExchangedBy(stripes.local.operation);
  rows.sources = SourcesOf(*rows.cut, rows.part, rows.exchanged);
  rows.touched = TouchedRuns(*rows.cut, rows.part, rows.exchanged, rows.sources);
  int64_t end = 0;
  for (const Interval& run : rows.touched) {
    if (end < run.begin) rows.untouched.push_back({end, run.begin});
    end = run.end;
  }
  if (end < rows.Result().end) rows.untouched.push_back({end, rows.Result().end});
  return rows;
}

// Returns the region that computes the windows `result` from all elements under them, with zeros
// where the padding is.
AxisRegion WindowsFrom(const SlidingWindow& window, const Interval& result) {
  const Interval under = {result.begin * window.stride - window.pad,
                          (result.end - 1) * window.stride - window.pad + window.Extent()};
  return {result, under, under, 0};
}

// Returns the region that computes the elements `result` from the windows over them. A
// backward_data call with m elements and a pad of p' on both sides has floor((m + 2 p' - extent) /
// stride) + 1 windows. Window 0 of that call is window `first` of the part if p' = pad +
// result.begin - first * stride. `first` is so small that the call also has the last window over
// `result`. p' is not negative, because the first element of a run that a halo touches lies under a
// window or behind one.
AxisRegion ElementsFrom(const SlidingWindow& window, const Interval& result) {
  const int64_t behind = window.pad + result.begin;
  const Interval over = {CeilDivide(behind - window.Extent() + 1, window.stride),
                         FloorDivide(result.end - 1 + window.pad, window.stride) + 1};
  const int64_t both_ends =
      FloorDivide(result.Length() + 2 * behind - window.Extent(), window.stride) + 1;
  const int64_t first = std::min(over.begin, both_ends - over.end);
  return {result, {first, both_ends - first}, over, behind - first * window.stride};
}

AxisRegion RegionOf(const AxisRows& rows, const Interval& result) {
  const SlidingWindow& window = rows.cut->window;
  const bool forward = rows.exchanged == Exchanged::kElements;
  if (!rows.HasHalo()) {
    const Interval own = forward ? rows.Elements() : rows.Windows();
    return {rows.Result(), own, own, window.pad};
  }
  return forward ? WindowsFrom(window, result) : ElementsFrom(window, result);
}

using ChosenSources = std::array<const AxisSource*, kMaxSpatial>;

// Returns the index in `received` of the message from the cell that owns the sources. Returns kOwn
// if this rank's cell owns them.
int MessageOf(const Stripes& stripes, std::span<const HaloMessage> received,
              const ChosenSources& sources) {
  const int peer = stripes.CellAt({sources[0]->part, sources[1]->part, sources[2]->part});
  if (peer == stripes.cell) return AssembledCopy::kOwn;
  const auto found = std::lower_bound(
      received.begin(), received.end(), peer,
      [](const HaloMessage& message, int number) { return message.peer < number; });
  return static_cast<int>(found - received.begin());
}

using AxisRegions = std::array<AxisRegion, kMaxSpatial>;
using SpatialRows = std::array<AxisRows, kMaxSpatial>;

// `sources` holds one source for each axis. Appends to `copies` the copies from these sources into
// an assembled tensor. Blocks are numbered as in Received(), where the runs of the last axis vary
// fastest.
void CopySources(const AxisRegions& regions, int message, const ChosenSources& sources,
                 std::vector<AssembledCopy>& copies) {
  int block = 0;
  for (const AxisRun& d : sources[0]->runs) {
    for (const AxisRun& h : sources[1]->runs) {
      for (const AxisRun& w : sources[2]->runs) {
        AssembledCopy copy;
        copy.message = message;
        copy.block = block++;
        const std::array<const AxisRun*, kMaxSpatial> runs = {&d, &h, &w};
        for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
          const int64_t at = runs[axis]->at;
          const Interval both =
              Intersection(Interval{at, at + runs[axis]->range.Length()}, regions[axis].filled);
          copy.from[axis] = {both.begin - at, both.end - at};
          copy.to[axis] = both.begin - regions[axis].assembled.begin;
        }
        if (Elements(copy.from) > 0) copies.push_back(copy);
      }
    }
  }
}

RecomputedBox BoxOf(const Stripes& stripes, std::span<const HaloMessage> received,
                    const SpatialRows& rows, const SpatialBox& result) {
  AxisRegions regions;
  RecomputedBox box;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    regions[axis] = RegionOf(rows[axis], result[axis]);
    box.result[axis] = regions[axis].result;
    box.assembled[axis] = regions[axis].assembled.Length();
    box.pad[axis] = regions[axis].pad;
  }
  for (const AxisSource& d : rows[0].sources) {
    for (const AxisSource& h : rows[1].sources) {
      for (const AxisSource& w : rows[2].sources) {
        const ChosenSources sources = {&d, &h, &w};
        CopySources(regions, MessageOf(stripes, received, sources), sources, box.copies);
      }
    }
  }
  return box;
}

}  // namespace

std::vector<RecomputedBox> RecomputedBoxes(const Stripes& stripes,
                                           std::span<const HaloMessage> received) {
  std::vector<RecomputedBox> boxes;
  if (stripes.local.operation == Operation::kBackwardFilter || received.empty()) return boxes;
  const SpatialRows rows = {RowsOf(stripes, 0), RowsOf(stripes, 1), RowsOf(stripes, 2)};
  // The boxes of an axis cover the results that the axis's halos touch. Along earlier axes they
  // cover only untouched results, along later axes the whole extent. So all boxes are disjoint.
  std::array<std::vector<Interval>, kMaxSpatial> choices;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) choices[axis] = {rows[axis].Result()};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    choices[axis] = rows[axis].touched;
    for (const Interval& d : choices[0]) {
      for (const Interval& h : choices[1]) {
        for (const Interval& w : choices[2])
          boxes.push_back(BoxOf(stripes, received, rows, {d, h, w}));
      }
    }
    choices[axis] = rows[axis].untouched;
  }
  return boxes;
}

}  // namespace ucudnn
