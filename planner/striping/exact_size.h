// Finds a change after which a grid refuses no operator of a network. The change is another size of
// the images or, at the present size, a `multiple` (see StripeNetwork) for the rows of all stripes.
// The functions keep no state; SetInputExtents changes the graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Gives every input of `graph` the extents `extents` along the axes where `extents` is not 0.
// Opaque operators whose output had the extents of their input get the input's new extents. An
// attention that had one key for each position still has one. Fails if the inputs have different
// extents along such an axis.
Status SetInputExtents(Graph& graph, const Spatial& extents);

struct ExactSize {
  Spatial extents = {1, 1, 1};  // d, h, w
  // True if a program's own calls suffice; false if the program needs ucudnn.spatial.convert.
  bool as_it_is = true;
  // Names of the fully connected layers whose inputs, and therefore weights, have another size if
  // the images have `extents`.
  std::vector<std::string> other_weights;
};

// Returns the smallest extents, not below the present ones, for which no operator is refused. Only
// extents along the axes that `grid` cuts may grow. These extents are multiples of `multiple` or,
// if `multiple` is 1, of the number of parts. Returns extents that suit a program's own calls if
// there are any; otherwise extents that suit ucudnn.spatial.convert. Tries one extent after the
// other, up to 256 rows more for each part (enough for strides whose product is 256). Returns none
// if it finds none. REQUIRES: the network has the axes that the grid cuts.
std::optional<ExactSize> NextExactSize(const Graph& graph, const SpatialGrid& grid,
                                       int multiple = 1);

// Changes with which no operator would be refused.
struct NextExact {
  std::optional<ExactSize> size;
  std::optional<int> multiple;  // at the present size of the images
};

// Returns the smallest `multiple` (see StripeNetwork) from 2 to 256 with which no operator is
// refused at the present size of the images. Returns one that suits a program's own calls if there
// is any; otherwise one that suits ucudnn.spatial.convert.
std::optional<int> NextExactMultiple(const Graph& graph, const SpatialGrid& grid);

}  // namespace ucudnn::planner
