// The functions of Ranks by which a rank meets the other ranks, and the functions of its service
// thread.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <exception>
#include <system_error>

#include "base/log.h"
#include "base/signals_blocked.h"
#include "transport/entrance.h"
#include "transport/packing.h"
#include "transport/ranks.h"
#include "transport/spoke.h"

namespace ucudnn::transport {
Result<std::unique_ptr<Ranks>> Ranks::Join(const Meeting& meeting) {
  UCUDNN_RETURN_IF_ERROR(CheckMeeting(meeting));
  std::unique_ptr<Ranks> ranks(new Ranks(meeting));
  if (!ranks->outbox_.wake().usable() || !ranks->outbox_.room().usable() ||
      !ranks->news_.usable()) {
    return Status::Error("rank " + std::to_string(meeting.membership.rank) +
                         " cannot join: this process has no descriptors left");
  }
  if (meeting.membership.rank == 0) {
    UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<Hub> hub, Hub::Open(meeting));
    hub->Attach(*ranks);
    ranks->hub_ = hub.get();
    ranks->link_ = std::move(hub);
  } else {
    UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, Enter(meeting));
    Sink& sink = *ranks;
    ranks->link_ = std::make_unique<Spoke>(std::move(connection), meeting, sink);
    ranks->link_->Serve({});  // data may have arrived together with the answer
  }
  UCUDNN_RETURN_IF_ERROR(ranks->Join());
  try {
    const SignalsBlocked blocked;
    ranks->thread_ = std::make_unique<std::thread>([&all = *ranks] { all.Serve(); });
  } catch (const std::system_error& error) {
    return ranks->FailToMeet("rank " + std::to_string(meeting.membership.rank) +
                             " can start no thread: " + error.what());
  }
  return ranks;
}

Ranks::Ranks(const Meeting& meeting)
    : meeting_(meeting),
      process_(getpid()),
      peers_(static_cast<size_t>(meeting.membership.size)),
      last_beat_(Clock::now()) {
  for (Peer& peer : peers_) peer.doing.reserve(kLongestDoing);
  doing_.reserve(kLongestDoing);
  beat_.reserve(kLongestDoing);
}

Status Ranks::Join() {
  const Clock::time_point begin = Clock::now();
  const std::string rank = "rank " + std::to_string(meeting_.membership.rank);
  const auto awaited = [this] {
    if (hub_ != nullptr) return hub_->Missing();
    const MutexLock lock(mutex_);
    return "rank 0, which does: " + peers_.front().doing;
  };
  const auto met = [this] {
    const MutexLock lock(mutex_);
    return !group_.empty();
  };
  bool warned = false;
  for (;;) {
    ServeOnce();
    if (failed_) return FailToMeet(Failure().value_or(""));
    if (met()) return Status::Ok();
    const auto waited = std::chrono::floor<Milliseconds>(Clock::now() - begin);
    const std::string text = " has waited for " + std::to_string(waited.count()) + " ms at " +
                             meeting_.place.Text() + " for " + awaited();
    if (waited > meeting_.times.timeout) return FailToMeet(rank + text);
    if (waited > meeting_.times.warning && !std::exchange(warned, true)) {
      Log(LogLevel::kWarn, rank + text);
    }
  }
}

Status Ranks::FailToMeet(const std::string& line) {
  Fail(line);
  // Rank 0 continues to send the line to the other ranks, including late ones. Any other rank
  // continues until rank 0 has received its line and answered with the job's line.
  const Milliseconds most = hub_ != nullptr ? meeting_.times.refusing : Milliseconds(1000);
  const Clock::time_point deadline = Clock::now() + most;
  const auto done = [this] {
    const MutexLock lock(mutex_);
    return hub_ != nullptr ? hub_->AllTold() : failure_is_the_jobs_ && link_->Finished();
  };
  do {
    ServeOnce();
  } while (!done() && Clock::now() < deadline);
  return Status::Error(Failure().value_or(line));
}

void Ranks::Serve() {
  pthread_setname_np(pthread_self(), "ucudnn-ranks");
  service_ = std::this_thread::get_id();
  std::string fault;
  try {
    while (!stop_) ServeOnce();
    SendOutbox();
    link_->Flush();
  } catch (const std::exception& error) {
    fault = error.what();
  } catch (...) {
    fault = "an unknown exception";
  }
  if (!fault.empty())
    ServeNoMore("rank " + std::to_string(meeting_.membership.rank) +
                " can serve the job no more: " + fault);
  link_->Close();
  ended_ = true;
  news_.Raise();
}

void Ranks::ServeNoMore(const std::string& line) {
  try {
    SetFailure(line, true);
    link_->Send(FrameKind::kFail, line);
    link_->Flush();
    listeners_.Failure(line);
  } catch (...) {  // the connection ends, which tells the other ranks of the failure
  }
}

// Returns how long the service thread may wait for messages of other ranks before it looks into the
// outbox. If this rank has sent frames lately, more are expected. The thread then looks at short
// intervals, so that no frame has to wake it.
Milliseconds Ranks::IdleTime() {
  constexpr Milliseconds kLately{50}, kLook{1};
  const Clock::time_point now = Clock::now();
  const auto beat = std::chrono::ceil<Milliseconds>(last_beat_ + meeting_.times.heartbeat - now);
  const Milliseconds most = std::max(beat, Milliseconds(0));
  if (now - last_taken_ < kLately) return std::min(most, kLook);
  return outbox_.Sleep() || !link_->Takes() ? most : Milliseconds(0);
}

