#include "spatial/call_sequence.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>

namespace ucudnn::spatial {
namespace {

constexpr auto kPause = std::chrono::microseconds(50);

uint64_t NextIdentity() {
  static std::atomic<uint64_t> count = 0;
  return ++count;
}

}  // namespace

CallSequence::CallSequence(const SplitSettings& settings, transport::Ranks& ranks,
                           RankFailure& failure, CallRecords& records)
    : settings_(settings),
      ranks_(ranks),
      failure_(failure),
      records_(records),
      identity_(NextIdentity()) {}

void CallSequence::Forget(cudnnHandle_t handle) {
  MutexLock lock(handles_mutex_);
  handles_.erase(handle);
}

int CallSequence::NumberOfThread() {
  // Each number is given to one thread only. A std::thread::id may be reused, and may be reused on
  // one rank but not on another. A thread that calls for several ranks gets a new number at each
  // change of rank.
  thread_local uint64_t numbered_by = 0;
  thread_local int number = 0;
  if (numbered_by != identity_) {
    numbered_by = identity_;
    number = thread_count_++;
  }
  return number;
}

int CallSequence::NumberOf(cudnnHandle_t handle) {
  MutexLock lock(handles_mutex_);
  const auto [at, is_new] = handles_.try_emplace(handle, handle_count_);
  if (is_new) ++handle_count_;
  return at->second;
}

void CallSequence::Post(const SplitCall& call, const SplitKernel* kernel, const Posting& posting) {
  const bool refused = kernel == nullptr || !kernel->refusal().empty();
  CallRecord record;
  record.sequence = number_;
  record.kernel = kernel == nullptr ? 0 : kernel->common_hash();
  record.extents = kernel == nullptr ? Spatial{} : call.problem.x;
  record.operation = static_cast<int32_t>(call.problem.operation);
  record.thread = NumberOfThread();
  record.handle = NumberOf(call.call.handle);
  record.kind = posting.agreed_now            ? RecordKind::kAgreed
                : refused                     ? RecordKind::kRefused
                : call.declared.is_replicated ? RecordKind::kReplicated
                                              : RecordKind::kExchanged;
  record.captured = call.is_captured ? 1 : 0;
  record.has_rows = posting.has_rows ? 1 : 0;
  AwaitRecords(records_.most_ahead() - 1);
  const std::optional<std::string> difference =
      records_.Add(record, kernel == nullptr ? nullptr : kernel->shared_extents());
  ranks_.Post({reinterpret_cast<const char*>(&record), sizeof record});
  if (difference) failure_.Fail(*difference);
}

void CallSequence::AwaitRecords(uint64_t most_ahead) {
  const auto deadline = std::chrono::steady_clock::now() + settings_.timeout;
  while (!failure_.has_failed() && records_.ahead() > most_ahead) {
    if (std::chrono::steady_clock::now() > deadline) {
      return failure_.Fail(failure_.OwnName() + " is " + std::to_string(records_.ahead()) +
                           " calls ahead of the slowest rank");
    }
    std::this_thread::sleep_for(kPause);
  }
}

bool CallSequence::AwaitIfChecked() {
  if (!settings_.waits_for_records) return true;
  AwaitRecords(0);
  return !failure_.has_failed() && !records_.differ();
}

}  // namespace ucudnn::spatial
