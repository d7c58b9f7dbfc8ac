// Tiles of a kernel that `ucudnn bench` measures. Not thread-safe; the device's context is current.
#pragma once

#include <optional>
#include <string>

#include "base/options.h"
#include "convolution/tiles.h"
#include "planning/measurement_store.h"
#include "tuning/measure.h"

namespace ucudnn::command {

struct BenchedTiles {
  std::optional<Division> division;  // the fastest within the limit; none: no grid fits
  // Whether its output was compared with the whole's and is equal; why not, where it could not be.
  bool verified = false;
  std::string unverified;
  std::string wrong;  // what comparing said of a division that is wrong, and then left out
  long measured = 0;  // measurements made now
};

// Measures at most four grids of tiles that bring `problem` under `limit_bytes`, by engines that
// the heuristics choose for such a tile, and leaves their measurements in `store` (null: nowhere).
// The division that takes least time is compared with the whole on `device`.
BenchedTiles BenchTiles(const tuning::Device& device, cudnnHandle_t handle,
                        const ConvolutionProblem& problem, const Options& options,
                        size_t limit_bytes, planning::MeasurementStore* store);

}  // namespace ucudnn::command
