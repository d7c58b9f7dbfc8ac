// A lock for measuring on a device. Two measurements would disturb each other's times, so at any
// time only one thread of one process of this host holds the lock. Thread-safe. Never waits beyond
// a deadline, not even in a child that was forked while its parent measured.
#pragma once

#include <optional>
#include <string>

#include "tuning/budget.h"

namespace ucudnn::tuning {

class DeviceLock {
 public:
  // Locks the device that `device` names uniquely on this host. Returns none if another thread or
  // process holds the lock until `deadline`. A file in `folder` is the lock between processes. If
  // the file cannot be opened, only threads of this process exclude each other.
  static std::optional<DeviceLock> Acquire(const std::string& folder, const std::string& device,
                                           Clock::time_point deadline);

  DeviceLock(DeviceLock&& other) noexcept;
  DeviceLock& operator=(DeviceLock&& other) noexcept;
  ~DeviceLock();

 private:
  struct Holder;
  DeviceLock(Holder* holder, int file) : holder_(holder), file_(file) {}

  Holder* holder_;
  int file_;  // -1: only threads of this process exclude each other
};

}  // namespace ucudnn::tuning
