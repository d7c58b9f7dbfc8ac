// Formats divisions for messages and files, and finds the grid of tiles that a file lists. Pure
// functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/tiles.h"

namespace ucudnn {

// Formats a division. Without tiles, lists the micro-batches in the order of execution: "4 x 32 +
// 8" is four micro-batches of 32 images and one of 8. With tiles, lists the parts of each axis that
// is cut: "h 126x16 + 2 edges" is 126 parts of 16 rows, and the first and the last part, whose
// tiles are of other kinds.
std::string DivisionText(const Division& division);

// Returns the borders of the whole tensor that all tiles of a kind touch, along the axes that are
// cut: "h-" is the first row, and "d-h+" is the first plane and the last row. Returns an empty text
// if the tiles share no such border.
std::string BorderOf(const Tiles& tiles, size_t kind);

// Returns the grid of the tiles that `runs` list. The number of parts of an axis is computed from
// the sum of the tiles' lengths along that axis. Fails if there are more than kMostTiles tiles, or
// if the numbers of parts do not multiply to the number of tiles. Does not check the lengths of
// single tiles; Division::CheckCovers does.
Result<TileGrid> GridOfRuns(const ConvolutionProblem& whole, const std::vector<Run>& runs);

}  // namespace ucudnn
