// The positions of other parts that a part of a cut axis needs, and what they contribute to its
// result. Pure functions; thread-compatible. axis_cut.h explains the words and how positions are
// counted.
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
// `windows` reads an element of `elements` or, if `pad` is not 0, padding beside it. It is a
// convolution of its own, of elements.Length() elements padded by `pad` on both sides and
// windows.Length() windows, whose first tap of the first window reads element -pad. Elements and
// windows are counted from the beginning of the tensor that holds them.
struct AxisTerm {
  Interval windows;
  Interval taps;
  Interval elements;
  int64_t pad = 0;

  bool operator==(const AxisTerm&) const = default;
};

// Returns disjoint rectangles, with pad 0, that together are all pairs of a window of `windows` and
// a tap of it that reads an element of `elements`. All positions are counted from one place. The
// rectangles have either the windows or the taps in common, whichever gives fewer rectangles. If
// the pairs form a staircase, as between neighbours, no other choice gives fewer.
std::vector<AxisTerm> PairRectangles(const SlidingWindow& window, const Interval& windows,
                                     const Interval& elements);

// Positions of the exchanged tensor that one part owns, and what they contribute to another.
struct AxisRun {
  Interval range;  // counted in the owner's part
  int64_t at = 0;  // the first position of the run, counted in the part that needs it
  // Exchanged positions are counted in `range`, positions of the result in the part that needs
  // them.
  std::vector<AxisTerm> terms;
};

// The positions that a part reads and that `part` owns. If that is another part, these are the
// maximal runs of positions, each with the pairs that read it. If it is the same part, there is one
// run of all positions with one term, the caller's own convolution: own rows are never sent in
// pieces.
struct AxisSource {
  int part = 0;
  std::vector<AxisRun> runs;
};

// Returns the sources of `part`, itself included, in ascending order of parts; parts of which
// nothing is read are left out. REQUIRES: 0 <= part < cut.Parts().
std::vector<AxisSource> SourcesOf(const AxisCut& cut, int part, Exchanged exchanged);

// Returns the ranges of the runs that `part` reads of the positions of `owner`, which may be `part`
// itself, as in SourcesOf.
std::vector<Interval> RunsOf(const AxisCut& cut, int part, int owner, Exchanged exchanged);

// Returns the positions of `part`'s result, windows or elements, to which another part contributes
// because one of their pairs reads its positions: maximal runs in ascending order. `sources` are
// the sources of `part`.
std::vector<Interval> TouchedRuns(const AxisCut& cut, int part, Exchanged exchanged,
                                  std::span<const AxisSource> sources);

}  // namespace ucudnn
