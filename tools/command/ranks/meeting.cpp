#include "command/ranks/meeting.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace ucudnn::command {
namespace {

Status MeetingFailure(const std::string& what) {
  return Status::Error(what + ": " + std::strerror(errno));
}

// Returns whether a process of this user sent the datagram.
bool IsOurs(const msghdr& message) {
  for (const cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(part))) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
    return sender.uid == getuid();
  }
  return false;
}

}  // namespace

Result<std::vector<int>> FreePorts(int count) {
  std::vector<int> ports;
  std::vector<int> held;  // open sockets that keep their ports, so that all ports differ
  Status status;
  for (int i = 0; i < count && status.ok(); ++i) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (socket < 0 || bind(socket, where, size) != 0 || getsockname(socket, where, &size) != 0) {
      status = MeetingFailure("no free port on 127.0.0.1");
    }
    if (socket >= 0) held.push_back(socket);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int socket : held) close(socket);
  if (!status.ok()) return status;
  return ports;
}

Result<std::string> RandomWord() {
  unsigned char bytes[16];
  size_t filled = 0;
  while (filled < sizeof bytes) {
    const ssize_t count = getrandom(bytes + filled, sizeof bytes - filled, 0);
    if (count < 0 && errno != EINTR) return MeetingFailure("no random numbers");
    if (count > 0) filled += static_cast<size_t>(count);
  }
  constexpr char kHex[] = "0123456789abcdef";
  std::string word;
  for (const unsigned char byte : bytes) word += {kHex[byte >> 4], kHex[byte & 15]};
  return word;
}

NoteSocket::~NoteSocket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status NoteSocket::Open() {
  UCUDNN_ASSIGN_OR_RETURN(const std::string word, RandomWord());
  name_ = "ucudnn-" + word;
  descriptor_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor_ < 0) return MeetingFailure("no socket for what ranks tell");
  // A name in the abstract namespace: there is no file, and the name ends with the process.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name_.data(), name_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  const int on = 1;
  if (setsockopt(descriptor_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return MeetingFailure("no socket for what ranks tell");
  }
  return Status::Ok();
}

std::optional<ReceivedNote> NoteSocket::Receive() {
  // Limits the messages that one call reads, because other users could send messages without end.
  constexpr int kMostStrangers = 64;
  for (int tries = 0; tries < kMostStrangers; ++tries) {
    char bytes[2 + kLongestLauncherNote + 1];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    iovec part{bytes, sizeof bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t count = recvmsg(descriptor_, &message, MSG_CMSG_CLOEXEC);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (!IsOurs(message)) continue;
    auto note = ReadLauncherNote(std::string_view(bytes, static_cast<size_t>(count)));
    if (note) return note;
  }
  return std::nullopt;
}

}  // namespace ucudnn::command
