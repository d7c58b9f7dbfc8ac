// Divisions into tiles from which a kernel may choose: the divisions that no other division beats
// in both time and workspace. Pure functions.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "convolution/tiles.h"

namespace ucudnn::planning {

// Returns the rows of the kind tiles.kinds[kind]: one for each engine in `measured`, with the
// lengths of the kind. `measured` are the measurements of the kind's slack twin (SlackTwin). Time
// and workspace of a row include the copies of packed tiles and, for a gradient that is summed over
// tiles in fp32, the summing. Returns no rows if `measured` lacks the copying or the summing.
std::vector<MicroConfiguration> RowsOfTiles(const ConvolutionProblem& problem, const Tiles& tiles,
                                            size_t kind,
                                            std::span<const MicroConfiguration> measured);

// Returns, for every workspace, the fastest division into `tiles` that fits the workspace. Each
// kind of tile runs its fastest engine that fits. `rows` are the measurements of each kind, in the
// order of tiles->kinds. A row includes the summing of partials and the copies of packed tiles. The
// order of a kind's rows does not matter. Divisions are in ascending order of workspace and
// descending order of time. Empty if a kind has no row. REQUIRES: rows.size() ==
// tiles->kinds.size().
std::vector<Division> DesirableTiles(const std::shared_ptr<const Tiles>& tiles,
                                     std::span<const std::vector<MicroConfiguration>> rows);

// Returns the divisions that no other division beats in both time and workspace, in ascending order
// of workspace and descending order of time; no workspace and no time occurs twice. Of divisions
// with equal time and workspace, returns the first one of those with the fewest pieces.
std::vector<Division> Desirable(std::vector<Division> divisions);

}  // namespace ucudnn::planning
