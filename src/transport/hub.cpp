#include "transport/hub.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/text.h"
#include "transport/meeting_file.h"
#include "transport/packing.h"

namespace ucudnn::transport {
namespace {

constexpr size_t kMostQueuedToMember = size_t{4} << 20;

std::string RankText(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

Result<std::unique_ptr<Hub>> Hub::Open(const Meeting& meeting) {
  UCUDNN_ASSIGN_OR_RETURN(Door door, OpenDoor(meeting));
  return std::unique_ptr<Hub>(new Hub(meeting, std::move(door)));
}

Hub::Hub(const Meeting& meeting, Door door)
    : meeting_(meeting),
      token_(door.token),
      strangers_(std::move(door.listening), door.token, meeting),
      members_(static_cast<size_t>(meeting.membership.size)),
      hearing_(meeting.times.silence) {
  members_.front().place = meeting.membership;
  members_.front().process = ThisProcess();
  members_.front().came = true;
}

Hub::~Hub() { StopMeeting(); }

void Hub::StopMeeting() {
  if (!std::exchange(meeting_now_, false)) return;
  strangers_.Close();
  if (meeting_.place.in_file() && meeting_.membership.size > 1) {
    RemoveMeetingFile(meeting_.place.path, token_);
  }
}

bool Hub::Takes() const { return !SomebodyIsBehind() || !GroupIsBehind(0); }

bool Hub::SomebodyIsBehind() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.connection != nullptr && member.connection->queued() >= kMostQueuedToMember;
  });
}

bool Hub::GroupIsBehind(int from) const {
  const int group = members_[static_cast<size_t>(from)].place.group;
  for (const Member& member : members_) {
    if (member.connection == nullptr || member.left || member.place.group != group) continue;
    if (member.place.rank != from && member.connection->queued() >= kMostQueuedToMember) {
      return true;
    }
  }
  return false;
}

void Hub::Send(FrameKind kind, std::string_view body) { Route(0, {kind, 0, body}); }

void Hub::Flush() {
  for (Member& member : members_) {
    if (member.connection != nullptr && member.connection->queued() > 0) {
      member.connection->Flush();
    }
  }
}

bool Hub::Flushed() const {
  for (const Member& member : members_) {
    if (member.connection != nullptr && member.connection->queued() > 0) return false;
  }
  return !meeting_now_ || strangers_.Flushed();
}

bool Hub::Finished() const {
  if (failed_) return Flushed();
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.connection == nullptr || member.connection->broken();
  });
}

void Hub::Watch(std::vector<pollfd>& wait) {
  int slot = 0;
  const bool behind = SomebodyIsBehind();
  for (Member& member : members_) {
    member.slot = -1;
    if (member.connection == nullptr || member.connection->broken()) continue;
    short events = member.connection->events();
    if (behind && GroupIsBehind(member.place.rank)) {
      events = static_cast<short>(events & ~POLLIN);
      // Rank 0 does not read from this member for now, so the member must not count as silent.
      member.heard = Clock::now();
    }
    if (events == 0) continue;
    wait.push_back({.fd = member.connection->descriptor(), .events = events});
    member.slot = slot++;
  }
  // The strangers' descriptors come last, because accepting a stranger may add a member.
  if (meeting_now_) strangers_.Watch(wait);
}

void Hub::Serve(std::span<const pollfd> ready) {
  const Clock::time_point now = Clock::now();
  const bool late = hearing_.LooksLate(now);
  size_t members = 0;
  for (int rank = 1; rank < meeting_.membership.size; ++rank) {
    Member& member = members_[static_cast<size_t>(rank)];
    if (late) member.heard = now;
    if (member.slot < 0) continue;
    ++members;
    const short found = ready[static_cast<size_t>(member.slot)].revents;
    if ((found & POLLOUT) != 0) member.connection->Flush();
    if ((found & ~POLLOUT) != 0) ServeMember(rank, now);
  }
  for (const Member& member : members_) {
    if (failed_ || member.connection == nullptr || member.left) continue;
    if (hearing_.Silent(member.heard, now)) {
      Fail(SilenceLine(member.place.rank, meeting_.times.silence, member.doing));
    }
  }
  if (!meeting_now_) return;
  for (Arrival& arrival : strangers_.Serve(ready.subspan(members))) Admit(std::move(arrival));
  if (!failed_ && !started_ && Missing().empty()) Start();
  if (!failed_ && !started_ && now - told_missing_ > meeting_.times.heartbeat) TellWhoIsMissing();
  if (!failed_ && !started_) TellOfOtherTokens(now);
}

