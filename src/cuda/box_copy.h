// BoxCopy copies a box of elements between two strided tensors. Fill sets every byte of a box.
// BoxCopy and Fill use only functions of the driver, and launch no CUDA kernel of ucudnn. Enqueuing
// a BoxCopy allocates nothing. Immutable and thread-safe.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "cuda/driver.h"

namespace ucudnn::cuda {

using BoxExtents = std::array<int64_t, kMaxSpatial + 2>;  // in elements, order n, c, d, h, w

// Returns the strides, in elements, of a packed tensor of these extents.
Strides PackedStrides(Layout layout, const BoxExtents& extents);
int64_t Elements(const BoxExtents& extents);

// One axis of a copy: its extent in elements, and its strides in the source and in the destination,
// in bytes.
struct CopyAxis {
  int64_t extent = 1;
  int64_t from = 0;
  int64_t to = 0;
};

class BoxCopy {
 public:
  BoxCopy() = default;  // copies nothing
  // `from` and `to` are strides, counted in elements of `element_bytes` bytes. Within each tensor
  // no two elements share an address.
  BoxCopy(const BoxExtents& extents, const Strides& from, const Strides& to, size_t element_bytes);

  // Enqueues the copies on `stream`. `from` and `to` are the addresses of the box's first element
  // in both tensors. An error contains the driver's name of the error.
  Status Enqueue(const Driver& driver, CUdeviceptr from, CUdeviceptr to, CUstream stream) const;
  // Returns the number of driver copies that one call of Enqueue enqueues.
  int64_t copies() const { return copies_; }

 private:
  bool CanStack(const CopyAxis& rows, const CopyAxis& slices) const;
  Status EnqueueSlab(const Driver& driver, CUdeviceptr from, CUdeviceptr to, CUstream stream) const;

  int64_t run_bytes_ = 0;   // bytes of a run that is contiguous in both tensors; 0: copies nothing
  CopyAxis rows_, slices_;  // the axes that one driver copy covers
  std::vector<CopyAxis> outer_;
  int64_t copies_ = 0;
};

// A box of elements in device memory. `first` is the address of its first element.
struct DeviceBox {
  BoxExtents extents;
  Strides strides;
  size_t element_bytes = 0;
  CUdeviceptr first = 0;
};

// 0xFF in every byte is a NaN in every floating-point type.
inline constexpr unsigned char kNanByte = 0xFF;
// Enqueues on `stream` a fill that sets every byte of the box's elements to `byte` and leaves the
// bytes between the elements as they are. May allocate host memory.
Status Fill(const Driver& driver, const DeviceBox& box, unsigned char byte, CUstream stream);

}  // namespace ucudnn::cuda
