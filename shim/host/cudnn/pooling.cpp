// Pooling in two and three dimensions: the maximum, and the average over the whole window or over
// its part inside the image. The work is asynchronous. Tensors have any strides that are not
// negative and are fp32, fp16, bf16 or fp64. In the gradient of a maximum, the first element of the
// window that equals the maximum gets the whole gradient, so both maximum modes are deterministic.
#include <algorithm>
#include <limits>
#include <vector>

#include "shim/host/cudnn/blend.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/operand.h"
#include "shim/host/cudnn/strided.h"

namespace hostgpu {
namespace {

// The arguments of a forward or a backward call. dx has the layout of x, dy the layout of y.
struct Pooling {
  cudnnPoolingStruct pooling;
  cudnnTensorStruct x_layout, y_layout;
  Scales scales;
  void* x = nullptr;
  void* y = nullptr;
  void* dx = nullptr;
  void* dy = nullptr;

  bool IsMaximum() const {
    return pooling.mode == CUDNN_POOLING_MAX || pooling.mode == CUDNN_POOLING_MAX_DETERMINISTIC;
  }
  int axes() const { return pooling.spatial_count; }
};

// Returns the elements from index 2 on: the extents or strides of the spatial axes.
Extents Spatial(const std::array<int, CUDNN_DIM_MAX>& values) {
  Extents spatial{};
  for (int i = 2; i < CUDNN_DIM_MAX; ++i) spatial[i - 2] = values[i];
  return spatial;
}

// The part of an output's window that is inside the image; `at` is the output's index.
struct Window {
  Extents begin{}, extents{};
  int64_t inside = 1, whole = 1;

