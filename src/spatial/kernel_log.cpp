#include "spatial/kernel_log.h"

#include <algorithm>
#include <utility>

#include "convolution/pooled_boxes.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {
namespace {

const char* KindOf(const SplitCall& call) {
  switch (call.work) {
    case SplitWork::kConvolution:
      break;
    case SplitWork::kBiasGradient:
      return "bias gradient";
    case SplitWork::kRows:
      return "rows";
    case SplitWork::kPooling:
      return cudnn::PoolingName(call.pooling);
    case SplitWork::kNorm:
      return "batch normalisation";
  }
  return "convolution";
}

// Adds to `need` the elements that the gradient of a maximum pooling reads besides dy: x under all
// windows that contain the rank's elements.
HaloNeed WithMaxima(const Stripes& stripes, HaloNeed need) {
  const SpatialBox own = OwnedByPooling(stripes, stripes.cell).elements;
  const SpatialBox read = ReadByPooling(stripes, stripes.cell).elements;
  need.received += Elements(read) - Elements(Intersection(read, own));
  for (int other = 0; other < stripes.grid.GroupSize(); ++other) {
    if (other == stripes.cell) continue;
    need.sent += Elements(Intersection(ReadByPooling(stripes, other).elements, own));
  }
  return need;
}

// Enough for 8 spans per call on average; most calls have three to six spans.
constexpr size_t kMostStepSpans = 8 * ExchangeTimes::kMostCalls;

void AddTo(KernelTimes& times, Span span, double ms) {
  switch (span) {
    case Span::kCall:
      times.call_ms += ms;
      break;
    case Span::kOwn:
      times.own_ms += ms;
      break;
    case Span::kExchange:
      times.exchange_ms += ms;
      break;
    case Span::kAwaitExchange:
      times.exposed_ms += ms;
      break;
    case Span::kSum:
      times.sum_ms += ms;
      break;
    case Span::kAwaitSum:
      times.exposed_sum_ms += ms;
      break;
  }
}

}  // namespace

KernelFacts FactsOf(const SplitCall& call, const SplitKernel& kernel, std::string common,
                    const Result<GroupStripes>& group) {
  KernelFacts facts;
  facts.kind = KindOf(call);
  facts.problem = call.problem;
  facts.common = std::move(common);
  facts.refusal = kernel.refusal();
  facts.extents = kernel.extents();
  if (!kernel.refusal().empty()) {
    facts.outcome = SplitOutcome::kRefused;
    return facts;
  }
  if (call.declared.is_replicated) {
    facts.outcome = SplitOutcome::kReplicated;
    return facts;
  }
  facts.sent_bytes = kernel.sent_bytes();
  facts.received_bytes = kernel.received_bytes();
  facts.summed_bytes = kernel.reduced_bytes();
  facts.slices = (call.problem.n - 1) / std::max(kernel.slice_images(), 1) + 1;
  if (!group.ok()) return facts;
  const Stripes& stripes = group->stripes;
  facts.need = HaloNeedOf(stripes);
  if (group->pooled || call.work == SplitWork::kNorm) {
    // Each rank sends each of its numbers to every other rank exactly once, so the bytes sent and
    // received are the least possible.
    facts.least_sent_bytes = facts.sent_bytes;
    facts.least_received_bytes = facts.received_bytes;
    return facts;
  }
  if (call.work == SplitWork::kPooling && call.pooling.is_maximum() &&
      call.problem.operation == Operation::kBackwardData) {
    facts.need = WithMaxima(stripes, facts.need);
  }
  const auto bytes = [&](int64_t elements) {
    return static_cast<uint64_t>(stripes.BytesPerImage(elements) * call.problem.n);
  };
  facts.least_sent_bytes = bytes(facts.need.sent);
  facts.least_received_bytes = bytes(facts.need.received);
  return facts;
}

int KernelLog::Add(KernelFacts facts) {
  MutexLock lock(mutex_);
  const auto [first, last] = numbers_.equal_range(facts.common);
  for (auto known = first; known != last; ++known) {
    KernelFacts& before = kernels_[static_cast<size_t>(known->second)].facts;
    if (before.extents != facts.extents) continue;
    before = std::move(facts);
    return known->second;
  }
  if (kernels_.size() == kMost) return kUnlisted;
  const int number = static_cast<int>(kernels_.size());
  numbers_.emplace(facts.common, number);
  kernels_.emplace_back().facts = std::move(facts);
  return number;
}

uint64_t KernelLog::Count(int number, bool is_paired) {
  MutexLock lock(mutex_);
  if (number == kUnlisted) return unlisted_calls_++;
  KernelFigures& kernel = kernels_[static_cast<size_t>(number)];
  if (is_paired) ++kernel.paired_calls;
  return kernel.calls++;
}

RankFigures KernelLog::Read() const {
  MutexLock lock(mutex_);
  RankFigures figures;
  figures.kernels = kernels_;
  figures.unlisted_calls = unlisted_calls_;
  return figures;
}

void ExchangeTimes::Create() {
  is_created_ = true;
  if (driver_.cuCtxGetCurrent(&context_) != CUDA_SUCCESS) return;
  for (size_t i = 0; i <= kEvents; ++i) {
    if (!events_.emplace_back(driver_).Create().ok()) return;
  }
  pending_.resize(kMostPending);
  for (StepTimes* step : {&timed_, &whole_}) {
    step->calls.reserve(kMostCalls);
    step->spans.reserve(kMostStepSpans);
  }
  free_events_ = kEvents;
}

