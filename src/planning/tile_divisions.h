// Divisions into tiles from which a kernel may choose: those that no other division beats in both
// time and workspace. Pure functions.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "convolution/tiles.h"

namespace ucudnn::planning {

// Returns the rows of kind `kind` of `tiles` from the measurements of its twin: engines with the
// kind's length. Gradients that are summed over tiles in fp32 include their sum, packed tiles their
// copies. Empty if the sum or the copies were not measured.
std::vector<MicroConfiguration> RowsOfTiles(const ConvolutionProblem& problem, const Tiles& tiles,
                                            size_t kind,
                                            std::span<const MicroConfiguration> measured);

// Returns, for every workspace, the fastest division into `tiles` that fits it: each kind of tile
// has its fastest engine. `rows` are the measurements of each kind, in the order of tiles->kinds,
// including all work beside the engine; the order of a kind's rows does not matter. Divisions are
// in ascending order of workspace and descending order of time; empty if a kind has no row.
// REQUIRES: rows.size() == tiles->kinds.size().
std::vector<Division> DesirableTiles(const std::shared_ptr<const Tiles>& tiles,
                                     std::span<const std::vector<MicroConfiguration>> rows);

// Returns the divisions that no other beats in both time and workspace, in ascending order of
// workspace and descending order of time, each workspace and each time once. Among equal divisions
// the one of fewer pieces stays, then the one that comes first.
std::vector<Division> Desirable(std::vector<Division> divisions);

}  // namespace ucudnn::planning
