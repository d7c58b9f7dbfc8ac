#include "convolution/pooled_boxes.h"

#include <algorithm>

namespace ucudnn {
namespace {

struct AxisPart {
  const AxisCut& cut;
  int part = 0;
  bool forward = true;

  Interval elements() const { return cut.elements[static_cast<size_t>(part)]; }
  Interval windows() const { return cut.windows[static_cast<size_t>(part)]; }
  Interval result() const { return forward ? windows() : elements(); }
  int64_t image() const { return cut.elements.back().end; }
  int64_t all_windows() const { return cut.windows.back().end; }
  Interval Under(const Interval& outputs) const {
    return UnderWindows(cut.window, outputs, image());
  }
  Interval Over(const Interval& of_elements) const {
    return WindowsOver(cut.window, of_elements, all_windows());
  }
  bool IsOwn(int64_t window) const {
    const Interval own = elements(), under = Under({window, window + 1});
    return windows().begin <= window && window < windows().end && own.begin <= under.begin &&
           under.end <= own.end;
  }
};

AxisPart PartOf(const Stripes& stripes, const std::array<int, kMaxSpatial>& part, size_t axis) {
  return {stripes.cuts[axis], part[axis], stripes.local.operation == Operation::kForward};
}

std::array<int, kMaxSpatial> PartsOfCell(const Stripes& stripes, int cell) {
  const GridCell at = stripes.grid.CellOf(cell);
  return {at.d, at.h, at.w};
}

// Returns whether the part's own pooling computes result `at` correctly.
bool IsOwnResult(const AxisPart& part, int64_t at) {
  if (part.forward) return part.IsOwn(at);
  const Interval over = part.Over({at, at + 1});
  for (int64_t window = over.begin; window < over.end; ++window) {
    if (!part.IsOwn(window)) return false;
  }
  return true;
}

// The results along one axis of a part, as runs of consecutive results. The part's own pooling
// computes the results in `own` correctly; the results in `others` are computed again.
struct AxisRuns {
  std::vector<Interval> own, others;
};
AxisRuns RunsOfResults(const AxisPart& part) {
  AxisRuns runs;
  for (int64_t at = part.result().begin; at < part.result().end; ++at) {
    std::vector<Interval>& of = IsOwnResult(part, at) ? runs.own : runs.others;
    if (!of.empty() && of.back().end == at) {
      ++of.back().end;
    } else {
      of.push_back({at, at + 1});
    }
  }
  return runs;
}

// One axis of a PooledBox.
struct AxisBox {
  Interval result, elements, windows, read_elements, read_windows;
};

AxisBox OwnBox(const AxisPart& part) {
  return {part.result(), part.elements(), part.windows(), part.elements(), part.windows()};
}

// Returns the intervals of one axis for one run of results. The pooling of a box has the image's
// pad on both sides. `elements` begin where the image begins, or so early that no window of
// `read_windows` covers the pad before them. `elements` end where the image ends, or so late that
// no window of `read_windows` covers the pad behind them.
AxisBox BoxOfRun(const AxisPart& part, const Interval& result) {
  const SlidingWindow& window = part.cut.window;
  AxisBox box;
  box.result = result;
  box.read_windows = part.forward ? result : part.Over(result);
  box.read_elements = part.Under(box.read_windows);
  const int64_t before = CeilDivide(window.pad, window.stride);
  const bool is_read = box.read_windows.Length() > 0;  // otherwise the results lie between windows
  const int64_t begin = is_read ? box.read_windows.begin : result.begin / window.stride;
  const int64_t first = std::max<int64_t>(0, begin - before);
  box.elements = {first * window.stride, box.read_elements.end};
  if (!part.forward) box.elements.end = std::max(box.elements.end, result.end);
  const int64_t count =
      (box.elements.Length() + 2 * window.pad - window.Extent()) / window.stride + 1;
  box.windows = {first, first + count};
  return box;
}

PooledBox Joined(const std::array<AxisBox, kMaxSpatial>& axes) {
  PooledBox box;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    box.result[axis] = axes[axis].result;
    box.elements[axis] = axes[axis].elements;
    box.windows[axis] = axes[axis].windows;
    box.read.elements[axis] = axes[axis].read_elements;
    box.read.windows[axis] = axes[axis].read_windows;
  }
  return box;
}

// Returns the boxes that `to` reads and `from` owns.
PooledBoxPair Passed(const Stripes& stripes, int from, int to) {
  const PooledBoxPair owned = OwnedByPooling(stripes, from), read = ReadByPooling(stripes, to);
  return {Intersection(owned.elements, read.elements), Intersection(owned.windows, read.windows)};
}

std::vector<PooledMessage> MessagesOf(const Stripes& stripes, bool sends) {
  std::vector<PooledMessage> messages;
  for (int peer = 0; peer < stripes.grid.GroupSize(); ++peer) {
    if (peer == stripes.cell) continue;
    const PooledBoxPair boxes =
        sends ? Passed(stripes, stripes.cell, peer) : Passed(stripes, peer, stripes.cell);
    if (Elements(boxes.elements) > 0 || Elements(boxes.windows) > 0) {
      messages.push_back({peer, boxes});
    }
  }
  return messages;
}

}  // namespace

