// Splitting in this process: whether its calls are split at all, whose rank's a call is, and the
// ranks' meeting at the first split call of each. The process is a rank, or its threads are: then
// each rank has a thread, and a call's rank is its device's (peer) or its handle's (loopback).
// Where calls are split, every convolution comes through here, and its own call alone is never the
// answer. Thread-safe.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/options.h"
#include "cuda/driver.h"
#include "interposer/report/report.h"
#include "interposer/session/session.h"
#include "spatial/split_calls.h"
#include "transport/meeting.h"

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
  // What the calling thread says of its calls.
  static spatial::Declared& declared() { return declared_; }
  // Whether what looks beyond one position of an image is right as this rank computes it.
  bool RunsAlone() const { return refusal().empty() && (!enabled() || declared_.is_replicated); }
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
  // One on `session` that all ranks refuse by themselves, because it cannot be read.
  cudnnStatus_t RefuseCall(Operation operation, cudnnHandle_t handle, const Session& session,
                           const std::string& what);
  // Calls on `handle` are those of `rank`, a thread of this process. An error says why not.
  Status Join(cudnnHandle_t handle, int rank);
  // The sums of gradients that calls on `handle` deferred come before what follows on its stream.
  Status Await(cudnnHandle_t handle, const Session& session);
  void Forget(cudnnHandle_t handle);
  // Tells the report what was done so far; nothing where no call was split.
  void Note(Report& report) const;
  // The process ends: ranks compare how many calls they made.
  void Leave();

 private:
  // One rank of this process.
  struct Rank {
    Mutex mutex;
    bool met UCUDNN_GUARDED_BY(mutex) = false;  // or tried to
    std::unique_ptr<spatial::SplitCalls> owned UCUDNN_GUARDED_BY(mutex);
    std::atomic<spatial::SplitCalls*> calls = nullptr;
  };
  // The number of the rank whose call comes on `handle`, in `context`.
  Result<int> RankOf(cudnnHandle_t handle, CUcontext context);
  // A rank's calls; null where the ranks do not meet, which was told then.
  spatial::SplitCalls* CallsOf(int rank);
  // The calls of the rank whose call comes on `handle`; null where it is refused, which is told.
  spatial::SplitCalls* CallsOf(cudnnHandle_t handle, CUcontext context);
  Result<std::unique_ptr<spatial::SplitCalls>> Meet(int rank);
  // Where ranks meet that are threads of this process.
  Result<RendezvousAddress> OwnPlace();
  Rank& At(int rank) {
    return *ranks_[options_.spatial.in_process ? static_cast<size_t>(rank) : 0];
  }

  const Options& options_;
  const cudnn::Functions& functions_;
  const cuda::Driver* const driver_;
  const pid_t process_;
  std::atomic<bool> enabled_ = true;
  static inline thread_local spatial::Declared declared_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // this process's: one, or by number
  Mutex mutex_;
  std::map<cudnnHandle_t, int> joined_ UCUDNN_GUARDED_BY(mutex_);
  std::string folder_ UCUDNN_GUARDED_BY(mutex_);  // of OwnPlace; empty: none
};

}  // namespace ucudnn::interposer
