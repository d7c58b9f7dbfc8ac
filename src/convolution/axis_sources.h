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

// The tensor that ranks exchange: x (kElements) in forward, otherwise dy (kWindows).
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

// Returns disjoint rectangles, with pad 0, of all pairs of a window of `windows` and a tap with
// which this window reads an element of `elements`. All positions are counted from the same origin.
// Either no two rectangles share a window, or no two share a tap, whichever gives fewer rectangles.
// If the pairs form a staircase, as between neighbouring parts, no other set of rectangles is
// smaller.
std::vector<AxisTerm> PairRectangles(const SlidingWindow& window, const Interval& windows,
                                     const Interval& elements);

// Consecutive positions of the exchanged tensor that one part owns and another part reads, and what
// they contribute to the result of the part that reads.
struct AxisRun {
  Interval range;  // counted in the owner's part
  int64_t at = 0;  // the first position of the run, counted in the part that reads it
  // Positions of the exchanged tensor are counted from the beginning of `range`. Positions of the
  // result are counted from the beginning of the part that reads.
  std::vector<AxisTerm> terms;
};

// The positions that one part, the reader, reads from part `part`. If `part` is another part,
// `runs` are the maximal runs of these positions. If `part` is the reader itself, there is one run
// of all its positions, whose only term is the caller's own convolution.
struct AxisSource {
  int part = 0;
  std::vector<AxisRun> runs;
};

// Returns the parts from which `part` reads at least one position, in ascending order. `part`
// itself is one of them only if it reads a position of its own. REQUIRES: 0 <= part < cut.Parts().
std::vector<AxisSource> SourcesOf(const AxisCut& cut, int part, Exchanged exchanged);

// Returns the positions of `owner` that `part` reads: the `range` of each run that SourcesOf() has
// for these parts. `owner` may be `part` itself.
std::vector<Interval> RunsOf(const AxisCut& cut, int part, int owner, Exchanged exchanged);

// Returns the positions of `part`'s result (windows or elements) to which a position of another
// part contributes, as maximal runs in ascending order. `sources` is the result of SourcesOf() for
// `part`.
std::vector<Interval> TouchedRuns(const AxisCut& cut, int part, Exchanged exchanged,
                                  std::span<const AxisSource> sources);

}  // namespace ucudnn