  Window(const Pooling& call, const Extents& at) {
    for (int i = 0; i < call.axes(); ++i) {
      const int64_t first = int64_t{at[i]} * call.pooling.stride[i] - call.pooling.pad[i];
      const int64_t last =
          std::min<int64_t>(first + call.pooling.window[i], call.x_layout.dims[i + 2]);
      begin[i] = static_cast<int>(std::max<int64_t>(first, 0));
      extents[i] = static_cast<int>(last - begin[i]);
      inside *= extents[i];
      whole *= call.pooling.window[i];
    }
  }
  int64_t Offset(int axes, const Extents& strides) const {
    int64_t offset = 0;
    for (int i = 0; i < axes; ++i) offset += int64_t{begin[i]} * strides[i];
    return offset;
  }
};

// Returns true if `value` replaces the maximum `best`. Of equal elements the first one in the
// window's order stays. With CUDNN_PROPAGATE_NAN the first NaN replaces every number and stays;
// otherwise a NaN replaces nothing.
template <class A>
bool Beats(A value, A best, cudnnNanPropagation_t nan) {
  if (value != value) return nan == CUDNN_PROPAGATE_NAN && best == best;
  return value > best;
}

// Calls body(window, offset) for each output of one channel of one image. `offset` is the distance
// from the channel's first output, in elements of y.
template <class Body>
void ForEachOutput(const Pooling& call, const Body& body) {
  // ForEachElement passes offsets, not indices. A tensor with stride 1 on one axis and 0 on all
  // others has the index on that axis as its offset. So `strides` has such a tensor for each axis,
  // and then y.
  std::array<Extents, cudnnPoolingStruct::kMaxSpatial + 1> strides{};
  for (int i = 0; i < call.axes(); ++i) strides[i][i] = 1;
  strides.back() = Spatial(call.y_layout.strides);
  ForEachElement(call.axes(), Spatial(call.y_layout.dims), strides, [&](const auto& at) {
    Extents index{};
    for (int i = 0; i < call.axes(); ++i) index[i] = static_cast<int>(at[i]);
    body(Window(call, index), at.back());
  });
}

// Calls body(offset in x and dx, offset in y and dy) for each channel of each image.
template <class Body>
void ForEachPlane(const Pooling& call, const Body& body) {
  ForEachElement<2>(2, call.x_layout.dims, {call.x_layout.strides, call.y_layout.strides},
                    [&](const auto& at) { body(at[0], at[1]); });
}

// Returns the number by which an average's sum is divided.
int64_t Count(const Pooling& call, const Window& window) {
  return call.pooling.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING ? window.whole
                                                                          : window.inside;
}

template <class T>
void Forward(const Pooling& call) {
  using A = Accumulator<T>;
  const Extents strides = Spatial(call.x_layout.strides);
  ForEachPlane(call, [&](int64_t x_plane, int64_t y_plane) {
    const T* x = static_cast<const T*>(call.x) + x_plane;
    T* y = static_cast<T*>(call.y) + y_plane;
    ForEachOutput(call, [&](const Window& window, int64_t to) {
      const T* from = x + window.Offset(call.axes(), strides);
      A best = -std::numeric_limits<A>::infinity();
      A sum = 0;
      ForEachElement<1>(call.axes(), window.extents, {strides}, [&](const auto& at) {
        const A value = Load(from[at[0]]);
        if (Beats(value, best, call.pooling.nan_propagation)) best = value;
        sum += value;
      });
      const A average = sum / static_cast<A>(Count(call, window));
      Blend(y[to], call.scales, call.IsMaximum() ? best : average);
    });
  });
}

template <class T>
void Backward(const Pooling& call) {
  using A = Accumulator<T>;
  const int axes = call.axes();
  const Extents dims = Spatial(call.x_layout.dims);
  const Extents strides = Spatial(call.x_layout.strides);
  // The sums of one plane are collected in a packed array of the accumulator's type: windows
  // overlap, and each result must be rounded only once.
  Extents packed{};
  int64_t elements = 1;
  for (int i = axes - 1; i >= 0; --i) {
    packed[i] = static_cast<int>(elements);
    elements *= dims[i];
  }
  std::vector<A> sums(static_cast<size_t>(elements));
  ForEachPlane(call, [&](int64_t x_plane, int64_t y_plane) {
    const T* x = static_cast<const T*>(call.x) + x_plane;
    const T* dy = static_cast<const T*>(call.dy) + y_plane;
    T* dx = static_cast<T*>(call.dx) + x_plane;
    std::fill(sums.begin(), sums.end(), A{0});
    ForEachOutput(call, [&](const Window& window, int64_t from) {
      const A slope = Load(dy[from]);
      A* to = sums.data() + window.Offset(axes, packed);
      if (!call.IsMaximum()) {
        const A share = slope / static_cast<A>(Count(call, window));
        ForEachElement<1>(axes, window.extents, {packed},
                          [&](const auto& at) { to[at[0]] += share; });
        return;
      }
      const T* values = x + window.Offset(axes, strides);
      A best = -std::numeric_limits<A>::infinity();
      int64_t where = 0;
      ForEachElement<2>(axes, window.extents, {strides, packed}, [&](const auto& at) {
        const A value = Load(values[at[0]]);
        if (!Beats(value, best, call.pooling.nan_propagation)) return;
        best = value;
        where = at[1];
      });
      to[where] += slope;
    });
    ForEachElement<2>(axes, dims, {packed, strides},
                      [&](const auto& at) { Blend(dx[at[1]], call.scales, sums[at[0]]); });
  });
}

// Checks that `y` has exactly the extents that the descriptors give for `x`. The real library does
// not check the spatial extents. The stand-in refuses wrong extents, and does not imitate the real
// library's results for them.
cudnnStatus_t CheckShapes(cudnnPoolingDescriptor_t pooling, cudnnTensorDescriptor_t x,
                          cudnnTensorDescriptor_t y) {
  HOSTGPU_REFUSE_IF(x->dim_count != y->dim_count, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(x->dim_count != pooling->spatial_count + 2, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1] || x->type != y->type,
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(x->dim_count != 4 && x->dim_count != 5, CUDNN_STATUS_NOT_SUPPORTED);
  for (int i = 0; i < pooling->spatial_count; ++i) {
    // This check ensures that each window contains at least one element of the image.
    HOSTGPU_REFUSE_IF(pooling->pad[i] < 0 || pooling->pad[i] >= pooling->window[i],
                      CUDNN_STATUS_NOT_SUPPORTED);
  }
  int expected[CUDNN_DIM_MAX];
  if (auto status = cudnnGetPoolingNdForwardOutputDim(pooling, x, x->dim_count, expected)) {
    return status;
  }
  for (int i = 2; i < x->dim_count; ++i) {
    HOSTGPU_REFUSE_IF(y->dims[i] != expected[i], CUDNN_STATUS_BAD_PARAM);
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace hostgpu

using namespace hostgpu;

extern "C" {

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t poolingDesc,
                                  const void* alpha, const cudnnTensorDescriptor_t xDesc,
                                  const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t yDesc, void* y) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(AnyNull(handle, poolingDesc, xDesc, yDesc, x, y, alpha, beta),
                      CUDNN_STATUS_BAD_PARAM);
    if (auto status = CheckShapes(poolingDesc, xDesc, yDesc)) return status;
    DataType type{};
    Pooling call{*poolingDesc, *xDesc, *yDesc, {}};
    if (auto status = ResolveTensor(handle, "x", xDesc, x, &type, &call.x)) return status;
    if (auto status = ResolveTensor(handle, "y", yDesc, y, &type, &call.y)) return status;
    call.scales = ReadScales(alpha, beta, type);
    return Enqueue(handle, {x, y}, [=] {
      WithElement(type, [&](auto element) { Forward<decltype(element)>(call); });
    });
  });
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t poolingDesc,
                                   const void* alpha, const cudnnTensorDescriptor_t yDesc,
                                   const void* y, const cudnnTensorDescriptor_t dyDesc,
                                   const void* dy, const cudnnTensorDescriptor_t xDesc,
                                   const void* x, const void* beta,
                                   const cudnnTensorDescriptor_t dxDesc, void* dx) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(
        AnyNull(handle, poolingDesc, yDesc, dyDesc, xDesc, dxDesc, y, dy, x, dx, alpha, beta),
        CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(!SameTensor(*dyDesc, *yDesc), CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(!SameTensor(*dxDesc, *xDesc), CUDNN_STATUS_BAD_PARAM);
    if (auto status = CheckShapes(poolingDesc, xDesc, yDesc)) return status;
    DataType type{};
    Pooling call{*poolingDesc, *xDesc, *yDesc, {}};
    if (auto status = ResolveTensor(handle, "y", yDesc, y, &type, &call.y)) return status;
    if (auto status = ResolveTensor(handle, "dy", dyDesc, dy, &type, &call.dy)) return status;
    if (auto status = ResolveTensor(handle, "x", xDesc, x, &type, &call.x)) return status;
    if (auto status = ResolveTensor(handle, "dx", dxDesc, dx, &type, &call.dx)) return status;
    call.scales = ReadScales(alpha, beta, type);
    return Enqueue(handle, {y, dy, x, dx}, [=] {
      WithElement(type, [&](auto element) { Backward<decltype(element)>(call); });
    });
  });
}

}  // extern "C"
