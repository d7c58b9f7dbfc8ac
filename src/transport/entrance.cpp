#include "transport/entrance.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "transport/hello.h"

namespace ucudnn::transport {
namespace {

constexpr Milliseconds kFirstPause{10}, kLongestPause{200};

// Waits for rank 0's answer to the greeting.
Answer HearAnswer(std::unique_ptr<Connection> connection, Clock::time_point deadline) {
  for (;;) {
    Frame frame;
    switch (connection->TakeFrame(frame)) {
      case Connection::Next::kMalformed:
        return {Answer::kNoHub, "what listens there is no rank 0 of ucudnn", nullptr};
      case Connection::Next::kFrame:
        if (frame.kind == FrameKind::kOtherToken) return {Answer::kOtherToken, {}, nullptr};
        if (frame.kind == FrameKind::kFail) {
          return {Answer::kRefused, std::string(frame.body), nullptr};
        }
        if (frame.kind != FrameKind::kAccepted) {
          return {Answer::kNoHub, "what listens there does not answer as rank 0 does", nullptr};
        }
        connection->set_largest_body(kLargestBody);
        return {Answer::kAccepted, {}, std::move(connection)};
      case Connection::Next::kNone:
        break;
    }
    if (connection->broken()) {
      return {Answer::kNoHub, "no answer: " + connection->why_broken(), nullptr};
    }
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return {Answer::kNoHub, "what listens there does not answer", nullptr};
    pollfd wait = {.fd = connection->descriptor(), .events = connection->events()};
    poll(&wait, 1, static_cast<int>(std::min<int64_t>(left, 60000)));
    if ((wait.revents & POLLOUT) != 0) connection->Flush();
    if ((wait.revents & ~POLLOUT) != 0) connection->Receive();
  }
}

// Greets the rank 0 at `address` and waits for its answer. `doors` is the number of addresses that
// the caller asks; connecting to all of them together takes at most times.handshake.
Answer Ask(FrameKind kind, const SocketAddress& address, const Meeting& meeting,
           const std::string& token, size_t doors) {
  const Milliseconds connecting = meeting.times.handshake / static_cast<int>(doors);
  ConnectedSocket connected = ConnectTo(address, Clock::now() + connecting);
  if (!connected.socket) {
    const bool nobody = connected.error == ECONNREFUSED;
    return {nobody ? Answer::kNobody : Answer::kUnreachable, std::strerror(connected.error),
            nullptr};
  }
  auto connection = std::make_unique<Connection>(std::move(connected.socket), kLargestGreeting);
  connection->Queue({kind, meeting.membership.rank, PackHello(meeting, token)});
  connection->Flush();
  return HearAnswer(std::move(connection), Clock::now() + meeting.times.handshake);
}

// The addresses at which rank 0 may be listening, and the token to send.
struct Doors {
  std::vector<SocketAddress> addresses;
  std::string token;
  Answer none;  // the answer to report if `addresses` is empty
};

std::vector<SocketAddress> DoorsOf(const MeetingFile& file) {
  std::vector<SocketAddress> addresses;
  if (file.hosts.front() == HostName()) addresses.push_back(LoopbackAddress(file.port));
  // hosts.front() is the host's name. It is resolved last, and only if no other address was found,
  // because resolving takes time.
  for (size_t i = 1; i <= file.hosts.size(); ++i) {
    const std::string& host = file.hosts[i % file.hosts.size()];
    if (i == file.hosts.size() && !addresses.empty()) break;
    const Result<std::vector<SocketAddress>> found = AddressesOf(host, file.port);
    if (!found.ok()) continue;
    addresses.insert(addresses.end(), found->begin(), found->end());
  }
  return addresses;
}

// Finds the addresses to ask. An error is final; if Doors has no addresses, the caller may try
// again.
Result<Doors> FindDoors(const Meeting& meeting) {
  Doors doors;
  doors.token = meeting.token;
  if (meeting.place.in_file()) {
    UCUDNN_ASSIGN_OR_RETURN(const std::optional<MeetingFile> file,
                            ReadMeetingFile(meeting.place.path));
    if (!file) {
      doors.none = {Answer::kNobody, "rank 0 has not written it yet", nullptr};
      return doors;
    }
    doors.token = file->token;
    doors.addresses = DoorsOf(*file);
    if (doors.addresses.empty()) {
      doors.none = {Answer::kUnreachable, "no host of the file is known", nullptr};
    }
    return doors;
  }
  const Result<std::vector<SocketAddress>> found =
      AddressesOf(meeting.place.host, meeting.place.port);
  if (!found.ok()) {
    doors.none = {Answer::kUnreachable, found.message(), nullptr};
    return doors;
  }
  const bool here = std::all_of(found->begin(), found->end(), [](const SocketAddress& address) {
    return address.IsLoopback() || address.IsOfThisHost();
  });
  if (meeting.token.empty() && !here) {
    return Status::Error(
        "rank 0 is on another host and lets nobody in from other hosts without a token: set "
        "UCUDNN_RENDEZVOUS_TOKEN to the same secret text on all ranks");
  }
  doors.addresses = found.value();
  // Without a token, rank 0 listens only on the loopback interface, even if the host's name has
  // another address.
  const bool four = std::any_of(found->begin(), found->end(), [](const SocketAddress& address) {
    return address.storage.ss_family == AF_INET;
  });
  if (here && four) doors.addresses = {LoopbackAddress(meeting.place.port)};
  return doors;
}

// Asks at the addresses, one after the other, until one accepts or refuses the rank. Otherwise
// returns the answer of the smallest Answer::Kind.
Answer AskAtDoors(Doors doors, const Meeting& meeting) {
  Answer best = std::move(doors.none);
  for (size_t i = 0; i < doors.addresses.size(); ++i) {
    Answer answer =
        Ask(FrameKind::kHello, doors.addresses[i], meeting, doors.token, doors.addresses.size());
    if (answer.kind == Answer::kAccepted || answer.kind == Answer::kRefused) return answer;
    if (i == 0 || answer.kind < best.kind) best = std::move(answer);
  }
  return best;
}

}  // namespace

Answer AskOnce(const SocketAddress& address, const Meeting& meeting, const std::string& token) {
  return Ask(FrameKind::kHello, address, meeting, token, 1);
}

bool IsMeetingNow(const MeetingFile& file, const Meeting& meeting) {
  const std::vector<SocketAddress> doors = DoorsOf(file);
  for (const SocketAddress& address : doors) {
    const Answer answer = Ask(FrameKind::kProbe, address, meeting, file.token, doors.size());
    if (answer.kind == Answer::kAccepted) return true;
  }
  return false;
}

Result<std::unique_ptr<Connection>> Enter(const Meeting& meeting) {
  const Times& times = meeting.times;
  const Clock::time_point begin = Clock::now();
  const std::string who = "rank " + std::to_string(meeting.membership.rank);
  const std::string where = meeting.place.Text();
  const auto refused = [&](const std::string& why) {
    return Status::Error(who + " cannot join at " + where + ": " + why);
  };
  bool warned = false;
  Clock::time_point reached = begin;
  for (Milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    Result<Doors> doors = FindDoors(meeting);
    if (!doors.ok()) return refused(doors.message());
    Answer answer = AskAtDoors(std::move(doors.value()), meeting);
    const Clock::time_point now = Clock::now();
    if (answer.kind == Answer::kAccepted) return std::move(answer.connection);
    if (answer.kind == Answer::kRefused) return Status::Error(answer.text);
    if (answer.kind == Answer::kOtherToken) {
      answer.text =
          "the job there has another token: it is another job, or "
          "UCUDNN_RENDEZVOUS_TOKEN is not the same on all ranks";
      // The file may be from a job that has ended; rank 0 of this job may still replace it.
      if (!meeting.place.in_file()) return refused(answer.text);
    }
    if (answer.kind == Answer::kNobody || meeting.place.in_file()) reached = now;
    if (now - reached > times.unreachable) return refused(answer.text);
    const std::string waiting = "rank 0 has not let it in for " +
                                std::to_string((now - begin) / Milliseconds(1)) + " ms (" +
                                answer.text + ")";
    if (now - begin > times.timeout) return refused(waiting);
    if (now - begin > times.warning && !std::exchange(warned, true)) {
      Log(LogLevel::kWarn, who + " waits to join at " + where + ": " + waiting);
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace ucudnn::transport
