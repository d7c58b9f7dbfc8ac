// Measures a list of layers on this machine's devices, for `ucudnn bench`. Not thread-safe; the
// calling thread's current context stays current.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "command/progress.h"
#include "convolution/configuration.h"
#include "convolution/layer.h"
#include "convolution/tiles.h"
#include "options/options.h"
#include "planning/measurement_store.h"
#include "tuning/legacy_kernel.h"

namespace ucudnn::command {

struct MeasuredLayer {
  Layer layer;
  // `undivided` is the fastest legacy algorithm, and `best_undivided` the fastest engine of any
  // API. `divided` is the fastest choice: micro-batches (WR), tiles if a run would look for them,
  // or a single engine. All are within the workspace limit. A member is unset if nothing fits the
  // limit. `divided` is also unset if several choices in turn had wrong outputs.
  std::optional<MicroConfiguration> undivided, best_undivided;
  std::optional<Division> divided;
  // True if `divided` is unset or a single legacy algorithm, or if a comparison, now or earlier,
  // found that its output equals an undivided engine's output. A run uses only verified divisions.
  // If false, `unverified` says why.
  bool verified = true;
  std::string unverified;
  // A text about each division whose output was wrong. `divided` uses no piece of these divisions.
  std::vector<std::string> wrong;
};

struct Measured {
  planning::Platform platform;
  size_t devices = 1;  // number of devices that measured
  long measured = 0;   // number of new measurements; all others came from the store
  std::vector<MeasuredLayer> layers;
};

// Measures everything that `options` requires (engines, policy, limit, determinism) and that the
// store (null: none) does not hold yet. Also compares the chosen divisions with undivided engines,
// so that a run need not measure or compare. Uses the devices that `options` names, in parallel.
// `progress` reports devices that are left out or that fail; other devices do the work of these.
// Fails if there is no device, no real cuDNN, or no engine for a layer.
Result<Measured> MeasureLayers(const std::vector<Layer>& layers, const Options& options,
                               planning::MeasurementStore* store, Progress& progress);

// Returns the tiles among which a run with these options would choose, given the kernel's measured
// `candidates`. Leaves out tiles that prove slower than another choice when the complete kernel is
// timed (LegacyKernels::WithoutSlower). Measures tiles if kernel.may_measure.
planning::Tilings TilingsOf(const tuning::KernelToMeasure& kernel, const Options& options,
                            const std::vector<planning::Candidate>& candidates,
                            const planning::PromiseRequest& request,
                            tuning::LegacyKernels& kernels);

}  // namespace ucudnn::command
