#include "spatial/call_record.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "spatial/rank_failure.h"
#include "spatial/split_call.h"
#include "spatial/split_kernel.h"
#include "transport/ranks.h"

namespace ucudnn::spatial {
namespace {

constexpr auto kPause = std::chrono::microseconds(50);

uint64_t NextIdentity() {
  static std::atomic<uint64_t> count = 0;
  return ++count;
}

std::string CallOf(int rank, uint64_t sequence) {
  return "call " + std::to_string(sequence) + " of rank " + std::to_string(rank);
}

const char* KindWords(const CallRecord& record) {
  if (record.captured != 0) return "is inside a CUDA graph capture";
  switch (record.kind) {
    case RecordKind::kExchanged:
      return record.has_rows != 0 ? "takes the rows that the call before received" : "is split";
    case RecordKind::kAgreed:
      return "is its kernel's first";
    case RecordKind::kRefused:
      return "was refused";
    case RecordKind::kReplicated:
      return "is replicated";
    case RecordKind::kBegun:
      return "has begun";
  }
  return "";
}

std::string BegunText(int rank, const CallRecord& record) {
  return "rank " + std::to_string(rank) + " begins " + BegunCallText(record);
}

}  // namespace

std::string ExtentsText(const Spatial& extents) {
  return std::to_string(extents[0]) + "x" + std::to_string(extents[1]) + "x" +
         std::to_string(extents[2]);
}

std::string BegunCallText(const CallRecord& record) {
  return "split call " + std::to_string(record.call) +
         (record.captured != 0 ? ", which is in a CUDA graph" : "");
}

std::string SuspectFrom(uint64_t call) {
  return "; what was computed from split call " + std::to_string(call) + " on may be wrong";
}

CallRecords::CallRecords(int rank, int ranks, int first)
    : rank_(rank), ranks_(ranks), first_(first), peers_(static_cast<size_t>(ranks)) {}

void CallRecords::MakeRoom() {
  MutexLock lock(mutex_);
  Grow();
}

void CallRecords::Grow() {
  if (!own_.empty()) return;
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank_) peers_[static_cast<size_t>(other)].early.resize(2 * most_ahead());
  }
  own_.resize(most_ahead());
}

size_t CallRecords::MostAhead(int ranks) {
  constexpr size_t kMost = 8192, kLeast = 128, kOfAll = size_t{1} << 18;
  return std::clamp(kOfAll / static_cast<size_t>(ranks), kLeast, kMost);
}

std::optional<std::string> CallRecords::Compare(int rank, const CallRecord& theirs) const {
  const Made& own = own_[theirs.sequence % most_ahead()];
  const CallRecord& mine = own.record;
  // A lambda, so that no text is made for equal records.
  const auto both = [&] {
    return CallOf(first_ + rank_, mine.sequence) + " and of rank " + std::to_string(first_ + rank) +
           " differ: ";
  };
  if (mine.kind == RecordKind::kBegun) {
    if (theirs == mine) return std::nullopt;
    return "devices run split calls in another order: as number " + std::to_string(mine.sequence) +
           " " + BegunText(first_ + rank_, mine) + ", and " + BegunText(first_ + rank, theirs) +
           ". CUDA graphs that hold split calls are launched in one order on all ranks, and "
           "ordered by streams with all other split calls";
  }
  if (theirs.kernel != mine.kernel || theirs.operation != mine.operation) {
    return both() + "they are not the same kernel. " + kPrivateCalls;
  }
  const Spatial& agreed =
      own.extents != nullptr ? (*own.extents)[static_cast<size_t>(rank)] : mine.extents;
  if (theirs.extents != agreed) {
    return both() + "rank " + std::to_string(first_ + rank) + " has " +
           ExtentsText(theirs.extents) + " elements where " + ExtentsText(agreed) +
           " were agreed on; UCUDNN_SPATIAL_AGREE=each lets extents change";
  }
  if (theirs.kind != mine.kind || theirs.captured != mine.captured ||
      theirs.has_rows != mine.has_rows) {
    return both() + "of rank " + std::to_string(first_ + rank_) + " it " + KindWords(mine) +
           ", of rank " + std::to_string(first_ + rank) + " it " + KindWords(theirs);
  }
  if (theirs.thread != mine.thread || theirs.handle != mine.handle) {
    return both() +
           "they come from another thread or cuDNN handle in the order of their first calls";
  }
  return std::nullopt;
}