void Hub::Admit(Arrival arrival) {
  arrival.connection->set_largest_body(kLargestBody);
  if (!arrival.hello) {
    if (!failed_)
      Fail("a rank that knows the token greets rank 0 as no ucudnn " + meeting_.version + " does");
  } else if (const Status same = CompareHello(*arrival.hello, meeting_); !same.ok()) {
    if (!failed_) Fail(same.message());
  } else {
    return AdmitMember(*arrival.hello, std::move(arrival.connection));
  }
  Refuse(*arrival.connection);
  const int rank = arrival.hello ? arrival.hello->membership.rank : -1;
  if (rank > 0 && rank < meeting_.membership.size) {
    // The refusal is an answer to the rank, so the rank is not missing any more.
    members_[static_cast<size_t>(rank)].came = true;
  }
  strangers_.SeeOff(std::move(arrival.connection));
}

void Hub::AdmitMember(const Hello& hello, std::unique_ptr<Connection> connection) {
  Member& member = members_[static_cast<size_t>(hello.membership.rank)];
  if (member.came && !failed_) {
    Fail(RankText(hello.membership.rank) + " is there twice: " + member.process + " and " +
         hello.process);
  }
  if (failed_) {
    member.came = true;
    Refuse(*connection);
    return strangers_.SeeOff(std::move(connection));
  }
  member.came = true;
  member.place = hello.membership;
  member.process = hello.process;
  member.doing = "waiting for the others to join (" + hello.process + ")";
  member.heard = Clock::now();
  member.connection = std::move(connection);
  member.connection->Queue({FrameKind::kAccepted, 0, {}});
  told_missing_ = {};
  // Data may have arrived together with the greeting.
  ServeMember(hello.membership.rank, member.heard);
}

void Hub::Refuse(Connection& connection) const {
  connection.Queue({FrameKind::kFail, 0, *failed_});
}

std::string Hub::Missing() const {
  std::vector<std::string> missing;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (!members_[rank].came) missing.push_back(RankText(static_cast<int>(rank)));
  }
  constexpr size_t kShown = 8;
  if (missing.size() > kShown) {
    const std::string more = std::to_string(missing.size() - kShown) + " more";
    missing.resize(kShown);
    missing.push_back(more);
  }
  if (missing.empty()) return {};
  std::string text = Join(missing, ", ");
  if (const auto& others = strangers_.other_tokens(); others.count > 0) {
    text += " (dropped: " + std::to_string(others.count) +
            " connections with another token, the last from " + others.last_from + ")";
  }
  return text;
}

bool Hub::AllTold() const { return failed_ && Missing().empty() && Flushed(); }

void Hub::TellWhoIsMissing() {
  told_missing_ = Clock::now();
  const std::string doing = "waiting for " + Missing() + " to join";
  for (const Member& member : members_) {
    if (member.connection != nullptr) member.connection->Queue({FrameKind::kDoing, 0, doing});
  }
}

void Hub::TellOfOtherTokens(Clock::time_point now) {
  const Strangers::OtherTokens& others = strangers_.other_tokens();
  // The user is told only when times.handshake has passed since the first connection with another
  // token, because ranks may send their greetings until then.
  if (told_other_tokens_ || others.count == 0) return;
  if (now - others.first <= meeting_.times.handshake) return;
  told_other_tokens_ = true;
  const auto missing = std::count_if(members_.begin(), members_.end(),
                                     [](const Member& member) { return !member.came; });
  Log(LogLevel::kWarn,
      "rank 0 at " + meeting_.place.Text() + " misses " + std::to_string(missing) + " of " +
          std::to_string(members_.size()) + " ranks: " + Missing() +
          ". Either that was another job, or UCUDNN_RENDEZVOUS_TOKEN is not the same on all ranks. "
          "The ranks are waited for, up to " +
          std::to_string(meeting_.times.timeout.count() / 1000) + " s");
}

Status Hub::CheckGroups() const {
  std::set<std::pair<int, int>> places;
  for (const Member& member : members_) {
    const Membership& place = member.place;
    const std::string who =
        RankText(place.rank) + " says that it is number " + std::to_string(place.group_rank) +
        " of " + std::to_string(place.group_size) + " in group " + std::to_string(place.group);
    const auto size = std::count_if(members_.begin(), members_.end(), [&](const Member& other) {
      return other.place.group == place.group;
    });
    if (size != place.group_size) {
      return Status::Error(who + ", which has " + std::to_string(size) + " ranks");
    }
    if (place.group_rank < 0 || place.group_rank >= place.group_size ||
        !places.insert({place.group, place.group_rank}).second) {
      return Status::Error(who + ", and so does another rank");
    }
  }
  return Status::Ok();
}

