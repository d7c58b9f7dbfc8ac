// Pooling of a cut image, forward and backward: which rows ranks exchange, and what is pooled a
// second time from own and received rows together. A maximum cannot be corrected by adding, nor can
// an average over the part of a window that is inside the image, so results at the cuts are
// computed anew. Pure geometry, as in stripes.h; axes are d, h, w. Positions are counted in the
// whole image: elements of x and dx, windows of y and dy.
#pragma once

#include <vector>

#include "convolution/stripes.h"

namespace ucudnn {

// The boxes that one part reads of the whole: forward, elements; backward, the windows over its
// elements and the elements under these windows, which show where their maxima are.
struct PooledBoxPair {
  SpatialBox elements;
  SpatialBox windows;
};
PooledBoxPair ReadByPooling(const Stripes& stripes, int cell);

// Returns the boxes that a rank owns.
PooledBoxPair OwnedByPooling(const Stripes& stripes, int cell);

// The boxes that pass between this cell and `peer`, in either direction.
struct PooledMessage {
  int peer = 0;  // a cell of the grid
  PooledBoxPair boxes;
};
std::vector<PooledMessage> PooledReceives(const Stripes& stripes);
std::vector<PooledMessage> PooledSends(const Stripes& stripes);

// A box of the result, windows of y or elements of dx, and the pooling that computes it, as a call
// of its own with the caller's window, stride and pad: it pools `elements` into `windows`. For this
// result it reads only the boxes of `read`; other positions may hold anything.
struct PooledBox {
  SpatialBox result;
  SpatialBox elements, windows;
  PooledBoxPair read;
};

// Disjoint boxes that together are the results of this cell that its own pooling does not give:
// such a result, or a window over it, reads beyond the own elements.
std::vector<PooledBox> PooledBoxes(const Stripes& stripes);

}  // namespace ucudnn
