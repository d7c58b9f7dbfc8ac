// Divisions as text for messages and files, and the search for a grid whose tiles a file lists.
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/tiles.h"

namespace ucudnn {

// Formats images in the order of execution: "4 x 32 + 8". For tiles it gives the parts of each axis
// that is cut: "h 126x16 + 2 edges" is 126 parts of 16 rows between two edges, which are kinds of
// their own.
std::string DivisionText(const Division& division);

// Returns the borders of the whole that all tiles of a kind lie at: "h-" is the first row, "d-h+"
// the first plane and the last row. Empty: none.
std::string BorderOf(const Tiles& tiles, size_t kind);

// Finds the grid whose tiles have the extents of these runs, each as often as its run says. The
// runs come from a plan that was read. Fails if no grid has such tiles.
Result<TileGrid> GridOfRuns(const ConvolutionProblem& whole, const std::vector<Run>& runs);

}  // namespace ucudnn