void Hub::Start() {
  if (const Status groups = CheckGroups(); !groups.ok()) return Fail(groups.message());
  started_ = true;
  Packer packer;
  std::vector<Membership> places;
  for (Member& member : members_) {
    places.push_back(member.place);
    member.doing.clear();
    for (const int32_t number :
         {member.place.group, member.place.group_rank, member.place.group_size}) {
      packer.Put(number);
    }
  }
  for (const Member& member : members_) {
    if (member.connection == nullptr) continue;
    member.connection->Queue({FrameKind::kDoing, 0, {}});
    member.connection->Queue({FrameKind::kStart, 0, packer.bytes()});
  }
  StopMeeting();
  sink_->Started(places);
}

void Hub::ServeMember(int rank, Clock::time_point now) {
  Member& member = members_[static_cast<size_t>(rank)];
  Connection& connection = *member.connection;
  if (connection.Receive()) member.heard = now;
  Frame frame;
  for (;;) {
    const Connection::Next next = connection.TakeFrame(frame);
    if (next == Connection::Next::kNone) break;
    const bool early =
        !started_ && (frame.kind == FrameKind::kPost || frame.kind == FrameKind::kSend ||
                      frame.kind == FrameKind::kGather);
    if (next == Connection::Next::kMalformed || early) {
      return Fail(RankText(rank) + " sent what cannot be understood");
    }
    Route(rank, frame);
  }
  if (connection.broken() && !member.left) {
    Fail(DeathLine(rank, connection.why_broken(), member.doing));
  }
}

void Hub::Route(int from, const Frame& frame) {
  Member& sender = members_[static_cast<size_t>(from)];
  switch (frame.kind) {
    case FrameKind::kHeartbeat:
      if (from != 0) return;
      break;
    case FrameKind::kDoing:
      sender.doing = frame.body;
      if (!started_) return;
      break;
    case FrameKind::kFail:
      return Fail(std::string(frame.body));
    case FrameKind::kLeave:
      sender.left = true;
      break;
    case FrameKind::kSend:
      return RouteToOne(sender, frame.body);
    case FrameKind::kPost:
    case FrameKind::kGather:
      break;
    default:
      return Fail(RankText(from) + " sent what it should not");
  }
  const bool acts = frame.kind != FrameKind::kHeartbeat && frame.kind != FrameKind::kDoing;
  if (acts && sender.place.group != meeting_.membership.group) others_acted_ = Clock::now();
  // Rank 0's kDoing frames go to all groups. So if rank 0 and the hub die, all ranks can name rank
  // 0's last action.
  const bool to_group = frame.kind == FrameKind::kPost || frame.kind == FrameKind::kGather ||
                        (frame.kind == FrameKind::kDoing && from != 0);
  for (const Member& member : members_) {
    const int rank = static_cast<int>(&member - members_.data());
    bool listens = member.place.group == sender.place.group;
    // A rank that has left still gets frames as long as it reads them. Frames for it are dropped
    // once its queue is full, so that it does not stop the other ranks.
    if (member.left && member.connection != nullptr) {
      listens = listens && member.connection->queued() < kMostQueuedToMember;
    }
    if (rank == from || (to_group && !listens)) continue;
    Deliver(rank, {frame.kind, from, frame.body});
  }
}

void Hub::RouteToOne(const Member& sender, std::string_view body) {
  Unpacker unpacker(body);
  const auto to = static_cast<size_t>(unpacker.Take<int32_t>());
  const bool is_member = unpacker.ok() && to < members_.size() && &members_[to] != &sender &&
                         members_[to].place.group == sender.place.group;
  if (!is_member)
    return Fail(RankText(sender.place.rank) + " sent something to no rank of its own");
  if (sender.place.group != meeting_.membership.group) others_acted_ = Clock::now();
  Deliver(static_cast<int>(to), {FrameKind::kSend, sender.place.rank, unpacker.rest()});
}

void Hub::Deliver(int to, const Frame& frame) {
  if (to == 0) {
    sink_->Receive(frame);
  } else if (Connection* const connection = members_[static_cast<size_t>(to)].connection.get()) {
    connection->Queue(frame);
  }
}

void Hub::Fail(const std::string& line) {
  if (failed_) return;
  failed_ = line;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    Deliver(static_cast<int>(rank), {FrameKind::kFail, 0, line});
  }
}

void Hub::Close() {
  for (const Member& member : members_) {
    if (member.connection != nullptr) member.connection->Shutdown();
  }
  StopMeeting();
}

}  // namespace ucudnn::transport
