#include "cuda/box_copy.h"

#include <algorithm>

#include "cuda/resources.h"

namespace ucudnn::cuda {
namespace {

// The largest pitch (bytes from one row to the next) of a driver copy:
// CU_DEVICE_ATTRIBUTE_MAX_PITCH.
constexpr int64_t kMostPitch = (int64_t{1} << 31) - 1;

// The axes of BoxExtents, the innermost first.
constexpr std::array<size_t, 5> kChannelsFirst = {4, 3, 2, 1, 0};
constexpr std::array<size_t, 5> kChannelsLast = {1, 4, 3, 2, 0};

// Divides a box into runs of bytes that are contiguous in both tensors. Sets `run_bytes` to the
// bytes of a run, and returns the axes along which the runs repeat. Joins two axes if they form one
// axis in both tensors.
std::vector<CopyAxis> JoinedAxes(const BoxExtents& extents, const Strides& from, const Strides& to,
                                 int64_t element_bytes, int64_t& run_bytes) {
  std::vector<CopyAxis> axes;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] == 1) continue;
    axes.push_back({extents[axis], from[axis] * element_bytes, to[axis] * element_bytes});
  }
  std::sort(axes.begin(), axes.end(), [](const CopyAxis& a, const CopyAxis& b) {
    return a.from != b.from ? a.from < b.from : a.to < b.to;
  });
  run_bytes = element_bytes;
  while (!axes.empty() && axes.front().from == run_bytes && axes.front().to == run_bytes) {
    run_bytes *= axes.front().extent;
    axes.erase(axes.begin());
  }
  for (size_t i = 0; i + 1 < axes.size();) {
    const CopyAxis& inner = axes[i];
    const CopyAxis& outer = axes[i + 1];
    if (outer.from == inner.from * inner.extent && outer.to == inner.to * inner.extent) {
      axes[i].extent *= outer.extent;
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    } else {
      ++i;
    }
  }
  return axes;
}

}  // namespace

Strides PackedStrides(Layout layout, const BoxExtents& extents) {
  Strides strides = {};
  int64_t step = 1;
  for (const size_t axis : layout == Layout::kNhwc ? kChannelsLast : kChannelsFirst) {
    strides[axis] = step;
    step *= extents[axis];
  }
  return strides;
}

int64_t Elements(const BoxExtents& extents) {
  int64_t elements = 1;
  for (const int64_t extent : extents) elements *= std::max<int64_t>(0, extent);
  return elements;
}

BoxCopy::BoxCopy(const BoxExtents& extents, const Strides& from, const Strides& to,
                 size_t element_bytes) {
  if (Elements(extents) == 0) return;
  std::vector<CopyAxis> axes =
      JoinedAxes(extents, from, to, static_cast<int64_t>(element_bytes), run_bytes_);
  // One driver copy covers at most two axes. The longest axes are tried first, so that few copies
  // are needed.
  std::sort(axes.begin(), axes.end(),
            [](const CopyAxis& a, const CopyAxis& b) { return a.extent > b.extent; });
  for (const CopyAxis& axis : axes) {
    if (axis.from > kMostPitch || axis.to > kMostPitch) {
      outer_.push_back(axis);
    } else if (rows_.extent == 1) {
      rows_ = axis;
    } else if (slices_.extent == 1 && CanStack(rows_, axis)) {
      slices_ = axis;
    } else if (slices_.extent == 1 && CanStack(axis, rows_)) {
      slices_ = rows_;
      rows_ = axis;
    } else {
      outer_.push_back(axis);
    }
  }
  copies_ = 1;
  for (const CopyAxis& axis : outer_) copies_ *= axis.extent;
}

// Returns whether one driver copy can cover both axes. The driver counts the distance between
// slices in rows. So each stride of `slices` must be a multiple of the stride of `rows` in the same
// tensor, and at least `rows.extent` times as large.
bool BoxCopy::CanStack(const CopyAxis& rows, const CopyAxis& slices) const {
  const auto fits = [&](int64_t row, int64_t slice) {
    return slice % row == 0 && slice / row >= rows.extent;
  };
  return fits(rows.from, slices.from) && fits(rows.to, slices.to);
}

Status BoxCopy::EnqueueSlab(const Driver& driver, CUdeviceptr from, CUdeviceptr to,
                            CUstream stream) const {
  CUresult result = CUDA_SUCCESS;
  if (rows_.extent == 1) {
    result = driver.cuMemcpyDtoDAsync(to, from, static_cast<size_t>(run_bytes_), stream);
  } else {
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    copy.dstDevice = to;
    copy.srcPitch = static_cast<size_t>(rows_.from);
    copy.dstPitch = static_cast<size_t>(rows_.to);
    const bool stacked = slices_.extent > 1;
    copy.srcHeight = static_cast<size_t>(stacked ? slices_.from / rows_.from : rows_.extent);
    copy.dstHeight = static_cast<size_t>(stacked ? slices_.to / rows_.to : rows_.extent);
    copy.WidthInBytes = static_cast<size_t>(run_bytes_);
    copy.Height = static_cast<size_t>(rows_.extent);
    copy.Depth = static_cast<size_t>(slices_.extent);
    result = driver.cuMemcpy3DAsync(&copy, stream);
  }
  return DriverStatus(driver, result, "copying rows of an image");
}

Status BoxCopy::Enqueue(const Driver& driver, CUdeviceptr from, CUdeviceptr to,
                        CUstream stream) const {
  for (int64_t copy = 0; copy < copies_; ++copy) {
    int64_t rest = copy, from_offset = 0, to_offset = 0;
    for (const CopyAxis& axis : outer_) {
      const int64_t at = rest % axis.extent;
      rest /= axis.extent;
      from_offset += at * axis.from;
      to_offset += at * axis.to;
    }
    UCUDNN_RETURN_IF_ERROR(EnqueueSlab(driver, from + static_cast<size_t>(from_offset),
                                       to + static_cast<size_t>(to_offset), stream));
  }
  return Status::Ok();
}

Status Fill(const Driver& driver, const DeviceBox& box, unsigned char byte, CUstream stream) {
  if (Elements(box.extents) == 0) return Status::Ok();
  int64_t run_bytes = 0;
  std::vector<CopyAxis> axes = JoinedAxes(box.extents, box.strides, box.strides,
                                          static_cast<int64_t>(box.element_bytes), run_bytes);
  CopyAxis rows = {1, run_bytes, run_bytes};
  if (!axes.empty() && axes.front().from <= kMostPitch) {
    rows = axes.front();
    axes.erase(axes.begin());
  }
  int64_t fills = 1;
  for (const CopyAxis& axis : axes) fills *= axis.extent;
  for (int64_t fill = 0; fill < fills; ++fill) {
    int64_t rest = fill, offset = 0;
    for (const CopyAxis& axis : axes) {
      offset += rest % axis.extent * axis.from;
      rest /= axis.extent;
    }
    UCUDNN_RETURN_IF_ERROR(DriverStatus(
        driver,
        driver.cuMemsetD2D8Async(
            box.first + static_cast<size_t>(offset), static_cast<size_t>(rows.from), byte,
            static_cast<size_t>(run_bytes), static_cast<size_t>(rows.extent), stream),
        "filling a tensor"));
  }
  return Status::Ok();
}

}  // namespace ucudnn::cuda
