// The cliff of workspace limits (mu-cuDNN, Fig. 1): what a kernel loses when its workspace is one
// byte short of what its best engine needs, with the real library, which falls to another
// engine, and with ucudnn, which divides the mini-batch. Not thread-safe: makes the device's
// context current.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/layer.h"
#include "planning/measurement_store.h"

namespace ucudnn::command {

// What runs, with both of its times: `configuration` holds what was measured engine by engine,
// `run_ms` is the median of running it here, in turn with what it is compared with.
struct Contender {
  Configuration configuration;
  double run_ms = 0;
};

struct Cliff {
  Layer layer;
  Contender best;  // the fastest undivided engine, whatever it needs
  // Under one byte less than that; none: nothing fits (or, when the best needs no workspace, there
  // is no cliff).
  std::optional<Contender> real;    // the fastest undivided engine that fits, as its Find answers
  std::optional<Contender> ucudnn;  // what a run promises

  size_t WorkspaceBytes() const { return best.configuration.WorkspaceBytes(); }
  bool HasCliff() const { return WorkspaceBytes() > 0; }
};

// Sums over the kernels that run under every limit.
struct CliffTotal {
  double best_ms = 0;
  double real_ms = 0;
  double ucudnn_ms = 0;
  int left_out = 0;  // kernels that nothing runs with one byte less
};

struct Cliffs {
  planning::Platform platform;
  long measured = 0;  // measurements made now; the others came from the store
  std::vector<Cliff> kernels;

  CliffTotal Total() const;
};

// Measures what the store (null: none) does not hold of the policy's sizes, then runs the
// contenders. `progress` is called before each layer. An error when there is no device, no real
// cuDNN, or a layer that no engine runs.
Result<Cliffs> MeasureCliffs(const std::vector<Layer>& layers, const Options& options,
                             planning::MeasurementStore* store,
                             const std::function<void(const Layer&)>& progress);

}  // namespace ucudnn::command
