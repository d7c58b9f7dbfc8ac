#include "transport/spoke.h"

#include "transport/packing.h"

namespace ucudnn::transport {
namespace {

constexpr size_t kMostQueuedToHub = size_t{1} << 20;

}  // namespace

std::string DeathLine(int rank, const std::string& how, const std::string& doing) {
  return "rank " + std::to_string(rank) + " died or ended (" + how +
         "); it was last known to do: " + (doing.empty() ? "nothing yet" : doing);
}

std::string SilenceLine(int rank, Milliseconds silence, const std::string& doing) {
  return "rank " + std::to_string(rank) + " was silent for " + std::to_string(silence.count()) +
         " ms, so it is dead, stopped or cut off; it was last known to do: " +
         (doing.empty() ? "nothing yet" : doing);
}

Spoke::Spoke(std::unique_ptr<Connection> connection, const Meeting& meeting, Sink& sink)
    : connection_(std::move(connection)),
      rank_(meeting.membership.rank),
      size_(meeting.membership.size),
      times_(meeting.times),
      sink_(sink),
      hearing_(meeting.times.silence) {}

bool Spoke::Takes() const { return connection_->queued() < kMostQueuedToHub; }

void Spoke::Send(FrameKind kind, std::string_view body) { connection_->Queue({kind, rank_, body}); }

void Spoke::Watch(std::vector<pollfd>& wait) {
  if (connection_->broken()) return;
  wait.push_back({.fd = connection_->descriptor(), .events = connection_->events()});
}

void Spoke::Serve(std::span<const pollfd> ready) {
  const Clock::time_point now = Clock::now();
  if (hearing_.LooksLate(now)) heard_ = now;
  if (ended_) return;
  const bool arrived = !ready.empty() && (ready.front().revents & ~POLLOUT) != 0;
  if (arrived && connection_->Receive()) heard_ = now;
  Frame frame;
  for (;;) {
    const Connection::Next next = connection_->TakeFrame(frame);
    if (next == Connection::Next::kNone) break;
    if (next == Connection::Next::kMalformed) {
      return Lose("rank 0 sent rank " + std::to_string(rank_) + " what cannot be understood");
    }
    Take(frame);
  }
  if (connection_->broken()) {
    ended_ = true;
    if (!hub_left_) Lose(DeathLine(0, connection_->why_broken(), hub_doing_));
    sink_.Unreachable();
  } else if (!hub_left_ && hearing_.Silent(heard_, now)) {
    Lose(SilenceLine(0, times_.silence, hub_doing_));
  }
}

void Spoke::Take(const Frame& frame) {
  if (frame.from < 0 || frame.from >= size_) {
    return Lose("rank 0 sent something of rank " + std::to_string(frame.from) + ", which is none");
  }
  switch (frame.kind) {
    case FrameKind::kHeartbeat:
    case FrameKind::kAccepted:
      return;
    case FrameKind::kStart: {
      Unpacker unpacker(frame.body);
      std::vector<Membership> members(static_cast<size_t>(size_));
      for (int rank = 0; rank < size_; ++rank) {
        Membership& member = members[static_cast<size_t>(rank)];
        member.rank = rank;
        member.size = size_;
        for (int* const number : {&member.group, &member.group_rank, &member.group_size}) {
          *number = unpacker.Take<int32_t>();
        }
      }
      if (!unpacker.at_end()) return Lose("rank 0 began the job with a malformed list of ranks");
      return sink_.Started(members);
    }
    case FrameKind::kDoing:
      if (frame.from == 0) hub_doing_ = frame.body;
      return sink_.Receive(frame);
    case FrameKind::kFail:
      if (!std::exchange(failed_, true)) sink_.Receive(frame);
      return;
    case FrameKind::kLeave:
      hub_left_ |= frame.from == 0;
      return sink_.Receive(frame);
    case FrameKind::kPost:
    case FrameKind::kSend:
    case FrameKind::kGather:
      return sink_.Receive(frame);
    default:
      return Lose("rank 0 sent rank " + std::to_string(rank_) + " what it should not");
  }
}

// Fails the job on this rank. Also sends the line to the hub: if the hub is alive after all, it
// learns why this rank gave up.
void Spoke::Lose(const std::string& line) {
  if (std::exchange(failed_, true)) return;
  connection_->Queue({FrameKind::kFail, rank_, line});
  sink_.Receive({FrameKind::kFail, rank_, line});
}

void Spoke::Close() { connection_->Shutdown(); }

}  // namespace ucudnn::transport
