// How a rank's service thread reaches the other ranks: rank 0 by the hub that it is (hub.h), the
// others by their connection to it (spoke.h). One thread uses a link.
#pragma once

#include <poll.h>

#include <span>
#include <string>
#include <vector>

#include "transport/connection.h"
#include "transport/meeting.h"

namespace ucudnn::transport {

// Whom a link tells what comes. Called by the thread that uses the link; must not call it.
class Sink {
 public:
  virtual ~Sink() = default;
  // All ranks are here: the group and the place in it of each.
  virtual void Started(std::span<const Membership> members) = 0;
  // Of other ranks: kDoing, kPost and kGather (of the own group), kLeave. kFail once: the line of
  // the job's first failure, the same on every rank that can still be reached.
  virtual void Receive(const Frame& frame) = 0;
  // Rank 0 has left and closed the connection: nobody can be reached any more.
  virtual void Unreachable() = 0;
};

class Link {
 public:
  virtual ~Link() = default;
  // Whether frames may be sent; not while those that should take them are behind.
  virtual bool Takes() const = 0;
  virtual void Send(FrameKind kind, std::string_view body) = 0;
  // Sends what is queued, as far as the sockets take it.
  virtual void Flush() = 0;
  // Whether nothing is left to do once all have left, or the job has failed.
  virtual bool Finished() const = 0;
  // Appends what is to be waited for.
  virtual void Watch(std::vector<pollfd>& wait) = 0;
  // Serves what Watch has appended, in its order, and looks who is silent.
  virtual void Serve(std::span<const pollfd> ready) = 0;
  // Every connection ends. Nothing else may be called then.
  virtual void Close() = 0;
};

// "rank 2 died or ended (its connection was closed) while it did: a gather".
std::string DeathLine(int rank, const std::string& how, const std::string& doing);
std::string SilenceLine(int rank, Milliseconds silence, const std::string& doing);

// When something was last heard from another rank. A thread that was kept from listening itself
// does not judge others.
class Hearing {
 public:
  explicit Hearing(Milliseconds silence) : silence_(silence) {}
  // Begins a look at what has arrived. Whether it comes so late that everybody's time starts anew.
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
