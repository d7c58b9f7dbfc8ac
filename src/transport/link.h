// The interface by which the service thread of a rank reaches the other ranks. Rank 0 is the hub
// itself (hub.h); the other ranks are connected to the hub (spoke.h). One thread at a time uses a
// link.
#pragma once

#include <poll.h>

#include <span>
#include <string>
#include <vector>

#include "transport/connection.h"
#include "transport/meeting.h"

namespace ucudnn::transport {

// Receives the events of a link. The thread that uses the link calls the sink; the sink must not
// call the link.
class Sink {
 public:
  virtual ~Sink() = default;
  // All ranks have come. `members` has the membership of each.
  virtual void Started(std::span<const Membership> members) = 0;
  // A frame of another rank has arrived. kPost, kSend and kGather come from this rank's group only,
  // kDoing from this group and from rank 0, kLeave from any rank. kFail arrives once, with the line
  // of the job's first failure, which is the same on every rank that can still be reached.
  virtual void Receive(const Frame& frame) = 0;
  // Rank 0 has left and closed the connection, so no other rank can be reached any more.
  virtual void Unreachable() = 0;
};

class Link {
 public:
  virtual ~Link() = default;
  // Returns whether Send may be called now. Returns false while receivers are too far behind.
  virtual bool Takes() const = 0;
  virtual void Send(FrameKind kind, std::string_view body) = 0;
  // Sends queued frames, as many as the sockets accept.
  virtual void Flush() = 0;
  // To be called once all ranks have left or the job has failed. Returns whether the link has
  // nothing left to do.
  virtual bool Finished() const = 0;
  // Appends the descriptors for which the caller's poll must wait.
  virtual void Watch(std::vector<pollfd>& wait) = 0;
  // Serves the descriptors that Watch has appended, in the same order. Fails the job if a rank has
  // been silent too long.
  virtual void Serve(std::span<const pollfd> ready) = 0;
  // Ends every connection. No other function may be called afterwards.
  virtual void Close() = 0;
};

// Format the line of a failure: "rank 2 died or ended (its connection was closed); it was last
// known to do: a gather". SilenceLine says how long the rank was silent.
std::string DeathLine(int rank, const std::string& how, const std::string& doing);
std::string SilenceLine(int rank, Milliseconds silence, const std::string& doing);

// Judges which ranks are silent. If this thread itself was late, judges none, because data may have
// arrived meanwhile.
class Hearing {
 public:
  explicit Hearing(Milliseconds silence) : silence_(silence) {}
  // To be called before reading the data that has arrived. Returns true if this thread is late: so
  // much time has passed since the last call that the times of all ranks must start anew.
  bool LooksLate(Clock::time_point now) {
    const bool late = now - last_look_ > silence_ / 2;
    last_look_ = now;
    return late;
  }
  bool Silent(Clock::time_point heard, Clock::time_point now) const {
    return now - heard > silence_;
  }

 private:
  Milliseconds silence_;
  Clock::time_point last_look_ = Clock::now();
};

}  // namespace ucudnn::transport
