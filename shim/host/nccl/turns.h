// The order of a communicator's operations: they run one at a time, in the order in which they were
// enqueued, whatever their streams, because its ranks agree on that order. Thread-safe.
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
  // Takes a place in the line, for an operation that will run once.
  uint64_t Enlist();
  // Gives the place of an operation back that will not run.
  void Withdraw(uint64_t place);

  // Waits until all operations with earlier places are done and none runs. A captured operation has
  // no place, because its graph may be launched at any time; it waits until none runs. Returns
  // false if `given_up` became true first; the place is then given back, and Leave must not be
  // called.
  bool Enter(std::optional<uint64_t> place, const std::function<bool()>& given_up);
  void Leave(std::optional<uint64_t> place);
  // To be called when the result of `given_up` may have changed.
  void Wake();

  // Waits until no operation runs, and either no place is taken or `given_up` is true.
  void AwaitEnd(const std::function<bool()>& given_up);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t issued_ = 0;
  std::set<uint64_t> places_;
  bool running_ = false;
};

// HOSTGPU_NCCL_SERIAL: one operation of any communicator of a device runs at a time; the first to
// begin holds the device until it is done. Returns false if `given_up` became true first.
bool SeizeDevice(int device, const std::function<bool()>& given_up);
void ReleaseDevice(int device);

}  // namespace hostgpu::nccl
