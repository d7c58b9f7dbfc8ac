// Bounds of measuring: seconds for each kernel and for the process, bytes of device memory.
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>

#include "base/options.h"

namespace ucudnn::tuning {

using Clock = std::chrono::steady_clock;

class Budget {
 public:
  // `bounds` is none for the offline commands, which measure without bounds.
  explicit Budget(const std::optional<Tuning>& bounds) : bounds_(bounds) {}

  // Until when a kernel may be measured that has already taken `spent`; a time in the past means no
  // more.
  Clock::time_point Deadline(Clock::duration spent) const {
    if (!bounds_) return Clock::time_point::max();
    const Seconds left =
        std::min(Seconds(bounds_->kernel_seconds) - spent,
                 Seconds(bounds_->process_seconds) - Clock::duration(spent_.load()));
    if (left <= Seconds::zero()) return Clock::time_point::min();
    // Beyond a year is no bound, and would not fit a time point.
    if (left > std::chrono::hours(24 * 365)) return Clock::time_point::max();
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
  }
  void Spend(Clock::duration time) { spent_ += time.count(); }

  // Bytes of device memory that one measurement may take while `free_bytes` are free.
  size_t MemoryBytes(size_t free_bytes) const {
    return bounds_ ? bounds_->memory_bytes.value_or(free_bytes / 4)
                   : std::numeric_limits<size_t>::max();
  }

 private:
  using Seconds = std::chrono::duration<double>;
  const std::optional<Tuning> bounds_;
  std::atomic<Clock::rep> spent_ = 0;
};

}  // namespace ucudnn::tuning
