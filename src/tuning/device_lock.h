// One measurement at a time on each device, over the threads and processes of this host: two would
// disturb each other's times. Thread-safe. Never waits beyond a deadline, also not in the child of
// a process that forked while it measured.
#pragma once

#include <optional>
#include <string>

#include "tuning/budget.h"

namespace ucudnn::tuning {

class DeviceLock {
 public:
  // Holds the lock of `device`, a text that names it among the host's devices; none when others
  // held it until `deadline`. Processes meet at a file in `folder`; where that cannot be opened,
  // only this process's threads exclude each other.
  static std::optional<DeviceLock> Acquire(const std::string& folder, const std::string& device,
                                           Clock::time_point deadline);

  DeviceLock(DeviceLock&& other) noexcept;
  DeviceLock& operator=(DeviceLock&& other) noexcept;
  ~DeviceLock();

 private:
  struct Holder;
  DeviceLock(Holder* holder, int file) : holder_(holder), file_(file) {}

  Holder* holder_;
  int file_;  // -1: threads only
};

}  // namespace ucudnn::tuning
