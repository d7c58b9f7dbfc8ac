// What measurement stores know about a network's kernels: planning without a device. Reads store
// files only. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "convolution/api.h"
#include "convolution/configuration.h"
#include "convolution/layer.h"
#include "convolution/tiles.h"
#include "planning/measurement_store.h"

namespace ucudnn::command {

struct OfflineKernel {
  Layer layer;  // with the alignment that its measurements were made under
  const char* api = "legacy";
  // Without any limit, not empty: by rising workspace and falling time.
  std::vector<Division> desirable_set;
  // The whole mini-batch by one engine: by rising workspace and falling time.
  std::vector<MicroConfiguration> undivided;
};

struct OfflineKernels {
  planning::Platform platform;
  std::vector<OfflineKernel> kernels;  // in the order of the layers
  size_t differing_rows = 0;           // of stores that are not the first to say something of them
};

// The layers' desirable sets from the stores of `options`, out of the sizes its policy considers
// (auto: all that were measured) and, if it asks for them, deterministic engines alone. They are
// those of `device` (empty: the only one there is) on its newest platform that has rows of all.
// Rows made under a run's alignment count before rows that demand none, and rows of the legacy
// API's engines before those of the graph API's. The error is bad usage, or names the kernels that
// lack measurements.
Result<OfflineKernels> ReadOfflineKernels(const std::vector<Layer>& layers, const Options& options,
                                          const std::string& device);

struct ApiKernel {
  ConvolutionProblem problem;
  Api api = Api::kLegacy;  // that it is called through
};

// The desirable set of each kernel on `device`, from engines of its own API, on the platform with
// this cuDNN (0: any) and the newest driver that has rows of it; empty where there are none that
// make up the mini-batch.
Result<std::vector<std::vector<Division>>> ReadDesirableSets(const std::vector<ApiKernel>& kernels,
                                                             const Options& options,
                                                             const std::string& device, int cudnn);

// "1 row differs from the first store's, which counts".
std::string Disagreement(size_t rows);

// "conv1 forward, conv2 forward and 3 more".
std::string KernelNames(const std::vector<const Layer*>& layers);

}  // namespace ucudnn::command
