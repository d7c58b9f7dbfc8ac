// Device memory that is filled with integers, which depend only on the seed.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "check_calls.h"

// The numbers are small integers, so every exact result is an integer. Direct algorithms compute
// exactly, and rounding errors of Winograd and FFT are far below one half. So results of all
// algorithms are equal after rounding to integers.
class DeviceTensor {
 public:
  DeviceTensor(size_t count, uint32_t seed) : host_(count) {
    for (float& value : host_) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int>(seed >> 24) % 5 - 2);
    }
    CHECK_CUDA(cudaMalloc(&device_, count * sizeof(float)));
    CHECK_CUDA(cudaMemcpy(device_, host_.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  }
  ~DeviceTensor() { cudaFree(device_); }
  DeviceTensor(const DeviceTensor&) = delete;

  float* get() const { return device_; }

  unsigned long long Checksum() {
    CHECK_CUDA(
        cudaMemcpy(host_.data(), device_, host_.size() * sizeof(float), cudaMemcpyDeviceToHost));
    uint64_t sum = 1469598103934665603u;
    for (const float value : host_) {
      sum = (sum ^ static_cast<uint64_t>(std::llround(value))) * 1099511628211u;
    }
    return sum;
  }

 private:
  std::vector<float> host_;
  float* device_ = nullptr;
};
