#include "planner/striping/cut_windows.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "convolution/axis_cut.h"

namespace ucudnn::planner {
namespace {

int64_t SumOf(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{0});
}

std::vector<int64_t> Lengths(const std::vector<Interval>& intervals) {
  std::vector<int64_t> lengths;
  for (const Interval& interval : intervals) lengths.push_back(interval.Length());
  return lengths;
}

// Returns the rows that each part reads or owns, if part i computes outputs[i] consecutive outputs.
CutWindows Reading(const PaddedWindow& padded, const std::vector<int64_t>& extents,
                   std::vector<int64_t> outputs) {
  const SlidingWindow& window = padded.window;
  const std::vector<Interval> owned = OwnedRows(extents);
  CutWindows cut;
  int64_t first = 0;
  for (size_t part = 0; part < outputs.size(); ++part) {
    const int64_t begin = first * window.stride - window.pad;
    first += outputs[part];
    const int64_t end = (first - 1) * window.stride - window.pad + window.Extent();
    const Interval read = Intersection(Interval{begin, end}, Interval{0, owned.back().end});
    Interval needed = owned[part];
    if (read.Length() > 0) {
      needed = {std::min(needed.begin, read.begin), std::max(needed.end, read.end)};
    }
    cut.needed.push_back(needed);
  }
  cut.outputs = std::move(outputs);
  return cut;
}

// Cuts an axis whose padding is too small to give one window for each `stride` rows. First cuts the
// axis as if the padding were large enough. Then removes the windows that do not exist; these are
// windows of the last part.
Result<CutWindows> LessInTheLastPart(char axis, const PaddedWindow& padded,
                                     const std::vector<int64_t>& extents, int64_t count) {
  const SlidingWindow& window = padded.window;
  const int64_t front = window.pad;
  const int64_t behind = std::max(padded.back, window.Extent() - window.stride - front);
  const int64_t pad = std::max(front, behind);
  const SlidingWindow larger = {window.Extent() + 2 * pad - front - behind, 1, window.stride, pad};
  UCUDNN_ASSIGN_OR_RETURN(const AxisCut cut, CutAxis(axis, larger, extents));
  std::vector<int64_t> outputs = Lengths(cut.windows);
  outputs.back() = std::min(outputs.back(), count - cut.windows.back().begin);
  if (outputs.back() < 1) {
    return Status::Error(std::string(1, axis) + ": windows of extent " +
                         std::to_string(window.Extent()) + " and stride " +
                         std::to_string(window.stride) + " leave nothing to the last part, of " +
                         std::to_string(extents.back()) + " rows");
  }
  return Reading(padded, extents, std::move(outputs));
}

// Returns whether there are extents for which each part's own call computes its share of the
// windows of the whole axis.
bool OwnCallsGoOn(const SlidingWindow& window) {
  const int64_t large = window.stride * (window.Extent() + window.pad);
  const std::array<int64_t, 2> extents = {large, large};
  return CutAxis('h', window, extents).ok();
}

Result<CutWindows> Fetched(char axis, const PaddedWindow& padded,
                           const std::vector<int64_t>& extents) {
  const SlidingWindow& window = padded.window;
  const int64_t total = SumOf(extents);
  const int64_t room = total + window.pad + padded.back - window.Extent();
  const int64_t count = FloorDivide(room, window.stride) + 1;
  Status refused;
  // CutAxis() pads both ends of an axis equally. The first attempt pads both ends like the front.
  // The second attempt reverses the axis, and pads both ends by as many rows of the back's padding
  // as the last window reads.
  for (const bool mirrored : {false, true}) {
    SlidingWindow same = window;
    if (mirrored) same.pad = padded.back - (room - (count - 1) * window.stride);
    if (same.pad < 0) continue;
    if (FloorDivide(total + 2 * same.pad - window.Extent(), window.stride) + 1 != count) continue;
    std::vector<int64_t> parts = extents;
    if (mirrored) std::reverse(parts.begin(), parts.end());
    const Result<AxisCut> cut = CutAxis(axis, same, parts);
    if (!cut.ok()) {
      if (refused.ok()) refused = cut.status();
      continue;
    }
    std::vector<int64_t> outputs = Lengths(cut->windows);
    if (mirrored) std::reverse(outputs.begin(), outputs.end());
    return Reading(padded, extents, std::move(outputs));
  }
  Result<CutWindows> less = LessInTheLastPart(axis, padded, extents, count);
  const bool is_too_much = window.pad + padded.back > window.Extent() - 1;
  if (is_too_much && !less.ok() && !refused.ok()) return refused;
  return less;
}

}  // namespace

Result<CutWindows> CutWindowsOf(char axis, const PaddedWindow& padded,
                                const std::vector<int64_t>& extents) {
  std::string why;
  if (padded.window.pad == padded.back) {
    const Result<AxisCut> own = CutAxis(axis, padded.window, extents);
    if (own.ok()) return Reading(padded, extents, Lengths(own->windows));
    why = own.message();
  } else {
    why = std::string(1, axis) + ": the image is padded by " + std::to_string(padded.window.pad) +
          " rows before and " + std::to_string(padded.back) +
          " behind it, and a program would pad each part so";
  }
  Result<CutWindows> fetched = Fetched(axis, padded, extents);
  if (!fetched.ok()) {
    // Neither the parts' own calls nor fetched rows give the right windows. If own calls work at
    // other extents, the error says why they fail here; otherwise it says why fetching fails.
    const bool has_own = padded.window.pad == padded.back && OwnCallsGoOn(padded.window);
    return has_own ? Status::Error(why) : fetched;
  }
  fetched->is_own_call = false;
  fetched->why = why;
  return fetched;
}

bool CanBeCut(const PaddedWindow& padded, int parts, bool own_calls) {
  const SlidingWindow& window = padded.window;
  const int64_t large = window.stride * (window.Extent() + window.pad + padded.back);
  std::vector<int64_t> extents(static_cast<size_t>(parts), large);
  for (int64_t rest = 0; rest < window.stride; ++rest) {
    extents.back() = large + rest;
    const Result<CutWindows> cut = CutWindowsOf('h', padded, extents);
    if (cut.ok() && (cut->is_own_call || !own_calls)) return true;
  }
  return false;
}

std::vector<Interval> OwnedRows(const std::vector<int64_t>& extents) {
  std::vector<Interval> rows;
  int64_t begin = 0;
  for (const int64_t extent : extents) {
    rows.push_back({begin, begin + extent});
    begin += extent;
  }
  return rows;
}

}  // namespace ucudnn::planner
