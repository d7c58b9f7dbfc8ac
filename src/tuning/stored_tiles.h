// Measurements of tiles in a store. The store has each kind of tile as a kernel: the slack twin on
// which the kind is measured (SlackTwin). So all convolutions that are cut into equal tiles share
// rows. As thread-safe as measure.h.
#pragma once

#include <vector>

#include "base/status.h"
#include "convolution/tiles.h"
#include "planning/measurement_store.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

struct RowsOfKinds {
  std::vector<std::vector<MicroConfiguration>> rows;  // for each kind, in the order of Tiles::kinds
  long measured = 0;                                  // how many rows were measured now
  bool unstored = false;                              // writing rows to the store failed
};

// The engines that tiles may run, and the store of their measurements.
struct TileEngines {
  EngineScope scope;
  std::vector<EngineId> names;                  // all engines of the scope except legacy algorithms
  planning::MeasurementStore* store = nullptr;  // null: there is none
  bool may_measure = true;  // false: measurements that the store lacks are left out
};

// Returns for each kind of `tiles` the rows that the store has or that are measured now. The time
// and the workspace of a row include the summing if gradients are summed, and the copies if the
// tile is packed. New measurements are written to the store. A kind has no rows if no engine runs
// it within limits.fit_bytes. Fails if nothing could be tried, if the copies of a kind could not be
// measured, or if copies or partial sums alone exceed limits.fit_bytes.
Result<RowsOfKinds> MeasureStoredKinds(const Device& device, const ConvolutionProblem& problem,
                                       const Tiles& tiles, const TileEngines& engines,
                                       const MeasureLimits& limits);

}  // namespace ucudnn::tuning
