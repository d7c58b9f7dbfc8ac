// A cuDNN handle, a stream and device memory of ucudnn's own, for measuring engines and verifying
// plans. Thread-compatible. Its context must be current from construction to destruction.
#pragma once

#include "base/status.h"
#include "cuda/resources.h"
#include "cudnn/functions.h"

namespace ucudnn::tuning {

class TuningHandle {
 public:
  TuningHandle(const cuda::Driver& driver, const cudnn::Functions& functions)
      : driver_(driver), functions_(functions), stream_(driver), memory_(driver) {}
  ~TuningHandle();
  TuningHandle(const TuningHandle&) = delete;
  TuningHandle& operator=(const TuningHandle&) = delete;

  Status Create();
  cudnnHandle_t get() const { return handle_; }
  cuda::Stream& stream() { return stream_; }
  const cuda::MemoryPool& memory() const { return memory_; }

 private:
  const cuda::Driver& driver_;
  const cudnn::Functions& functions_;
  cuda::Stream stream_;
  cuda::MemoryPool memory_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace ucudnn::tuning
