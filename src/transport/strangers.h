// The listening side of a job's meeting. It accepts connections and reads each one until a greeting
// with the job's token is complete. It drops connections that send anything else, too many bytes,
// or no complete greeting in time; if too many wait, it drops the oldest. Before it drops a
// connection that greets with another token, it tells the other side why. One thread at a time uses
// it.
#pragma once

#include <poll.h>

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/connection.h"
#include "transport/hello.h"
#include "transport/sockets.h"

namespace ucudnn::transport {

// A connection whose greeting has the right token, with the rest of that greeting.
struct Arrival {
  std::unique_ptr<Connection> connection;
  std::optional<Hello> hello;  // none: the rest of the greeting is malformed
};

class Strangers {
 public:
  Strangers(Descriptor listening, std::string token, const Meeting& meeting);

  // Watch appends the descriptors for which the caller's poll must wait. Serve serves them in the
  // same order, and returns the connections whose greeting is complete.
  void Watch(std::vector<pollfd>& wait) const;
  std::vector<Arrival> Serve(std::span<const pollfd> ready);
  size_t watched() const { return (listening_ ? 1 : 0) + waiting_.size(); }
  // Closes the connection of a refused arrival once the refusal is sent and the other side has
  // closed.
  void SeeOff(std::unique_ptr<Connection> connection);
  // Closes the listening socket, so that its port is free again.
  void Close();
  // The connections that greeted as a rank does, but with another token. The user is told of them
  // if a rank is missing.
  struct OtherTokens {
    int count = 0;
    Clock::time_point first;
    std::string last_from;
  };
  const OtherTokens& other_tokens() const { return other_tokens_; }
  bool Flushed() const;

 private:
  struct Stranger {
    std::unique_ptr<Connection> connection;
    Clock::time_point since;
    bool answered = false;  // the answer was sent; only the end of the connection is awaited
  };
  void Accept();
  // Reads the stranger's data. Returns whether the stranger stays in waiting_.
  bool Hear(Stranger& stranger, std::vector<Arrival>& arrivals);

  Descriptor listening_;
  std::string token_, version_;
  Milliseconds patience_;
  std::deque<Stranger> waiting_;
  // Set if the system has no descriptor left: no connection is accepted before this time.
  Clock::time_point accepting_from_;
  OtherTokens other_tokens_;
};

}  // namespace ucudnn::transport
