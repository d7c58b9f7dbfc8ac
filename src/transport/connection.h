// Frames over a socket: what the ranks of a job say to each other. Nothing blocks, and nothing
// raises SIGPIPE. Thread-compatible: one thread serves a connection.
// A frame is a header of three 32-bit numbers (bytes of the body, kind, rank that sent it; little
// endian), then the body. Whatever arrives is held to a bound before anything is allocated for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/descriptor.h"

namespace ucudnn::transport {

enum class FrameKind : uint32_t {
  kHello = 0x55435230,  // a rank's greeting (hello.h)
  kProbe,               // the same, by who only asks whether a job meets here
  kAccepted,            // to a rank: its greeting is right, the others are waited for
  kOtherToken,          // to a stranger: not this job's token
  kStart,               // to all: everybody is here; the members of all groups
  kHeartbeat,
  kDoing,   // what a rank does now, for warnings of its group; a heartbeat, too
  kPost,    // to the group
  kSend,    // to one rank of the group: its number in the job, a record
  kGather,  // to the group: number of the gather, what it is about, a contribution
  kFail,    // to all: the line of the job's failure
  kLeave,   // to all: a rank's last text
};

struct Frame {
  FrameKind kind = FrameKind::kHeartbeat;
  int from = 0;
  std::string_view body;
};

inline constexpr size_t kFrameHeader = 12;
inline constexpr size_t kLargestBody = size_t{1} << 20;
inline constexpr size_t kLargestGreeting = 16384;

// Appends a frame to `bytes`.
void AppendFrame(std::vector<char>& bytes, const Frame& frame);

// Cuts the first of the frames that AppendFrame has put into `bytes`; false where there is none.
bool CutFrame(std::string_view& bytes, Frame& frame);

class Connection {
 public:
  // Bodies of more than `largest_body` bytes are refused.
  Connection(Descriptor socket, size_t largest_body);

  // Sent by Flush. A broken connection takes frames and forgets them.
  void Queue(const Frame& frame);
  void Flush();
  // Takes what has arrived, up to a bound. Whether there was anything; see broken().
  bool Receive();

  enum class Next { kFrame, kNone, kMalformed };
  // The next frame that has arrived whole. Its body is valid until the next Receive. A connection
  // over which something malformed came is broken.
  Next TakeFrame(Frame& frame);

  void set_largest_body(size_t bytes) { largest_body_ = bytes; }
  size_t queued() const { return out_.size() - sent_; }
  // Whether the other side has closed it, or it failed.
  bool broken() const { return broken_; }
  // Why, as "its connection was closed".
  const std::string& why_broken() const { return why_broken_; }
  int descriptor() const { return socket_.get(); }
  short events() const;
  // The other side reads the end, also where a forked child holds the socket, too.
  void Shutdown();

 private:
  void Break(const char* why);

  Descriptor socket_;
  size_t largest_body_;
  std::vector<char> out_, in_;
  size_t sent_ = 0;                 // of out_
  size_t taken_ = 0, arrived_ = 0;  // of in_
  bool broken_ = false;
  std::string why_broken_;
};

}  // namespace ucudnn::transport
