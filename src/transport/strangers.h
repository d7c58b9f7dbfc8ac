// The door of a job: listens, and hears out who connects until a greeting with the job's token is
// there. Everybody else is dropped: after a wrong first byte, too many bytes, or too long a time.
// One thread uses it.
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

// Somebody who knows the token, and what else the greeting says.
struct Arrival {
  std::unique_ptr<Connection> connection;
  std::optional<Hello> hello;  // none: malformed
};

class Strangers {
 public:
  Strangers(Descriptor listening, std::string token, const Meeting& meeting);

  // Appends what is to be waited for, and afterwards serves it in the same order. Who has arrived.
  void Watch(std::vector<pollfd>& wait) const;
  std::vector<Arrival> Serve(std::span<const pollfd> ready);
  size_t watched() const { return (listening_ ? 1 : 0) + waiting_.size(); }
  // Says goodbye to an arrival that is refused: its answer is sent, and the other side closes.
  void SeeOff(std::unique_ptr<Connection> connection);
  // Nobody else is let in; the port is free again.
  void Close();
  // Those who greeted as ranks do and had another token, so that one who misses a rank can be told.
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
    bool answered = false;  // only the end of its connection is waited for
  };
  void Accept();
  // Whether the stranger stays.
  bool Hear(Stranger& stranger, std::vector<Arrival>& arrivals);

  Descriptor listening_;
  std::string token_, version_;
  Milliseconds patience_;
  std::deque<Stranger> waiting_;
  Clock::time_point accepting_from_;  // not before, where there was no room for a connection
  OtherTokens other_tokens_;
};

}  // namespace ucudnn::transport
