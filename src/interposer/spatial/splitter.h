// Decides for this process whether calls are split and to which rank a call belongs, and makes each
// rank meet the other ranks at its first split call. Either the process is one rank, or its threads
// are ranks. If threads are ranks, each rank has its own thread. A call then belongs to the rank of
// its device (transport `peer`) or to the rank of its handle (transport `loopback`). Every
// convolution that is split runs through this class. A rank's own call alone is the result only if
// the program has excluded the call from splitting or declared it replicated. Thread-safe.
//
// The functions that run the operations of the legacy API make their split calls by SplitOperation.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cuda/driver.h"
#include "interposer/report/report.h"
#include "interposer/session/session.h"
#include "interposer/spatial/rank_meeting.h"
#include "interposer/spatial/refused_calls.h"
#include "options/options.h"
#include "spatial/gradient_sums.h"
#include "spatial/split_calls.h"

namespace ucudnn::interposer {

// The descriptors of tensors that the program has declared to be whole and equal on every rank.
// Thread-safe.
class ReplicatedTensors {
 public:
  void Declare(cudnnTensorDescriptor_t tensor, bool replicated) {
    MutexLock lock(mutex_);
    if (replicated) {
      tensors_.insert(tensor);
    } else {
      tensors_.erase(tensor);
    }
    any_.store(!tensors_.empty(), std::memory_order_release);
  }
  bool Has(cudnnTensorDescriptor_t tensor) const {
    if (!any_.load(std::memory_order_acquire)) return false;
    MutexLock lock(mutex_);
    return tensors_.contains(tensor);
  }

 private:
  mutable Mutex mutex_;
  std::set<cudnnTensorDescriptor_t> tensors_ UCUDNN_GUARDED_BY(mutex_);
  std::atomic<bool> any_ = false;
};

class Splitter {
 public:
  // If `driver` is null, nothing can be split, and every call that should be split is refused.
  // `limit` is the process's limit, which the program may change while it runs.
  Splitter(const Options& options, const cudnn::Functions& functions, const cuda::Driver* driver,
           const WorkspaceLimit& limit);

  // Returns whether calls of this process are split, or are refused because they should be split
  // but cannot be. If true, this class runs every convolution that the program has not excluded
  // from splitting.
  bool active() const { return options_.spatial.grid.has_value() || !refusal().empty(); }
  // Returns why every call is refused; empty if calls are not refused.
  const std::string& refusal() const { return options_.spatial.refusal; }
  // Returns false if the program has excluded the calling thread's calls from splitting
  // (ucudnnSpatialEnable for its rank, or ucudnnSpatialEnableThread). Such calls are local.
  bool enabled() const {
    if (takes_thread_out_) return false;
    const int rank = ThisRank();
    return rank < 0 || At(rank).enabled.load(std::memory_order_relaxed);
  }
  // Returns whether the calling thread's next call is split or refused.
  bool splits() const { return active() && (enabled() || !refusal().empty()); }
  // Returns the calling thread's declarations about its next calls.
  static spatial::CallDeclarations& declared() { return declared_; }
  // Returns whether an operation that reads more than one position of an image gives the right
  // result if it runs on this rank alone.
  bool RunsAlone() const { return refusal().empty() && (!enabled() || declared_.is_replicated); }
  // Sets whether the calls of the calling thread's rank are split. Fails if ranks are threads and
  // the calling thread does not belong to a rank yet.
  Status Enable(bool enabled);
  static void EnableThread(bool enabled) { takes_thread_out_ = !enabled; }

  // Sets whether ucudnn sums filter gradients over ranks; false: the program sums them. Fails if a
  // split gradient has already run with the other value.
  Status SetReduce(bool sums) { return gradient_sums_.Set(sums); }
  // Declares whether the tensors of a descriptor are whole and equal on every rank.
  void DeclareReplicated(cudnnTensorDescriptor_t tensor, bool replicated) {
    replicated_.Declare(tensor, replicated);
  }
  bool IsReplicated(cudnnTensorDescriptor_t tensor) const { return replicated_.Has(tensor); }
  // Returns the process's rank. If ranks are threads, returns the rank of the calling thread's
  // first split call; -1 if the thread has made none.
  int ThisRank() const {
    if (!options_.spatial.in_process) return options_.spatial.rank;
    return bound_.splitter == this ? bound_.rank : -1;
  }

  // Runs one convolution of the program. REQUIRES: active().
  cudnnStatus_t Run(const spatial::SplitCall& call, spatial::LocalCall& local);
  // Returns the part of a workspace limit that exchanges may use; kernels may use only the rest.
  // The part depends on the process's options only, so that all ranks tell their programs the same
  // sizes.
  size_t ShareOf(size_t limit_bytes) const { return active() ? ExchangeShare(limit_bytes) : 0; }

