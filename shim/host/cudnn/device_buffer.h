// Zeroed device memory that belongs to the library; the destructor frees it.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace hostgpu {

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() {
    if (address_ != 0) cuMemFree(address_);
  }

  // Returns false if the device has not enough free memory, or if clearing the buffer fails.
  bool Allocate(size_t bytes) {
    CUdeviceptr address = 0;
    if (cuMemAlloc(&address, bytes) != CUDA_SUCCESS) return false;
    if (cuMemsetD8(address, 0, bytes) != CUDA_SUCCESS) {
      cuMemFree(address);
      return false;
    }
    address_ = address;
    bytes_ = bytes;
    return true;
  }

  void* address() const { return reinterpret_cast<void*>(address_); }
  size_t bytes() const { return bytes_; }

 private:
  CUdeviceptr address_ = 0;
  size_t bytes_ = 0;
};

}  // namespace hostgpu
