// Pooling of a cut image, forward and backward: which rows ranks exchange, and what is pooled a
// second time from own and received rows together. A maximum cannot be corrected by adding, nor an
// average over the part of a window that is inside the image, so results at the cuts are computed
// anew. Pure geometry, as in stripes.h; axes are d, h, w. Positions are those of the whole image:
// elements of x and dx, windows of y and dy.
#pragma once

#include <vector>

#include "convolution/stripes.h"

namespace ucudnn {

// What one part reads of the whole: forward, elements; backward, the windows over its elements and,
// to find out where their maxima are, the elements under those.
struct PooledBoxPair {
  SpatialBox elements;
  SpatialBox windows;
};
PooledBoxPair ReadByPooling(const Stripes& stripes, int cell);

// What a rank owns.
PooledBoxPair OwnedByPooling(const Stripes& stripes, int cell);

// What passes between this cell and `peer`, in either direction.
struct PooledMessage {
  int peer = 0;  // a cell of the grid
  PooledBoxPair boxes;
};
std::vector<PooledMessage> PooledReceives(const Stripes& stripes);
std::vector<PooledMessage> PooledSends(const Stripes& stripes);

// A box of the result, windows of y or elements of dx, and the pooling that computes it, as a call
// of its own with the caller's window, stride and pad: over `elements`, which give `windows`. Of
// both it reads, for the result's sake, what `read` has; whatever lies elsewhere is not in it.
struct PooledBox {
  SpatialBox result;
  SpatialBox elements, windows;
  PooledBoxPair read;
};

// The disjoint boxes that are, all together, the results of this cell that are not its own
// pooling's: a window over them, or they themselves, read beyond the own elements.
std::vector<PooledBox> PooledBoxes(const Stripes& stripes);

}  // namespace ucudnn
