// The connection of a rank's service thread to the other ranks: rank 0 is the hub itself (hub.h),
// the others are connected to it (spoke.h). One thread uses a link.
#pragma once

#include <poll.h>

#include <span>
#include <string>
#include <vector>

#include "transport/connection.h"
#include "transport/meeting.h"

namespace ucudnn::transport {

// Receives what a link hears. The thread that uses the link calls the sink, which must not call the
// link.
class Sink {
 public:
  virtual ~Sink() = default;
  // All ranks are here: `members` has the group of each and its place in the group.
  virtual void Started(std::span<const Membership> members) = 0;
  // Frames of other ranks: kDoing, kPost and kGather (from the own group), and kLeave. kFail comes
  // once, with the line of the job's first failure, which is the same on every rank that can still
  // be reached.
  virtual void Receive(const Frame& frame) = 0;
  // Rank 0 has left and closed the connection, so no rank can be reached any more.
  virtual void Unreachable() = 0;
};

class Link {
 public:
  virtual ~Link() = default;
  // Returns whether frames may be sent now; false while receivers are too far behind.
  virtual bool Takes() const = 0;
  virtual void Send(FrameKind kind, std::string_view body) = 0;
  // Sends queued frames, as many as the sockets accept.
  virtual void Flush() = 0;
  // Returns whether nothing is left to do after all ranks have left, or the job has failed.
  virtual bool Finished() const = 0;
  // Appends the descriptors to wait for.
  virtual void Watch(std::vector<pollfd>& wait) = 0;
  // Serves the descriptors that Watch has appended, in the same order, and notices silent ranks.
  virtual void Serve(std::span<const pollfd> ready) = 0;
  // Ends every connection. No other function may be called afterwards.
  virtual void Close() = 0;
};

// Formats "rank 2 died or ended (its connection was closed) while it did: a gather".
std::string DeathLine(int rank, const std::string& how, const std::string& doing);
std::string SilenceLine(int rank, Milliseconds silence, const std::string& doing);

// The times when other ranks were last heard. A thread that could not listen for some time does not
// judge others.
class Hearing {
 public:
  explicit Hearing(Milliseconds silence) : silence_(silence) {}
  // To be called before reading data that has arrived. Returns whether this is so late that all
  // ranks' times start anew.
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
