#include "tuning/spread.h"

#include <cassert>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace ucudnn::tuning {
namespace {

class Spreading {
 public:
  Spreading(size_t devices, size_t units, const DoUnit& do_unit, const DeviceLost& lost)
      : do_unit_(do_unit), lost_(lost), devices_left_(devices), undone_(units) {
    for (size_t unit = units; unit > 0; --unit) waiting_.push_back(unit - 1);
  }

  // Returns the next unit; none if all units are done. If no unit is left but other devices are at
  // work, waits, because such a device may fail and give its unit back.
  std::optional<size_t> Take() {
    MutexLock lock(mutex_);
    while (waiting_.empty() && undone_ > 0) changed_.Wait(mutex_);
    std::optional<size_t> unit;
    if (waiting_.empty()) return unit;
    unit = waiting_.back();
    waiting_.pop_back();
    return unit;
  }

  // Does `unit`, and then the units that Take returns.
  void Work(size_t device, std::optional<size_t> unit) {
    for (; unit; unit = Take()) {
      if (Status status = Try(device, *unit); !status.ok()) {
        return Fail(device, *unit, std::move(status));
      }
      MutexLock lock(mutex_);
      if (--undone_ == 0) changed_.NotifyAll();
    }
  }

  // Notes that the device failed. If the device had a `unit`, puts it back for another device.
  void Fail(size_t device, std::optional<size_t> unit, Status why) {
    MutexLock lock(mutex_);
    // This does not allocate: `waiting_` held the unit before, so it has the capacity.
    if (unit) waiting_.push_back(*unit);
    last_ = std::move(why);
    changed_.NotifyAll();
    assert(devices_left_ > 0);
    if (--devices_left_ == 0) return;
    try {
      lost_(device, last_);
    } catch (...) {
      // There is no host memory to report the lost device.
    }
  }

  Status Outcome() {
    MutexLock lock(mutex_);
    return undone_ == 0 ? Status::Ok() : last_;
  }

 private:
  Status Try(size_t device, size_t unit) const try { return do_unit_(device, unit); } catch (...) {
    return Status::Error("out of memory");
  }

  const DoUnit& do_unit_;
  const DeviceLost& lost_;
  Mutex mutex_;
  Condition changed_;
  std::vector<size_t> waiting_ UCUDNN_GUARDED_BY(mutex_);  // the last element is the next unit
  size_t devices_left_ UCUDNN_GUARDED_BY(mutex_);
  size_t undone_ UCUDNN_GUARDED_BY(mutex_);
  Status last_ UCUDNN_GUARDED_BY(mutex_);
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
