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
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/options.h"
#include "cuda/driver.h"
#include "interposer/core/workspace_limit.h"
#include "interposer/report/report.h"
#include "interposer/session/session.h"
#include "spatial/gradient_sums.h"
#include "spatial/split_calls.h"
#include "transport/meeting.h"

namespace ucudnn::interposer {

class Splitter {
 public:
  // `driver` may be null; then nothing can be split, and every call is refused where it should be.
  // `limit` is the process's, which a program may change while it runs.
  Splitter(const Options& options, const cudnn::Functions& functions, const cuda::Driver* driver,
           const WorkspaceLimit& limit);

  // Whether calls of this process are split, or refused because they should be and cannot: then no
  // call goes to the real library by another way.
  bool active() const { return options_.spatial.grid.has_value() || !refusal().empty(); }
  // Why every call is refused; empty: none is.
  const std::string& refusal() const { return options_.spatial.refusal; }
  // Whether the calling thread's calls are split, and not taken out by the program
  // (ucudnnSpatialEnable, of its rank; ucudnnSpatialEnableThread): they are its rank's own then.
  bool enabled() const {
    if (takes_thread_out_) return false;
    const int rank = ThisRank();
    return rank < 0 || At(rank).enabled.load(std::memory_order_relaxed);
  }
  // Whether the program's next call is.
  bool splits() const { return active() && (enabled() || !refusal().empty()); }
  // What the calling thread says of its calls.
  static spatial::Declared& declared() { return declared_; }
  // Whether what looks beyond one position of an image is right as this rank computes it.
  bool RunsAlone() const { return refusal().empty() && (!enabled() || declared_.is_replicated); }
  // An error where ranks are threads and the calling one is no rank's yet.
  Status Enable(bool enabled);
  static void EnableThread(bool enabled) { takes_thread_out_ = !enabled; }

  // Filter gradients are summed over ranks, or that is the program's business. An error where a
  // split one has run before.
  Status SetReduce(bool sums) { return gradient_sums_.Set(sums); }
  // What the program says of a descriptor: its tensors are whole and the same on every rank.
  void DeclareReplicated(cudnnTensorDescriptor_t tensor, bool replicated);
  bool IsReplicated(cudnnTensorDescriptor_t tensor) const;
  // The rank that the calling thread stands for, as its first split call said; -1: none yet. Of a
  // process that is a rank, that.
  int ThisRank() const {
    if (!options_.spatial.in_process) return options_.spatial.rank;
    return bound_.splitter == this ? bound_.rank : -1;
  }

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
    std::atomic<bool> enabled = true;
    std::string transport UCUDNN_GUARDED_BY(mutex);  // empty: no exchange was opened yet
    std::string library UCUDNN_GUARDED_BY(mutex);    // of the transport; empty: none
  };
  size_t MostBufferBytes() const;
  // The number of the rank whose call comes on `handle`, in `context`.
  Result<int> RankOf(cudnnHandle_t handle, CUcontext context);
  // A rank's calls; null where the ranks do not meet, which was told then.
  spatial::SplitCalls* CallsOf(int rank);
  // The calls of the rank whose call comes on `handle`; null where it is refused, which is told.
  spatial::SplitCalls* CallsOf(cudnnHandle_t handle, CUcontext context);
  Result<std::unique_ptr<spatial::SplitCalls>> Meet(int rank);
  // Where ranks meet that are threads of this process.
  Result<RendezvousAddress> OwnPlace();
  Rank& At(int rank) const {
    return *ranks_[options_.spatial.in_process ? static_cast<size_t>(rank) : 0];
  }

  const Options& options_;
  const cudnn::Functions& functions_;
  const cuda::Driver* const driver_;
  const WorkspaceLimit& limit_;
  const pid_t process_;
  static inline thread_local spatial::Declared declared_;
  static inline thread_local bool takes_thread_out_ = false;
  struct Bound {
    const Splitter* splitter;
    int rank;
  };
  static inline thread_local Bound bound_ = {nullptr, -1};
  std::vector<std::unique_ptr<Rank>> ranks_;  // this process's: one, or by number
  Mutex mutex_;
  std::map<cudnnHandle_t, int> joined_ UCUDNN_GUARDED_BY(mutex_);
  spatial::GradientSums gradient_sums_;
  mutable Mutex replicated_mutex_;
  std::set<cudnnTensorDescriptor_t> replicated_ UCUDNN_GUARDED_BY(replicated_mutex_);
  std::atomic<bool> any_replicated_ = false;
  mutable Mutex refused_mutex_;
  // What was refused by name, and how often.
  mutable std::map<std::string, uint64_t> refused_ UCUDNN_GUARDED_BY(refused_mutex_);
  std::string folder_ UCUDNN_GUARDED_BY(mutex_);  // of OwnPlace; empty: none
};

}  // namespace ucudnn::interposer
