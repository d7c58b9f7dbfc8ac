// The cliff of workspace limits (mu-cuDNN, Fig. 1): what a kernel loses when its workspace is one
// byte short of what its best engine needs, or has a limit of the user's, with the real library,
// which falls to another engine, and with ucudnn, which divides the mini-batch or cuts the kernel
// into tiles. Not thread-safe: makes the device's context current.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "convolution/layer.h"
#include "convolution/tiles.h"
#include "planning/measurement_store.h"

namespace ucudnn::command {

// What runs, with both of its times: `division` holds what was measured engine by engine,
// `run_ms` is the median of running it here, in turn with what it is compared with.
struct Contender {
  Division division = Configuration{};
  double run_ms = 0;
};

struct Cliff {
  Layer layer;
  Contender best;          // the fastest undivided engine, whatever it needs
  size_t limit_bytes = 0;  // the user's or, without one, one byte less than that needs
  // Within the limit; none: nothing fits (or, where the best fits, there is no cliff).
  std::optional<Contender> real;    // the fastest undivided engine that fits, as its Find answers
  std::optional<Contender> ucudnn;  // what a run promises

  size_t WorkspaceBytes() const { return best.division.configuration.WorkspaceBytes(); }
  bool HasCliff() const { return WorkspaceBytes() > limit_bytes; }
};

// Sums over the kernels that run under every limit.
struct CliffTotal {
  double best_ms = 0;
  double real_ms = 0;
  double ucudnn_ms = 0;
  int left_out = 0;  // kernels that nothing runs within their limit
};

struct Cliffs {
  planning::Platform platform;
  long measured = 0;  // measurements made now; the others came from the store
  std::vector<Cliff> kernels;

  CliffTotal Total() const;
};

// Measures what the store (null: none) does not hold of the policy's sizes and of tiles, then runs
// the contenders. `engines` are those that run whole or on parts of the mini-batch; tiles have all
// that a program's would. `progress` is called before each layer. An error when there is no device,
// no real cuDNN, or a layer that no engine runs.
Result<Cliffs> MeasureCliffs(const std::vector<Layer>& layers, const Options& options,
                             EngineSet engines, planning::MeasurementStore* store,
                             const std::function<void(const Layer&)>& progress);

void PrintCliffTable(const Cliffs& cliffs, const Options& options);

// Format `ucudnn-cliff`. Per kernel: `best`, and `real` and `ucudnn` under `limit_bytes`; null
// where there is no cliff or nothing fits. `run_ms` was run here, `planned_ms` is the sum of the
// measurements a plan was made from.
void PrintCliffJson(const Cliffs& cliffs, const Options& options);

}  // namespace ucudnn::command
