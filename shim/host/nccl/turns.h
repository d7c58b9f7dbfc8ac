// The order of a communicator's operations. They run one at a time in the order in which they were
// enqueued, whatever their streams are, because all ranks agree on that order. Captured operations
// have no place in the order. Thread-safe.
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
  // Returns the next place in the order, for an operation that will run once.
  uint64_t Enlist();
  // Removes the place of an operation that will not run.
  void Withdraw(uint64_t place);

  // Waits until all operations with earlier places are done and no operation runs. A captured
  // operation has no place, because its graph may be launched at any time; it waits only until no
  // operation runs. Returns false if `given_up` returns true before the turn comes; then the place
  // is removed, and the caller must not call Leave.
  bool Enter(std::optional<uint64_t> place, const std::function<bool()>& given_up);
  void Leave(std::optional<uint64_t> place);
  // Called when the result of `given_up` may have changed.
  void Wake();

  // Waits until no operation runs, and either no place is taken or `given_up` returns true.
  void AwaitEnd(const std::function<bool()>& given_up);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t issued_ = 0;
  std::set<uint64_t> places_;
  bool running_ = false;
};

// Implements HOSTGPU_NCCL_SERIAL: only one operation of all communicators of a device runs at a
// time. SeizeDevice waits until the operations that called it before have called ReleaseDevice.
// Returns false if `given_up` returns true before that.
bool SeizeDevice(int device, const std::function<bool()>& given_up);
void ReleaseDevice(int device);

}  // namespace hostgpu::nccl
