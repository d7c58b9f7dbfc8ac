// Counts and times a rank's split calls by their kernels, for the report: KernelLog counts every
// call, and ExchangeTimes times some of them if a report is written.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "cuda/resources.h"
#include "spatial/group_stripes.h"
#include "spatial/kernel_figures.h"
#include "spatial/split_call.h"

namespace ucudnn::spatial {

class SplitKernel;

// Returns the report's facts about the kernel of `call`. `common` is a text of the properties that
// all ranks share. `group` has the stripes on which the ranks agreed, or the reason why there are
// none.
KernelFacts FactsOf(const SplitCall& call, const SplitKernel& kernel, std::string common,
                    const Result<GroupStripes>& group);

// Counts the calls of each kernel on which a rank has agreed. A kernel keeps its number even if the
// rank forgets the kernel and agrees on it again. Thread-safe: the thread that makes the rank's
// calls and the thread of RankWatch count, while another thread reads for the report. Counting
// allocates nothing.
class KernelLog {
 public:
  static constexpr int kUnlisted = -1;

  // Returns the number of the kernel; kUnlisted if kMost other kernels have numbers.
  int Add(KernelFacts facts);
  // Counts a call of the kernel with number `number`. Returns the number of calls before this one.
  uint64_t Count(int number, bool is_paired);
  // Returns all figures except the times.
  RankFigures Read() const;

  static constexpr size_t kMost = 4096;

 private:
  mutable Mutex mutex_;
  std::vector<KernelFigures> kernels_ UCUDNN_GUARDED_BY(mutex_);
  // The numbers of the kernels, by KernelFacts::common.
  std::unordered_multimap<std::string, int> numbers_ UCUDNN_GUARDED_BY(mutex_);
  uint64_t unlisted_calls_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

// Times of a rank's split calls on the device: how long exchanges take, and how long the caller's
// stream waits for them. Exists only if a report is written.
//
// The calls are divided into steps. Each call of the kernel `first_kernel_` begins a step.
// Initially, `first_kernel_` is the kernel that the rank called first. After kMostCalls calls in a
// step, the next call begins a step whatever its kernel, and that kernel becomes `first_kernel_`.
// From the second step on, every kPeriod-th step is timed, if all calls that were timed before have
// ended on the device by then. The first call of each kernel is never timed. All ranks make the
// same calls, so they time the same steps, unless a rank leaves a step out.
//
// Each timed call records events. The events are read by a later call, once the device has reached
// them, or when the report is written. No thread waits for the events. If no events are left, a
// call is not timed. Allocates at the rank's first split call, and at each new kernel. Thread-safe,
// if only one thread at a time makes calls; other threads may call Read.
class ExchangeTimes {
 public:
  static constexpr uint64_t kPeriod = 64;     // steps from one timed step to the next
  static constexpr size_t kMostCalls = 1024;  // most calls in a step
  // The largest number of timed calls whose end the device has not reached.
  static constexpr size_t kMostPending = 512;
  // The most spans of a timed call; a call with more spans is not counted.
  static constexpr size_t kMostSpans = 40;
  static constexpr size_t kEvents = 4096;

  explicit ExchangeTimes(const cuda::Driver& driver) : driver_(driver) {}

  // Begins a call of the kernel with number `kernel` on `stream`; `is_first` says that this is the
  // kernel's first call. Returns whether the call is timed; if so, End must follow.
  bool Begin(int kernel, bool is_first, CUstream stream);
  void End();
  // Adds the times that are known so far to `figures`.
  void Read(RankFigures& figures);

 private:
  friend class SpanScope;
  struct PendingSpan {
    Span span = Span::kCall;
    size_t begin = 0, end = 0;  // indices into events_
  };
  struct PendingCall {
    int kernel = 0;
    size_t count = 0;
    // True if the call is not counted, because an event could not be recorded or no event was left.
    bool is_lost = false;
    std::array<PendingSpan, kMostSpans> spans;
  };

  // Returns the index of the new span in the open call; none if the span cannot be timed.
  std::optional<size_t> BeginSpan(Span span, CUstream stream);
  void EndSpan(size_t span, CUstream stream);

  void Create() UCUDNN_REQUIRES(mutex_);
  // Assigns the call to a step. Returns true if the call begins a step.
  bool Follow(int kernel) UCUDNN_REQUIRES(mutex_);
  void BeginStep(CUstream stream) UCUDNN_REQUIRES(mutex_);
  // Reads the events of the calls whose end the device has reached.
  void Collect() UCUDNN_REQUIRES(mutex_);
  // Returns whether the device has reached the end of the call. If the events can no longer be
  // queried, marks the call as lost and returns true.
  bool IsOver(PendingCall& call) const UCUDNN_REQUIRES(mutex_);
  void Add(const PendingCall& call) UCUDNN_REQUIRES(mutex_);
  bool Elapsed(size_t begin, size_t end, float& ms) const UCUDNN_REQUIRES(mutex_);
  PendingCall& Slot(size_t at) UCUDNN_REQUIRES(mutex_) {
    return pending_[(first_pending_ + at) % kMostPending];
  }

  const cuda::Driver& driver_;
  mutable Mutex mutex_;
  bool is_created_ UCUDNN_GUARDED_BY(mutex_) = false;
  CUcontext context_ UCUDNN_GUARDED_BY(mutex_) = nullptr;
  // kEvents events that calls use in turn, then one event for the beginning of the timed step.
  std::deque<cuda::Event> events_ UCUDNN_GUARDED_BY(mutex_);
  size_t next_event_ UCUDNN_GUARDED_BY(mutex_) = 0, free_events_ UCUDNN_GUARDED_BY(mutex_) = 0;
  std::vector<PendingCall> pending_ UCUDNN_GUARDED_BY(mutex_);  // a ring buffer
  size_t first_pending_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t pending_count_ UCUDNN_GUARDED_BY(mutex_) = 0;
  // True while a call is open. The open call's slot in pending_ is the one after the pending calls.
  bool is_open_ UCUDNN_GUARDED_BY(mutex_) = false;

  // The kernel whose calls begin a step.
  std::optional<int> first_kernel_ UCUDNN_GUARDED_BY(mutex_);
  uint64_t step_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t calls_ UCUDNN_GUARDED_BY(mutex_) = 0;  // calls in the present step so far
  bool is_timed_ UCUDNN_GUARDED_BY(mutex_) = false;
  bool is_over_ UCUDNN_GUARDED_BY(mutex_) = false;  // the last call of the step `timed_` was made
  // `timed_` is the step that is being timed, `whole_` the latest step that was timed completely.
  StepTimes timed_ UCUDNN_GUARDED_BY(mutex_), whole_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<KernelTimes> times_ UCUDNN_GUARDED_BY(mutex_);  // by kernel
};

// Times the work that is enqueued on `stream` during the lifetime of this object, as a span of the
// open call. `times` is null if the call is not timed.
class SpanScope {
 public:
  SpanScope(ExchangeTimes* times, Span span, CUstream stream) : times_(times), stream_(stream) {
    if (times_ != nullptr) number_ = times_->BeginSpan(span, stream);
  }
  ~SpanScope() {
    if (number_) times_->EndSpan(*number_, stream_);
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  ExchangeTimes* const times_;
  const CUstream stream_;
  std::optional<size_t> number_;
};

}  // namespace ucudnn::spatial
