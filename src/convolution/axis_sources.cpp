#include "convolution/axis_sources.h"

#include <algorithm>
#include <utility>

namespace ucudnn {
namespace {

Interval Shifted(const Interval& interval, int64_t by) {
  return {interval.begin + by, interval.end + by};
}

// Returns the windows whose tap `tap` reads an element of `elements`.
Interval WindowsAt(const SlidingWindow& window, int64_t tap, const Interval& elements) {
  const int64_t shift = window.pad - tap * window.dilation;
  return {CeilDivide(elements.begin + shift, window.stride),
          CeilDivide(elements.end + shift, window.stride)};
}

// Returns the taps of window `at` that read an element of `elements`.
Interval TapsAt(const SlidingWindow& window, int64_t at, const Interval& elements) {
  const int64_t shift = window.pad - at * window.stride;
  return Intersection(Interval{CeilDivide(elements.begin + shift, window.dilation),
                               CeilDivide(elements.end + shift, window.dilation)},
                      Interval{0, window.taps});
}

// Returns an interval that contains every window that reads an element of `elements`. It begins
// with the first window whose last tap is not before `elements`, and ends with the last window
// whose first tap is not after `elements`.
Interval Reaching(const SlidingWindow& window, const Interval& elements) {
  return {CeilDivide(elements.begin + window.pad - window.Extent() + 1, window.stride),
          FloorDivide(elements.end - 1 + window.pad, window.stride) + 1};
}

// Returns an interval that contains every tap with which a window of `windows` reads an element of
// `elements`. The interval begins with the first tap that is not before `elements` in the last
// window. It ends with the last tap that is not after `elements` in the first window.
Interval ReachingTaps(const SlidingWindow& window, const Interval& windows,
                      const Interval& elements) {
  const int64_t first = windows.begin * window.stride - window.pad;
  const int64_t last = (windows.end - 1) * window.stride - window.pad;
  return Intersection(Interval{CeilDivide(elements.begin - last, window.dilation),
                               FloorDivide(elements.end - 1 - first, window.dilation) + 1},
                      Interval{0, window.taps});
}

// Returns whether a window of `windows` reads `element`.
bool IsRead(const SlidingWindow& window, const Interval& windows, int64_t element) {
  const Interval taps = ReachingTaps(window, windows, {element, element + 1});
  // A window reads `element` with a tap only if element + pad - tap * dilation is a multiple of the
  // stride. This depends on tap * dilation modulo the stride, which repeats after at most `stride`
  // taps.
  const int64_t end = std::min(taps.end, taps.begin + window.stride);
  for (int64_t tap = taps.begin; tap < end; ++tap) {
    if ((element + window.pad - tap * window.dilation) % window.stride == 0) return true;
  }
  return false;
}

void Append(std::vector<Interval>& runs, int64_t position) {
  if (!runs.empty() && runs.back().end == position) {
    ++runs.back().end;
  } else {
    runs.push_back({position, position + 1});
  }
}

// Returns the union of `intervals`, in as few intervals as possible and in ascending order.
std::vector<Interval> Merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> runs;
  for (const Interval& interval : intervals) {
    if (!runs.empty() && interval.begin <= runs.back().end) {
      runs.back().end = std::max(runs.back().end, interval.end);
    } else {
      runs.push_back(interval);
    }
  }
  return runs;
}

// Return the windows or elements that `part` owns, counted from the part's first window or element.
Interval OwnWindows(const AxisCut& cut, int part) { return {0, cut.windows[part].Length()}; }
Interval OwnElements(const AxisCut& cut, int part) { return {0, cut.elements[part].Length()}; }

// Returns the positions of the exchanged tensor that `owner` owns, counted from the first position
// of `part`.
Interval OwnedBy(const AxisCut& cut, int part, int owner, Exchanged exchanged) {
  const std::vector<Interval>& parts =
      exchanged == Exchanged::kElements ? cut.elements : cut.windows;
  return Shifted(parts[owner], -parts[part].begin);
}

// Returns an interval that contains every position that `part` may read, counted from the part's
// first position.
Interval Reach(const AxisCut& cut, int part, Exchanged exchanged) {
  const SlidingWindow& window = cut.window;
  if (exchanged == Exchanged::kWindows) return Reaching(window, OwnElements(cut, part));
  const int64_t last = (OwnWindows(cut, part).end - 1) * window.stride;
  return {-window.pad, last - window.pad + window.Extent()};
}

bool ReadsOfItself(const AxisCut& cut, int part) {
  for (int64_t tap = 0; tap < cut.window.taps; ++tap) {
    if (Overlap(WindowsAt(cut.window, tap, OwnElements(cut, part)), OwnWindows(cut, part)) > 0) {
      return true;
    }
  }
  return false;
}

// Returns the only term that `part` contributes to its own result: the caller's own convolution.
std::vector<AxisTerm> OwnTerms(const AxisCut& cut, int part) {
  return {{OwnWindows(cut, part), {0, cut.window.taps}, OwnElements(cut, part), cut.window.pad}};
}

// Returns the terms that `run`, which another part owns, contributes to the result of `part`.
std::vector<AxisTerm> HaloTerms(const AxisCut& cut, int part, Exchanged exchanged,
                                const AxisRun& run) {
  const Interval halo = Shifted({0, run.range.Length()}, run.at);
  const bool of_elements = exchanged == Exchanged::kElements;
  std::vector<AxisTerm> terms = of_elements
                                    ? PairRectangles(cut.window, OwnWindows(cut, part), halo)
                                    : PairRectangles(cut.window, halo, OwnElements(cut, part));
  for (AxisTerm& term : terms) {
    Interval& in_halo = of_elements ? term.elements : term.windows;
    in_halo = Shifted(in_halo, -run.at);
  }
  return terms;
}

}  // namespace

