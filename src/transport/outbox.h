// The frames that threads of a rank send to other ranks, until its service thread takes them.
// Putting a frame in allocates nothing, and makes a system call only if the service thread sleeps.
// A service thread that looks at short intervals is not woken, since waking it would cost the
// caller more than everything else. Thread-safe; one thread takes.
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
    kLater,   // at the service thread's next look
    kNow,     // the service thread is woken
    kUrgent,  // also makes room if there is none
  };
  // Appends a frame; returns false if there is no room for it now.
  bool Put(const Frame& frame, Haste haste);
  // Clears `taken` and exchanges it for the frames that are there.
  void Take(std::vector<char>& taken);
  // Returns whether it is empty; the next Put then raises wake().
  bool Sleep();
  void Awake();

  const Alarm& wake() const { return wake_; }
  // Raised when Take has made room for a waiting thread.
  const Alarm& room() const { return room_; }

 private:
  Mutex mutex_;
  std::vector<char> bytes_ UCUDNN_GUARDED_BY(mutex_);
  bool sleeping_ UCUDNN_GUARDED_BY(mutex_) = false;
  bool refused_ UCUDNN_GUARDED_BY(mutex_) = false;
  Alarm wake_, room_;
};

}  // namespace ucudnn::transport
