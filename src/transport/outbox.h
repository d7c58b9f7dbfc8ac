// What the threads of a rank want to tell the others, until its service thread takes it. Putting a
// record in allocates nothing, and calls the system only where the service thread sleeps: one that
// looks every now and then anyhow is not woken, since that costs the caller more than all else.
// Thread-safe; one thread takes.
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
    kLater,   // in its turn
    kNow,     // and the service thread is woken
    kUrgent,  // and where there is no room, it is made
  };
  // Appends a frame; false where there is no room for it now.
  bool Put(const Frame& frame, Haste haste);
  // Exchanges what there is for `taken`, which is cleared before.
  void Take(std::vector<char>& taken);
  // Whether it is empty; then the next Put raises wake().
  bool Sleep();
  void Awake();

  const Alarm& wake() const { return wake_; }
  const Alarm& room() const { return room_; }  // raised when Take has made room for a waiter

 private:
  Mutex mutex_;
  std::vector<char> bytes_ UCUDNN_GUARDED_BY(mutex_);
  bool sleeping_ UCUDNN_GUARDED_BY(mutex_) = false;
  bool refused_ UCUDNN_GUARDED_BY(mutex_) = false;
  Alarm wake_, room_;
};

}  // namespace ucudnn::transport
