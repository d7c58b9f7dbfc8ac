// Engines of the graph API that may serve legacy kernels. Once an engine is built for a kernel and
// platform, it is kept, and serves any mini-batch. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "convolution/engine_id.h"
#include "convolution/problem.h"
#include "cudnn/mixed_engines.h"

namespace ucudnn::tuning {

class GraphChoices {
 public:
  using Template = std::shared_ptr<const cudnn::GraphTemplate>;

  explicit GraphChoices(const cudnn::Functions& functions) : functions_(functions) {}

  // Returns `engine`, an engine of the graph API without fused operations, for a legacy kernel;
  // null if the engine may not serve the kernel. `handle` is a handle of the platform; if it is
  // null, only engines that were built before are returned.
  Template Named(int platform, const ConvolutionProblem& problem, const EngineId& engine,
                 cudnnHandle_t handle);

  // Returns the heuristics' first choices. If `in_time` returns false while they are built, returns
  // only the choices that were built by then, and the next call asks the heuristics again.
  // Otherwise the choices are kept for later calls.
  std::vector<Template> Heuristics(int platform, const ConvolutionProblem& problem,
                                   cudnnHandle_t handle, const std::function<bool()>& in_time);

  // SetPostponed records whether `problem` was measured without graph engines, so that graph
  // engines still have to be measured. IsPostponed returns what was recorded last.
  void SetPostponed(int platform, const ConvolutionProblem& problem, bool postponed);
  bool IsPostponed(int platform, const ConvolutionProblem& problem);

 private:
  struct Key {
    int platform = 0;
    ConvolutionProblem problem;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return key.problem.Hash() ^ static_cast<size_t>(key.platform);
    }
  };
  struct Choices {
    std::map<EngineId, Template> engines;  // null: the engine may not serve the kernel
    std::optional<std::vector<Template>> heuristics;
  };

  const cudnn::Functions& functions_;
  Mutex mutex_;
  // The problem in the key has n = 0.
  std::unordered_map<Key, Choices, KeyHash> known_ UCUDNN_GUARDED_BY(mutex_);
  std::unordered_set<Key, KeyHash> postponed_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::tuning
