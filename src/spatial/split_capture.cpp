// Split calls inside CUDA graph captures, and what devices begin of them each time that their
// graphs are launched. A kernel that ran outside before is captured with its exchange, between two
// host functions (device_log.h); the thread that watches the others posts what began.
#include <algorithm>

#include "base/byte_size.h"
#include "base/log.h"
#include "spatial/split_calls.h"

namespace ucudnn::spatial {
namespace {

std::string NumberOfCall(const CallRecord& record) {
  return "split call " + std::to_string(record.call) +
         (record.captured != 0 ? ", which is in a CUDA graph" : "");
}

std::string Seconds(const Patience& wait) {
  return " for " + std::to_string(wait.waited().count() / 1000) + " s";
}

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

Result<ExchangeResources*> SplitCalls::ResourcesOfCapture(const SplitCall& call) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0;
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      driver_,
      driver_.cuStreamGetCaptureInfo(call.stream, &status, &capture, nullptr, nullptr, nullptr),
      "asking for a capture"));
  if (!captures_.empty() && captures_.back().capture == capture) return &*captures_.back().device;
  const size_t bytes = device_->buffer.size();
  if (bytes > most_buffer_bytes_ - std::min<size_t>(most_buffer_bytes_, owned_bytes_)) {
    return Status::Error("another CUDA graph's exchanges take " + FormatByteSize(bytes) +
                         " beside the " + FormatByteSize(owned_bytes_) +
                         " that exchanges have, and the limit is " +
                         FormatByteSize(most_buffer_bytes_));
  }
  const cuda::RelaxedCaptureScope relaxed(driver_);
  Captured& made = captures_.emplace_back();
  made.device.emplace(driver_, functions_);
  const Status created = made.device->CreateForCapture(device_->context, call.stream, bytes);
  if (!created.ok()) {
    captures_.pop_back();
    return created;
  }
  made.capture = capture;
  CountOwned();
  return &*made.device;
}

void SplitCalls::CountOwned() {
  size_t bytes = device_->buffer.size() + channel_->device_bytes();
  for (const Captured& one : captures_) bytes += one.device->buffer.size();
  owned_bytes_ = bytes;
}

KernelOutcome SplitCalls::Capture(const SplitCall& call, LocalCall& local, SplitKernel& kernel) {
  Result<ExchangeResources*> found = ResourcesOfCapture(call);
  if (!found.ok()) return {CUDNN_STATUS_SUCCESS, found.status()};
  ExchangeResources& device = **found;
  if (device_log_.load(std::memory_order_acquire) == nullptr) {
    device_log_.store(&DeviceLog::Make(driver_), std::memory_order_release);
  }
  const Result<DeviceLog::Point*> point = BeginOnDevice(call, kernel, true);
  if (!point.ok()) return {CUDNN_STATUS_SUCCESS, point.status()};
  KernelOutcome outcome = kernel.Run({call.call, call.stream, local}, device, *channel_);
  // What was forked is joined, whatever became of the call: else the whole capture fails.
  const CUstream exchanges = device.stream.get();
  Status joined = Status::Ok();
  if (cuda::IsCapturing(driver_, exchanges)) {
    joined = device.entered.Record(exchanges);
    if (joined.ok()) joined = device.entered.HoldBack(call.stream);
  }
  const Status ended = EndOnDevice(*point, call);
  CountOwned();  // the channel's part may have grown
  if (outcome.exact.ok()) outcome.exact = joined.ok() ? ended : joined;
  return outcome;
}

cudnnStatus_t SplitCalls::RunCaptured(const SplitCall& call, LocalCall& local) {
  const std::span<AgreedKernel> agreed =
      kernels_.Find(KernelKey::Of(call.problem, FormOf(functions_, call)));
  Posting posting;
  posting.is_captured = true;
  if (const std::string why = WhyNotCaptured(agreed); !why.empty()) {
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
  return Conclude(call, Capture(call, local, *kernel));
}

Result<DeviceLog::Point*> SplitCalls::BeginOnDevice(const SplitCall& call,
                                                    const SplitKernel& kernel, bool is_captured) {
  DeviceLog* const log = device_log_.load(std::memory_order_acquire);
  if (log == nullptr || call.declared.is_replicated) return nullptr;
  DeviceCall begun;
  begun.call = sequence_;
  begun.kernel = kernel.common_hash();
  begun.log_number = kernel.log_number();
  begun.exchanged_bytes = kernel.exchanged_bytes();
  begun.is_captured = is_captured;
  begun.needs_others = kernel.needs_others();
  return log->Begin(begun, call.stream);
}

Status SplitCalls::EndOnDevice(DeviceLog::Point* point, const SplitCall& call) {
  if (point == nullptr) return Status::Ok();
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
  last_begun_ = record;
  const std::optional<std::string> difference = begun_records_.Add(record, nullptr);
  ranks_->Post({reinterpret_cast<const char*>(&record), sizeof record});
  if (begun.needs_others) begun_waiting_.store(record.sequence);
  if (difference) return Break(*difference);
  if (std::optional<std::string> line = LeftBehind()) Break(*line);
}

void SplitCalls::WatchBegun(BegunWatch& watch) {
  DeviceLog* const log = device_log_.load(std::memory_order_acquire);
  if (log == nullptr) return;
  const Patience::Clock::time_point now = Patience::Clock::now();
  while (begun_records_.ahead() + 1 < begun_records_.most_ahead() && !broken_) {
    const std::optional<DeviceCall> begun = log->NextBegun();
    if (!begun) break;
    PostBegun(*begun);
  }
  const CallRecords::Slowest slowest = begun_records_.slowest();
  const bool all_came = slowest.last >= begun_waiting_.load();
  const bool comes =
      all_came || slowest.rank != watch.awaited.rank || slowest.last != watch.awaited.last;
  if (comes) watch.awaited = slowest;
  if (const auto verdict = watch.ranks.Look(comes, now); verdict != Patience::kWait) {
    const int rank = settings_.grid.RankInGroup(ranks_->membership().group, slowest.rank);
    Tell(verdict,
         "the device of " + ranks_->NameWithDoing(rank) + " has begun " +
             std::to_string(slowest.last) + " split calls and not number " +
             std::to_string(slowest.last + 1) + Seconds(watch.ranks) + "; that of " + RankName() +
             " waits in " + NumberOfCall(last_begun_),
         last_begun_.call);
  }
  const uint64_t begun = log->begun(), ended = log->ended();
  const bool moves = !all_came || begun == ended || begun + ended != watch.moved;
  watch.moved = begun + ended;
  if (const auto verdict = watch.device.Look(moves, now); verdict != Patience::kWait) {
    Tell(verdict,
         RankName() + ", whose device lags behind the others', has not come to the end of " +
             NumberOfCall(last_begun_) + Seconds(watch.device),
         last_begun_.call);
  }
}

}  // namespace ucudnn::spatial
