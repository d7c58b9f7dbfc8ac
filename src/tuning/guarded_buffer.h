// Device memory between two guard zones. The zones hold a pattern, so that writes before the
// beginning and beyond the end of the memory are noticed. Thread-compatible. The context must be
// current from construction to destruction.
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
  // Returns the bytes of device memory that a buffer of `bytes` bytes takes with its zones.
  static size_t Footprint(size_t bytes) { return bytes + 2 * kGuardBytes; }

  // Writes the pattern to both zones; the second one begins after the first `bytes` bytes of the
  // buffer.
  Status Guard(size_t bytes, CUstream stream);
  Status Fill(unsigned char value, CUstream stream);

  // Returns null if both zones still hold the pattern. Otherwise returns which zone was written:
  // "before the beginning of" or "behind the end of". Waits for the stream.
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
