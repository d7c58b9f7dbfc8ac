// The cliff of workspace limits (mu-cuDNN, Fig. 1): how much slower a kernel runs within a limit
// than with the workspace that its best engine needs. The limit is the user's, or one byte less
// than that engine needs. Within it, the real library falls back to another engine, and ucudnn
// divides the mini-batch or cuts the kernel into tiles. Both ways are measured. Not thread-safe:
// makes the device's context current.
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

// A division with two times: `division` has the earlier measurements of its engines, and run_ms is
// the median of the division's own runs, which alternate with the runs of the other contenders.
struct Contender {
  Division division = Configuration{};
  double run_ms = 0;
};

struct Cliff {
  Layer layer;
  Contender best;          // the fastest undivided engine, with any workspace
  size_t limit_bytes = 0;  // the user's limit, or else one byte less than `best` needs
  // The contenders within the limit. Unset if nothing fits the limit, or if `best` itself fits.
  // `real` is the fastest undivided engine that fits, which the real library would fall back to.
  std::optional<Contender> real;
  std::optional<Contender> ucudnn;  // the choice of a run with ucudnn

  size_t WorkspaceBytes() const { return best.division.configuration.WorkspaceBytes(); }
  bool HasCliff() const { return WorkspaceBytes() > limit_bytes; }
};

// Sums over kernels. A kernel without a cliff adds the time of `best` to all three sums. A kernel
// with a cliff counts only if `real` and `ucudnn` are set.
struct CliffTotal {
  double best_ms = 0;
  double real_ms = 0;
  double ucudnn_ms = 0;
  int left_out = 0;  // number of kernels with a cliff that lack `real` or `ucudnn`
};

struct Cliffs {
  planning::Platform platform;
  long measured = 0;  // new measurements; all others came from the store
  std::vector<Cliff> kernels;

  CliffTotal Total() const;
};

// Measures what the store (null: none) lacks, at the policy's micro-batch sizes and for tiles, and
// then runs the contenders. `engines` limits the engines for the whole mini-batch and for
// micro-batches. Tiles use the same engines as in a program. Calls progress() before each layer.
// Fails if there is no device, no real cuDNN, or no engine for a layer.
Result<Cliffs> MeasureCliffs(const std::vector<Layer>& layers, const Options& options,
                             EngineSet engines, planning::MeasurementStore* store,
                             const std::function<void(const Layer&)>& progress);

void PrintCliffTable(const Cliffs& cliffs, const Options& options);

// Writes the format `ucudnn-cliff`. Each kernel has `limit_bytes` and the three contenders `best`,
// `real` and `ucudnn`, which have the members of Cliff; unset members are null. Each contender has
// run_ms, and `planned_ms`, the sum of the measurements from which the contender was chosen.
void PrintCliffJson(const Cliffs& cliffs, const Options& options);

}  // namespace ucudnn::command
