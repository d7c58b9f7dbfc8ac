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

MemoryPool::~MemoryPool() {
  if (pool_ == nullptr) return;
  // Memory whose release is enqueued on the stream must be back in the pool before the pool is
  // destroyed.
  driver_.cuStreamSynchronize(stream_);
  driver_.cuMemPoolDestroy(pool_);
}

Status MemoryPool::Create(CUstream stream) {
  stream_ = stream;
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUdevice device = 0;
  UCUDNN_RETURN_IF_ERROR(
      DriverStatus(driver_, driver_.cuCtxGetDevice(&device), "asking for the device"));
  properties.location.id = device;
  const CUresult result = driver_.cuMemPoolCreate(&pool_, &properties);
  if (result == CUDA_SUCCESS) return Status::Ok();
  pool_ = nullptr;
  if (result == CUDA_ERROR_NOT_SUPPORTED) return Status::Ok();
  return DriverStatus(driver_, result, "creating a memory pool");
}

CUresult MemoryPool::Allocate(CUdeviceptr* address, size_t bytes) const {
  if (pool_ == nullptr) return driver_.cuMemAlloc(address, bytes);
  return driver_.cuMemAllocFromPoolAsync(address, bytes, pool_, stream_);
}

void MemoryPool::Free(CUdeviceptr address) const {
  if (pool_ == nullptr) {
    driver_.cuMemFree(address);
  } else {
    driver_.cuMemFreeAsync(address, stream_);
  }
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ != 0) pool_.Free(address_);
}

void MemoryPool::GiveBack() const {
  if (pool_ != nullptr) driver_.cuStreamSynchronize(stream_);
}

Status DeviceBuffer::Reserve(size_t bytes) {
  if (bytes <= size_) return Status::Ok();
  if (address_ != 0) {
    pool_.Free(address_);
    pool_.GiveBack();
  }
  address_ = 0;
  size_ = 0;
  const CUresult result = pool_.Allocate(&address_, bytes);
  if (result != CUDA_SUCCESS) {
    address_ = 0;
    return DriverStatus(driver_, result, ("allocating " + FormatByteSize(bytes)).c_str());
  }
  size_ = bytes;
  return Status::Ok();
}

Status DeviceBuffer::Grow(size_t bytes) {
  const size_t before = size_;
  Status grown = Reserve(bytes);
  if (!grown.ok() && before > 0) (void)Reserve(before);
  return grown;
}

Stream::~Stream() {
  if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
}

Status Stream::Create() {
  return DriverStatus(driver_, driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING),
                      "creating a stream");
}

Status Stream::CreateUrgent() {
  int least = 0, greatest = 0;
  UCUDNN_RETURN_IF_ERROR(DriverStatus(driver_,
                                      driver_.cuCtxGetStreamPriorityRange(&least, &greatest),
                                      "asking for the priorities of streams"));
  return DriverStatus(
      driver_, driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, greatest),
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

Status Event::CreateUntimed() {
  return DriverStatus(driver_, driver_.cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING),
                      "creating an event");
}

Status Event::HoldBack(CUstream stream) const {
  return DriverStatus(driver_, driver_.cuStreamWaitEvent(stream, event_, 0),
                      "making a stream wait for an event");
}

bool Event::Pending() const { return driver_.cuEventQuery(event_) == CUDA_ERROR_NOT_READY; }

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
  // Returns true for an invalidated capture, too, because no work may begin in it. If the
  // application has destroyed the stream, the driver returns an error; the result is then false.
  return driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace ucudnn::cuda
