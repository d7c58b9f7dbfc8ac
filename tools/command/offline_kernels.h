// Planning without a device, from the measurement stores' rows of a network's kernels. Reads store
// files only. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/api.h"
#include "convolution/configuration.h"
#include "convolution/layer.h"
#include "convolution/tiles.h"
#include "options/options.h"
#include "planning/measurement_store.h"

namespace ucudnn::command {

struct OfflineKernel {
  Layer layer;  // with the alignment of its measurements
  const char* api = "legacy";
  // Without any limit; not empty; in ascending order of workspace and descending order of time.
  std::vector<Division> desirable_set;
  // Single engines for the whole mini-batch, in ascending order of workspace and descending order
  // of time.
  std::vector<MicroConfiguration> undivided;
};

struct OfflineKernels {
  planning::Platform platform;
  std::vector<OfflineKernel> kernels;  // in the order of the layers
  size_t differing_rows = 0;           // rows that differ from those of an earlier store
};

// Returns the layers' desirable sets from the stores of `options`, from the sizes that its policy
// considers (auto: all measured ones) and, if it asks for them, deterministic engines alone. The
// sets are for `device` (empty: the only one) on its newest platform that has rows of all layers.
// Rows with a run's alignment count before rows that demand none, and rows of the legacy API's
// engines before rows of the graph API's. The error is bad usage, or names the kernels that lack
// measurements.
Result<OfflineKernels> ReadOfflineKernels(const std::vector<Layer>& layers, const Options& options,
                                          const std::string& device);

struct ApiKernel {
  ConvolutionProblem problem;
  Api api = Api::kLegacy;  // the API that it is called through
};

// Returns the desirable set of each kernel on `device`, from engines of its own API, on the
// platform with this cuDNN (0: any) and the newest driver that has its rows; empty if no rows make
// up the mini-batch.
Result<std::vector<std::vector<Division>>> ReadDesirableSets(const std::vector<ApiKernel>& kernels,
                                                             const Options& options,
                                                             const std::string& device, int cudnn);

// Formats "1 row differs from the first store's, which counts".
std::string Disagreement(size_t rows);

// Formats "conv1 forward, conv2 forward and 3 more".
std::string KernelNames(const std::vector<const Layer*>& layers);

}  // namespace ucudnn::command
