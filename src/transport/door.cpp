#include "transport/door.h"

#include <cstring>
#include <optional>
#include <thread>

#include "transport/entrance.h"
#include "transport/meeting_file.h"
#include "transport/sockets.h"

namespace ucudnn::transport {
namespace {

constexpr Milliseconds kPause{200};

Status NoAddress(const Meeting& meeting, int error) {
  const std::string hint =
      error == EADDRINUSE
          ? "; another job, or another rank 0 of this one, holds it: set UCUDNN_RENDEZVOUS"
          : "; set UCUDNN_RENDEZVOUS";
  return Status::Error("rank 0 cannot listen at " + meeting.place.Text() + ": " +
                       std::strerror(error) + hint);
}

// Returns the addresses of the meeting's host. Retries for times.unreachable, because the name of a
// host may become known only after the job has started.
Result<std::vector<SocketAddress>> AddressesInTime(const Meeting& meeting) {
  const Clock::time_point deadline = Clock::now() + meeting.times.unreachable;
  for (;;) {
    auto addresses = AddressesOf(meeting.place.host, meeting.place.port);
    if (addresses.ok()) return addresses;
    if (Clock::now() > deadline) {
      return Status::Error("rank 0 cannot listen at " + meeting.place.Text() + ": " +
                           addresses.message());
    }
    std::this_thread::sleep_for(kPause);
  }
}

// Returns the interfaces on which rank 0 of a tcp:// meeting listens.
Result<Interfaces> InterfacesFor(const Meeting& meeting) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, AddressesInTime(meeting));
  const bool all = !meeting.token.empty() && !IsLoopbackText(meeting.place.host);
  if (all) return Interfaces::kAll;
  bool four = false, here = false;
  for (const SocketAddress& address : addresses) {
    here |= address.IsLoopback() || address.IsOfThisHost();
    four |= address.storage.ss_family == AF_INET;
  }
  if (!here) {
    return Status::Error("rank 0 runs on host " + HostName() + ", but the ranks are to meet at " +
                         meeting.place.Text() +
                         ", which is another host, and there is no token: set "
                         "UCUDNN_RENDEZVOUS_TOKEN to the same secret text on all ranks");
  }
  return four ? Interfaces::kLoopback : Interfaces::kLoopback6;
}

Result<Descriptor> ListenAtAddress(const Meeting& meeting) {
  UCUDNN_ASSIGN_OR_RETURN(const Interfaces interfaces, InterfacesFor(meeting));
  ListeningSocket listening = ListenAt(interfaces, meeting.place.port);
  if (!listening.socket && listening.error == EADDRINUSE && !meeting.token.empty()) {
    // If another rank 0 of this job listens here, the greeting makes that rank fail the job, and
    // its answer says why. If another job listens here, that job has another token, so the greeting
    // does not disturb it.
    const Answer answer = AskOnce(LoopbackAddress(meeting.place.port), meeting, meeting.token);
    if (answer.kind == Answer::kRefused) return Status::Error(answer.text);
  }
  if (!listening.socket) return NoAddress(meeting, listening.error);
  return std::move(listening.socket);
}

// Listens at a free port and writes the address to the meeting's file. If `token` is empty, sets it
// to a random one.
Result<Descriptor> ListenByFile(const Meeting& meeting, std::string& token) {
  const std::string& path = meeting.place.path;
  UCUDNN_ASSIGN_OR_RETURN(const std::optional<MeetingFile> old, ReadMeetingFile(path));
  if (old && IsMeetingNow(*old, meeting)) {
    return Status::Error("rank 0 cannot use " + meeting.place.Text() +
                         ": the ranks of another job meet there, at " + old->hosts.front() + ":" +
                         std::to_string(old->port) + "; set UCUDNN_RENDEZVOUS");
  }
  if (token.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(token, RandomToken());
  }
  ListeningSocket listening = ListenAt(Interfaces::kAll, 0);
  if (!listening.socket) return NoAddress(meeting, listening.error);
  MeetingFile file = {{HostName()}, listening.port, token};
  for (std::string& address : InterfaceAddresses()) file.hosts.push_back(std::move(address));
  UCUDNN_RETURN_IF_ERROR(WriteMeetingFile(path, file));
  return std::move(listening.socket);
}

}  // namespace

Result<Door> OpenDoor(const Meeting& meeting) {
  Door door = {{}, meeting.token};
  if (meeting.membership.size == 1) return door;
  Result<Descriptor> listening =
      meeting.place.in_file() ? ListenByFile(meeting, door.token) : ListenAtAddress(meeting);
  if (!listening.ok()) return listening.status();
  door.listening = std::move(listening.value());
  return door;
}

}  // namespace ucudnn::transport
