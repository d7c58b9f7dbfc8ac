#include "tuning/tuning_handle.h"

#include "tuning/spare_handles.h"

namespace ucudnn::tuning {

TuningHandle::~TuningHandle() {
  if (handle_ != nullptr) KeepHandle(driver_, functions_, handle_);
}

Status TuningHandle::Create() {
  UCUDNN_RETURN_IF_ERROR(stream_.Create());
  UCUDNN_RETURN_IF_ERROR(memory_.Create(stream_.get()));
  UCUDNN_ASSIGN_OR_RETURN(handle_, TakeHandle(driver_, functions_));
  return cudnn::CudnnStatus(functions_, functions_.cudnnSetStream(handle_, stream_.get()),
                            "setting the stream for measuring");
}

void TuningHandle::Finish() {
  if (stream_.get() != nullptr) (void)stream_.Synchronize();
}

cudnn::ConvolutionCall TuningHandle::CallOf(const ConvolutionProblem& problem) const {
  cudnn::ConvolutionCall call;
  call.operation = problem.operation;
  call.handle = handle_;
  call.alpha = cudnn::OneOf(problem.type);
  call.beta = cudnn::ZeroOf(problem.type);
  return call;
}

Status TuningHandle::MakeOperand(cuda::DeviceBuffer& buffer, size_t bytes) {
  constexpr unsigned char kOperandByte = 0x3c;
  UCUDNN_RETURN_IF_ERROR(buffer.Reserve(bytes));
  if (bytes == 0) return Status::Ok();
  return cuda::DriverStatus(
      driver_, driver_.cuMemsetD8Async(buffer.address(), kOperandByte, bytes, stream_.get()),
      "filling an operand");
}

}  // namespace ucudnn::tuning
