// Measuring a list of layers on this machine's devices, as `ucudnn bench` does. Not thread-safe;
// the calling thread's current context stays.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "command/progress.h"
#include "convolution/configuration.h"
#include "convolution/layer.h"
#include "convolution/tiles.h"
#include "planning/measurement_store.h"
#include "tuning/legacy_kernel.h"

namespace ucudnn::command {

struct MeasuredLayer {
  Layer layer;
  // Within the workspace limit: the fastest legacy algorithm and the fastest engine of any API,
  // undivided, and the fastest division (WR, or tiles where a run looks for some), which may be one
  // graph engine. None: nothing fits, or (divided) a
  // division would change the numerics.
  std::optional<MicroConfiguration> undivided, best_undivided;
  std::optional<Division> divided;
  // Whether the output of `divided` was compared with an undivided engine's and is equal, now or
  // before, as a run demands; why not, where it is not. True where nothing is divided.
  bool verified = true;
  std::string unverified;
  // What comparing said of divisions that are wrong; `divided` is made without their pieces.
  std::vector<std::string> wrong;
};

struct Measured {
  planning::Platform platform;
  size_t devices = 1;  // that were measured on
  long measured = 0;   // measurements made now; the others came from the store
  std::vector<MeasuredLayer> layers;
};

// Measures what `options` asks for (engines, policy, limit, determinism) and the store (null: none)
// does not hold yet, and compares the divisions it chooses, so that a run finds both done; on the
// devices that `options` names, in parallel. Devices that are left out or fail are told of through
// `progress`; the others do their work. An error when there is no device, no real cuDNN, or a
// layer that no engine runs.
Result<Measured> MeasureLayers(const std::vector<Layer>& layers, const Options& options,
                               planning::MeasurementStore* store, Progress& progress);

// The tiles that a run with these options would choose from, where `candidates` are what was
// measured of the kernel; measures them where the kernel may be measured.
planning::Tilings TilingsOf(const tuning::LegacyKernel& kernel, const Options& options,
                            const std::vector<planning::Candidate>& candidates,
                            const planning::PromiseRequest& request,
                            tuning::LegacyKernels& kernels);

}  // namespace ucudnn::command
