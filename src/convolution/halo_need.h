// The least that the ranks of a group must exchange for one cut convolution: each position of x, or
// of dy, that one rank reads and another one owns, once. The count goes through the windows as a
// convolution is defined, independently of the messages that ranks send. Pure functions;
// thread-compatible. Axes are d, h, w.
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
  // Positions per image and channel: `received` are those that the rank reads from others, `sent`
  // those that others read from it; a position that several others read counts for each.
  int64_t received = 0;
  int64_t sent = 0;
};

HaloNeed HaloNeedOf(const Stripes& stripes);

}  // namespace ucudnn
