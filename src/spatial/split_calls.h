// The split convolutions of one rank: every process, or every thread of a test, holds a stripe of
// each image and calls cuDNN for its own; here ranks agree on each kernel, exchange the rows that
// the others need, and make the rank's result part of the whole one (Spatially Parallel
// Convolutions, section 2). A call that cannot be done exactly is an error on all ranks: the rank's
// own call alone is never the answer.
//
// A rank makes one split call at a time, on any thread, handle and stream. Its exchanges are on one
// stream of ours in the order of the calls; each waits for what the caller's stream had, and the
// caller's stream for it. All of these dependencies point backwards, so no streams wait for each
// other. A call on a stream that captures a CUDA graph is recorded with its exchange
// (split_capture.cpp).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "spatial/exchange_times.h"
#include "spatial/kernel_agreement.h"
#include "spatial/kernel_log.h"
#include "spatial/rank_device.h"
#include "spatial/rank_failure.h"
#include "spatial/rank_watch.h"
#include "spatial/split_call.h"
#include "spatial/split_kernel.h"
#include "transport/ranks.h"

namespace ucudnn::spatial {

// What a rank has done so far.
struct SplitFigures {
  uint64_t calls = 0;
  uint64_t exchanged_bytes = 0;  // received and sent, without sums of gradients
  size_t owned_bytes = 0;        // device memory for exchanges and sums
};

class SplitCalls {
 public:
  using OpenChannel = RankDevice::OpenChannel;

  // The caller owns the tables and keeps them alive.
  SplitCalls(SplitSettings settings, const cudnn::Functions& functions, const cuda::Driver& driver,
             std::unique_ptr<transport::Ranks> ranks, OpenChannel open);
  ~SplitCalls();
  SplitCalls(const SplitCalls&) = delete;
  SplitCalls& operator=(const SplitCalls&) = delete;

  cudnnStatus_t Run(const SplitCall& call, LocalCall& local);
  // What is enqueued on `stream` from now on sees all sums that were deferred.
  Status Await(CUcontext context, CUstream stream);
  // The handle was destroyed: another one at its address is another one.
  void Forget(cudnnHandle_t handle);
  // A call that all ranks refuse by themselves, because it cannot be read: only its number counts.
  void NoteRefused(Operation operation, cudnnHandle_t handle);
  // All ranks' calls fail from now on, because of `why` on this one.
  void Fail(const std::string& why);
  SplitFigures figures() const;
  // The same by kernel, as far as it is known by now.
  RankFigures kernel_figures() const;
  // The rank makes no more calls. Returns a line where the ranks of the group did not make equally
  // many; waits for them for a bounded time.
  std::optional<std::string> Leave();

 private:
  // In split_capture.cpp, up to EndOnDevice. A call on a stream that is capturing.
  cudnnStatus_t RunCaptured(const SplitCall& call, LocalCall& local) UCUDNN_REQUIRES(mutex_);
  // Why the kernel is an error in a capture on all ranks, before it is looked at; empty: it is not.
  std::string WhyNotCaptured(std::span<const AgreedKernel> agreed) const UCUDNN_REQUIRES(mutex_);
  KernelOutcome Capture(const SplitCall& call, LocalCall& local, SplitKernel& kernel,
                        const cuda::Capture& capture) UCUDNN_REQUIRES(mutex_);
  // Around a call where devices are counted; null: they are not.
  Result<DeviceLog::Point*> BeginOnDevice(const SplitCall& call, const SplitKernel& kernel,
                                          bool is_captured, ExchangeResources& device)
      UCUDNN_REQUIRES(mutex_);
  Status EndOnDevice(DeviceLog::Point* point, const SplitCall& call, ExchangeResources& device)
      UCUDNN_REQUIRES(mutex_);

  // Runs the kernel, counted and timed for the report.
  KernelOutcome RunCounted(const SplitCall& call, LocalCall& local, SplitKernel& kernel,
                           bool has_rows) UCUDNN_REQUIRES(mutex_);

  // What became of a call that was made, and what it returns.
  cudnnStatus_t Conclude(const SplitCall& call, const KernelOutcome& outcome)
      UCUDNN_REQUIRES(mutex_);
  // Whether the rows that the call needs are those that the call before received.
  bool HasRows(const SplitCall& call, const SplitKernel& kernel) const UCUDNN_REQUIRES(mutex_);
  struct Posting {
    CallKind kind = CallKind::kExchanged;
    bool has_rows = false, is_captured = false;
  };
  // `extents` are those of each rank's x in this call; null: all have this rank's. Of a refused
  // call of which no kernel is known, only number and kind are compared.
  void Post(const SplitCall& call, const Posting& posting, uint64_t common_hash,
            const AllExtents& extents) UCUDNN_REQUIRES(mutex_);
  // Waits until this rank is at most `most_ahead` calls ahead of the slowest other one.
  void AwaitRecords(uint64_t most_ahead);
  // Where each call waits for all ranks' records of it: whether they have come and are the same.
  bool AwaitIfChecked();
  void FailTwoThreads();
  int NumberOfThread() UCUDNN_REQUIRES(mutex_);  // of the calling one
  int NumberOf(cudnnHandle_t handle);

  CallRecords& records() { return watch_.calls().records(); }
  void HearNoMore();
  // On the transport's thread.
  void HearLeave(int rank, std::string_view last);
  void HearPost(int rank, std::string_view record);
  // What a call returns once the ranks have failed: an error, and NaN as its result.
  cudnnStatus_t Broken(const SplitCall& call) const;
  void FillOutput(const SplitCall& call) const;

  const SplitSettings settings_;
  const pid_t process_;      // a forked child is no rank
  const uint64_t identity_;  // no other one in this process ever has it
  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  const std::unique_ptr<transport::Ranks> ranks_;
  RankFailure failure_;
  std::atomic<uint64_t> exchanged_bytes_ = 0;
  KernelLog log_;
  const std::unique_ptr<ExchangeTimes> times_;  // null: no call is timed
  RankWatch watch_;

  Mutex in_call_;  // held during a call: then one of another thread is an error on all ranks
  Mutex mutex_;
  uint64_t sequence_ UCUDNN_GUARDED_BY(mutex_) = 0;
  // The last call that was the first of a pair; what it received lies in the buffer until the next.
  struct ReceivedGradient {
    uint64_t sequence = 0;  // 0: none
    const void* dy = nullptr;
    ConvolutionProblem problem;
    bool hides_nan = false;  // then messages hold a number more
    size_t bytes = 0;        // from the buffer's beginning
  };
  ReceivedGradient received_ UCUDNN_GUARDED_BY(mutex_);
  RankDevice device_;          // guarded by mutex_, but for owned_bytes()
  KernelAgreement agreement_;  // guarded by mutex_, but for HearPost()
  int thread_count_ UCUDNN_GUARDED_BY(mutex_) = 0;
  Mutex handles_mutex_;  // a handle may be destroyed while another thread calls
  std::map<cudnnHandle_t, int> handles_ UCUDNN_GUARDED_BY(handles_mutex_);
  int handle_count_ UCUDNN_GUARDED_BY(handles_mutex_) = 0;
};

}  // namespace ucudnn::spatial
