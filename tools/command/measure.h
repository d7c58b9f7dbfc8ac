// Measuring a list of layers on this machine's device, as `ucudnn bench` does. Not thread-safe:
// makes the device's context current on the calling thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/layer.h"
#include "planning/measurement_store.h"

namespace ucudnn::command {

struct MeasuredLayer {
  Layer layer;
  // The fastest undivided engine and the fastest division (WR) within the workspace limit; none:
  // nothing fits, or (divided) a division would change the numerics.
  std::optional<MicroConfiguration> undivided;
  std::optional<Configuration> divided;
  // Whether the output of `divided` was compared with an undivided engine's and is equal, now or
  // before, as a run demands; why not, where it is not. True where nothing is divided.
  bool verified = true;
  std::string unverified;
  // What comparing said of divisions that are wrong; `divided` is made without their pieces.
  std::vector<std::string> wrong;
};

struct Measured {
  planning::Platform platform;
  long measured = 0;  // measurements made now; the others came from the store
  std::vector<MeasuredLayer> layers;
};

// Measures what `options` asks for (policy, limit, determinism) and the store (null: none) does not
// hold yet, and compares the divisions it chooses, so that a run finds both done. `progress` is
// called before each layer. An error when there is no device, no genuine cuDNN, or a layer that no
// engine runs.
Result<Measured> MeasureLayers(const std::vector<Layer>& layers, const Options& options,
                               planning::MeasurementStore* store,
                               const std::function<void(const Layer&)>& progress);

}  // namespace ucudnn::command
