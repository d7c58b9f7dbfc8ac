// What a plan file (UCUDNN_PLAN) pins in this process, as far as the genuine library confirms it.
// Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/options.h"
#include "cudnn/functions.h"
#include "planning/measurement_store.h"
#include "planning/pinned_plan.h"
#include "planning/promise.h"

namespace ucudnn::interposer {

class PinnedKernels {
 public:
  // Reads the file that `options` name. One that cannot be used costs one warning.
  PinnedKernels(const Options& options, const cudnn::Functions& functions);

  // The file; null where there is none, or, with one warning, it is for another device or cuDNN.
  const planning::PinnedPlan* For(const planning::Platform& platform);
  // Whether it is for this one: then nothing is measured there.
  bool Follows(const planning::Platform& platform) const;

  // A plan that the file pins, with the sizes the library says, and beside its pieces every
  // undivided engine; their times are only an order.
  struct Pinned {
    Configuration plan;
    std::vector<planning::Candidate> candidates;
    size_t limit_bytes = 0;                                         // the file's
    planning::NumericClass lead = planning::NumericClass::kDirect;  // of the largest piece
  };
  // Of a kernel of the legacy API; null where nothing is pinned, or, with `why` the first time, it
  // does not hold here. `handle` is one of the platform's; without one only what was found before.
  const Pinned* Find(const planning::Platform& platform, int platform_number,
                     const ConvolutionProblem& problem, cudnnHandle_t handle,
                     std::optional<std::string>& why);

 private:
  Result<Pinned> Confirm(const ConvolutionProblem& problem, const Configuration& plan,
                         cudnnHandle_t handle) const;

  const cudnn::Functions& functions_;
  std::optional<planning::PinnedPlan> file_;
  std::mutex mutex_;  // of what follows
  std::map<int, std::unordered_map<ConvolutionProblem, std::unique_ptr<Pinned>,
                                   planning::PinnedPlan::Hash>>
      confirmed_;  // by platform; null: does not hold
};

}  // namespace ucudnn::interposer