PooledBoxPair OwnedByPooling(const Stripes& stripes, int cell) {
  const std::array<int, kMaxSpatial> parts = PartsOfCell(stripes, cell);
  PooledBoxPair owned;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const AxisPart part = PartOf(stripes, parts, axis);
    owned.elements[axis] = part.elements();
    owned.windows[axis] = part.windows();
  }
  return owned;
}

PooledBoxPair ReadByPooling(const Stripes& stripes, int cell) {
  const std::array<int, kMaxSpatial> parts = PartsOfCell(stripes, cell);
  const bool forward = stripes.local.operation == Operation::kForward;
  PooledBoxPair read;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const AxisPart part = PartOf(stripes, parts, axis);
    const Interval windows = forward ? part.windows() : part.Over(part.elements());
    read.elements[axis] = part.Under(windows);
    if (!forward) read.windows[axis] = windows;
  }
  return read;
}

std::vector<PooledMessage> PooledReceives(const Stripes& stripes) {
  return MessagesOf(stripes, false);
}
std::vector<PooledMessage> PooledSends(const Stripes& stripes) { return MessagesOf(stripes, true); }

std::vector<PooledBox> PooledBoxes(const Stripes& stripes) {
  std::array<AxisRuns, kMaxSpatial> runs;
  const auto part = [&](size_t axis) { return PartOf(stripes, stripes.part, axis); };
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) runs[axis] = RunsOfResults(part(axis));
  // If the part's own pooling computes all results along an axis correctly, the axis gets the boxes
  // of that pooling.
  const auto boxes_of = [&](size_t axis, const std::vector<Interval>& results) {
    std::vector<AxisBox> boxes;
    if (runs[axis].others.empty() && !results.empty()) return std::vector{OwnBox(part(axis))};
    for (const Interval& result : results) boxes.push_back(BoxOfRun(part(axis), result));
    return boxes;
  };
  const auto all_of = [&](size_t axis) { return std::vector<Interval>{part(axis).result()}; };
  std::vector<PooledBox> boxes;
  // Each pass covers, along `axis`, the results that are computed again (AxisRuns::others). Along
  // the axes before `axis` it covers the part's own results (AxisRuns::own), and along the axes
  // after `axis` all results. So the boxes are disjoint.
  std::array<std::vector<Interval>, kMaxSpatial> choices = {all_of(0), all_of(1), all_of(2)};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    choices[axis] = runs[axis].others;
    for (const AxisBox& d : boxes_of(0, choices[0])) {
      for (const AxisBox& h : boxes_of(1, choices[1])) {
        for (const AxisBox& w : boxes_of(2, choices[2])) boxes.push_back(Joined({d, h, w}));
      }
    }
    choices[axis] = runs[axis].own;
  }
  return boxes;
}

}  // namespace ucudnn
