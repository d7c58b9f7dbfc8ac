#include "spatial/device_log.h"

#include <memory>
#include <vector>

#include "cuda/capture.h"
#include "cuda/resources.h"

namespace ucudnn::spatial {

DeviceLog& DeviceLog::Make(const cuda::Driver& driver) {
  static Mutex mutex;
  static auto& logs = *new std::vector<std::unique_ptr<DeviceLog>>;
  MutexLock lock(mutex);
  return *logs.emplace_back(new DeviceLog(driver));
}

DeviceLog::Point* DeviceLog::Take(const DeviceCall& call) {
  MutexLock lock(mutex_);
  if (!free_.empty()) {
    Point* const point = free_.back();
    free_.pop_back();
    point->call = call;
    return point;
  }
  Point& point = points_.emplace_back();
  point = {this, call};
  return &point;
}

Result<DeviceLog::Point*> DeviceLog::Begin(const DeviceCall& call, CUstream stream) {
  Point* point = nullptr;
  if (call.is_captured) {
    auto captured = std::make_shared<Point>(Point{this, call});
    point = captured.get();
    UCUDNN_RETURN_IF_ERROR(cuda::KeepWithGraphOf(driver_, stream, std::move(captured)));
  } else {
    point = Take(call);
  }
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      driver_, driver_.cuLaunchHostFunc(stream, RunBegin, point), "counting a call on the device"));
  return point;
}

Status DeviceLog::End(Point* point, CUstream stream) {
  return cuda::DriverStatus(driver_, driver_.cuLaunchHostFunc(stream, RunEnd, point),
                            "counting a call on the device");
}

// Runs on a thread of the driver. If host memory is out, the entry is lost; the other ranks then
// miss this rank's record, and all ranks fail.
void DeviceLog::RunBegin(void* argument) {
  const Point& point = *static_cast<Point*>(argument);
  DeviceLog& log = *point.log;
  MutexLock lock(log.mutex_);
  ++log.begun_;
  if (log.is_closed_) return;
  try {
    log.waiting_.push_back(point.call);
  } catch (...) {
  }
}

void DeviceLog::RunEnd(void* argument) {
  Point& point = *static_cast<Point*>(argument);
  DeviceLog& log = *point.log;
  MutexLock lock(log.mutex_);
  ++log.ended_;
  if (point.call.is_captured) return;
  try {
    log.free_.push_back(&point);
  } catch (...) {
    // Out of host memory: the point is lost and not used again.
  }
}

std::optional<DeviceCall> DeviceLog::NextBegun() {
  MutexLock lock(mutex_);
  if (waiting_.empty()) return std::nullopt;
  const DeviceCall oldest = waiting_.front();
  waiting_.pop_front();
  return oldest;
}

uint64_t DeviceLog::begun() const {
  MutexLock lock(mutex_);
  return begun_;
}

uint64_t DeviceLog::ended() const {
  MutexLock lock(mutex_);
  return ended_;
}

void DeviceLog::Close() {
  MutexLock lock(mutex_);
  is_closed_ = true;
  waiting_.clear();
}

}  // namespace ucudnn::spatial