void Ranks::ServeOnce() {
  SendOutbox();
  SendHeartbeat();
  link_->Flush();
  wait_.clear();
  wait_.push_back({.fd = outbox_.wake().descriptor(), .events = POLLIN});
  link_->Watch(wait_);
  poll(wait_.data(), wait_.size(), static_cast<int>(IdleTime().count()));
  outbox_.Awake();
  if (wait_.front().revents != 0) outbox_.wake().Reset();
  link_->Serve(std::span(wait_).subspan(1));
  if (!leaving_) return;
  const bool finished = AllHaveLeft() || failed_ || [this] {
    const MutexLock lock(mutex_);
    return unreachable_;
  }();
  if (!finished) return;
  SendOutbox();
  link_->Flush();
  if (outgoing_.empty() && link_->Finished() && !finished_.exchange(true)) news_.Raise();
}

void Ranks::SendOutbox() {
  while (link_->Takes()) {
    if (outgoing_.empty()) outbox_.Take(outgoing_);
    if (outgoing_.empty()) return;
    last_taken_ = Clock::now();
    std::string_view rest = std::string_view(outgoing_.data(), outgoing_.size()).substr(sent_);
    Frame frame;
    while (link_->Takes() && CutFrame(rest, frame)) {
      bool unreachable = false;
      {
        const MutexLock lock(mutex_);
        unreachable = unreachable_;
      }
      if (!unreachable) {
        link_->Send(frame.kind, frame.body);
      } else if (frame.kind == FrameKind::kFail) {
        Receive(frame);  // this rank cannot send any more, so the job fails on this rank only
      }
    }
    sent_ = outgoing_.size() - rest.size();
    if (rest.empty()) {
      outgoing_.clear();
      sent_ = 0;
    }
  }
}

void Ranks::SendHeartbeat() {
  const Clock::time_point now = Clock::now();
  if (now - last_beat_ < meeting_.times.heartbeat) return;
  last_beat_ = now;
  bool told = true;
  {
    const MutexLock lock(mutex_);
    told = doing_told_ || in_gather_ || group_.empty();
    if (!told) {
      doing_told_ = true;
      beat_.assign(doing_);
    }
  }
  if (told) {
    link_->Send(FrameKind::kHeartbeat, {});
  } else {
    link_->Send(FrameKind::kDoing, beat_);
  }
}

void Ranks::Started(std::span<const Membership> members) {
  const Membership& mine = meeting_.membership;
  bool sane = true;
  std::vector<int> group(static_cast<size_t>(mine.group_size), -1);
  group_ranks_.assign(members.size(), -1);
  for (const Membership& member : members) {
    if (member.group != mine.group) continue;
    sane &= member.group_rank >= 0 && member.group_rank < mine.group_size;
    if (!sane) break;
    group[static_cast<size_t>(member.group_rank)] = member.rank;
    group_ranks_[static_cast<size_t>(member.rank)] = member.group_rank;
  }
  sane = sane && std::count(group.begin(), group.end(), -1) == 0 &&
         group[static_cast<size_t>(mine.group_rank)] == mine.rank;
  if (!sane) return Fail("rank " + std::to_string(mine.rank) + " heard a senseless list of ranks");
  const MutexLock lock(mutex_);
  for (Peer& peer : peers_) peer.doing.clear();
  for (size_t rank = 0; rank < peers_.size(); ++rank) peers_[rank].place = members[rank];
  group_ = std::move(group);
}

void Ranks::Receive(const Frame& frame) {
  const size_t from = static_cast<size_t>(frame.from);
  bool kept = true;
  switch (frame.kind) {
    case FrameKind::kDoing: {
      const MutexLock lock(mutex_);
      peers_[from].doing.assign(frame.body.substr(0, kLongestDoing));
      return;
    }
    case FrameKind::kPost:
    case FrameKind::kSend:
      kept = listeners_.Post(group_ranks_[from], frame.body);
      break;
    case FrameKind::kGather:
      return ReceiveContribution(frame);
    case FrameKind::kLeave: {
      const MutexLock lock(mutex_);
      peers_[from].last = frame.body;
    }
      news_.Raise();
      kept = listeners_.Leave(frame.from, frame.body);
      break;
    case FrameKind::kFail:
      SetFailure(std::string(frame.body), true);
      listeners_.Failure(frame.body);
      return;
    default:
      return;
  }
  if (!kept) {
    Fail("rank " + std::to_string(meeting_.membership.rank) +
         " does not listen to what others post, and can keep no more of it");
  }
}

void Ranks::ReceiveContribution(const Frame& frame) {
  Unpacker unpacker(frame.body);
  const auto number = unpacker.Take<uint64_t>();
  bool sane = unpacker.ok();
  {
    const MutexLock lock(mutex_);
    Peer& peer = peers_[static_cast<size_t>(frame.from)];
    // Another rank can be one gather ahead of this one, so up to two of its contributions may wait
    // here.
    sane = sane && number == peer.gathers + 1 && peer.contributions.size() < 2;
    if (sane) {
      peer.gathers = number;
      peer.contributions.emplace_back(unpacker.rest());
    }
  }
  if (!sane) {
    return Fail("rank " + std::to_string(frame.from) + " came to a gather out of order");
  }
  news_.Raise();
  listeners_.Gather(group_ranks_[static_cast<size_t>(frame.from)], number);
}

void Ranks::Unreachable() {
  {
    const MutexLock lock(mutex_);
    unreachable_ = true;
  }
  news_.Raise();
}

}  // namespace ucudnn::transport
