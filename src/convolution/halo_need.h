// Counts the positions that the ranks of a group have to exchange for one cut convolution. For each
// rank, a position of x or of dy counts once if the rank reads the position and another rank owns
// it. The count visits every tap of every window. It does not use the code that plans messages.
// Pure functions; thread-compatible. Axes are d, h, w.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "convolution/partition.h"
#include "convolution/stripes.h"

namespace ucudnn {

// One axis of the exchanged tensor; the lists have an entry for each part. Positions are counted
// along the whole axis.
struct AxisNeed {
  std::vector<Interval> owned;
  std::vector<Interval> needed;  // from the first to the last position that the part reads

  bool operator==(const AxisNeed&) const = default;
};

struct HaloNeed {
  std::array<AxisNeed, kMaxSpatial> axes;
  // Numbers of positions per image and channel. `received` counts the positions that the rank reads
  // from other ranks. `sent` counts the positions that other ranks read from the rank, once for
  // each reading rank.
  int64_t received = 0;
  int64_t sent = 0;
};

HaloNeed HaloNeedOf(const Stripes& stripes);

}  // namespace ucudnn
