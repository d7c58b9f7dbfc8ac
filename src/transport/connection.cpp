#include "transport/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace ucudnn::transport {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are sent as they are in memory");

struct FrameHeader {
  uint32_t size, kind;
  int32_t from;
};
static_assert(sizeof(FrameHeader) == kFrameHeader);

// Bytes that are reserved at first, so that small frames cause no further allocation.
constexpr size_t kFirstRoom = 1 << 16;
constexpr size_t kReadAtOnce = 1 << 18;  // after so many bytes, other connections have their turn

}  // namespace

void AppendFrame(std::vector<char>& bytes, const Frame& frame) {
  const FrameHeader header = {static_cast<uint32_t>(frame.body.size()),
                              static_cast<uint32_t>(frame.kind), frame.from};
  const size_t begin = bytes.size();
  bytes.resize(begin + sizeof header + frame.body.size());
  std::memcpy(bytes.data() + begin, &header, sizeof header);
  std::copy(frame.body.begin(), frame.body.end(),
            bytes.begin() + static_cast<ptrdiff_t>(begin + sizeof header));
}

Connection::Connection(Descriptor socket, size_t largest_body)
    : socket_(std::move(socket)), largest_body_(largest_body) {
  out_.reserve(kFirstRoom);
}

void Connection::Queue(const Frame& frame) {
  if (!broken_) AppendFrame(out_, frame);
}

void Connection::Flush() {
  while (!broken_ && sent_ < out_.size()) {
    const ssize_t sent =
        send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) {
      // Sending failed. But the other side's last frames may still be unread, so the connection
      // does not count as broken until Receive has read all of them.
      sent_ = out_.size();
      break;
    }
    sent_ += static_cast<size_t>(sent);
  }
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  } else if (sent_ > kFirstRoom) {
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
  }
}

bool Connection::Receive() {
  size_t received = 0;
  while (!broken_ && received < kReadAtOnce) {
    if (taken_ > 0) {
      std::memmove(in_.data(), in_.data() + taken_, arrived_ - taken_);
      arrived_ -= taken_;
      taken_ = 0;
    }
    if (in_.size() < arrived_ + kFirstRoom / 4) in_.resize(arrived_ + kFirstRoom);
    const ssize_t got = recv(socket_.get(), in_.data() + arrived_, in_.size() - arrived_, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      const bool closed = got == 0 || errno == ECONNRESET || errno == EPIPE;
      Break(closed ? "its connection was closed" : std::strerror(errno));
      break;
    }
    arrived_ += static_cast<size_t>(got);
    received += static_cast<size_t>(got);
    // So many bytes are enough for TakeFrame to take the next frame or to refuse it.
    if (arrived_ > largest_body_ + kFrameHeader) break;
  }
  return received > 0;
}

bool CutFrame(std::string_view& bytes, Frame& frame) {
  FrameHeader header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  frame = {static_cast<FrameKind>(header.kind), header.from,
           bytes.substr(sizeof header, header.size)};
  bytes.remove_prefix(sizeof header + header.size);
  return true;
}

Connection::Next Connection::TakeFrame(Frame& frame) {
  if (arrived_ - taken_ < sizeof(FrameHeader)) return Next::kNone;
  FrameHeader header;
  std::memcpy(&header, in_.data() + taken_, sizeof header);
  if (header.size > largest_body_ || header.kind < static_cast<uint32_t>(FrameKind::kHello) ||
      header.kind > static_cast<uint32_t>(FrameKind::kLeave)) {
    Break("it sent what cannot be understood");
    Shutdown();
    return Next::kMalformed;
  }
  if (arrived_ - taken_ - sizeof header < header.size) return Next::kNone;
  frame.kind = static_cast<FrameKind>(header.kind);
  frame.from = header.from;
  frame.body = std::string_view(in_.data() + taken_ + sizeof header, header.size);
  taken_ += sizeof header + header.size;
  return Next::kFrame;
}

short Connection::events() const {
  if (broken_) return 0;
  return static_cast<short>(POLLIN | (queued() > 0 ? POLLOUT : 0));
}

void Connection::Shutdown() {
  if (socket_) shutdown(socket_.get(), SHUT_RDWR);
}

void Connection::Break(const char* why) {
  broken_ = true;
  why_broken_ = why;
  out_.clear();
  sent_ = 0;
}

}  // namespace ucudnn::transport
