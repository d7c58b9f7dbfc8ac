// Formats divisions for messages and files, and finds the grid of tiles that a file lists. Pure
// functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/tiles.h"

namespace ucudnn {

// Formats images in the order of execution: "4 x 32 + 8". For tiles it gives the parts of each axis
// that is cut: "h 126x16 + 2 edges" is 126 parts of 16 rows and the first and last part, whose
// kinds differ from the others.
std::string DivisionText(const Division& division);

// Returns the borders of the whole tensor at which all tiles of a kind lie: "h-" is the first row,
// "d-h+" the first plane and the last row. Returns an empty text for tiles inside.
std::string BorderOf(const Tiles& tiles, size_t kind);

// Returns the grid of tiles of the runs, which come from a plan that was read. The number of parts
// of an axis is computed from the sum of the tiles' lengths along it. Fails if the numbers of parts
// multiply to another number of tiles than the runs have. The lengths of single tiles are not
// compared: Division::CheckCovers does that.
Result<TileGrid> GridOfRuns(const ConvolutionProblem& whole, const std::vector<Run>& runs);

}  // namespace ucudnn
