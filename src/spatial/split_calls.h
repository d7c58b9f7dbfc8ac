// The split convolutions of one rank. A rank is a process, or a thread of a process. It has a
// stripe of each image and calls cuDNN for this stripe. Ranks agree on each kernel and exchange the
// rows that other ranks need, so that each rank's result is a part of the result for the whole
// image (Spatially Parallel Convolutions, section 2). A call that cannot be split exactly is an
// error on all ranks. The result of a rank's own call alone is never returned, unless the call is
// declared replicated.
//
// A rank makes one split call at a time, on any thread, handle and stream. Exchanges run on one
// stream of ucudnn's in the order of the calls. Each exchange waits for the work that was on the
// caller's stream before the call, and the caller's stream waits for the exchange. So work waits
// only for earlier work, and streams cannot deadlock. A call on a stream that captures a CUDA graph
// is captured with its exchange, which then has a stream of its own (split_capture.cpp).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "spatial/call_record.h"
#include "spatial/kernel_agreement.h"
#include "spatial/kernel_log.h"
#include "spatial/rank_device.h"
#include "spatial/rank_failure.h"
#include "spatial/rank_watch.h"
#include "spatial/split_call.h"
#include "spatial/split_kernel.h"
#include "transport/ranks.h"

namespace ucudnn::spatial {

// The totals of a rank so far.
struct SplitFigures {
  uint64_t calls = 0;
  uint64_t exchanged_bytes = 0;  // received and sent, without sums of gradients
  size_t owned_bytes = 0;        // device memory for exchanges, sums and captures
};

class SplitCalls {
 public:
  using OpenChannel = RankDevice::OpenChannel;

  // The caller owns `functions` and `driver`, and keeps them alive.
  SplitCalls(SplitSettings settings, const cudnn::Functions& functions, const cuda::Driver& driver,
             std::unique_ptr<transport::Ranks> ranks, OpenChannel open);
  ~SplitCalls();
  SplitCalls(const SplitCalls&) = delete;
  SplitCalls& operator=(const SplitCalls&) = delete;

  cudnnStatus_t Run(const SplitCall& call, LocalCall& local);
  // Makes later work on `stream` wait for all deferred sums.
  Status Await(CUcontext context, CUstream stream);
  // Forgets the number of a destroyed handle, because a new handle may get the same address.
  void Forget(cudnnHandle_t handle) { sequence_.Forget(handle); }
  // Counts a call that every rank refuses without an agreement, because its arguments cannot be
  // read. The call's record has no kernel and no extents.
  void NoteRefused(Operation operation, cudnnHandle_t handle);
  // Makes all later calls of all ranks fail, because of `why` on this rank.
  void Fail(const std::string& why);
  SplitFigures figures() const;
  // Returns the figures of each kernel and of the latest timed step, as far as they are known.
  RankFigures kernel_figures() const;
  // Ends the rank's calls. Waits, for a limited time, for the other ranks of the group. If the
  // ranks did not make equally many calls, returns a line that says so; otherwise none.
  std::optional<std::string> Leave();

 private:
  // Makes a call on a stream that is capturing. RunCaptured and Capture are in split_capture.cpp.
  cudnnStatus_t RunCaptured(const SplitCall& call, LocalCall& local) UCUDNN_REQUIRES(mutex_);
  KernelOutcome Capture(const SplitCall& call, LocalCall& local, SplitKernel& kernel,
                        const cuda::Capture& capture) UCUDNN_REQUIRES(mutex_);
  // BeginOnDevice and EndOnDevice log the beginning and the end of a call, if calls are logged on
  // the device. BeginOnDevice returns null if the call is not logged.
  Result<DeviceLog::Point*> BeginOnDevice(const SplitCall& call, const SplitKernel& kernel,
                                          ExchangeResources& device) UCUDNN_REQUIRES(mutex_);
  Status EndOnDevice(DeviceLog::Point* point, const SplitCall& call, ExchangeResources& device)
      UCUDNN_REQUIRES(mutex_);

  // Runs the kernel, and counts and times the call for the report.
  KernelOutcome RunCounted(const SplitCall& call, LocalCall& local, SplitKernel& kernel,
                           bool has_rows) UCUDNN_REQUIRES(mutex_);

  // Returns the status of a finished call. If its result is not exact, makes all ranks fail.
  cudnnStatus_t Conclude(const SplitCall& call, const KernelOutcome& outcome)
      UCUDNN_REQUIRES(mutex_);
  // Returns whether the previous call has received the rows that this call needs.
  bool HasRows(const SplitCall& call, const SplitKernel& kernel) const UCUDNN_REQUIRES(mutex_);
  void FailTwoThreads();

  CallRecords& records() { return watch_.calls().records(); }
  void HearNoMore();
  void HearPost(int rank, std::string_view record);  // called on the transport's thread
  // Fills the result with NaN and returns an error. Once the ranks have failed, every call ends
  // this way.
  cudnnStatus_t Broken(const SplitCall& call) const;
  void FillOutput(const SplitCall& call) const;

  const SplitSettings settings_;
  const pid_t process_;  // a forked child, whose process id differs, is not a rank
  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  const std::unique_ptr<transport::Ranks> ranks_;
  RankFailure failure_;
  std::atomic<uint64_t> exchanged_bytes_ = 0;
  KernelLog log_;
  const std::unique_ptr<ExchangeTimes> times_;  // null: no call is timed
  RankWatch watch_;

  Mutex in_call_;  // held during a call; a second thread that makes a call meanwhile makes all
                   // ranks fail
  Mutex mutex_;
  CallSequence sequence_;  // guarded by mutex_, except Forget()
  // The last call that was declared as the first of a pair. The rows that it received stay in the
  // buffer until the next call.
  struct ReceivedGradient {
    uint64_t sequence = 0;  // 0: there is no such call
    const void* dy = nullptr;
    ConvolutionProblem problem;
    bool hides_nan = false;  // its messages have arrival numbers
    size_t bytes = 0;        // received bytes at the beginning of the buffer
  };
  ReceivedGradient received_ UCUDNN_GUARDED_BY(mutex_);
  RankDevice device_;          // guarded by mutex_, except owned_bytes()
  KernelAgreement agreement_;  // guarded by mutex_, except HearPost()
};

}  // namespace ucudnn::spatial
