// Measures a list of layers on this machine's devices, as `ucudnn bench` does. Not thread-safe; the
// calling thread's current context stays.
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
  // The fastest legacy algorithm and the fastest engine of any API, undivided within the workspace
  // limit, and the fastest division (WR, or tiles if a run looks for some), which may be one graph
  // engine. None: nothing fits, or (divided) a division would change the numerics.
  std::optional<MicroConfiguration> undivided, best_undivided;
  std::optional<Division> divided;
  // True if the output of `divided` equals an undivided engine's in a comparison, now or before, as
  // a run demands, or if nothing is divided. If false, `unverified` says why.
  bool verified = true;
  std::string unverified;
  // The results of comparing wrong divisions; `divided` is made without their pieces.
  std::vector<std::string> wrong;
};

struct Measured {
  planning::Platform platform;
  size_t devices = 1;  // number of devices that measured
  long measured = 0;   // new measurements; all others came from the store
  std::vector<MeasuredLayer> layers;
};

// Measures what `options` asks for (engines, policy, limit, determinism) and the store (null: none)
// does not hold yet, and compares the divisions that it chooses, so that a run finds both done. It
// uses the devices that `options` names, in parallel. `progress` hears of devices that are left out
// or fail; the others do their work. Fails if there is no device, no real cuDNN, or no engine for a
// layer.
Result<Measured> MeasureLayers(const std::vector<Layer>& layers, const Options& options,
                               planning::MeasurementStore* store, Progress& progress);

// Returns the tiles from which a run with these options would choose, given the kernel's measured
// `candidates`, without those that are slower in place; measures them if the kernel may be
// measured.
planning::Tilings TilingsOf(const tuning::LegacyKernel& kernel, const Options& options,
                            const std::vector<planning::Candidate>& candidates,
                            const planning::PromiseRequest& request,
                            tuning::LegacyKernels& kernels);

}  // namespace ucudnn::command