Exchanged ExchangedBy(Operation operation) {
  return operation == Operation::kForward ? Exchanged::kElements : Exchanged::kWindows;
}

std::vector<AxisTerm> PairRectangles(const SlidingWindow& window, const Interval& windows,
                                     const Interval& elements) {
  const auto rectangle = [&](const Interval& of_windows, const Interval& of_taps) {
    const auto read = [&](int64_t at, int64_t tap) {
      return at * window.stride - window.pad + tap * window.dilation;
    };
    return AxisTerm{
        of_windows,
        of_taps,
        {read(of_windows.begin, of_taps.begin), read(of_windows.end - 1, of_taps.end - 1) + 1}};
  };
  // `position` is a tap and `others` are its windows, or `position` is a window and `others` are
  // its taps. Extends the last rectangle if it ends before `position` and has the same `others`.
  // Otherwise begins a new rectangle.
  const auto append = [](std::vector<std::pair<Interval, Interval>>& slabs, int64_t position,
                         const Interval& others) {
    if (others.Length() == 0) return;
    if (!slabs.empty() && slabs.back().first.end == position && slabs.back().second == others) {
      ++slabs.back().first.end;
    } else {
      slabs.push_back({{position, position + 1}, others});
    }
  };
  std::vector<AxisTerm> rectangles;
  const Interval reaching = Intersection(Reaching(window, elements), windows);
  if (elements.Length() == 0 || reaching.Length() == 0) return rectangles;
  std::vector<std::pair<Interval, Interval>> by_taps, by_windows;
  const Interval taps = ReachingTaps(window, reaching, elements);
  for (int64_t tap = taps.begin; tap < taps.end; ++tap) {
    append(by_taps, tap, Intersection(WindowsAt(window, tap, elements), windows));
  }
  for (int64_t at = reaching.begin; at < reaching.end && by_windows.size() < by_taps.size(); ++at) {
    append(by_windows, at, TapsAt(window, at, elements));
  }
  // If by_windows and by_taps are equally long, by_taps is used, so that no tap of the filter is in
  // two rectangles.
  if (by_windows.size() < by_taps.size()) {
    for (const auto& [of_windows, of_taps] : by_windows) {
      rectangles.push_back(rectangle(of_windows, of_taps));
    }
  } else {
    for (const auto& [of_taps, of_windows] : by_taps) {
      rectangles.push_back(rectangle(of_windows, of_taps));
    }
  }
  return rectangles;
}

std::vector<Interval> RunsOf(const AxisCut& cut, int part, int owner, Exchanged exchanged) {
  const Interval owned = OwnedBy(cut, part, owner, exchanged);
  std::vector<Interval> runs;
  if (owner == part) {
    if (ReadsOfItself(cut, part)) runs.push_back(owned);
    return runs;
  }
  const Interval reached = Intersection(owned, Reach(cut, part, exchanged));
  for (int64_t at = reached.begin; at < reached.end; ++at) {
    const bool is_read = exchanged == Exchanged::kElements
                             ? IsRead(cut.window, OwnWindows(cut, part), at)
                             : TapsAt(cut.window, at, OwnElements(cut, part)).Length() > 0;
    if (is_read) Append(runs, at - owned.begin);
  }
  return runs;
}

std::vector<AxisSource> SourcesOf(const AxisCut& cut, int part, Exchanged exchanged) {
  const Interval reach = Reach(cut, part, exchanged);
  // `part` reads only within `reach`, so parts that do not overlap `reach` are not sources.
  int first = part, last = part;
  while (first > 0 && OwnedBy(cut, part, first - 1, exchanged).end > reach.begin) --first;
  while (last + 1 < cut.Parts() && OwnedBy(cut, part, last + 1, exchanged).begin < reach.end) {
    ++last;
  }
  std::vector<AxisSource> sources;
  for (int owner = first; owner <= last; ++owner) {
    const int64_t shift = OwnedBy(cut, part, owner, exchanged).begin;
    AxisSource source = {owner, {}};
    for (const Interval& range : RunsOf(cut, part, owner, exchanged)) {
      AxisRun run = {range, range.begin + shift, {}};
      run.terms = owner == part ? OwnTerms(cut, part) : HaloTerms(cut, part, exchanged, run);
      source.runs.push_back(std::move(run));
    }
    if (!source.runs.empty()) sources.push_back(std::move(source));
  }
  return sources;
}

std::vector<Interval> TouchedRuns(const AxisCut& cut, int part, Exchanged exchanged,
                                  std::span<const AxisSource> sources) {
  std::vector<Interval> touched;
  for (const AxisSource& source : sources) {
    if (source.part == part) continue;
    for (const AxisRun& run : source.runs) {
      std::vector<Interval> reached;
      for (const AxisTerm& term : run.terms) {
        reached.push_back(exchanged == Exchanged::kElements ? term.windows : term.elements);
      }
      reached = Merged(std::move(reached));
      if (exchanged == Exchanged::kElements) {
        touched.insert(touched.end(), reached.begin(), reached.end());
        continue;
      }
      // Every window of a term reads the halo. But the windows of the halo may skip some elements
      // between the first and the last element of a term.
      const Interval windows = Shifted({0, run.range.Length()}, run.at);
      for (const Interval& elements : reached) {
        for (int64_t at = elements.begin; at < elements.end; ++at) {
          if (IsRead(cut.window, windows, at)) Append(touched, at);
        }
      }
    }
  }
  return Merged(std::move(touched));
}

}  // namespace ucudnn
