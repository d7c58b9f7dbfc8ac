#include "cuda/resources.h"

#include <string>

#include "base/byte_size.h"

namespace ucudnn::cuda {

Status DriverStatus(const Driver& driver, CUresult result, const char* action) {
  if (result == CUDA_SUCCESS) return Status::Ok();
  const char* name = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    name = "unknown CUDA error";
  }
  return Status::Error(std::string(action) + ": " + name);
}

ContextScope::ContextScope(const Driver& driver, CUcontext context) : driver_(driver) {
  if (context == nullptr) return;
  CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context) return;
  pushed_ = driver.cuCtxPushCurrent(context) == CUDA_SUCCESS;
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (pushed_) driver_.cuCtxPopCurrent(&popped);
}

RelaxedCaptureScope::RelaxedCaptureScope(const Driver& driver) : driver_(driver) {
  driver_.cuThreadExchangeStreamCaptureMode(&mode_);
}

RelaxedCaptureScope::~RelaxedCaptureScope() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }

DeviceBuffer::~DeviceBuffer() {
  if (address_ != 0) driver_.cuMemFree(address_);
}

Status DeviceBuffer::Reserve(size_t bytes) {
  if (bytes <= size_) return Status::Ok();
  if (address_ != 0) driver_.cuMemFree(address_);
  address_ = 0;
  size_ = 0;
  const CUresult result = driver_.cuMemAlloc(&address_, bytes);
  if (result != CUDA_SUCCESS) {
    address_ = 0;
    return DriverStatus(driver_, result, ("allocating " + FormatByteSize(bytes)).c_str());
  }
  size_ = bytes;
  return Status::Ok();
}

Stream::~Stream() {
  if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
}

Status Stream::Create() {
  return DriverStatus(driver_, driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING),
                      "creating a stream");
}

Status Stream::Synchronize() {
  return DriverStatus(driver_, driver_.cuStreamSynchronize(stream_), "waiting for a stream");
}

Event::~Event() {
  if (event_ != nullptr) driver_.cuEventDestroy(event_);
}

Status Event::Create() {
  return DriverStatus(driver_, driver_.cuEventCreate(&event_, CU_EVENT_DEFAULT),
                      "creating an event");
}

Status Event::Record(CUstream stream) {
  return DriverStatus(driver_, driver_.cuEventRecord(event_, stream), "recording an event");
}

Result<double> Event::MillisecondsSince(const Event& begin) {
  UCUDNN_RETURN_IF_ERROR(
      DriverStatus(driver_, driver_.cuEventSynchronize(event_), "waiting for an event"));
  float milliseconds = 0;
  UCUDNN_RETURN_IF_ERROR(
      DriverStatus(driver_, driver_.cuEventElapsedTime(&milliseconds, begin.event_, event_),
                   "reading an event"));
  return static_cast<double>(milliseconds);
}

bool IsCapturing(const Driver& driver, CUstream stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // An invalidated capture, too, is no place to do anything new. A stream that cannot be asked (the
  // application destroyed it) captures nothing.
  return driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace ucudnn::cuda
