// Times of a rank's split calls on the device, for the report: how long exchanges take, and how
// much of that the caller's stream waits for. Made only where a report is written.
//
// Timed is one step of the program in kPeriod, beginning with the second, but for the first call of
// each kernel. A step begins with each call of the kernel that was called first; where that one has
// not come for kMostCalls calls, with the next call's. All ranks make the same calls, so they time
// the same ones. Each timed call records events, which are read when a later call finds them
// reached, or when the report is written: nobody ever waits for them. A call for which no events
// are left is not timed. Allocates at the rank's first split call, and where a kernel is new.
//
// Thread-safe: one thread at a time makes calls, and any other reads.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "cuda/resources.h"
#include "spatial/kernel_figures.h"

namespace ucudnn::spatial {

class ExchangeTimes {
 public:
  static constexpr uint64_t kPeriod = 64;      // steps
  static constexpr size_t kMostCalls = 1024;   // of a step
  static constexpr size_t kMostPending = 512;  // calls that the device has not come to the end of
  static constexpr size_t kMostSpans = 40;     // of a call: one of more is not timed
  static constexpr size_t kEvents = 4096;

  explicit ExchangeTimes(const cuda::Driver& driver) : driver_(driver) {}

  // A call of the kernel of this number begins on `stream`; `is_first` of that kernel. True where
  // it is timed: then it ends with End.
  bool Begin(int kernel, bool is_first, CUstream stream);
  void End();
  // Adds what is known by now.
  void Read(RankFigures& figures);

 private:
  friend class SpanScope;
  struct PendingSpan {
    Span span = Span::kCall;
    size_t begin = 0, end = 0;  // numbers of events
  };
  struct PendingCall {
    int kernel = 0;
    size_t count = 0;
    bool is_lost = false;  // an event could not be recorded, or there were none left
    std::array<PendingSpan, kMostSpans> spans;
  };

  // The number of the span among the open call's; none where it is not timed.
  std::optional<size_t> BeginSpan(Span span, CUstream stream);
  void EndSpan(size_t span, CUstream stream);

  void Create() UCUDNN_REQUIRES(mutex_);
  // Which step the call belongs to; true where it begins one.
  bool Follow(int kernel) UCUDNN_REQUIRES(mutex_);
  void BeginStep(CUstream stream) UCUDNN_REQUIRES(mutex_);
  // Reads the events of calls that the device has come to the end of.
  void Collect() UCUDNN_REQUIRES(mutex_);
  // Whether the device has come to the end of the call; it is lost where nobody will ever know.
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
  // Used in a ring, in the order of the calls; behind them the one at the step's beginning.
  std::deque<cuda::Event> events_ UCUDNN_GUARDED_BY(mutex_);
  size_t next_event_ UCUDNN_GUARDED_BY(mutex_) = 0, free_events_ UCUDNN_GUARDED_BY(mutex_) = 0;
  std::vector<PendingCall> pending_ UCUDNN_GUARDED_BY(mutex_);  // a ring
  size_t first_pending_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t pending_count_ UCUDNN_GUARDED_BY(mutex_) = 0;
  bool is_open_ UCUDNN_GUARDED_BY(mutex_) = false;  // the call behind those that are pending

  std::optional<int> first_kernel_ UCUDNN_GUARDED_BY(mutex_);  // of each step
  uint64_t step_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t calls_ UCUDNN_GUARDED_BY(mutex_) = 0;  // of the step
  bool is_timed_ UCUDNN_GUARDED_BY(mutex_) = false;
  bool is_over_ UCUDNN_GUARDED_BY(mutex_) = false;  // all calls of `timed_` have been made
  // The step that is being timed, and the last one that is known whole.
  StepTimes timed_ UCUDNN_GUARDED_BY(mutex_), whole_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<KernelTimes> times_ UCUDNN_GUARDED_BY(mutex_);  // by kernel
};

// Times what is enqueued on `stream` while it lives, as a part of the open call; `times` is null
// where that one is not timed.
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
