// Measurements of tiles in a store. Every kind of tile is a kernel of its own there: the twin that
// it is measured on (SlackTwin), so that all convolutions that are cut into equal tiles share its
// rows. As thread-safe as measure.h.
#pragma once

#include <vector>

#include "base/status.h"
#include "convolution/tiles.h"
#include "planning/measurement_store.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

struct RowsOfKinds {
  std::vector<std::vector<MicroConfiguration>> rows;  // of each kind, in the order of Tiles::kinds
  long measured = 0;                                  // rows that were measured now
  bool unstored = false;                              // the store did not take them
};

// What tiles may run, and where measurements are kept.
struct TileEngines {
  EngineScope scope;
  std::vector<EngineId> names;                  // of all engines of the scope but legacy ones
  planning::MeasurementStore* store = nullptr;  // null: none
  bool may_measure = true;                      // else what the store lacks is left out
};

// Of each kind of `tiles`, the engines that the store holds or that are measured now, with all that
// a tile takes: its length, of gradients that are summed their sum, of packed tiles their copies.
// What is measured is written to the store. A kind has no rows where no engine runs it within
// limits.fit_bytes. An error where nothing could be tried.
Result<RowsOfKinds> MeasureStoredKinds(const Device& device, const ConvolutionProblem& problem,
                                       const Tiles& tiles, const TileEngines& engines,
                                       const MeasureLimits& limits);

}  // namespace ucudnn::tuning
