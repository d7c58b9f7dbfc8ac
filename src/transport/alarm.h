// Wakes a thread that waits in poll or in Wait. Thread-safe. If the alarm was raised before a wait
// begins, the wait ends immediately. If several threads wait, an alarm may wake only one of them,
// so each must wait in short turns.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "transport/descriptor.h"
#include "transport/meeting.h"

namespace ucudnn::transport {

class Alarm {
 public:
  Alarm() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // Returns false if the system had no descriptor left for the alarm.
  bool usable() const { return static_cast<bool>(event_); }
  int descriptor() const { return event_.get(); }
  void Raise() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
  }
  void Reset() const {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof count);
  }
  // Returns when the alarm is raised, when `most` has passed, or when a signal arrives.
  void Wait(Milliseconds most) const {
    pollfd wait = {.fd = event_.get(), .events = POLLIN};
    poll(&wait, 1, static_cast<int>(most.count()));
    Reset();
  }

 private:
  Descriptor event_;
};

}  // namespace ucudnn::transport
