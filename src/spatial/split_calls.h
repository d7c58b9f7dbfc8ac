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
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/spatial_grid.h"
#include "cuda/resources.h"
#include "spatial/agreement.h"
#include "spatial/call_record.h"
#include "spatial/capture_memory.h"
#include "spatial/exchange_times.h"
#include "spatial/gradient_sums.h"
#include "spatial/kernel_log.h"
#include "spatial/kernel_table.h"
#include "spatial/rank_failure.h"
#include "spatial/rank_watch.h"
#include "spatial/split_kernel.h"
#include "transport/channel.h"
#include "transport/ranks.h"

namespace ucudnn::spatial {

struct SplitSettings {
  SpatialGrid grid;
  std::string shared_options;  // ucudnn's version and the options that ranks must share, in words
  bool agrees_each_time = false;
  GradientSums* sums = nullptr;  // outlives the calls, and is that of the process's other ranks
  std::optional<SpatialOnes>
      ones;  // what maps of extent 1 on every rank are; none: refused where it matters
  // What exchanges may take from now on: read at each agreement.
  std::function<size_t()> most_buffer_bytes;
  bool deterministic = false;
  bool waits_for_records = false;             // each call waits until all ranks have posted theirs
  bool times_exchanges = false;               // for a report
  std::chrono::milliseconds warning{60000};   // after which a rank that does not come is told of
  std::chrono::milliseconds timeout{600000};  // and after which it is an error on all
};

// What the program says of its calls, on all ranks alike.
struct Declared {
  bool is_replicated = false;  // all ranks have the same whole tensors: each makes its call alone
  // This call and the next are the data and the filter gradient of one convolution and read the
  // same values of dy: the second takes the rows that the first received.
  enum class Pair : uint8_t { kNone, kFirst, kSecond };
  Pair pair = Pair::kNone;
  // The caller's stream does not wait for sums of gradients until it is told to (Await).
  bool is_deferred = false;
};

// One call as it comes in, on the stream of its handle.
struct SplitCall {
  const ConvolutionProblem& problem;  // the rank's own
  const cudnn::ConvolutionCall& call;
  CUcontext context = nullptr;  // of the stream; null: the current one
  CUstream stream = nullptr;
  bool is_captured = false;
  // Of the plan of the graph API that the call executes; null: it is one of the legacy API.
  const cudnn::GraphTemplate* plan = nullptr;
  // kBiasGradient: the problem has one input channel, and the call no image. kRows: y is x with as
  // many rows around it as a filter with this padding reads; the problem has a channel's filter for
  // each channel, of 2 pad + 1 taps. kPooling: the problem is one of ReadPooling, in its kind.
  // kNorm: it is one of ReadNorm, and the call has what is normalised.
  SplitWork work = SplitWork::kConvolution;
  cudnn::PoolingKind pooling;
  Declared declared;
};

// Of the y of a call for rows: those of x, with the rows beside.
Spatial WithRowsBeside(const ConvolutionProblem& problem);

// What the call does beside its convolution.
CallForm FormOf(const cudnn::Functions& functions, const SplitCall& call);

// What a rank has done so far.
struct SplitFigures {
  uint64_t calls = 0;
  uint64_t exchanged_bytes = 0;  // received and sent, without sums of gradients
  size_t owned_bytes = 0;        // device memory for exchanges and sums
};

class SplitCalls {
 public:
  // Opens the rank's channel with the context of its first call current.
  using OpenChannel =
      std::function<Result<std::unique_ptr<transport::Channel>>(const transport::ChannelSetup&)>;

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
  // In split_agreement.cpp, as is all that follows up to ContextOf. Device resources, with the
  // context of the call current.
  Status Prepare() UCUDNN_REQUIRES(mutex_);
  // The channel; gathers, and ends alike on all ranks.
  Status Open() UCUDNN_REQUIRES(mutex_);
  // The same where there is none yet: at the ranks' first kernel, which is the same call on all of
  // them. Where a rank lacks what a channel needs, none is opened: its claim will say so. False
  // where the ranks can no longer agree.
  bool OpenFirst(const SplitCall& call) UCUDNN_REQUIRES(mutex_);
  // Runs the rank's own call on memory that nobody reads; an error says why it cannot.
  Status Try(const SplitCall& call, LocalCall& local) UCUDNN_REQUIRES(mutex_);
  // A hash of the tensor whose rows travel; 0 where it cannot be read, or all of it is one value.
  // Of a large one, of pieces all over it.
  uint64_t InputHash(const SplitCall& call) const;
  // All of the call that ranks must have in common.
  std::string TextOf(const SplitCall& call) const UCUDNN_REQUIRES(mutex_);
  Claim ClaimOf(const SplitCall& call, LocalCall& local, std::span<const AgreedKernel> made)
      UCUDNN_REQUIRES(mutex_);
  // The kernel of the call, agreed on by all ranks; null where the ranks can no longer agree.
  SplitKernel* KernelOf(const SplitCall& call, LocalCall& local, bool& agreed_now)
      UCUDNN_REQUIRES(mutex_);
  // KernelOf for a gradient while no gradient has run. Where the program has changed who sums
  // gradients, the ranks agree anew on those that were refused before.
  SplitKernel* FirstGradientOf(const SplitCall& call, LocalCall& local, bool& agreed_now)
      UCUDNN_REQUIRES(mutex_);
  std::unique_ptr<SplitKernel> MakeKernel(const SplitCall& call, LocalCall& local,
                                          const Agreed& agreed) UCUDNN_REQUIRES(mutex_);
  // What was agreed on, for the call's tensors as they lie: made by this rank alone where they lie
  // as never before. Null where that fails, which is an error on all ranks.
  SplitKernel* ForTensorsOf(const SplitCall& call, LocalCall& local, AgreedKernel& agreed)
      UCUDNN_REQUIRES(mutex_);
  Result<std::unique_ptr<SplitKernel>> MakeForTensorsOf(const SplitCall& call, LocalCall& local,
                                                        const SplitKernel& agreed)
      UCUDNN_REQUIRES(mutex_);
  // The numbers of all ranks, to which `own` may add an error: then all ranks have it. None where
  // the ranks can no longer agree.
  std::optional<Result<std::vector<std::vector<uint64_t>>>> GatherNumbers(
      std::span<const uint64_t> mine, const Status& own, const std::string& doing)
      UCUDNN_REQUIRES(mutex_);
  // Whether no cut axis has maps of one row, which may well be copies.
  bool HoldsStripes(const Agreed& agreed) const;
  // The stripes of the call, by what was agreed; an error is the same on all ranks.
  Result<GroupStripes> StripesOf(const SplitCall& call, std::span<const Spatial> extents,
                                 std::span<const OwnWindow> windows) const UCUDNN_REQUIRES(mutex_);
  Result<GroupStripes> PooledStripesOf(const SplitCall& call, std::span<const Spatial> extents,
                                       std::span<const OwnWindow> windows) const;
  PlanContext ContextOf(const SplitCall& call) const UCUDNN_REQUIRES(mutex_);

