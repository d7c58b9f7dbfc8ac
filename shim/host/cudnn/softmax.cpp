// Softmax and its gradient, over the channels of each pixel or over all elements of each image. The
// work is asynchronous. Tensors have any strides that are not negative and are fp32, fp16, bf16 or
// fp64.
#include <cmath>
#include <limits>

#include "shim/host/cudnn/blend.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/operand.h"
#include "shim/host/cudnn/strided.h"

namespace hostgpu {
namespace {

struct Softmax {
  cudnnSoftmaxAlgorithm_t algorithm;
  cudnnSoftmaxMode_t mode;
  cudnnTensorStruct y_layout, x_layout;  // dy has the layout of y, dx the layout of x
  Scales scales;
  const void* from;   // forward: x; backward: y
  const void* slope;  // backward: dy; forward: unused
  void* to;           // forward: y; backward: dx

  // Inner returns the extents over which one sum runs. Outer returns the extents that enumerate the
  // sums.
  Extents Inner() const {
    Extents dims = x_layout.dims;
    dims[0] = 1;
    for (int i = 2; mode == CUDNN_SOFTMAX_MODE_CHANNEL && i < x_layout.dim_count; ++i) dims[i] = 1;
    return dims;
  }
  Extents Outer() const {
    Extents dims = x_layout.dims;
    dims[1] = 1;
    for (int i = 2; mode == CUDNN_SOFTMAX_MODE_INSTANCE && i < x_layout.dim_count; ++i) dims[i] = 1;
    return dims;
  }
};

template <class T>
void Forward(const Softmax& call) {
  using A = Accumulator<T>;
  const int rank = call.x_layout.dim_count;
  const std::array<Extents, 2> strides = {call.x_layout.strides, call.y_layout.strides};
  const Extents inner = call.Inner();
  ForEachElement(rank, call.Outer(), strides, [&](const auto& start) {
    const T* x = static_cast<const T*>(call.from) + start[0];
    T* y = static_cast<T*>(call.to) + start[1];
    // CUDNN_SOFTMAX_FAST does not subtract the maximum, so it overflows for smaller inputs than the
    // other algorithms.
    A largest = 0;
    if (call.algorithm != CUDNN_SOFTMAX_FAST) {
      largest = -std::numeric_limits<A>::infinity();
      ForEachElement(rank, inner, strides,
                     [&](const auto& at) { largest = std::fmax(largest, Load(x[at[0]])); });
    }
    A sum = 0;
    ForEachElement(rank, inner, strides,
                   [&](const auto& at) { sum += std::exp(Load(x[at[0]]) - largest); });
    const A log_sum = std::log(sum);
    ForEachElement(rank, inner, strides, [&](const auto& at) {
      const A shifted = Load(x[at[0]]) - largest;
      const bool log = call.algorithm == CUDNN_SOFTMAX_LOG;
      Blend(y[at[1]], call.scales, log ? shifted - log_sum : std::exp(shifted) / sum);
    });
  });
}

// Computes dx = y * (dy - sum(y * dy)), or for the logarithm dx = dy - exp(y) * sum(dy).
template <class T>
void Backward(const Softmax& call) {
  using A = Accumulator<T>;
  const int rank = call.x_layout.dim_count;
  const std::array<Extents, 2> strides = {call.x_layout.strides, call.y_layout.strides};
  const Extents inner = call.Inner();
  const bool log = call.algorithm == CUDNN_SOFTMAX_LOG;
  ForEachElement(rank, call.Outer(), strides, [&](const auto& start) {
    const T* y = static_cast<const T*>(call.from) + start[1];
    const T* dy = static_cast<const T*>(call.slope) + start[1];
    T* dx = static_cast<T*>(call.to) + start[0];
    A sum = 0;
    ForEachElement(rank, inner, strides, [&](const auto& at) {
      sum += log ? Load(dy[at[1]]) : Load(y[at[1]]) * Load(dy[at[1]]);
    });
    ForEachElement(rank, inner, strides, [&](const auto& at) {
      const A output = Load(y[at[1]]), slope = Load(dy[at[1]]);
      Blend(dx[at[0]], call.scales, log ? slope - std::exp(output) * sum : output * (slope - sum));
    });
  });
}

cudnnStatus_t CheckForm(cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode,
                        const cudnnTensorStruct& x, const cudnnTensorStruct& y) {
  HOSTGPU_REFUSE_IF(!SameShape(x, y) || x.type != y.type, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(algorithm < CUDNN_SOFTMAX_FAST || algorithm > CUDNN_SOFTMAX_LOG,
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(mode != CUDNN_SOFTMAX_MODE_INSTANCE && mode != CUDNN_SOFTMAX_MODE_CHANNEL,
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(x.dim_count <= 2, CUDNN_STATUS_BAD_PARAM);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace hostgpu

using namespace hostgpu;

extern "C" {

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo,
                                  cudnnSoftmaxMode_t mode, const void* alpha,
                                  const cudnnTensorDescriptor_t xDesc, const void* x,
                                  const void* beta, const cudnnTensorDescriptor_t yDesc, void* y) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(AnyNull(handle, xDesc, yDesc, x, y, alpha, beta), CUDNN_STATUS_BAD_PARAM);
    if (auto status = CheckForm(algo, mode, *xDesc, *yDesc)) return status;
    DataType type{};
    void* from = nullptr;
    void* to = nullptr;
    if (auto status = ResolveTensor(handle, "x", xDesc, x, &type, &from)) return status;
    if (auto status = ResolveTensor(handle, "y", yDesc, y, &type, &to)) return status;
    const Softmax call{algo, mode,    *yDesc, *xDesc, ReadScales(alpha, beta, type),
                       from, nullptr, to};
    return Enqueue(handle, {x, y}, [=] {
      WithElement(type, [&](auto element) { Forward<decltype(element)>(call); });
    });
  });
}

cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo,
                                   cudnnSoftmaxMode_t mode, const void* alpha,
                                   const cudnnTensorDescriptor_t yDesc, const void* y,
                                   const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                   const void* beta, const cudnnTensorDescriptor_t dxDesc,
                                   void* dx) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(AnyNull(handle, yDesc, dyDesc, dxDesc, y, dy, dx, alpha, beta),
                      CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(!SameTensor(*yDesc, *dyDesc), CUDNN_STATUS_BAD_PARAM);
    if (auto status = CheckForm(algo, mode, *dxDesc, *yDesc)) return status;
    DataType type{};
    void* from = nullptr;
    void* slope = nullptr;
    void* to = nullptr;
    if (auto status = ResolveTensor(handle, "y", yDesc, y, &type, &from)) return status;
    if (auto status = ResolveTensor(handle, "dy", dyDesc, dy, &type, &slope)) return status;
    if (auto status = ResolveTensor(handle, "dx", dxDesc, dx, &type, &to)) return status;
    const Softmax call{algo, mode, *yDesc, *dxDesc, ReadScales(alpha, beta, type), from, slope, to};
    return Enqueue(handle, {y, dy, dx}, [=] {
      WithElement(type, [&](auto element) { Backward<decltype(element)>(call); });
    });
  });
}

}  // extern "C"
