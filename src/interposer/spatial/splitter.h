// Splitting in this process: whether its calls are split at all, who its rank is, and the ranks'
// meeting at the first split call. Where calls are split, every convolution comes through here, and
// its own call alone is never the answer. Thread-safe.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/options.h"
#include "cuda/driver.h"
#include "interposer/report/report.h"
#include "interposer/session/session.h"
#include "spatial/split_calls.h"

namespace ucudnn::interposer {

class Splitter {
 public:
  // `driver` may be null; then nothing can be split, and every call is refused where it should be.
  Splitter(const Options& options, const cudnn::Functions& functions, const cuda::Driver* driver);

  // Whether calls of this process are split, or refused because they should be and cannot: then no
  // call goes to the real library by another way.
  bool active() const { return options_.spatial.grid.has_value() || !refusal().empty(); }
  // Why every call is refused; empty: none is.
  const std::string& refusal() const { return options_.spatial.refusal; }
  // Whether the program took its calls out (ucudnnSpatialEnable): they are its own then.
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  // Whether the program's next call is.
  bool splits() const { return active() && (enabled() || !refusal().empty()); }
  // Whether the calling thread's tensors are whole on every rank.
  static bool IsReplicated() { return is_replicated_; }
  static void DeclareReplicated(bool replicated) { is_replicated_ = replicated; }
  // Whether what looks beyond one position of an image is right as this rank computes it.
  bool RunsAlone() const { return refusal().empty() && (!enabled() || IsReplicated()); }
  void Enable(bool enabled) { enabled_.store(enabled, std::memory_order_relaxed); }

  // One convolution of the program, on `session`. Requires active().
  cudnnStatus_t Run(const spatial::SplitCall& call, spatial::LocalCall& local);
  // Of a workspace limit: what exchanges may take, which is no kernel's own. A function of the
  // process's options alone, so that all ranks tell their programs alike.
  size_t ShareOf(size_t limit_bytes) const { return active() ? limit_bytes / 4 : 0; }

  // What cannot be split: one line that names it, and NOT_SUPPORTED. Requires active().
  cudnnStatus_t Refuse(const std::string& what) const;
  // The call failed before it could be looked at: an error on all ranks.
  cudnnStatus_t Fail(const char* why) noexcept;
  // One that all ranks refuse by themselves, because it cannot be read.
  cudnnStatus_t RefuseCall(Operation operation, cudnnHandle_t handle, const std::string& what);
  void Forget(cudnnHandle_t handle);
  // Tells the report what was done so far; nothing where no call was split.
  void Note(Report& report) const;
  // The process ends: ranks compare how many calls they made.
  void Leave();

 private:
  // This process's calls; null where its ranks do not meet, which was told then.
  spatial::SplitCalls* Calls();
  Status Meet() UCUDNN_REQUIRES(mutex_);

  const Options& options_;
  const cudnn::Functions& functions_;
  const cuda::Driver* const driver_;
  const pid_t process_;
  std::atomic<bool> enabled_ = true;
  static inline thread_local bool is_replicated_ = false;
  Mutex mutex_;
  bool met_ UCUDNN_GUARDED_BY(mutex_) = false;  // or tried to
  std::unique_ptr<spatial::SplitCalls> owned_ UCUDNN_GUARDED_BY(mutex_);
  std::atomic<spatial::SplitCalls*> calls_ = nullptr;
};

}  // namespace ucudnn::interposer
