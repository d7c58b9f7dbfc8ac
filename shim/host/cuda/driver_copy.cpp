// Copies and fills. What is pageable keeps the caller waiting, what is page-locked or on the device
// does not, as the CUDA documentation has it ("API synchronization behavior").
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "shim/host/cuda/address.h"
#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"

using hostgpu::CallOnStream;
using hostgpu::Context;
using hostgpu::Locate;
using hostgpu::Memory;
using hostgpu::Place;
using hostgpu::Stream;
using hostgpu::Ticket;
using hostgpu::Work;

namespace {

// Pageable sources up to this size are staged: the call returns while the copy is still to come.
constexpr size_t kStagedBytes = 64 << 10;

enum class Wait { kNo, kYes };
enum class Operand { kAny, kOnDevice };  // what the function's name says about a pointer

struct Rows {
  size_t width, height;  // bytes, rows
  size_t from_pitch = 0, to_pitch = 0;
  size_t FromBytes() const { return from_pitch * (height - 1) + width; }
  size_t ToBytes() const { return to_pitch * (height - 1) + width; }
};

void CopyRows(char* to, const char* from, const Rows& rows) {
  for (size_t row = 0; row < rows.height; ++row) {
    std::memmove(to + row * rows.to_pitch, from + row * rows.from_pitch, rows.width);
  }
}

bool IsCapturing(const Stream& stream) {
  hostgpu::CaptureInfo info;
  return GetCaptureInfo(stream, &info) == CUDA_SUCCESS &&
         info.status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult Copy(Stream& stream, uintptr_t to, Operand to_operand, uintptr_t from,
              Operand from_operand, const Rows& rows, Wait wait) {
  if (rows.width == 0 || rows.height == 0) return CUDA_SUCCESS;
  if (rows.height > 1 && (rows.from_pitch < rows.width || rows.to_pitch < rows.width)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::optional<Place> target = Locate(to, rows.ToBytes());
  const std::optional<Place> source = Locate(from, rows.FromBytes());
  if (!target || !source || !to || !from) return CUDA_ERROR_INVALID_VALUE;
  const bool target_pageable = target->memory == Memory::kPageable;
  const bool source_pageable = source->memory == Memory::kPageable;
  if ((to_operand == Operand::kOnDevice && target_pageable) ||
      (from_operand == Operand::kOnDevice && source_pageable)) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  if (wait == Wait::kYes) {
    // Waiting is not recorded: refused while it would be for a capture, and potentially unsafe.
    CUresult refused = RefuseIfCapturing(stream);
    if (refused == CUDA_SUCCESS) refused = hostgpu::RefuseUnsafeCall();
    if (refused != CUDA_SUCCESS) return refused;
  }
  char* write = static_cast<char*>(target->host);
  const char* read = static_cast<const char*>(source->host);
  const bool both_on_device =
      target->memory == Memory::kDevice && source->memory == Memory::kDevice;
  if (both_on_device) wait = Wait::kNo;
  Work work{CU_GRAPH_NODE_TYPE_MEMCPY, [=] { CopyRows(write, read, rows); }, {to, from}};
  // A copy that is recorded reads its source whenever it is replayed.
  if (wait == Wait::kNo && source_pageable && rows.FromBytes() <= kStagedBytes &&
      !IsCapturing(stream)) {
    auto staged = std::make_shared<std::vector<char>>(read, read + rows.FromBytes());
    work.run = [=] { CopyRows(write, staged->data(), rows); };
    return Submit(stream, std::move(work));
  }
  Ticket ticket;
  const CUresult result = Submit(stream, std::move(work), &ticket);
  if (wait == Wait::kYes || source_pageable || target_pageable) ticket.Wait();
  return result;
}

CUresult Copy(CUstream handle, uintptr_t to, Operand to_operand, uintptr_t from,
              Operand from_operand, size_t bytes, Wait wait) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    return Copy(stream, to, to_operand, from, from_operand, Rows{bytes, 1}, wait);
  });
}

uintptr_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

