// Divisions in words, for people and files, and what files say of tiles read back. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/tiles.h"

namespace ucudnn {

// "4 x 32 + 8": images, in the order of execution. Of tiles, the parts of each axis that is cut:
// "h 126x16 + 2 edges" is 126 parts of 16 rows between two edges, which are kinds of their own.
std::string DivisionText(const Division& division);

// The borders of the whole that all tiles of a kind lie at: "h-" is the first row, "d-h+" the first
// plane and the last row. Empty: none.
std::string BorderOf(const Tiles& tiles, size_t kind);

// The grid whose tiles have the extents of these runs, each so often; of a plan that was read. An
// error where they are no grid's.
Result<TileGrid> GridOfRuns(const ConvolutionProblem& whole, const std::vector<Run>& runs);

}  // namespace ucudnn
