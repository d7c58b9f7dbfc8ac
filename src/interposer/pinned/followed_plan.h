// The workspace plan that this process follows (UCUDNN_WORKSPACE_PLAN), and the real library's
// confirmations of the plan's entries. Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "convolution/api.h"
#include "cudnn/functions.h"
#include "options/options.h"
#include "planning/decision/facts.h"
#include "planning/measurement_store.h"
#include "planning/workspace_plan.h"

namespace ucudnn::interposer {

class FollowedPlan {
 public:
  // Reads the file that options.workspace_plan names. Warns once if the file cannot be used.
  FollowedPlan(const Options& options, const cudnn::Functions& functions);

  // Stops following the file, and warns once.
  void Ignore(const std::string& why);
  // Returns the file, which this object owns. Returns null if there is no file or the file is not
  // followed. Also returns null, after one warning, if the file is for another device or cuDNN.
  const planning::WorkspacePlan* For(const planning::Platform& platform);
  // Returns whether the file is followed and is for this platform.
  bool Follows(const planning::Platform& platform) const;
  // Returns whether the file is followed and names the kernel. Such a kernel is not measured.
  bool Has(const planning::Platform& platform, const ConvolutionProblem& problem, Api api) const;
  // If the followed file does not name `problem`, the first call for the problem returns a text
  // that says what the file names instead (empty: nothing). Later calls return none. Every call
  // returns none if the file names the kernel or is not followed.
  std::optional<std::string> Misses(const planning::Platform& platform,
                                    const ConvolutionProblem& problem, Api api);

  struct Found {
    // Null: no followed file names the kernel, the file's entry does not hold here, or the library
    // has not confirmed the entry yet.
    const planning::ConfirmedLegacyKernel* confirmed = nullptr;
    bool unanswered = false;         // the library gave no answer, but may do so at a later call
    std::optional<std::string> why;  // why the entry does not hold; set only the first time
  };
  // Returns the file's entry for a legacy kernel, confirmed by the library with `handle`, a handle
  // of the platform. If `handle` is null, returns the entry only if it was confirmed before. While
  // one thread asks the library about an entry, other threads with a handle wait for the answer.
  // The returned entry exists as long as this object.
  Found Find(const planning::Platform& platform, int platform_number,
             const ConvolutionProblem& problem, cudnnHandle_t handle);

 private:
  enum class State { kNotAsked, kAsking, kUnanswered, kAnswered };
  struct Entry {
    State state = State::kNotAsked;
    std::unique_ptr<planning::ConfirmedLegacyKernel> confirmed;  // null if the entry does not hold
  };
  // Asks the library for the workspace of each piece of `configuration`. If the library gave no
  // answer, returns an error and sets `unanswered` to true.
  Result<planning::ConfirmedLegacyKernel> ConfirmKernel(const ConvolutionProblem& problem,
                                                        const Configuration& configuration,
                                                        cudnnHandle_t handle,
                                                        bool& unanswered) const;

  const cudnn::Functions& functions_;
  std::optional<planning::WorkspacePlan> file_;
  std::atomic<bool> ignored_ = false;
  Mutex mutex_;
  Condition answered_;
  std::map<int, std::unordered_map<ConvolutionProblem, Entry, planning::WorkspacePlan::Hash>>
      confirmed_ UCUDNN_GUARDED_BY(mutex_);  // by platform; entries keep their address
  std::unordered_set<ConvolutionProblem, planning::WorkspacePlan::Hash> missed_
      UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::interposer
