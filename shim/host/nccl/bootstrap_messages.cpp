#include "shim/host/nccl/bootstrap_messages.h"

#include <sys/socket.h>

#include <cerrno>

namespace hostgpu::nccl {
namespace {

constexpr int kMostFiles = kMaxRanks + 1;

}  // namespace

bool SendMessage(const File& socket, const void* data, size_t bytes,
                 const std::vector<int>& files) {
  iovec part{const_cast<void*>(data), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFiles)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    const size_t file_bytes = sizeof(int) * files.size();
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(file_bytes);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(file_bytes);
    std::memcpy(CMSG_DATA(header), files.data(), file_bytes);
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes);
}

std::optional<Received> ReceiveMessage(const File& socket, void* data, size_t bytes) {
  iovec part{data, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFiles)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do {
    got = recvmsg(socket.number(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  Received received;
  received.bytes = static_cast<size_t>(got);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
      received.files.emplace_back(number);
    }
  }
  return received;
}

}  // namespace hostgpu::nccl
