// The next larger size of a network's images at which a grid that refuses them now does not. Pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Gives every input of `graph` these extents along the axes where they are not 0; operators that
// keep their input's extents keep them, and an attention over all keys is over all. An error: the
// graph has inputs of different extents there.
Status SetInputExtents(Graph& graph, const Spatial& extents);

struct ExactSize {
  Spatial extents = {1, 1, 1};  // d, h, w
  bool as_it_is = true;         // else through convert
  // Fully connected layers that read maps of another size there: their weights are others.
  std::vector<std::string> other_weights;
};

// The smallest extents along the axes that `grid` cuts, each at least what it is, that make equal
// stripes (or, with `multiple`, are multiples of that) of which no operator is refused: as a
// program's own calls where there are such extents, else through convert. Sizes are tried one after
// the other, as far as strides that multiply to 256 need; none where there is none. REQUIRES: the
// grid cuts axes that the network has.
std::optional<ExactSize> NextExactSize(const Graph& graph, const SpatialGrid& grid,
                                       int multiple = 1);

// What to do where something is refused.
struct NextExact {
  std::optional<ExactSize> size;
  std::optional<int> multiple;  // at the size that the images have
};

// The smallest multiple, to 256, with which no operator is refused at the size that the images have
// (see StripeNetwork): as a program's own calls where there is one, else through convert.
std::optional<int> NextExactMultiple(const Graph& graph, const SpatialGrid& grid);

}  // namespace ucudnn::planner
