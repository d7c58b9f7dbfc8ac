// Whose turn it is. A communicator's operations run one at a time, in the order in which they were
// enqueued, whatever their streams: that is the order its ranks agree on. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>

namespace hostgpu::nccl {

class Turns {
 public:
  // A place in the line, for an operation that will run once.
  uint64_t Enlist();
  // An operation that will not run after all.
  void Withdraw(uint64_t place);

  // Waits until all places before are done and nobody runs; without a place (a captured operation
  // has none, its graph may be launched at any time) until nobody runs. False when `given_up`
  // became true first; then the place is given back, and Leave is not called.
  bool Enter(std::optional<uint64_t> place, const std::function<bool()>& given_up);
  void Leave(std::optional<uint64_t> place);
  // What `given_up` says may have changed.
  void Wake();

  // Until nobody runs, and no place is taken or `given_up` is true.
  void AwaitEnd(const std::function<bool()>& given_up);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t issued_ = 0;
  std::set<uint64_t> places_;
  bool running_ = false;
};

// HOSTGPU_NCCL_SERIAL: one operation of any communicator of a device runs at a time; the first to
// begin holds the device until it is done. False when `given_up` became true first.
bool SeizeDevice(int device, const std::function<bool()>& given_up);
void ReleaseDevice(int device);

}  // namespace hostgpu::nccl
