// Finds the next larger size of a network's images at which a grid that refuses them now does not.
// Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Gives every input of `graph` these extents along the axes where they are not 0. Operators that
// keep their input's extents still do so, and an attention over all keys stays over all. Fails if
// the graph has inputs of different extents along such an axis.
Status SetInputExtents(Graph& graph, const Spatial& extents);

struct ExactSize {
  Spatial extents = {1, 1, 1};  // d, h, w
  bool as_it_is = true;         // else through convert
  // Fully connected layers that read maps of another size then, and so have other weights.
  std::vector<std::string> other_weights;
};

// Returns the smallest extents along the axes that `grid` cuts, each at least the present one, that
// make equal stripes (or, with `multiple`, are multiples of it) for which no operator is refused.
// They suit a program's own calls if there are such extents, else convert. Sizes are tried one
// after the other, as far as strides that multiply to 256 need; returns none if none is found.
// REQUIRES: the network has the axes that the grid cuts.
std::optional<ExactSize> NextExactSize(const Graph& graph, const SpatialGrid& grid,
                                       int multiple = 1);

// What to do if something is refused.
struct NextExact {
  std::optional<ExactSize> size;
  std::optional<int> multiple;  // for the present size of the images
};

// Returns the smallest multiple, up to 256, with which no operator is refused at the present size
// of the images (see StripeNetwork). It suits a program's own calls if there is one that does, else
// convert.
std::optional<int> NextExactMultiple(const Graph& graph, const SpatialGrid& grid);

}  // namespace ucudnn::planner
