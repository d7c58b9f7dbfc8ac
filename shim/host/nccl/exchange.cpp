#include "shim/host/nccl/exchange.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "shim/host/nccl/settings.h"

namespace hostgpu::nccl {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

std::string Bytes(uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

Exchange::Exchange(Communicator& communicator, const Operation& operation)
    : communicator_(communicator),
      operation_(operation),
      board_(communicator.board()),
      begin_ns_(NowNs()),
      sending_(operation.out.size()),
      receiving_(operation.in.size()),
      out_busy_(static_cast<size_t>(kKinds * communicator.ranks())),
      in_busy_(out_busy_.size()) {
  size_t staged = 0;
  for (size_t i = 0; i < operation.in.size(); ++i) {
    receiving_[i].sources.resize(operation.in[i].from.size());
    receiving_[i].staged_at = staged;
    staged += operation.in[i].bytes;
  }
  if (communicator.scratch().size() < staged) communicator.scratch().resize(staged);
}

Outcome Exchange::Run() {
  const std::atomic<uint32_t>& bell = board_.seat(communicator_.rank()).bell;
  Outcome lost;
  int64_t look_ns = begin_ns_ + kLookNs;
  for (;;) {
    const uint32_t seen = bell.load();
    if (communicator_.GivenUp()) return {};
    Advance();
    if (!error_.ok()) return error_;
    if (Done()) return {};
    if (moved_) {
      lost = {};
      continue;
    }
    // A lost rank's last messages may have been offered after the pass above. So one more pass runs
    // before the loss ends the operation.
    if (!lost.ok()) return lost;
    const int64_t now_ns = NowNs();
    const bool look = now_ns >= look_ns;
    if (look) look_ns = now_ns + kLookNs;
    lost = LostPeer(look ? Communicator::Look::kProcess : Communicator::Look::kPresence);
    if (lost.ok()) board_.AwaitBell(communicator_.rank(), seen, std::min(due_ns_, look_ns));
  }
}

void Exchange::Advance() {
  moved_ = false;
  due_ns_ = kNever;
  std::fill(out_busy_.begin(), out_busy_.end(), 0);
  std::fill(in_busy_.begin(), in_busy_.end(), 0);
  for (size_t i = 0; i < sending_.size() && error_.ok(); ++i) {
    if (sending_[i].step != Step::kDone) AdvanceOut(i);
  }
  for (size_t i = 0; i < receiving_.size() && error_.ok(); ++i) {
    if (receiving_[i].step != Step::kDone) AdvanceIn(i);
  }
}

bool Exchange::Busy(std::vector<char>& channels, Kind kind, int peer) {
  char& busy = channels[static_cast<size_t>(static_cast<int>(kind) * communicator_.ranks() + peer)];
  return std::exchange(busy, 1) != 0;
}

void Exchange::AdvanceOut(size_t i) {
  const Outgoing& outgoing = operation_.out[i];
  Sending& sending = sending_[i];
  if (Busy(out_busy_, outgoing.kind, outgoing.to)) return;
  Channel& channel = board_.channel(outgoing.kind, communicator_.rank(), outgoing.to);
  if (sending.step == Step::kWaiting) {
    channel.message = {outgoing.offset, outgoing.bytes, outgoing.signature, begin_ns_};
    sending.number = channel.offered.load() + 1;
    channel.offered.store(sending.number);
    board_.Ring(outgoing.to);
    sending.step = Step::kOffered;
    moved_ = true;
  } else if (channel.taken.load() >= sending.number) {
    if (channel.refused.load() == sending.number) {
      error_ = {ncclInvalidUsage, "rank " + std::to_string(outgoing.to) + " refused " +
                                      Bytes(outgoing.bytes) + ": it expects another operation"};
    }
    sending.step = Step::kDone;
    moved_ = true;
  }
}

void Exchange::AdvanceIn(size_t i) {
  const Incoming& incoming = operation_.in[i];
  Receiving& receiving = receiving_[i];
  if (receiving.step == Step::kStaged) {
    if (AllRead(incoming.call)) Finish(i);
    return;
  }
  if (!Arrive(i)) return;
  if (receiving.due_ns > begin_ns_ && NowNs() < receiving.due_ns) {
    due_ns_ = std::min(due_ns_, receiving.due_ns);
    return;
  }
  Take(i);
}

// Returns true if all ranks have offered their messages. Checks each message when it is first seen.
bool Exchange::Arrive(size_t i) {
  const Incoming& incoming = operation_.in[i];
  Receiving& receiving = receiving_[i];
  bool all = true;
  for (size_t k = 0; k < incoming.from.size(); ++k) {
    const int from = incoming.from[k];
    if (Busy(in_busy_, incoming.kind, from)) {
      all = false;
      continue;
    }
    if (receiving.sources[k]) continue;
    Channel& channel = board_.channel(incoming.kind, from, communicator_.rank());
    if (channel.offered.load() == channel.taken.load()) {
      all = false;
      continue;
    }
    receiving.sources[k] = SourceOf(incoming, from);
    if (!receiving.sources[k]) return false;
    moved_ = true;
    if (from == communicator_.rank()) continue;  // a rank's own message needs no transfer
    const Settings& settings = TheSettings();
    const int64_t both_ns = std::max(channel.message.ready_ns, begin_ns_);
    const int64_t free_ns = std::max(both_ns, channel.free_at_ns);
    channel.free_at_ns = free_ns + settings.TransferNs(incoming.bytes);
    receiving.due_ns = std::max(receiving.due_ns, channel.free_at_ns + settings.delay_ns);
  }
  return all;
}

// Returns the address of the offered message. If it is not the expected message, makes both ranks
// fail and returns null.
const char* Exchange::SourceOf(const Incoming& incoming, int from) {
  Channel& channel = board_.channel(incoming.kind, from, communicator_.rank());
  // Copied once, because another process could change it between the checks.
  const Message message = channel.message;
  const std::string name = "rank " + std::to_string(from);
  if (message.bytes != incoming.bytes) {
    error_ = {ncclInvalidUsage, name + " sends " + Bytes(message.bytes) + " where " +
                                    Bytes(incoming.bytes) + " are expected"};
  } else if (message.signature != incoming.signature) {
    error_ = {ncclInvalidUsage, name + " takes part in another collective operation"};
  } else if (const uint64_t size = communicator_.memory(from).bytes();
             message.offset > size || message.bytes > size - message.offset) {
    error_ = {ncclInternalError, name + " sends from beyond its memory"};
  }
  if (error_.ok()) return communicator_.memory(from).data() + message.offset;
  const uint64_t number = channel.taken.load() + 1;
  channel.refused.store(number);
  channel.taken.store(number);
  board_.Ring(from);
  return nullptr;
}

// Computes the result when all messages are there, and then releases the senders. A rank that gives
// up sets its presence first; only then does its stream continue, which may overwrite the data. So
// the result is valid only if all senders are still present after it was computed.
void Exchange::Take(size_t i) {
  const Incoming& incoming = operation_.in[i];
  Receiving& receiving = receiving_[i];
  char* const staged = communicator_.scratch().data() + receiving.staged_at;
  if (incoming.reduction) {
    const size_t count = incoming.bytes / ElementBytes(incoming.reduction->type);
    Reduce(*incoming.reduction, receiving.sources, staged, count);
  } else if (incoming.bytes > 0) {
    std::memcpy(staged, receiving.sources[0], incoming.bytes);
  }
  for (const int from : incoming.from) {
    error_ = communicator_.CheckPeer(from, Communicator::Look::kPresence);
    if (!error_.ok()) return;
  }
  for (const int from : incoming.from) {
    board_.channel(incoming.kind, from, communicator_.rank()).taken.fetch_add(1);
    board_.Ring(from);
  }
  receiving.step = Step::kStaged;
  if (!incoming.in_place) Finish(i);
  moved_ = true;
}

void Exchange::Finish(size_t i) {
  const Incoming& incoming = operation_.in[i];
  const char* const staged = communicator_.scratch().data() + receiving_[i].staged_at;
  // A message of no bytes may have no address.
  if (incoming.bytes > 0) std::memcpy(incoming.to, staged, incoming.bytes);
  receiving_[i].step = Step::kDone;
  moved_ = true;
}

bool Exchange::Done() const {
  const auto done = [](const auto& part) { return part.step == Step::kDone; };
  return std::all_of(sending_.begin(), sending_.end(), done) &&
         std::all_of(receiving_.begin(), receiving_.end(), done);
}

bool Exchange::AllRead(int call) const {
  for (size_t i = 0; i < sending_.size(); ++i) {
    if (operation_.out[i].call == call && sending_[i].step != Step::kDone) return false;
  }
  return true;
}

Outcome Exchange::LostPeer(Communicator::Look look) const {
  for (size_t i = 0; i < sending_.size(); ++i) {
    if (sending_[i].step == Step::kDone) continue;
    Outcome outcome = communicator_.CheckPeer(operation_.out[i].to, look);
    if (!outcome.ok()) return outcome;
  }
  for (size_t i = 0; i < receiving_.size(); ++i) {
    if (receiving_[i].step != Step::kWaiting) continue;
    for (size_t k = 0; k < operation_.in[i].from.size(); ++k) {
      if (receiving_[i].sources[k]) continue;
      Outcome outcome = communicator_.CheckPeer(operation_.in[i].from[k], look);
      if (!outcome.ok()) return outcome;
    }
  }
  return {};
}

}  // namespace hostgpu::nccl