void CallRecords::Drain(int rank, std::optional<std::string>& difference) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  while (peer.compared < std::min(peer.met, last_)) {
    const CallRecord& theirs = peer.early[(peer.compared + 1) % peer.early.size()];
    if (!difference) {
      difference = Compare(rank, theirs);
      const bool is_begun = theirs.kind == RecordKind::kBegun;
      if (difference) *difference += SuspectFrom(is_begun ? theirs.call : theirs.sequence);
    }
    ++peer.compared;
  }
  differ_ = differ_ || difference.has_value();
}

std::optional<std::string> CallRecords::Add(const CallRecord& record, AllExtents extents) {
  MutexLock lock(mutex_);
  Grow();
  last_ = record.sequence;
  own_[last_ % most_ahead()] = {record, std::move(extents)};
  std::optional<std::string> difference;
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    if (rank != rank_) Drain(rank, difference);
  }
  return difference;
}

std::optional<std::string> CallRecords::AddOf(int rank, std::string_view bytes) {
  const bool is_peer = rank >= 0 && rank != rank_ && rank < ranks_;
  if (!is_peer || bytes.size() != sizeof(CallRecord)) {
    return "a record of rank " + std::to_string(first_ + rank) + " cannot be read";
  }
  CallRecord theirs;
  std::memcpy(&theirs, bytes.data(), sizeof theirs);
  MutexLock lock(mutex_);
  try {
    Grow();
  } catch (...) {
    return "there is no memory for the records of rank " + std::to_string(first_ + rank);
  }
  Peer& peer = peers_[static_cast<size_t>(rank)];
  if (theirs.sequence != peer.met + 1 || peer.met - peer.compared >= peer.early.size() - 1) {
    return CallOf(first_ + rank, theirs.sequence) + " does not follow call " +
           std::to_string(peer.met);
  }
  peer.met = theirs.sequence;
  peer.early[theirs.sequence % peer.early.size()] = theirs;
  std::optional<std::string> difference;
  Drain(rank, difference);
  return difference;
}

std::optional<CallRecords::Early> CallRecords::NotAgreeing() const {
  MutexLock lock(mutex_);
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (static_cast<int>(rank) == rank_ || peer.met <= last_) continue;
    const CallRecord& theirs = peer.early[(last_ + 1) % peer.early.size()];
    if (theirs.kind != RecordKind::kAgreed) return Early{static_cast<int>(rank), theirs};
  }
  return std::nullopt;
}

bool CallRecords::differ() const {
  MutexLock lock(mutex_);
  return differ_;
}

uint64_t CallRecords::last() const {
  MutexLock lock(mutex_);
  return last_;
}

CallRecord CallRecords::Own(uint64_t sequence) const {
  MutexLock lock(mutex_);
  return own_.empty() ? CallRecord() : own_[sequence % most_ahead()].record;
}

uint64_t CallRecords::last_of(int rank) const {
  MutexLock lock(mutex_);
  return rank == rank_ ? last_ : peers_[static_cast<size_t>(rank)].met;
}

uint64_t CallRecords::ahead() const {
  MutexLock lock(mutex_);
  uint64_t slowest = last_;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank != rank_) slowest = std::min(slowest, peers_[static_cast<size_t>(rank)].met);
  }
  return last_ - slowest;
}

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
  // Each number is given to one thread only. A std::thread::id could not replace the number,
  // because one process may reuse an id while another process does not. A thread that calls for
  // several ranks gets a new number at each change of rank.
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
