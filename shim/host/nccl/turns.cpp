#include "shim/host/nccl/turns.h"
#include "shim/host/leaked.h"

#include <chrono>
#include <deque>
#include <map>

namespace hostgpu::nccl {
namespace {

// Time between two calls of `given_up` while SeizeDevice waits.
constexpr std::chrono::milliseconds kLook{50};

// The operations that wait for each device, in the order of their SeizeDevice calls; the first one
// has the device.
struct DeviceLines {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t issued = 0;
  std::map<int, std::deque<uint64_t>> lines;
};

// Never destroyed: work on streams may still run while the process exits.
DeviceLines& TheLines() { return Leaked<DeviceLines>(); }

}  // namespace

uint64_t Turns::Enlist() {
  std::lock_guard lock(mutex_);
  places_.insert(issued_);
  return issued_++;
}

void Turns::Withdraw(uint64_t place) {
  std::lock_guard lock(mutex_);
  places_.erase(place);
  changed_.notify_all();
}

bool Turns::Enter(std::optional<uint64_t> place, const std::function<bool()>& given_up) {
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [&] { return given_up() || (!running_ && (!place || *places_.begin() == *place)); });
  if (given_up()) {
    if (place) places_.erase(*place);
    changed_.notify_all();
    return false;
  }
  running_ = true;
  return true;
}

void Turns::Leave(std::optional<uint64_t> place) {
  std::lock_guard lock(mutex_);
  running_ = false;
  if (place) places_.erase(*place);
  changed_.notify_all();
}

void Turns::Wake() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Turns::AwaitEnd(const std::function<bool()>& given_up) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !running_ && (places_.empty() || given_up()); });
}

bool SeizeDevice(int device, const std::function<bool()>& given_up) {
  DeviceLines& devices = TheLines();
  std::unique_lock lock(devices.mutex);
  std::deque<uint64_t>& line = devices.lines[device];
  const uint64_t mine = devices.issued++;
  line.push_back(mine);
  while (line.front() != mine && !given_up()) devices.changed.wait_for(lock, kLook);
  if (line.front() == mine) return true;
  std::erase(line, mine);
  return false;
}

void ReleaseDevice(int device) {
  DeviceLines& devices = TheLines();
  std::lock_guard lock(devices.mutex);
  devices.lines[device].pop_front();
  devices.changed.notify_all();
}

}  // namespace hostgpu::nccl
