// What a part of a cut axis needs of the others, and what that contributes to its result. Pure
// functions; thread-compatible. Words and positions as in axis_cut.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convolution/axis_cut.h"
#include "convolution/partition.h"
#include "convolution/problem.h"

namespace ucudnn {

// Which tensor ranks exchange: x for y, or dy for dx and dw.
enum class Exchanged { kElements, kWindows };
Exchanged ExchangedBy(Operation operation);

// A rectangle of (window, tap) pairs along one axis: every tap of `taps` of every window of
// `windows` reads an element of `elements`, or, where `pad` is not 0, padding beside it. It is a
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

// Disjoint rectangles, pad 0, that are all pairs of a window of `windows` and a tap that reads an
// element of `elements`, everything counted from one place. Rectangles of the same windows, or of
// the same taps, whichever are fewer: where the pairs are a staircase, as they are between
// neighbours, no other rectangles are fewer.
std::vector<AxisTerm> PairRectangles(const SlidingWindow& window, const Interval& windows,
                                     const Interval& elements);

// Positions of the exchanged tensor that one part owns, and what they contribute to another.
struct AxisRun {
  Interval range;  // counted in the owner's part
  int64_t at = 0;  // the first of them, counted in the part that needs them
  // Exchanged positions are counted in `range`, those of the result in the part that needs them.
  std::vector<AxisTerm> terms;
};

// What a part reads that `part` owns. Of another part, these are the maximal runs of what is read,
// each with the pairs that read it. Of the own part it is one run of all positions with one term,
// the caller's own convolution: own rows are never sent in pieces.
struct AxisSource {
  int part = 0;
  std::vector<AxisRun> runs;
};

// The sources of `part`, itself included, without those of which nothing is read; by rising part.
// REQUIRES: 0 <= part < cut.Parts().
std::vector<AxisSource> SourcesOf(const AxisCut& cut, int part, Exchanged exchanged);

// The ranges of the runs that `part` reads of what `owner`, which may be itself, owns: those of
// SourcesOf.
std::vector<Interval> RunsOf(const AxisCut& cut, int part, int owner, Exchanged exchanged);

// Positions of `part`'s result, windows or elements, that are not its own convolution's alone: a
// pair of theirs reads another part's. Maximal runs, rising. `sources` are those of `part`.
std::vector<Interval> TouchedRuns(const AxisCut& cut, int part, Exchanged exchanged,
                                  std::span<const AxisSource> sources);

}  // namespace ucudnn
