// Holds the frames that a rank's threads want to send. The rank's service thread takes them from
// here. Put allocates only if the frames need more than the reserved 256 KiB. With Haste::kLater,
// Put makes a system call only if the service thread sleeps or the outbox is full. A service thread
// that looks at short intervals is not woken, because waking it would take longer than the rest of
// Put. Thread-safe, but only one thread at a time may call Take, Sleep and Awake.
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
    kUrgent,  // the service thread is woken, and the frame is accepted even if the outbox is full
  };
  // Appends a frame. Returns false if the outbox is too full for the frame now.
  bool Put(const Frame& frame, Haste haste);
  // Replaces the content of `taken` by the frames in the outbox, which is then empty.
  void Take(std::vector<char>& taken);
  // Returns whether the outbox is empty. If it is, the next Put raises wake().
  bool Sleep();
  void Awake();

  const Alarm& wake() const { return wake_; }
  // Returns the alarm that is raised when Take empties the outbox after a Put that returned false.
  const Alarm& room() const { return room_; }

 private:
  Mutex mutex_;
  std::vector<char> bytes_ UCUDNN_GUARDED_BY(mutex_);
  bool sleeping_ UCUDNN_GUARDED_BY(mutex_) = false;
  bool refused_ UCUDNN_GUARDED_BY(mutex_) = false;
  Alarm wake_, room_;
};

}  // namespace ucudnn::transport
