// Split calls inside CUDA graph captures, and what devices begin of them each time that their
// graphs are launched. A kernel that ran outside before is captured with its exchange, between two
// host functions (device_log.h); the thread that watches the others posts what began.
#include "base/log.h"
#include "spatial/split_calls.h"

namespace ucudnn::spatial {
namespace {

constexpr const char* kCounted = " split calls, counted from the first CUDA graph capture";

}  // namespace

std::string SplitCalls::WhyNotCaptured(std::span<const AgreedKernel> agreed) const {
  if (agreed.empty()) {
    return "it has not run outside of a capture before, which is where ranks agree on it";
  }
  if (settings_.agrees_each_time) {
    return "with UCUDNN_SPATIAL_AGREE=each ranks agree at every call, and a graph makes none";
  }
  return channel_ != nullptr ? channel_->CanBeCaptured().message() : std::string();
}

void SplitCalls::CountOwned() {
  owned_bytes_ = device_->buffer.size() + channel_->device_bytes() + captures_.bytes();
}

KernelOutcome SplitCalls::Capture(const SplitCall& call, LocalCall& local, SplitKernel& kernel,
                                  const cuda::Capture& capture) {
  CaptureMemory::Need need{kernel.shared_from_this(), kernel.buffer_bytes(), most_buffer_bytes_};
  need.other_bytes =
      owned_bytes_ - captures_.bytes() + transport::ReductionScratchBytes(kernel.reduced_bytes());
  const Result<ExchangeResources*> found = captures_.Take(capture, call.stream, need, *device_);
  CountOwned();
  if (!found.ok()) return {CUDNN_STATUS_SUCCESS, found.status()};
  ExchangeResources& device = **found;
  if (device_log_.load(std::memory_order_acquire) == nullptr) {
    device_log_.store(&DeviceLog::Make(driver_), std::memory_order_release);
  }
  const Result<DeviceLog::Point*> point = BeginOnDevice(call, kernel, true, device);
  if (!point.ok()) return {CUDNN_STATUS_SUCCESS, point.status()};
  KernelOutcome outcome = kernel.Run({call.call, call.stream, local}, device, *channel_);
  // What was forked is joined, whatever became of the call: else the whole capture fails.
  const CUstream exchanges = device.stream.get();
  Status joined = Status::Ok();
  if (cuda::IsCapturing(driver_, exchanges)) {
    joined = device.entered.Record(exchanges);
    if (joined.ok()) joined = device.entered.HoldBack(call.stream);
  }
  const Status ended = EndOnDevice(*point, call, device);
  CountOwned();  // the channel's part may have grown
  if (outcome.exact.ok()) outcome.exact = joined.ok() ? ended : joined;
  return outcome;
}

cudnnStatus_t SplitCalls::RunCaptured(const SplitCall& call, LocalCall& local) {
  const std::span<AgreedKernel> agreed =
      kernels_.Find(KernelKey::Of(call.problem, FormOf(functions_, call)));
  Posting posting;
  posting.is_captured = true;
  const std::optional<cuda::Capture> capture = cuda::CaptureOf(driver_, call.stream);
  const std::string why =
      capture ? WhyNotCaptured(agreed) : std::string("the capture has become invalid");
  if (!why.empty()) {
    posting.kind = CallKind::kRefused;
    Post(call, posting, 0, nullptr);
    WarnOnce("spatial capture " + why, "a split call is refused in a CUDA graph capture: " +
                                           Describe(call.problem) + ": " + why);
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  SplitKernel* const kernel = agreed[0].For(call.problem);
  if (kernel == nullptr) {
    Break(RankName() + ", call " + std::to_string(sequence_) +
          ": its tensors lie as never before, and it is inside a CUDA graph capture, where nothing "
          "can be made for them");
    return Broken(call);
  }
  const bool refused = !kernel->refusal().empty();
  posting.kind = refused                       ? CallKind::kRefused
                 : call.declared.is_replicated ? CallKind::kReplicated
                                               : CallKind::kExchanged;
  Post(call, posting, kernel->common_hash(), kernel->shared_extents());
  if (refused) {
    log_.Count(kernel->log_number(), false);
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (!AwaitIfChecked()) return Broken(call);
  if (call.declared.is_replicated) {
    return Conclude(call, {local.Run(call.call), Status::Ok()});
  }
  return Conclude(call, Capture(call, local, *kernel, *capture));
}

// In the order of exchanges, which is that of the calls on all ranks, whatever streams they are on.
Result<DeviceLog::Point*> SplitCalls::BeginOnDevice(const SplitCall& call,
                                                    const SplitKernel& kernel, bool is_captured,
                                                    ExchangeResources& device) {
  DeviceLog* const log = device_log_.load(std::memory_order_acquire);
  if (log == nullptr || call.declared.is_replicated) return nullptr;
  DeviceCall begun;
  begun.call = sequence_;
  begun.kernel = kernel.common_hash();
  begun.log_number = kernel.log_number();
  begun.exchanged_bytes = kernel.exchanged_bytes();
  begun.is_captured = is_captured;
  begun.needs_others = kernel.needs_others();
  UCUDNN_RETURN_IF_ERROR(device.entered.Record(call.stream));
  UCUDNN_RETURN_IF_ERROR(device.entered.HoldBack(device.stream.get()));
  UCUDNN_ASSIGN_OR_RETURN(DeviceLog::Point* const point, log->Begin(begun, device.stream.get()));
  UCUDNN_RETURN_IF_ERROR(device.counted.Record(device.stream.get()));
  return point;
}

// What follows on the caller's stream, a launch of a graph, say, begins behind this call.
Status SplitCalls::EndOnDevice(DeviceLog::Point* point, const SplitCall& call,
                               ExchangeResources& device) {
  if (point == nullptr) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(device.counted.HoldBack(call.stream));
  return device_log_.load(std::memory_order_acquire)->End(point, call.stream);
}

void SplitCalls::PostBegun(const DeviceCall& begun) {
  CallRecord record;
  record.sequence = begun_records_.last() + 1;
  record.kernel = begun.kernel;
  record.call = begun.call;
  record.kind = CallKind::kBegun;
  record.captured = begun.is_captured ? 1 : 0;
  if (begun.is_captured) {
    exchanged_bytes_ += begun.exchanged_bytes;
    log_.Count(begun.log_number, false);
  }
  const std::optional<std::string> difference = begun_records_.Add(record, nullptr);
  ranks_->Post({reinterpret_cast<const char*>(&record), sizeof record});
  if (begun.needs_others) begun_waiting_.store(record.sequence);
  if (difference) Break(*difference);
}

void SplitCalls::PostAllBegun() {
  DeviceLog* const log = device_log_.load(std::memory_order_acquire);
  if (log == nullptr) return;
  MutexLock lock(begun_mutex_);
  while (begun_records_.last() - SlowestPresent().last + 1 < begun_records_.most_ahead() &&
         !broken_.load(std::memory_order_acquire)) {
    const std::optional<DeviceCall> begun = log->NextBegun();
    if (!begun) break;
    PostBegun(*begun);
  }
}

CallRecords::Slowest SplitCalls::SlowestPresent() const {
  CallRecords::Slowest slowest = {ranks_->membership().group_rank, begun_records_.last()};
  for (int rank = 0; rank < ranks_->membership().group_size; ++rank) {
    if (left_[static_cast<size_t>(rank)].begun.load() != kHere) continue;
    const uint64_t last = begun_records_.last_of(rank);
    if (last < slowest.last) slowest = {rank, last};
  }
  return slowest;
}

void SplitCalls::FinishBegun() {
  const DeviceLog* const log = device_log_.load(std::memory_order_acquire);
  if (log == nullptr) return;
  const auto deadline = std::chrono::steady_clock::now() + transport::kLeavingTime;
  while (log->begun() != log->ended() && !broken_.load(std::memory_order_acquire) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PostAllBegun();
}

void SplitCalls::WatchBegun(BegunWatch& watch) {
  DeviceLog* const log = device_log_.load(std::memory_order_acquire);
  if (log == nullptr) return;
  PostAllBegun();
  const Patience::Clock::time_point now = Patience::Clock::now();
  const uint64_t begun = log->begun(), ended = log->ended(), waiting = begun_waiting_.load();
  const bool is_running = begun != ended;
  const CallRecords::Slowest slowest = SlowestPresent();
  const CallRecord missing = begun_records_.Own(slowest.last + 1);
  const bool all_came = slowest.last >= waiting;
  const bool comes =
      all_came || slowest.rank != watch.awaited.rank || slowest.last != watch.awaited.last;
  if (comes) watch.awaited = slowest;
  if (const auto verdict = watch.ranks.Look(comes, now); verdict != Patience::kWait) {
    const int rank = settings_.grid.RankInGroup(ranks_->membership().group, slowest.rank);
    Tell(verdict,
         "the device of " + ranks_->NameWithDoing(rank) + " has begun " +
             std::to_string(slowest.last) + kCounted + ", and that of " + RankName() +
             " one more, " + BegunCallText(missing) + watch.ranks.WaitedText(),
         missing.call);
  }
  const bool moves = !all_came || !is_running || begun + ended != watch.moved;
  watch.moved = begun + ended;
  if (const auto verdict = watch.device.Look(moves, now); verdict != Patience::kWait) {
    const CallRecord last = begun_records_.Own(begun_records_.last());
    Tell(verdict,
         RankName() + ", whose device lags behind the others', has not come to the end of " +
             BegunCallText(last) + watch.device.WaitedText(),
         last.call);
  }
  WatchLeft(watch, is_running, waiting);
}

// The device of one that has left may still run what it had not begun by then, for a while.
void SplitCalls::WatchLeft(BegunWatch& watch, bool is_running, uint64_t waiting) {
  const Patience::Clock::time_point now = Patience::Clock::now();
  for (size_t at = 0; at < left_.size() && is_running; ++at) {
    const uint64_t begun = left_[at].begun.load();
    if (begun >= waiting) continue;
    if (!watch.left_behind) watch.left_behind = now;
    if (now - *watch.left_behind < transport::kLeavingTime) return;
    const CallRecord missing = begun_records_.Own(begun + 1);
    const int rank = settings_.grid.RankInGroup(ranks_->membership().group, static_cast<int>(at));
    return Break("rank " + std::to_string(rank) + " ended after its device had begun " +
                 std::to_string(begun) + kCounted + ", but that of " + RankName() +
                 " waits in one more, " + BegunCallText(missing) + SuspectFrom(missing.call));
  }
  watch.left_behind.reset();
}

}  // namespace ucudnn::spatial
