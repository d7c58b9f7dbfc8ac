// Measurements of tiles in a store. Every kind of tile is a kernel of its own there: the twin on
// which it is measured (SlackTwin), so that all convolutions that are cut into equal tiles share
// its rows. As thread-safe as measure.h.
#pragma once

#include <vector>

#include "base/status.h"
#include "convolution/tiles.h"
#include "planning/measurement_store.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

struct RowsOfKinds {
  std::vector<std::vector<MicroConfiguration>> rows;  // for each kind, in the order of Tiles::kinds
  long measured = 0;                                  // rows that were measured now
  bool unstored = false;                              // writing rows to the store failed
};

// The engines that tiles may run, and the store of their measurements.
struct TileEngines {
  EngineScope scope;
  std::vector<EngineId> names;                  // all engines of the scope except legacy ones
  planning::MeasurementStore* store = nullptr;  // null: none
  bool may_measure = true;  // false: measurements that the store lacks are left out
};

// Returns for each kind of `tiles` the engines that the store holds or that are measured now, with
// the full cost of a tile: including its sum if gradients are summed, and its copies if it is
// packed. New measurements are written to the store. A kind has no rows if no engine runs it within
// limits.fit_bytes. Fails if nothing could be tried.
Result<RowsOfKinds> MeasureStoredKinds(const Device& device, const ConvolutionProblem& problem,
                                       const Tiles& tiles, const TileEngines& engines,
                                       const MeasureLimits& limits);

}  // namespace ucudnn::tuning
