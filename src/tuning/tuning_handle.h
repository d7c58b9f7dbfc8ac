// A cuDNN handle, a stream and device memory of ucudnn's own, for measuring engines and verifying
// plans. Thread-compatible. The same context must be current from construction to destruction.
#pragma once

#include "base/status.h"
#include "convolution/problem.h"
#include "cuda/resources.h"
#include "cudnn/convolution_call.h"
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
  // Waits for all work on the stream, if Create made a stream. Owners of buffers call Finish first
  // in their destructors, because memory must not be freed while work on the stream may still use
  // it.
  void Finish();

  // Returns a call of `problem` on this handle with alpha = 1 and beta = 0, without operands.
  cudnn::ConvolutionCall CallOf(const ConvolutionProblem& problem) const;
  // Allocates an operand, and fills it with a byte that, repeated, is a small positive normal
  // number in every type.
  Status MakeOperand(cuda::DeviceBuffer& buffer, size_t bytes);

 private:
  const cuda::Driver& driver_;
  const cudnn::Functions& functions_;
  cuda::Stream stream_;
  cuda::MemoryPool memory_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace ucudnn::tuning