template <class Value>
CUresult Fill(CUstream handle, CUdeviceptr to, Value value, size_t width, size_t height,
              size_t pitch) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    if (height > 1 && pitch < width * sizeof(Value)) return CUDA_ERROR_INVALID_VALUE;
    const std::optional<Place> target = Locate(to, pitch * (height - 1) + width * sizeof(Value));
    if (!target || !target->context || to % sizeof(Value) != 0) return CUDA_ERROR_INVALID_VALUE;
    char* write = static_cast<char*>(target->host);
    const auto run = [=] {
      for (size_t row = 0; row < height; ++row) {
        Value* first = reinterpret_cast<Value*>(write + row * pitch);
        std::fill(first, first + width, value);
      }
    };
    return Submit(stream, {CU_GRAPH_NODE_TYPE_MEMSET, run, {to}});
  });
}

// An operand of cuMemcpy2D: where its first byte is. Empty for arrays, which the stand-in has none
// of.
std::optional<uintptr_t> Start(CUmemorytype type, const void* host, CUdeviceptr device, size_t x,
                               size_t y, size_t pitch) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return Address(host) + y * pitch + x;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      return device + y * pitch + x;
    default:
      return std::nullopt;
  }
}

CUresult Copy2D(const CUDA_MEMCPY2D* copy, CUstream handle, Wait wait) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (!copy) return CUDA_ERROR_INVALID_VALUE;
    const auto from = Start(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes,
                            copy->srcY, copy->srcPitch);
    const auto to = Start(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes,
                          copy->dstY, copy->dstPitch);
    if (!from || !to) return CUDA_ERROR_NOT_SUPPORTED;
    const auto operand = [](CUmemorytype type) {
      return type == CU_MEMORYTYPE_DEVICE ? Operand::kOnDevice : Operand::kAny;
    };
    return Copy(stream, *to, operand(copy->dstMemoryType), *from, operand(copy->srcMemoryType),
                Rows{copy->WidthInBytes, copy->Height, copy->srcPitch, copy->dstPitch}, wait);
  });
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(nullptr, to, Operand::kAny, from, Operand::kAny, bytes, Wait::kYes);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(stream, to, Operand::kAny, from, Operand::kAny, bytes, Wait::kNo);
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return Copy(nullptr, to, Operand::kOnDevice, Address(from), Operand::kAny, bytes, Wait::kYes);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return Copy(stream, to, Operand::kOnDevice, Address(from), Operand::kAny, bytes, Wait::kNo);
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return Copy(nullptr, Address(to), Operand::kAny, from, Operand::kOnDevice, bytes, Wait::kYes);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(stream, Address(to), Operand::kAny, from, Operand::kOnDevice, bytes, Wait::kNo);
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(nullptr, to, Operand::kOnDevice, from, Operand::kOnDevice, bytes, Wait::kYes);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(stream, to, Operand::kOnDevice, from, Operand::kOnDevice, bytes, Wait::kNo);
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return Copy(nullptr, to, Operand::kOnDevice, from, Operand::kOnDevice, bytes, Wait::kYes);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                           CUstream stream) {
  return Copy(stream, to, Operand::kOnDevice, from, Operand::kOnDevice, bytes, Wait::kNo);
}
CUresult cuMemcpy2D(const CUDA_MEMCPY2D* copy) { return Copy2D(copy, nullptr, Wait::kYes); }
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* copy) {
  return Copy2D(copy, nullptr, Wait::kYes);
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Copy2D(copy, stream, Wait::kNo);
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return Fill(nullptr, to, value, count, 1, 0);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return Fill(stream, to, value, count, 1, 0);
}
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  return Fill(nullptr, to, value, count, 1, 0);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return Fill(stream, to, value, count, 1, 0);
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  return Fill(nullptr, to, value, count, 1, 0);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return Fill(stream, to, value, count, 1, 0);
}
CUresult cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                      size_t height) {
  return Fill(nullptr, to, value, width, height, pitch);
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return Fill(stream, to, value, width, height, pitch);
}
