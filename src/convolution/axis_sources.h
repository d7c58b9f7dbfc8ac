// Determines which positions a part of a cut axis needs from other parts, and what these positions
// contribute to the part's result. Pure functions; thread-compatible. axis_cut.h defines elements,
// windows and parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convolution/axis_cut.h"
#include "convolution/partition.h"
#include "convolution/problem.h"

namespace ucudnn {

// The tensor that ranks exchange: x for y, or dy for dx and dw.
enum class Exchanged { kElements, kWindows };
Exchanged ExchangedBy(Operation operation);

// A rectangle of (window, tap) pairs along one axis: every tap of `taps` of every window of
// `windows` reads an element of `elements` or, if `pad` is not 0, the padding next to `elements`.
// The rectangle is itself a convolution. It has elements.Length() elements, padded by `pad` on both
// sides, and windows.Length() windows; the first tap of its first window reads element -pad.
// Elements and windows are counted from the beginning of the tensor that holds them.
struct AxisTerm {
  Interval windows;
  Interval taps;
  Interval elements;
  int64_t pad = 0;

  bool operator==(const AxisTerm&) const = default;
};

// Returns disjoint rectangles, with pad 0, which together contain all pairs of a window of
// `windows` and a tap with which this window reads an element of `elements`. All positions are
// counted from the same origin. Either no two rectangles share a window, or no two share a tap,
// whichever gives fewer rectangles. If the pairs form a staircase, as between neighbouring parts,
// no other set of rectangles is smaller.
std::vector<AxisTerm> PairRectangles(const SlidingWindow& window, const Interval& windows,
                                     const Interval& elements);

// A run of positions that one part owns in the exchanged tensor, and what the run contributes to
// the part that reads it.
struct AxisRun {
  Interval range;  // counted in the owner's part
  int64_t at = 0;  // the first position of the run, counted in the part that reads it
  // In a term, exchanged positions are counted from the beginning of `range`, positions of the
  // result from the beginning of the reading part.
  std::vector<AxisTerm> terms;
};

// The positions that one part, the reader, reads from part `part`. If `part` is not the reader,
// `runs` are the maximal runs of these positions, each with the pairs that read it. If `part` is
// the reader, there is one run of all its positions; its one term is the caller's own convolution.
struct AxisSource {
  int part = 0;
  std::vector<AxisRun> runs;
};

// Returns the sources of `part`, in ascending order of parts. `part` itself is one of them. A part
// from which nothing is read is not a source. REQUIRES: 0 <= part < cut.Parts().
std::vector<AxisSource> SourcesOf(const AxisCut& cut, int part, Exchanged exchanged);

// Returns the positions of `owner` that `part` reads: the `range` of each run that SourcesOf() has
// for these parts. `owner` may be `part` itself.
std::vector<Interval> RunsOf(const AxisCut& cut, int part, int owner, Exchanged exchanged);

// Returns the positions of `part`'s result (windows or elements) that read a position of another
// part. They are maximal runs in ascending order. `sources` are the sources of `part`.
std::vector<Interval> TouchedRuns(const AxisCut& cut, int part, Exchanged exchanged,
                                  std::span<const AxisSource> sources);

}  // namespace ucudnn
