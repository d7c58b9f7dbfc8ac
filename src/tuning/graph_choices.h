// The graph API's engines that may serve legacy kernels: built once for each kernel of a platform,
// whatever its mini-batch. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "convolution/problem.h"
#include "cudnn/mixed_engines.h"

namespace ucudnn::tuning {

class GraphChoices {
 public:
  using Template = std::shared_ptr<const cudnn::GraphTemplate>;

  explicit GraphChoices(const cudnn::Functions& functions) : functions_(functions) {}

  // The engine that "graph:38[k2=1]" names, for a kernel of a legacy problem; null when it may not
  // serve. `handle` is one of the platform's; without one only what was built before is found.
  Template Named(int platform, const ConvolutionProblem& problem, const std::string& engine,
                 cudnnHandle_t handle);

  // The heuristics' first choices, asked for once; fewer when building them took so long that
  // `in_time` became false.
  std::vector<Template> Heuristics(int platform, const ConvolutionProblem& problem,
                                   cudnnHandle_t handle, const std::function<bool()>& in_time);

  // Whether `problem` was measured without them, and they are yet to be.
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
  struct Known {
    std::map<std::string, Template> engines;  // null: may not serve
    std::optional<std::vector<Template>> heuristics;
  };

  const cudnn::Functions& functions_;
  std::mutex mutex_;
  std::unordered_map<Key, Known, KeyHash> known_;  // by kernel, n = 0
  std::unordered_set<Key, KeyHash> postponed_;
};

}  // namespace ucudnn::tuning
