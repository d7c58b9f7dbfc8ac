#include "tuning/guarded_buffer.h"

#include <algorithm>
#include <cassert>

namespace ucudnn::tuning {
namespace {

constexpr unsigned char kGuardByte = 0xc3;

}  // namespace

Status GuardedBuffer::Allocate(size_t bytes) {
  UCUDNN_RETURN_IF_ERROR(memory_.Reserve(Footprint(bytes)));
  bytes_ = bytes;
  return Status::Ok();
}

Status GuardedBuffer::Guard(size_t bytes, CUstream stream) {
  assert(bytes <= bytes_);
  guarded_ = bytes;
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      driver_, driver_.cuMemsetD8Async(memory_.address(), kGuardByte, kGuardBytes, stream),
      "writing a guard"));
  return cuda::DriverStatus(
      driver_, driver_.cuMemsetD8Async(address() + bytes, kGuardByte, kGuardBytes, stream),
      "writing a guard");
}

Status GuardedBuffer::Fill(unsigned char value, CUstream stream) {
  if (bytes_ == 0) return Status::Ok();
  return cuda::DriverStatus(driver_, driver_.cuMemsetD8Async(address(), value, bytes_, stream),
                            "filling a buffer");
}

Result<const char*> GuardedBuffer::Damage(CUstream stream) {
  const CUdeviceptr zones[] = {memory_.address(), address() + guarded_};
  for (int i = 0; i < 2; ++i) {
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver_, driver_.cuMemcpyDtoHAsync(read_[i].data(), zones[i], kGuardBytes, stream),
        "reading a guard"));
  }
  UCUDNN_RETURN_IF_ERROR(
      cuda::DriverStatus(driver_, driver_.cuStreamSynchronize(stream), "waiting for an engine"));
  static constexpr const char* kPlaces[] = {"before the beginning of", "behind the end of"};
  for (int i = 0; i < 2; ++i) {
    const bool intact = std::all_of(read_[i].begin(), read_[i].end(),
                                    [](unsigned char byte) { return byte == kGuardByte; });
    if (!intact) return kPlaces[i];
  }
  return nullptr;
}

}  // namespace ucudnn::tuning