  // In split_capture.cpp, up to EndOnDevice. A call on a stream that is capturing.
  cudnnStatus_t RunCaptured(const SplitCall& call, LocalCall& local) UCUDNN_REQUIRES(mutex_);
  // Why the kernel is an error in a capture on all ranks, before it is looked at; empty: it is not.
  std::string WhyNotCaptured(std::span<const AgreedKernel> agreed) const UCUDNN_REQUIRES(mutex_);
  KernelOutcome Capture(const SplitCall& call, LocalCall& local, SplitKernel& kernel,
                        const cuda::Capture& capture) UCUDNN_REQUIRES(mutex_);
  void CountOwned() UCUDNN_REQUIRES(mutex_);
  // Around a call where devices are counted; null: they are not.
  Result<DeviceLog::Point*> BeginOnDevice(const SplitCall& call, const SplitKernel& kernel,
                                          bool is_captured, ExchangeResources& device)
      UCUDNN_REQUIRES(mutex_);
  Status EndOnDevice(DeviceLog::Point* point, const SplitCall& call, ExchangeResources& device)
      UCUDNN_REQUIRES(mutex_);

  // In split_figures.cpp. What the report tells of a kernel that was agreed on for the call.
  KernelFacts FactsOf(const SplitCall& call, const SplitKernel& kernel) const
      UCUDNN_REQUIRES(mutex_);
  // Runs the kernel, counted and timed for the report.
  KernelOutcome RunCounted(const SplitCall& call, LocalCall& local, SplitKernel& kernel,
                           bool has_rows) UCUDNN_REQUIRES(mutex_);

  CUcontext CurrentContext() const;
  // The call's kernel is new here and not to `rank`.
  void FailNotNew(int rank, const CallRecord& theirs);
  // What became of a call that was made, and what it returns.
  cudnnStatus_t Conclude(const SplitCall& call, const KernelOutcome& outcome)
      UCUDNN_REQUIRES(mutex_);
  // Whether the rows that the call needs are those that the call before received.
  bool HasRows(const SplitCall& call, const SplitKernel& kernel) const UCUDNN_REQUIRES(mutex_);
  // Makes room in the buffer for `made` and tries it, and leaves the rows there that the call
  // before received for this one.
  Status GrowAndTry(const SplitCall& call, LocalCall& local, SplitKernel& made)
      UCUDNN_REQUIRES(mutex_);
  // Copies behind what the stream of exchanges had, and waits.
  Status CopyNow(CUdeviceptr to, CUdeviceptr from, size_t bytes) UCUDNN_REQUIRES(mutex_);
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
  const OpenChannel open_;
  RankFailure failure_;
  std::atomic<uint64_t> gathering_ = 0;  // the call whose claims this rank waits for; 0: none
  std::array<std::atomic<int32_t>, kMaxSpatial> gathered_extents_ = {};  // of that call
  std::atomic<uint64_t> gathered_kernel_ = 0;                            // and its common hash
  std::atomic<uint64_t> exchanged_bytes_ = 0;
  KernelLog log_;
  const std::unique_ptr<ExchangeTimes> times_;  // null: no call is timed
  std::atomic<size_t> owned_bytes_ = 0;
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
  std::optional<ExchangeResources> device_ UCUDNN_GUARDED_BY(mutex_);
  std::unique_ptr<transport::Channel> channel_ UCUDNN_GUARDED_BY(mutex_);
  CaptureMemory captures_ UCUDNN_GUARDED_BY(mutex_);
  KernelTable kernels_ UCUDNN_GUARDED_BY(mutex_);
  size_t most_buffer_bytes_ UCUDNN_GUARDED_BY(mutex_) = 0;  // as of the last agreement
  std::optional<bool> sums_gradients_ UCUDNN_GUARDED_BY(mutex_);
  bool has_gradients_ UCUDNN_GUARDED_BY(mutex_) = false;  // some were agreed on
  int thread_count_ UCUDNN_GUARDED_BY(mutex_) = 0;
  Mutex handles_mutex_;  // a handle may be destroyed while another thread calls
  std::map<cudnnHandle_t, int> handles_ UCUDNN_GUARDED_BY(handles_mutex_);
  int handle_count_ UCUDNN_GUARDED_BY(handles_mutex_) = 0;
};

}  // namespace ucudnn::spatial
