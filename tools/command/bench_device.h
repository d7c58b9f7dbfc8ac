// The device `ucudnn bench` measures on, and the genuine cuDNN for it. Not thread-safe: makes the
// device's context current on the calling thread.
#pragma once

#include "base/options.h"
#include "base/status.h"
#include "cudnn/functions.h"
#include "tuning/measure.h"

namespace ucudnn::command {

class BenchDevice {
 public:
  BenchDevice() = default;
  BenchDevice(const BenchDevice&) = delete;
  BenchDevice& operator=(const BenchDevice&) = delete;
  ~BenchDevice();

  // An error when there is no driver, no device or no genuine cuDNN.
  Status Open(const Options& options);

  const tuning::Device& device() const { return device_; }
  cudnnHandle_t handle() const { return handle_; }  // keeps the context alive

 private:
  cudnn::Functions functions_;
  cudnnHandle_t handle_ = nullptr;
  tuning::Device device_;
};

}  // namespace ucudnn::command