  // Refuses an operation that cannot be split: counts the call under `what`, logs `what` the first
  // time, and returns NOT_SUPPORTED. REQUIRES: active().
  cudnnStatus_t Refuse(const std::string& what) const;
  // Makes all ranks fail, because a call on this rank failed before its arguments could be read.
  cudnnStatus_t Fail(const char* why) noexcept;
  // Refuses a call in `context` whose arguments cannot be read. Every rank refuses such a call
  // without asking the other ranks.
  cudnnStatus_t RefuseCall(Operation operation, cudnnHandle_t handle, CUcontext context,
                           const std::string& what);
  // From now on, calls on `handle` are calls of `rank`, which is a thread of this process. The
  // error says why that is not possible.
  Status Join(cudnnHandle_t handle, int rank);
  // Makes later work on the handle's stream wait for the sums of gradients that earlier calls have
  // deferred.
  Status Await(cudnnHandle_t handle, const Session& session);
  void Forget(cudnnHandle_t handle);
  // Sets the report's figures of splitting. Changes nothing if no rank has met the others and no
  // call was refused.
  void Note(Report& report) const;
  // To be called at the end of the process: ranks compare how many calls they have made.
  void Leave();

 private:
  // One rank of this process.
  struct Rank {
    Mutex mutex;
    // True once the rank has met the others or has failed to meet them.
    bool met UCUDNN_GUARDED_BY(mutex) = false;
    std::unique_ptr<spatial::SplitCalls> owned UCUDNN_GUARDED_BY(mutex);
    std::atomic<spatial::SplitCalls*> calls = nullptr;
    std::atomic<bool> enabled = true;
    std::string transport UCUDNN_GUARDED_BY(mutex);  // empty: no exchange was opened yet
    std::string library UCUDNN_GUARDED_BY(mutex);    // the transport's library; empty: it has none
  };
  // Returns the rank to which a call on `handle`, in `context`, belongs.
  Result<int> RankOf(cudnnHandle_t handle, CUcontext context);
  // Returns the SplitCalls of `rank`; null if the ranks could not meet, which was already reported.
  spatial::SplitCalls* CallsOf(int rank);
  // Returns the SplitCalls of the rank to which a call on `handle` belongs. Returns null if the
  // call must be refused; the reason was then reported.
  spatial::SplitCalls* CallsOf(cudnnHandle_t handle, CUcontext context);
  Rank& At(int rank) const {
    return *ranks_[options_.spatial.in_process ? static_cast<size_t>(rank) : 0];
  }

  const Options& options_;
  const cuda::Driver* const driver_;
  const pid_t process_;
  static inline thread_local spatial::CallDeclarations declared_;
  static inline thread_local bool takes_thread_out_ = false;
  struct Bound {
    const Splitter* splitter;
    int rank;
  };
  static inline thread_local Bound bound_ = {nullptr, -1};
  // This process's rank or, if ranks are threads, all ranks by number.
  std::vector<std::unique_ptr<Rank>> ranks_;
  Mutex mutex_;
  std::map<cudnnHandle_t, int> joined_ UCUDNN_GUARDED_BY(mutex_);
  spatial::GradientSums gradient_sums_;
  RankMeeting meeting_;
  ReplicatedTensors replicated_;
  mutable RefusedCalls refused_;
};

class Sessions;

// The parts of a process through which it makes split calls.
struct SplitContext {
  const cudnn::Functions& functions;
  Sessions& sessions;
  Splitter& splitter;

  // Returns null if the handle is of no known device.
  Session* SessionOf(cudnnHandle_t handle) const;
};

// Makes a split call of the program's `call`, on the stream of its handle, and passes it to `run`.
// read(problem) sets the problem and returns null, or returns why the operation cannot be read. If
// the operation cannot be read, all ranks refuse the call, with a message that begins with `name`.
// REQUIRES: calls are split, and not all calls are refused.
template <typename Read, typename Run>
cudnnStatus_t SplitOperation(const SplitContext& context, const char* name,
                             const cudnn::ConvolutionCall& call, const Read& read, const Run& run) {
  Session* const session = context.SessionOf(call.handle);
  if (session == nullptr) return context.splitter.Fail("a cuDNN handle is of no known device");
  ConvolutionProblem problem;
  if (const char* const unreadable = read(problem)) {
    return context.splitter.RefuseCall(call.operation, call.handle, session->context(),
                                       std::string(name) + " is not split: " + unreadable);
  }
  spatial::SplitCall split{problem, call, session->context(), session->stream(),
                           session->Capturing()};
  return run(split);
}

}  // namespace ucudnn::interposer
