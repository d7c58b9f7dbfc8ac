// Frames over a socket: the messages between the ranks of a job. No function blocks, and none
// raises SIGPIPE. Thread-compatible: one thread at a time uses a connection. A frame is a header of
// three 32-bit little-endian numbers (bytes of the body, kind, rank that sent it), then the body. A
// received size is checked against a bound before memory is allocated for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/descriptor.h"

namespace ucudnn::transport {

enum class FrameKind : uint32_t {
  kHello = 0x55435230,  // a rank's greeting (hello.h)
  kProbe,               // a greeting that only asks whether the job with this token meets here
  kAccepted,            // to a rank: its greeting is right, and other ranks are still missing
  kOtherToken,          // to a stranger: its token is not this job's token
  kStart,               // to all: every rank has come; the body lists each rank's group
  kHeartbeat,
  kDoing,   // the rank's present action, for warnings in its group; counts as a heartbeat
  kPost,    // to the group: a record
  kSend,    // to one rank of the group: the receiver's number in the job, then a record
  kGather,  // to the group: the gather's number, then a contribution
  kFail,    // to all: the line of the job's failure
  kLeave,   // to all: the last text of a rank that leaves
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

// Removes the first frame from `bytes`, which AppendFrame has filled, and returns it in `frame`.
// Returns false if `bytes` has no complete frame.
bool CutFrame(std::string_view& bytes, Frame& frame);

class Connection {
 public:
  // Bodies of more than `largest_body` bytes count as malformed when they arrive.
  Connection(Descriptor socket, size_t largest_body);

  // Queues a frame for Flush. A broken connection drops it.
  void Queue(const Frame& frame);
  void Flush();
  // Reads data that has arrived, up to a bound. Returns whether any data was read. The connection
  // may be broken afterwards.
  bool Receive();

  enum class Next { kFrame, kNone, kMalformed };
  // Takes the next frame that has arrived completely. Its body is valid until the next Receive.
  // Malformed data breaks the connection.
  Next TakeFrame(Frame& frame);

  void set_largest_body(size_t bytes) { largest_body_ = bytes; }
  size_t queued() const { return out_.size() - sent_; }
  // Returns whether the other side has closed the connection, or the connection has failed.
  bool broken() const { return broken_; }
  // Returns why the connection is broken, for example "its connection was closed".
  const std::string& why_broken() const { return why_broken_; }
  int descriptor() const { return socket_.get(); }
  short events() const;
  // Ends the connection for both sides, even if a forked child still holds the socket.
  void Shutdown();

 private:
  void Break(const char* why);

  Descriptor socket_;
  size_t largest_body_;
  std::vector<char> out_, in_;
  size_t sent_ = 0;  // bytes of out_ that were sent
  // Bytes of in_ that were taken as frames, and all bytes of in_ that have arrived.
  size_t taken_ = 0, arrived_ = 0;
  bool broken_ = false;
  std::string why_broken_;
};

}  // namespace ucudnn::transport
