#include "convolution/halo_need.h"

#include <algorithm>

namespace ucudnn {
namespace {

// The positions of the exchanged tensor that a part reads along one axis, in ascending order.
using Positions = std::vector<int64_t>;

Positions ReadBy(const AxisCut& cut, size_t part, Exchanged exchanged) {
  const SlidingWindow& window = cut.window;
  const Interval elements =
      exchanged == Exchanged::kElements ? Interval{0, cut.elements.back().end} : cut.elements[part];
  const Interval windows = exchanged == Exchanged::kElements
                               ? cut.windows[part]
                               : WindowsOver(window, cut.elements[part], cut.windows.back().end);
  Positions positions;
  for (int64_t output = windows.begin; output < windows.end; ++output) {
    for (int64_t tap = 0; tap < window.taps; ++tap) {
      const int64_t element = output * window.stride - window.pad + tap * window.dilation;
      if (element < elements.begin || element >= elements.end) continue;
      positions.push_back(exchanged == Exchanged::kElements ? element : output);
    }
  }
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

int64_t CountIn(const Positions& positions, const Interval& interval) {
  return std::lower_bound(positions.begin(), positions.end(), interval.end) -
         std::lower_bound(positions.begin(), positions.end(), interval.begin);
}

// What this rank and the other ranks read along one axis.
struct AxisReads {
  AxisNeed need;
  int64_t all = 0, own = 0;  // positions that this rank reads, and how many of them it owns
  // For each part, the number of positions that it reads and this rank owns.
  std::vector<int64_t> of_this = {};
};

AxisReads ReadsOf(const AxisCut& cut, size_t own_part, Exchanged exchanged) {
  AxisReads reads;
  reads.need.owned = exchanged == Exchanged::kElements ? cut.elements : cut.windows;
  const Interval& owned = reads.need.owned[own_part];
  for (size_t part = 0; part < reads.need.owned.size(); ++part) {
    const Positions positions = ReadBy(cut, part, exchanged);
    reads.need.needed.push_back(
        positions.empty() ? Interval{} : Interval{positions.front(), positions.back() + 1});
    reads.of_this.push_back(CountIn(positions, owned));
    if (part != own_part) continue;
    reads.all = static_cast<int64_t>(positions.size());
    reads.own = reads.of_this.back();
  }
  return reads;
}

}  // namespace

HaloNeed HaloNeedOf(const Stripes& stripes) {
  const Exchanged exchanged = ExchangedBy(stripes.local.operation);
  HaloNeed need;
  std::array<AxisReads, kMaxSpatial> reads;
  int64_t all = 1, own = 1;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const auto part = static_cast<size_t>(stripes.part[axis]);
    reads[axis] = ReadsOf(stripes.cuts[axis], part, exchanged);
    need.axes[axis] = reads[axis].need;
    all *= reads[axis].all;
    own *= reads[axis].own;
  }
  need.received = all - own;
  for (int peer = 0; peer < stripes.grid.GroupSize(); ++peer) {
    if (peer == stripes.cell) continue;
    const GridCell cell = stripes.grid.CellOf(peer);
    need.sent += reads[0].of_this[static_cast<size_t>(cell.d)] *
                 reads[1].of_this[static_cast<size_t>(cell.h)] *
                 reads[2].of_this[static_cast<size_t>(cell.w)];
  }
  return need;
}

}  // namespace ucudnn
