// The frames that threads of a rank want to send, until the rank's service thread takes them. Put
// allocates nothing, and makes a system call only to wake a service thread that sleeps. A service
// thread that looks at short intervals need not be woken, because waking it would take longer than
// the rest of Put. Thread-safe, but only one thread may call Take and Sleep.
#pragma once

#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "transport/alarm.h"
#include "transport/connection.h"

namespace ucudnn::transport {

class Outbox {
 public:
  Outbox();

  enum class Haste {
    kLater,   // the service thread takes the frame when it looks next
    kNow,     // the service thread is woken
    kUrgent,  // the service thread is woken, and the frame is accepted even if there is no room
  };
  // Appends a frame. Returns false if there is no room for it now.
  bool Put(const Frame& frame, Haste haste);
  // Replaces the content of `taken` by the frames that are there.
  void Take(std::vector<char>& taken);
  // Returns whether the outbox is empty. If it returns true, the next Put raises wake().
  bool Sleep();
  void Awake();

  const Alarm& wake() const { return wake_; }
  // The alarm that is raised when Take has made room after a Put that returned false.
  const Alarm& room() const { return room_; }

 private:
  Mutex mutex_;
  std::vector<char> bytes_ UCUDNN_GUARDED_BY(mutex_);
  bool sleeping_ UCUDNN_GUARDED_BY(mutex_) = false;
  bool refused_ UCUDNN_GUARDED_BY(mutex_) = false;
  Alarm wake_, room_;
};

}  // namespace ucudnn::transport
