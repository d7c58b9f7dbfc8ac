// The bounds of measuring: seconds for each kernel and for the process, and bytes of device memory.
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>

#include "options/options.h"

namespace ucudnn::tuning {

using Clock = std::chrono::steady_clock;

// The purposes for which time is spent. Comparing a plan costs one run of the plan and one run of
// the undivided engine. A plan runs for the program only after it was compared.
enum class Use { kMeasuring, kComparing };

class Budget {
 public:
  using Seconds = std::chrono::duration<double>;
  // The part of the process's time budget that measuring must leave for comparing. Comparing may
  // use all of the time that is left, not only this part.
  static constexpr double kComparingShare = 0.25;

  // `bounds` is none for the offline commands, which measure without bounds.
  explicit Budget(const std::optional<Tuning>& bounds) : bounds_(bounds) {}

  // Returns the time until which a kernel may be measured or compared, if `spent` is the time that
  // was spent on the kernel so far. A time in the past means that no time is left.
  Clock::time_point Deadline(Use use, Clock::duration spent) const {
    if (!bounds_) return Clock::time_point::max();
    const Seconds of_kernel = Seconds(bounds_->kernel_seconds) - spent;
    return After(std::min(of_kernel, Left(use)));
  }
  void Spend(Use use, Clock::duration time) {
    spent_ += time.count();
    if (use == Use::kMeasuring) measuring_ += time.count();
  }

  // Returns the end of the turn of a kernel whose measuring begins now. The kernel has
  // `multiply_adds` multiply-adds.
  Clock::time_point EndOfTurn(double multiply_adds) {
    if (!bounds_) return Clock::time_point::max();
    double largest = largest_;
    while (multiply_adds > largest && !largest_.compare_exchange_weak(largest, multiply_adds)) {
    }
    return After(TurnOf(Left(Use::kMeasuring), multiply_adds / std::max(largest, multiply_adds)));
  }
  // Returns the length of a turn: an eighth of the time that is `left` for measuring. A program
  // asks about kernel after kernel and does not say how many will follow. A kernel with less than a
  // quarter of the arithmetic of the largest kernel so far gets a sixteenth, because its plan gains
  // less.
  static Seconds TurnOf(Seconds left, double share_of_largest) {
    return left / (share_of_largest < 0.25 ? 16 : 8);
  }

  // Returns the bytes of device memory that one measurement may use while `free_bytes` are free.
  size_t MemoryBytes(size_t free_bytes) const {
    return bounds_ ? bounds_->memory_bytes.value_or(free_bytes / 4)
                   : std::numeric_limits<size_t>::max();
  }

 private:
  // Returns the time that the process has left for `use`. REQUIRES: there are bounds.
  Seconds Left(Use use) const {
    const Seconds all(bounds_->process_seconds);
    const Seconds left = all - Clock::duration(spent_.load());
    if (use == Use::kComparing) return left;
    const Seconds to_measure = (1 - kComparingShare) * all - Clock::duration(measuring_.load());
    return std::min(left, to_measure);
  }
  static Clock::time_point After(Seconds left) {
    if (left <= Seconds::zero()) return Clock::time_point::min();
    // More than a year counts as no bound, because a later time may not fit a time point.
    if (left > std::chrono::hours(24 * 365)) return Clock::time_point::max();
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
  }

  const std::optional<Tuning> bounds_;
  std::atomic<Clock::rep> spent_ = 0;      // time spent on both uses
  std::atomic<Clock::rep> measuring_ = 0;  // the part of spent_ that measuring took
  std::atomic<double> largest_ = 0;        // multiply-adds of the largest kernel so far
};

}  // namespace ucudnn::tuning