bool ExchangeTimes::Follow(int kernel) {
  if (first_kernel_ == kernel || !first_kernel_ || calls_ == kMostCalls) {
    first_kernel_ = kernel;
    ++step_;
    calls_ = 1;
    return true;
  }
  ++calls_;
  return false;
}

void ExchangeTimes::BeginStep(CUstream stream) {
  is_over_ = timed_.number != 0;
  Collect();
  is_timed_ = step_ >= 2 && (step_ - 2) % kPeriod == 0 && free_events_ > 0 && pending_count_ == 0 &&
              events_.back().Record(stream).ok();
  if (!is_timed_) return;
  is_over_ = false;
  timed_.number = step_;
  timed_.calls.clear();
  timed_.spans.clear();
}

bool ExchangeTimes::Begin(int kernel, bool is_first, CUstream stream) {
  MutexLock lock(mutex_);
  if (kernel < 0) return false;
  if (!is_created_) Create();
  if (static_cast<size_t>(kernel) >= times_.size()) times_.resize(static_cast<size_t>(kernel) + 1);
  if (Follow(kernel)) {
    BeginStep(stream);
  } else if (pending_count_ > 0) {
    Collect();
  }
  if (!is_timed_ || is_first || pending_count_ == kMostPending) return false;
  is_open_ = true;
  PendingCall& call = Slot(pending_count_);
  call.kernel = kernel;
  call.count = 0;
  call.is_lost = false;
  return true;
}

void ExchangeTimes::End() {
  MutexLock lock(mutex_);
  is_open_ = false;
  ++pending_count_;
}

std::optional<size_t> ExchangeTimes::BeginSpan(Span span, CUstream stream) {
  MutexLock lock(mutex_);
  PendingCall& call = Slot(pending_count_);
  if (!is_open_ || call.is_lost) return std::nullopt;
  if (call.count == kMostSpans || free_events_ < 2) {
    call.is_lost = true;
    return std::nullopt;
  }
  PendingSpan& added = call.spans[call.count];
  added = {span, next_event_, (next_event_ + 1) % kEvents};
  next_event_ = (next_event_ + 2) % kEvents;
  free_events_ -= 2;
  if (!events_[added.begin].Record(stream).ok()) call.is_lost = true;
  return call.count++;
}

void ExchangeTimes::EndSpan(size_t span, CUstream stream) {
  MutexLock lock(mutex_);
  PendingCall& call = Slot(pending_count_);
  if (!events_[call.spans[span].end].Record(stream).ok()) call.is_lost = true;
}

bool ExchangeTimes::IsOver(PendingCall& call) const {
  for (size_t i = 0; i < call.count && !call.is_lost; ++i) {
    const CUresult reached = driver_.cuEventQuery(events_[call.spans[i].end].get());
    if (reached == CUDA_ERROR_NOT_READY) return false;
    call.is_lost = reached != CUDA_SUCCESS;
  }
  return true;
}

bool ExchangeTimes::Elapsed(size_t begin, size_t end, float& ms) const {
  return driver_.cuEventElapsedTime(&ms, events_[begin].get(), events_[end].get()) == CUDA_SUCCESS;
}

void ExchangeTimes::Add(const PendingCall& call) {
  if (timed_.spans.size() + call.count > kMostStepSpans || timed_.calls.size() == kMostCalls)
    return;
  const size_t before = timed_.spans.size();
  for (size_t i = 0; i < call.count; ++i) {
    TimedSpan read{call.spans[i].span};
    if (!Elapsed(kEvents, call.spans[i].begin, read.begin_ms) ||
        !Elapsed(call.spans[i].begin, call.spans[i].end, read.length_ms)) {
      timed_.spans.resize(before);
      return;
    }
    read.length_ms = std::max(read.length_ms, 0.0F);
    timed_.spans.push_back(read);
  }
  timed_.calls.push_back({call.kernel, timed_.spans.size()});
  KernelTimes& times = times_[static_cast<size_t>(call.kernel)];
  ++times.calls;
  for (size_t i = before; i < timed_.spans.size(); ++i) {
    AddTo(times, timed_.spans[i].span, timed_.spans[i].length_ms);
  }
}

void ExchangeTimes::Collect() {
  const cuda::RelaxedCaptureScope relaxed(driver_);
  while (pending_count_ > 0) {
    PendingCall& call = Slot(0);
    if (!IsOver(call)) return;
    if (!call.is_lost) Add(call);
    free_events_ += 2 * call.count;
    first_pending_ = (first_pending_ + 1) % kMostPending;
    --pending_count_;
  }
  if (!is_over_ || timed_.number == 0) return;
  std::swap(timed_, whole_);
  timed_.number = 0;
  is_over_ = false;
}

void ExchangeTimes::Read(RankFigures& figures) {
  MutexLock lock(mutex_);
  if (context_ != nullptr) {
    const cuda::ContextScope scope(driver_, context_);
    CUcontext current = nullptr;
    // If the program has destroyed the context, the events cannot be read.
    if (driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context_) Collect();
  }
  figures.step = whole_.number != 0 ? whole_ : timed_;
  for (size_t at = 0; at < std::min(times_.size(), figures.kernels.size()); ++at) {
    figures.kernels[at].times = times_[at];
  }
}

}  // namespace ucudnn::spatial
