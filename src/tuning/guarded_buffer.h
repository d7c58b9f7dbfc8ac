// Device memory between two zones that hold a pattern, which shows writes before its beginning and
// beyond its end. Thread-compatible. Its context must be current from construction to destruction.
#pragma once

#include <array>
#include <cstddef>

#include "base/status.h"
#include "cuda/resources.h"

namespace ucudnn::tuning {

class GuardedBuffer {
 public:
  // Bytes of each zone: a multiple of every alignment that a library may expect of device memory.
  static constexpr size_t kGuardBytes = 4096;

  GuardedBuffer(const cuda::MemoryPool& pool, const cuda::Driver& driver)
      : driver_(driver), memory_(pool, driver) {}

  Status Allocate(size_t bytes);
  // Returns how much device memory a buffer of `bytes` takes.
  static size_t Footprint(size_t bytes) { return bytes + 2 * kGuardBytes; }

  // Writes the pattern to both zones; the second one begins behind the first `bytes` of the buffer.
  Status Guard(size_t bytes, CUstream stream);
  Status Fill(unsigned char value, CUstream stream);

  // Returns null if both zones are as Guard has left them; otherwise returns which one is not, as
  // "before the beginning of". Waits for the stream.
  Result<const char*> Damage(CUstream stream);

  CUdeviceptr address() const { return memory_.address() + kGuardBytes; }
  void* data() const { return reinterpret_cast<void*>(address()); }
  size_t size() const { return bytes_; }

 private:
  const cuda::Driver& driver_;
  cuda::DeviceBuffer memory_;
  size_t bytes_ = 0;
  size_t guarded_ = 0;
  std::array<std::array<unsigned char, kGuardBytes>, 2> read_;
};

}  // namespace ucudnn::tuning
