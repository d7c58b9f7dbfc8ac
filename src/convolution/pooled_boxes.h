// Pooling of a cut image, forward and backward: which rows ranks exchange, and which results they
// compute again. A maximum, or an average over the part of a window inside the image, cannot be
// corrected by adding to it. So the results at the cuts are computed again from own and received
// rows. Pure geometry, as in stripes.h; axes are d, h, w. Positions are counted in the whole image:
// elements of x and dx, windows of y and dy.
#pragma once

#include <vector>

#include "convolution/stripes.h"

namespace ucudnn {

// A box of x or dx, and a box of y or dy. Each may be empty.
struct PooledBoxPair {
  SpatialBox elements;
  SpatialBox windows;
};

// Returns the boxes that a rank reads, whichever rank owns them. Forward reads `elements` of x. A
// gradient reads `windows` of dy: the windows over the rank's elements. It also reads the
// `elements` of x under these windows, because the windows' maxima are there.
PooledBoxPair ReadByPooling(const Stripes& stripes, int cell);

// Returns the boxes that a rank owns.
PooledBoxPair OwnedByPooling(const Stripes& stripes, int cell);

// The boxes that this cell receives from `peer`, or sends to it.
struct PooledMessage {
  int peer = 0;  // a cell of the grid
  PooledBoxPair boxes;
};
std::vector<PooledMessage> PooledReceives(const Stripes& stripes);
std::vector<PooledMessage> PooledSends(const Stripes& stripes);

// A box of the result (windows of y or elements of dx), and the pooling that computes it: a
// separate call with the caller's window, stride and pad, on the `elements` of x or dx and the
// `windows` of y or dy. Only the boxes of `read` influence the result, so other positions may hold
// anything.
struct PooledBox {
  SpatialBox result;
  SpatialBox elements, windows;
  PooledBoxPair read;
};

// Returns disjoint boxes that together contain exactly the results that this cell's own pooling
// does not compute correctly. Such a result depends on a window that reads beyond the cell's own
// elements.
std::vector<PooledBox> PooledBoxes(const Stripes& stripes);

}  // namespace ucudnn
