// Numbers in device memory, and integers from the environment.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

#include "check_calls.h"

template <class Number>
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const std::vector<Number>& numbers) : count_(numbers.size()) {
    CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), count_ * sizeof(Number)));
    Write(numbers);
  }
  explicit DeviceNumbers(size_t count, Number value = 0)
      : DeviceNumbers(std::vector<Number>(count, value)) {}
  ~DeviceNumbers() { cudaFree(data_); }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;

  size_t count() const { return count_; }
  Number* data() const { return data_; }
  void Write(const std::vector<Number>& numbers) {
    CHECK_CUDA(cudaMemcpy(data_, numbers.data(), count_ * sizeof(Number), cudaMemcpyHostToDevice));
  }
  // Waits for the device, and returns the numbers.
  std::vector<Number> Read() const {
    std::vector<Number> numbers(count_);
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(numbers.data(), data_, count_ * sizeof(Number), cudaMemcpyDeviceToHost));
    return numbers;
  }
  // Returns a weighted sum of the numbers. The weight of a number depends on its position, so most
  // permutations change the sum.
  double WeightedSum() const {
    double sum = 0;
    const std::vector<Number> numbers = Read();
    for (size_t i = 0; i < count_; ++i) sum += numbers[i] * static_cast<double>(1 + i % 13);
    return sum;
  }

 private:
  const size_t count_;
  Number* data_ = nullptr;
};

// Returns the integer in an environment variable such as RANK, or `otherwise` if it is not set.
inline int Variable(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : otherwise;
}
