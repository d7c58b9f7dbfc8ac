// What a plan file (UCUDNN_PLAN) pins in this process, as far as the genuine library confirms it.
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
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
  // From now on the file is not followed; said once.
  void Ignore(const std::string& why);
  const planning::PinnedPlan* For(const planning::Platform& platform);
  // Whether it is for this one.
  bool Follows(const planning::Platform& platform) const;
  // Whether it is, and has such a kernel: what it has is not measured.
  bool Has(const planning::Platform& platform, const ConvolutionProblem& problem,
           bool legacy) const;
  // The first time for each kernel that the file should have and has not: what it has instead, in
  // words, which may be none.
  std::optional<std::string> Misses(const planning::Platform& platform,
                                    const ConvolutionProblem& problem, bool legacy);

  // A plan that the file pins, with the sizes the library says, and beside its pieces every
  // undivided engine; their times are only an order.
  struct Pinned {
    Configuration plan;
    std::vector<planning::Candidate> candidates;
    size_t limit_bytes = 0;                                         // the file's
    planning::NumericClass lead = planning::NumericClass::kDirect;  // of the largest piece
  };
  struct Found {
    const Pinned* pinned = nullptr;  // null: nothing is pinned, or it does not hold here
    bool unanswered = false;         // the library did not answer: it may at a later call
    std::optional<std::string> why;  // said the first time
  };
  // Of a kernel of the legacy API. `handle` is one of the platform's; without one only what was
  // found before. Threads that ask at once wait for the first one's answer.
  Found Find(const planning::Platform& platform, int platform_number,
             const ConvolutionProblem& problem, cudnnHandle_t handle);

 private:
  enum class State { kNotAsked, kAsking, kUnanswered, kAnswered };
  struct Entry {
    State state = State::kNotAsked;
    std::unique_ptr<Pinned> pinned;  // null: does not hold
  };
  // `unanswered` becomes true where the error is that the library could not say.
  Result<Pinned> Confirm(const ConvolutionProblem& problem, const Configuration& plan,
                         cudnnHandle_t handle, bool& unanswered) const;

  const cudnn::Functions& functions_;
  std::optional<planning::PinnedPlan> file_;
  std::atomic<bool> ignored_ = false;
  std::mutex mutex_;  // of what follows
  std::condition_variable answered_;
  std::map<int, std::unordered_map<ConvolutionProblem, Entry, planning::PinnedPlan::Hash>>
      confirmed_;  // by platform; entries keep their address
  std::unordered_set<ConvolutionProblem, planning::PinnedPlan::Hash> missed_;
};

}  // namespace ucudnn::interposer
