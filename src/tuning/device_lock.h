// A lock that lets one thread of this host measure on a device at a time, in any process: two
// measurements would disturb each other's times. Thread-safe. Never waits beyond a deadline, not
// even in a child that was forked while its parent measured.
#pragma once

#include <optional>
#include <string>

#include "tuning/budget.h"

namespace ucudnn::tuning {

class DeviceLock {
 public:
  // Locks `device`, a text that names it among the host's devices; none if others held it until
  // `deadline`. Processes share a file in `folder`. If it cannot be opened, only threads of this
  // process exclude each other.
  static std::optional<DeviceLock> Acquire(const std::string& folder, const std::string& device,
                                           Clock::time_point deadline);

  DeviceLock(DeviceLock&& other) noexcept;
  DeviceLock& operator=(DeviceLock&& other) noexcept;
  ~DeviceLock();

 private:
  struct Holder;
  DeviceLock(Holder* holder, int file) : holder_(holder), file_(file) {}

  Holder* holder_;
  int file_;  // -1: only threads exclude each other
};

}  // namespace ucudnn::tuning
