#include "tuning/spread.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace ucudnn::tuning {
namespace {

class Spreading {
 public:
  Spreading(size_t devices, size_t units, const DoUnit& do_unit, const DeviceLost& lost)
      : do_unit_(do_unit), lost_(lost), devices_left_(devices), undone_(units) {
    for (size_t unit = units; unit > 0; --unit) waiting_.push_back(unit - 1);
  }

  // The next unit; none when all are done. Those under way may come back.
  std::optional<size_t> Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !waiting_.empty() || undone_ == 0; });
    if (waiting_.empty()) return std::nullopt;
    const size_t unit = waiting_.back();
    waiting_.pop_back();
    return unit;
  }

  // Begins with `unit`.
  void Work(size_t device, std::optional<size_t> unit) {
    for (; unit; unit = Take()) {
      if (Status status = Try(device, *unit); !status.ok()) {
        return Fail(device, *unit, std::move(status));
      }
      std::lock_guard lock(mutex_);
      if (--undone_ == 0) changed_.notify_all();
    }
  }

  // `unit`: what it was at.
  void Fail(size_t device, std::optional<size_t> unit, Status why) {
    std::lock_guard lock(mutex_);
    if (unit) waiting_.push_back(*unit);  // never more than there was room for at first
    last_ = std::move(why);
    changed_.notify_all();
    if (--devices_left_ == 0) return;
    try {
      lost_(device, last_);
    } catch (...) {
      // Out of host memory: nobody is told.
    }
  }

  Status Outcome() {
    std::lock_guard lock(mutex_);
    return undone_ == 0 ? Status::Ok() : last_;
  }

 private:
  Status Try(size_t device, size_t unit) const try { return do_unit_(device, unit); } catch (...) {
    return Status::Error("out of memory");
  }

  const DoUnit& do_unit_;
  const DeviceLost& lost_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::vector<size_t> waiting_;  // the next one last
  size_t devices_left_;
  size_t undone_;
  Status last_;
};

}  // namespace

Status SpreadOverDevices(size_t devices, size_t units, const DoUnit& do_unit,
                         const DeviceLost& lost) {
  if (devices == 0) return Status::Error("there is no device");
  Spreading spreading(devices, units, do_unit, lost);
  const std::optional<size_t> first = spreading.Take();
  std::vector<std::thread> threads;
  threads.reserve(devices - 1);
  for (size_t device = 1; device < devices; ++device) {
    try {
      threads.emplace_back([&spreading, device] { spreading.Work(device, spreading.Take()); });
    } catch (const std::exception& error) {
      spreading.Fail(device, std::nullopt, Status::Error(error.what()));
    }
  }
  spreading.Work(0, first);
  for (std::thread& thread : threads) thread.join();
  return spreading.Outcome();
}

}  // namespace ucudnn::tuning
