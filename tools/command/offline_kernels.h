// Plans a network's kernels without a device, from the rows of measurement stores. Only reads store
// files. Thread-compatible.
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
  // The desirable set without a workspace limit, with ascending workspace and descending time. It
  // is not empty in results of ReadOfflineKernels.
  std::vector<Division> desirable_set;
  // Single engines for the whole mini-batch, with ascending workspace and descending time.
  std::vector<MicroConfiguration> undivided;
};

struct OfflineKernels {
  planning::Platform platform;
  std::vector<OfflineKernel> kernels;  // in the order of the layers
  size_t differing_rows = 0;           // OfflineRows::differing
};

// Returns the layers' desirable sets from the stores of `options`. Considers the micro-batch sizes
// of the policy (auto: all measured sizes), and only deterministic engines if the options require
// them. The sets are for `device` (empty: the only one) on the newest platform that has rows of all
// layers. For each layer, rows with the alignment of a program's legacy calls take precedence over
// rows with the layer's alignment. Among rows of one alignment, legacy engines take precedence over
// graph engines. An error means bad usage, or names the kernels without measurements.
Result<OfflineKernels> ReadOfflineKernels(const std::vector<Layer>& layers, const Options& options,
                                          const std::string& device);

struct ApiKernel {
  ConvolutionProblem problem;
  Api api = Api::kLegacy;  // the API through which it is called
};

// Returns the desirable set of each kernel on `device`, from engines of the kernel's `api`. For
// each kernel, uses the newest platform with cuDNN version `cudnn` (0: any) whose rows make up the
// kernel's mini-batch. The set is empty if there is no such platform.
Result<std::vector<std::vector<Division>>> ReadDesirableSets(const std::vector<ApiKernel>& kernels,
                                                             const Options& options,
                                                             const std::string& device, int cudnn);

// Formats as "1 row differs from the first store's, which counts".
std::string Disagreement(size_t rows);

// Formats as "conv1 forward, conv2 forward and 3 more".
std::string KernelNames(const std::vector<const Layer*>& layers);

}  // namespace ucudnn::command
