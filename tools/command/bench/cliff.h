// The cliff of workspace limits (mu-cuDNN, Fig. 1): the loss of a kernel whose workspace is one
// byte short of its best engine's need, or is limited by the user. It is measured with the real
// library, which falls back to another engine, and with ucudnn, which divides the mini-batch or
// cuts the kernel into tiles. Not thread-safe: makes the device's context current.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "convolution/layer.h"
#include "convolution/tiles.h"
#include "options/options.h"
#include "planning/measurement_store.h"

namespace ucudnn::command {

// A configuration with both of its times: `division` holds the measurements of its engines,
// `run_ms` is the median of its runs here, in turn with the other contenders.
struct Contender {
  Division division = Configuration{};
  double run_ms = 0;
};

struct Cliff {
  Layer layer;
  Contender best;          // the fastest undivided engine, whatever it needs
  size_t limit_bytes = 0;  // the user's or, without one, one byte less than the need of `best`
  // The contenders within the limit; none: nothing fits (or, if the best one fits, there is no
  // cliff).
  std::optional<Contender> real;    // the fastest undivided engine that fits, by its own Find
  std::optional<Contender> ucudnn;  // the promise of a run

  size_t WorkspaceBytes() const { return best.division.configuration.WorkspaceBytes(); }
  bool HasCliff() const { return WorkspaceBytes() > limit_bytes; }
};

// Sums over the kernels that run under every limit.
struct CliffTotal {
  double best_ms = 0;
  double real_ms = 0;
  double ucudnn_ms = 0;
  int left_out = 0;  // kernels that no engine runs within their limit
};

struct Cliffs {
  planning::Platform platform;
  long measured = 0;  // new measurements; all others came from the store
  std::vector<Cliff> kernels;

  CliffTotal Total() const;
};

// Measures what the store (null: none) lacks at the policy's sizes and for tiles, then runs the
// contenders. `engines` run whole or on parts of the mini-batch; tiles have all engines that a
// program's tiles would have. `progress` is called before each layer. Fails if there is no device,
// no real cuDNN, or no engine for a layer.
Result<Cliffs> MeasureCliffs(const std::vector<Layer>& layers, const Options& options,
                             EngineSet engines, planning::MeasurementStore* store,
                             const std::function<void(const Layer&)>& progress);

void PrintCliffTable(const Cliffs& cliffs, const Options& options);

// Writes the format `ucudnn-cliff`. Each kernel has `best`, and `real` and `ucudnn` under
// `limit_bytes`, which are null if there is no cliff or nothing fits. `run_ms` was run here,
// `planned_ms` is the sum of the measurements that a plan was made from.
void PrintCliffJson(const Cliffs& cliffs, const Options& options);

}  // namespace ucudnn::command
