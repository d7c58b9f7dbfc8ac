#include "spatial/call_record.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ucudnn::spatial {
namespace {

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

}  // namespace ucudnn::spatial
