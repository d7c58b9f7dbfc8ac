// Driver functions that copy and fill memory. Whether a call waits for its copy is as in the CUDA
// documentation ("API synchronization behavior"). A call whose name does not end in Async waits,
// unless both operands are device memory. A call whose name ends in Async waits only if an operand
// is pageable. No call waits for a fill.
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "shim/host/cuda/address.h"
#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"

using namespace hostgpu;

namespace {

// Pageable sources up to this size are copied to a buffer first, so that the call returns before
// the copy is made.
constexpr size_t kStagedBytes = 64 << 10;

enum class Wait { kNo, kYes };
enum class Operand { kAny, kOnDevice };  // kOnDevice: D in the call's name, as in cuMemcpyDtoH

// The layout of an operand: `pitch` is the number of bytes from one row to the next, `height` the
// number of rows from one plane to the next.
struct Strides {
  size_t pitch = 0, height = 0;
};

struct Rows {
  size_t width, height;  // bytes of a row; rows of a plane
  Strides from{}, to{};
  size_t depth = 1;  // number of planes

  bool Empty() const { return width == 0 || height == 0 || depth == 0; }
  // Returns the number of bytes from the first to the last byte of the operand, both included; none
  // if that number does not fit in size_t.
  std::optional<size_t> Extent(const Strides& strides) const {
    size_t rows = 0, bytes = 0;
    if (__builtin_mul_overflow(strides.height, depth - 1, &rows) ||
        __builtin_add_overflow(rows, height - 1, &rows) ||
        __builtin_mul_overflow(rows, strides.pitch, &bytes) ||
        __builtin_add_overflow(bytes, width, &bytes)) {
      return std::nullopt;
    }
    return bytes;
  }
  // Returns true if no two rows and no two planes overlap.
  bool Disjoint(const Strides& strides) const {
    if ((height > 1 || depth > 1) && strides.pitch < width) return false;
    return depth == 1 || strides.height >= height;
  }
};

void CopyRows(char* to, const char* from, const Rows& rows) {
  for (size_t plane = 0; plane < rows.depth; ++plane) {
    char* write = to + plane * rows.to.height * rows.to.pitch;
    const char* read = from + plane * rows.from.height * rows.from.pitch;
    for (size_t row = 0; row < rows.height; ++row) {
      std::memmove(write + row * rows.to.pitch, read + row * rows.from.pitch, rows.width);
    }
  }
}

bool IsCapturing(const Stream& stream) {
  CaptureInfo info;
  return GetCaptureInfo(stream, &info) == CUDA_SUCCESS &&
         info.status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult Copy(Stream& stream, uintptr_t to, Operand to_operand, uintptr_t from,
              Operand from_operand, const Rows& rows, Wait wait) {
  if (rows.Empty()) return CUDA_SUCCESS;
  if (!rows.Disjoint(rows.from) || !rows.Disjoint(rows.to)) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<size_t> to_bytes = rows.Extent(rows.to);
  const std::optional<size_t> from_bytes = rows.Extent(rows.from);
  if (!to_bytes || !from_bytes) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<Place> target = Locate(to, *to_bytes);
  const std::optional<Place> source = Locate(from, *from_bytes);
  if (!target || !source || !to || !from) return CUDA_ERROR_INVALID_VALUE;
  const bool target_pageable = target->memory == Memory::kPageable;
  const bool source_pageable = source->memory == Memory::kPageable;
  if ((to_operand == Operand::kOnDevice && target_pageable) ||
      (from_operand == Operand::kOnDevice && source_pageable)) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  if (wait == Wait::kYes) {
    // A capturing stream refuses a copy that waits, because waiting cannot be recorded. For other
    // streams such a copy is "potentially unsafe".
    CUresult refused = RefuseIfCapturing(stream);
    if (refused == CUDA_SUCCESS) refused = RefuseUnsafeCall();
    if (refused != CUDA_SUCCESS) return refused;
  }
  char* write = static_cast<char*>(target->host);
  const char* read = static_cast<const char*>(source->host);
  const bool both_on_device =
      target->memory == Memory::kDevice && source->memory == Memory::kDevice;
  if (both_on_device) wait = Wait::kNo;
  Work work{CU_GRAPH_NODE_TYPE_MEMCPY, [=] { CopyRows(write, read, rows); }, {to, from}};
  // While the stream captures, the source is not staged, because each launch of the graph must read
  // the source anew.
  if (wait == Wait::kNo && source_pageable && *from_bytes <= kStagedBytes && !IsCapturing(stream)) {
    auto staged = std::make_shared<std::vector<char>>(read, read + *from_bytes);
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

CUresult Fill(CUstream handle, CUdeviceptr to, unsigned char value, size_t width, size_t height,
              size_t pitch) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    if (height > 1 && pitch < width) return CUDA_ERROR_INVALID_VALUE;
    const std::optional<Place> target = Locate(to, pitch * (height - 1) + width);
    if (!target || !target->context) return CUDA_ERROR_INVALID_VALUE;
    char* write = static_cast<char*>(target->host);
    const auto run = [=] {
      for (size_t row = 0; row < height; ++row) std::memset(write + row * pitch, value, width);
    };
    return Submit(stream, {CU_GRAPH_NODE_TYPE_MEMSET, run, {to}});
  });
}

// Returns the address of the first byte of an operand of cuMemcpy2D or cuMemcpy3D: its pointer plus
// `offset`. Returns none for CUDA arrays, which the stand-in does not have.
std::optional<uintptr_t> Start(CUmemorytype type, const void* host, CUdeviceptr device,
                               size_t offset) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return Address(host) + offset;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      return device + offset;
    default:
      return std::nullopt;
  }
}

