// Runtime functions that allocate, copy and fill memory, implemented by the driver's functions.
#include "shim/host/cudart/runtime.h"

using namespace hostgpu::runtime;

namespace {

CUdeviceptr* Out(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

// Sets the memory types of both operands for a kind of copy; returns false for an invalid kind.
bool Types(cudaMemcpyKind kind, CUmemorytype* to, CUmemorytype* from) {
  const auto type = [](bool device) { return device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST; };
  switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyHostToDevice:
    case cudaMemcpyDeviceToHost:
    case cudaMemcpyDeviceToDevice:
      *to = type(kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice);
      *from = type(kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
      return true;
    case cudaMemcpyDefault:
      *to = *from = CU_MEMORYTYPE_UNIFIED;
      return true;
  }
  return false;
}

CUDA_MEMCPY2D Copy2D(void* to, size_t to_pitch, CUmemorytype to_type, const void* from,
                     size_t from_pitch, CUmemorytype from_type, size_t width, size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = from_type;
  copy.srcHost = from;
  copy.srcDevice = Device(from);
  copy.srcPitch = from_pitch;
  copy.dstMemoryType = to_type;
  copy.dstHost = to;
  copy.dstDevice = Device(to);
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

}  // namespace

// This is the only runtime function that returns no status. It is implemented because a stub could
// not report an error.
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                            cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return Bound(cuMemGetInfo, free_bytes, total_bytes);
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return Bound([&] {
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    *pointer = nullptr;
    return bytes == 0 ? CUDA_SUCCESS : cuMemAlloc(Out(pointer), bytes);
  });
}

cudaError_t cudaFree(void* pointer) { return Bound(cuMemFree, Device(pointer)); }

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return Bound([&] {
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    *pointer = nullptr;
    return bytes == 0 ? CUDA_SUCCESS : cuMemHostAlloc(pointer, bytes, flags);
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* pointer) {
  return Bound([&] { return pointer ? cuMemFreeHost(pointer) : CUDA_SUCCESS; });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return Bound(cuMemHostRegister, pointer, bytes, flags);
}

cudaError_t cudaHostUnregister(void* pointer) { return Bound(cuMemHostUnregister, pointer); }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return Bound([&] {
    if (!attributes) return CUDA_ERROR_INVALID_VALUE;
    unsigned type = 0;
    int device = 0;
    CUdeviceptr device_pointer = 0;
    void* host_pointer = nullptr;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* values[] = {&type, &device, &device_pointer, &host_pointer};
    const CUresult result = cuPointerGetAttributes(4, names, values, Device(pointer));
    if (result != CUDA_SUCCESS) return result;
    *attributes = {};
    attributes->type = type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                       : type == 0                ? cudaMemoryTypeUnregistered
                                                  : cudaMemoryTypeDevice;
    attributes->device = device;
    attributes->devicePointer = reinterpret_cast<void*>(device_pointer);
    attributes->hostPointer = type == 0 ? const_cast<void*>(pointer) : host_pointer;
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return Bound(cuMemcpyHtoD, Device(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return Bound(cuMemcpyDtoH, to, Device(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return Bound(cuMemcpyDtoD, Device(to), Device(from), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return Bound(cuMemcpy, Device(to), Device(from), bytes);
  }
  return Recorded(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return Bound(cuMemcpyHtoDAsync, Device(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return Bound(cuMemcpyDtoHAsync, to, Device(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return Bound(cuMemcpyDtoDAsync, Device(to), Device(from), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return Bound(cuMemcpyAsync, Device(to), Device(from), bytes, stream);
  }
  return Recorded(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  CUmemorytype to_type, from_type;
  if (!Types(kind, &to_type, &from_type)) return Recorded(cudaErrorInvalidMemcpyDirection);
  if (width > to_pitch || width > from_pitch) return Recorded(cudaErrorInvalidPitchValue);
  const CUDA_MEMCPY2D copy =
      Copy2D(to, to_pitch, to_type, from, from_pitch, from_type, width, height);
  return Bound(cuMemcpy2DAsync, &copy, stream);
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return Bound(cuMemsetD8, Device(to), static_cast<unsigned char>(value), bytes);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return Bound(cuMemsetD8Async, Device(to), static_cast<unsigned char>(value), bytes, stream);
}
