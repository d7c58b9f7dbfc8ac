// The cliff of workspace limits (mu-cuDNN, Fig. 1): how much slower a kernel runs if its workspace
// is one byte less than its best engine needs, or is limited by the user. This is measured with the
// real library, which falls back to another engine, and with ucudnn, which divides the mini-batch
// or cuts the kernel into tiles. Not thread-safe: makes the device's context current.
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

// A configuration with two times: `division` holds the measurements of its engines, and run_ms is
// the median of its runs here, which alternate with the other contenders' runs.
struct Contender {
  Division division = Configuration{};
  double run_ms = 0;
};

struct Cliff {
  Layer layer;
  Contender best;          // the fastest undivided engine, with any workspace
  size_t limit_bytes = 0;  // the user's limit, or else one byte less than `best` needs
  // The contenders within the limit; none if nothing fits, or if `best` itself fits. `real` is the
  // fastest undivided engine that fits, as the real library would find it.
  std::optional<Contender> real;
  std::optional<Contender> ucudnn;  // the choice of a run with ucudnn

  size_t WorkspaceBytes() const { return best.division.configuration.WorkspaceBytes(); }
  bool HasCliff() const { return WorkspaceBytes() > limit_bytes; }
};

// Sums over the kernels for which all three contenders exist. A kernel without a cliff counts, too:
// it runs `best` in any case.
struct CliffTotal {
  double best_ms = 0;
  double real_ms = 0;
  double ucudnn_ms = 0;
  int left_out = 0;  // number of kernels for which no engine fits the limit
};

struct Cliffs {
  planning::Platform platform;
  long measured = 0;  // new measurements; all others came from the store
  std::vector<Cliff> kernels;

  CliffTotal Total() const;
};

// Measures what the store (null: none) lacks, at the policy's micro-batch sizes and for tiles, and
// then runs the contenders. `engines` run undivided or on parts of the mini-batch; tiles use all
// engines that tiles in a program would use. Calls progress() before each layer. Fails if there is
// no device, no real cuDNN, or no engine for a layer.
Result<Cliffs> MeasureCliffs(const std::vector<Layer>& layers, const Options& options,
                             EngineSet engines, planning::MeasurementStore* store,
                             const std::function<void(const Layer&)>& progress);

void PrintCliffTable(const Cliffs& cliffs, const Options& options);

// Writes the format `ucudnn-cliff`. Each kernel has `best`, and `real` and `ucudnn` under
// `limit_bytes`. `real` and `ucudnn` are null if there is no cliff or if nothing fits. `run_ms` is
// a time measured by this command; `planned_ms` is the sum of the measurements from which a plan
// was made.
void PrintCliffJson(const Cliffs& cliffs, const Options& options);

}  // namespace ucudnn::command
