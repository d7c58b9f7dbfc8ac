#include "command/offline_kernels.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "command/versions.h"
#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "db/sqlite_store.h"
#include "db/store_choice.h"
#include "planning/desirable_set.h"
#include "planning/micro_batch_sizes.h"

namespace ucudnn::command {
namespace {

using Rows = std::vector<db::StoredMeasurement>;
using Versions = std::pair<int, int>;  // of cuDNN and the driver

Result<Rows> ReadStores(const Options& options) {
  std::vector<std::string> paths = db::ChooseStores(options.databases).paths;
  if (paths.empty()) return Status::Error("there is no store; name one with --db PATH");
  const std::string first = paths.front();
  std::erase_if(paths, [](const std::string& path) { return !std::filesystem::exists(path); });
  if (paths.empty()) return Status::Error("'" + first + "': there is no such store (yet)");
  return db::SqliteStore(paths).List();
}

Result<std::string> ChooseDevice(const Rows& rows, const std::string& asked) {
  std::set<std::string> devices;
  for (const db::StoredMeasurement& row : rows) devices.insert(row.platform.device);
  if (devices.empty()) return Status::Error("the store holds no measurements");
  if (asked.empty() && devices.size() == 1) return *devices.begin();
  if (devices.contains(asked)) return asked;
  std::string names;
  for (const std::string& device : devices) names += (names.empty() ? "'" : ", '") + device + "'";
  return Status::Error((asked.empty() ? "whose measurements? --device NAME"
                                      : "--device '" + asked + "': no measurements") +
                       " (there are those of " + names + ")");
}

struct HashOfProblem {
  size_t operator()(const ConvolutionProblem& problem) const { return problem.Hash(); }
};

// Of one platform, by kernel family.
using Measurements =
    std::unordered_map<ConvolutionProblem, std::vector<MicroConfiguration>, HashOfProblem>;

// Whether a call through the legacy API may use the row (else: through the graph API); engines that
// are neither's, which only an imported row has, count as the legacy API's. The engine becomes what
// a plan calls it.
bool ServesApi(const ConvolutionProblem& problem, bool legacy, MicroConfiguration& row) {
  if (row.engine.starts_with("graph:") == legacy) return false;
  const std::optional<cudnn::LegacyEngine> engine = cudnn::ParseLegacyEngine(row.engine);
  if (!engine) return true;
  if (engine->math && *engine->math != problem.math) return false;
  row.engine = cudnn::LegacyEngineName({engine->algorithm, std::nullopt});
  return true;
}

std::vector<Configuration> DesirableSetOf(const ConvolutionProblem& problem, bool legacy,
                                          const Options& options,
                                          const std::vector<MicroConfiguration>& rows) {
  const int step = LegalStep(problem);
  const std::vector<int> sizes = planning::MicroBatchSizes(options.policy, problem.n, step);
  const auto sum = std::find_if(rows.begin(), rows.end(),
                                [](const auto& row) { return row.engine == kPartialSum; });
  std::vector<MicroConfiguration> usable;
  for (MicroConfiguration row : rows) {
    if (row.engine == kPartialSum) continue;
    if (options.deterministic && !row.deterministic) continue;
    if (IsPartial(problem, row.micro_batch)) {
      if (sum == rows.end()) continue;
      row = AsPartial(problem, std::move(row), sum->time_ms);
    }
    if (options.policy != BatchSizePolicy::kAuto &&
        !std::binary_search(sizes.begin(), sizes.end(), row.micro_batch)) {
      continue;
    }
    if (ServesApi(problem, legacy, row)) usable.push_back(std::move(row));
  }
  return planning::DesirableSet(usable, problem.n, step, std::numeric_limits<size_t>::max());
}

// Its desirable set is empty where nothing is known.
OfflineKernel Plan(const Layer& layer, const Options& options, const Measurements& measurements) {
  OfflineKernel kernel{layer};
  ConvolutionProblem& problem = kernel.layer.problem;
  for (const int alignment : {int{cudnn::kLegacyAlignment}, int{layer.problem.alignment}}) {
    problem.alignment = alignment;
    const auto rows = measurements.find(KernelFamily(problem));
    if (rows == measurements.end()) continue;
    for (const bool legacy : {true, false}) {
      kernel.api = legacy ? "legacy" : "graph";
      kernel.desirable_set = DesirableSetOf(problem, legacy, options, rows->second);
      if (!kernel.desirable_set.empty()) return kernel;
    }
  }
  return kernel;
}

std::string PlatformText(const planning::Platform& platform) {
  if (platform.cudnn == 0) return platform.device;
  return platform.device + " with cuDNN " + CudnnVersion(static_cast<size_t>(platform.cudnn));
}

}  // namespace

std::string KernelNames(const std::vector<const Layer*>& layers) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(layers.size(), kShown); ++i) {
    text +=
        (i == 0 ? "" : ", ") + layers[i]->name + " " + OperationName(layers[i]->problem.operation);
  }
  if (layers.size() > kShown) text += " and " + std::to_string(layers.size() - kShown) + " more";
  return text;
}

Result<OfflineKernels> ReadOfflineKernels(const std::vector<Layer>& layers, const Options& options,
                                          const std::string& device) {
  UCUDNN_ASSIGN_OR_RETURN(const Rows rows, ReadStores(options));
  UCUDNN_ASSIGN_OR_RETURN(const std::string chosen, ChooseDevice(rows, device));
  std::map<Versions, Measurements, std::greater<>> platforms;  // the newest first
  for (const db::StoredMeasurement& row : rows) {
    if (row.platform.device != chosen) continue;
    platforms[{row.platform.cudnn, row.platform.driver}][KernelFamily(row.problem)].push_back(
        row.measurement.micro);
  }
  std::string newest_lacks;
  for (const auto& [versions, measurements] : platforms) {
    OfflineKernels found{{chosen, versions.first, versions.second}, {}};
    std::vector<const Layer*> missing;
    for (const Layer& layer : layers) {
      found.kernels.push_back(Plan(layer, options, measurements));
      if (found.kernels.back().desirable_set.empty()) missing.push_back(&layer);
    }
    if (missing.empty()) return found;
    if (newest_lacks.empty()) {
      newest_lacks = "no measurements that make up the mini-batch of " + KernelNames(missing) +
                     ", on " + PlatformText(found.platform) + "; `ucudnn bench` makes them";
    }
  }
  return Status::Error(newest_lacks);
}

}  // namespace ucudnn::command