Operand OperandOf(CUmemorytype type) {
  return type == CU_MEMORYTYPE_DEVICE ? Operand::kOnDevice : Operand::kAny;
}

// Returns true if an operand's pitch is at least `x_end` and its height at least `y_end`, the ends
// of the copied box, as the documentation demands. Pitch may be 0 if only one row is copied, and
// height if only one plane is copied.
bool HoldsOrigin(const Strides& strides, size_t x_end, size_t y_end) {
  return (strides.pitch == 0 || strides.pitch >= x_end) &&
         (strides.height == 0 || strides.height >= y_end);
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
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                           CUstream stream) {
  return Copy(stream, to, Operand::kOnDevice, from, Operand::kOnDevice, bytes, Wait::kNo);
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream handle) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (!copy) return CUDA_ERROR_INVALID_VALUE;
    const auto from = Start(copy->srcMemoryType, copy->srcHost, copy->srcDevice,
                            copy->srcY * copy->srcPitch + copy->srcXInBytes);
    const auto to = Start(copy->dstMemoryType, copy->dstHost, copy->dstDevice,
                          copy->dstY * copy->dstPitch + copy->dstXInBytes);
    if (!from || !to) return CUDA_ERROR_NOT_SUPPORTED;
    const Rows rows{copy->WidthInBytes, copy->Height, {copy->srcPitch, 0}, {copy->dstPitch, 0}};
    return Copy(stream, *to, OperandOf(copy->dstMemoryType), *from, OperandOf(copy->srcMemoryType),
                rows, Wait::kNo);
  });
}
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* copy, CUstream handle) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (!copy || copy->reserved0 || copy->reserved1) return CUDA_ERROR_INVALID_VALUE;
    if (copy->srcLOD != 0 || copy->dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
    const Strides from{copy->srcPitch, copy->srcHeight}, to{copy->dstPitch, copy->dstHeight};
    if (!HoldsOrigin(from, copy->srcXInBytes + copy->WidthInBytes, copy->srcY + copy->Height) ||
        !HoldsOrigin(to, copy->dstXInBytes + copy->WidthInBytes, copy->dstY + copy->Height)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const auto read =
        Start(copy->srcMemoryType, copy->srcHost, copy->srcDevice,
              (copy->srcZ * from.height + copy->srcY) * from.pitch + copy->srcXInBytes);
    const auto write = Start(copy->dstMemoryType, copy->dstHost, copy->dstDevice,
                             (copy->dstZ * to.height + copy->dstY) * to.pitch + copy->dstXInBytes);
    if (!read || !write) return CUDA_ERROR_NOT_SUPPORTED;
    const Rows rows{copy->WidthInBytes, copy->Height, from, to, copy->Depth};
    return Copy(stream, *write, OperandOf(copy->dstMemoryType), *read,
                OperandOf(copy->srcMemoryType), rows, Wait::kNo);
  });
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return Fill(nullptr, to, value, count, 1, 0);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return Fill(stream, to, value, count, 1, 0);
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return Fill(stream, to, value, width, height, pitch);
}
