// Functions that visit each element once: add, set, scale, activations and the bias gradient. The
// work is asynchronous. Tensors have any strides that are not negative and are fp32, fp16, bf16 or
// fp64. In an activation's gradient dy and dx have the layout of x.
#include <cmath>
#include <cstring>
#include <vector>

#include "shim/host/cudnn/blend.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/operand.h"
#include "shim/host/cudnn/strided.h"
#include "shim/host/engines/element.h"

namespace hostgpu {
namespace {

template <class A>
A Sigmoid(A x) {
  return 1 / (1 + std::exp(-x));
}

template <class A>
A Activate(const cudnnActivationStruct& activation, A x) {
  const A coefficient = static_cast<A>(activation.coefficient);
  const bool keeps_nan = x != x && activation.nan_propagation == CUDNN_PROPAGATE_NAN;
  switch (activation.mode) {
    case CUDNN_ACTIVATION_SIGMOID:
      return Sigmoid(x);
    case CUDNN_ACTIVATION_RELU:
      return x > 0 || keeps_nan ? x : 0;
    case CUDNN_ACTIVATION_TANH:
      return std::tanh(x);
    case CUDNN_ACTIVATION_CLIPPED_RELU:
      if (keeps_nan) return x;
      return x > 0 ? (x < coefficient ? x : coefficient) : 0;
    case CUDNN_ACTIVATION_ELU:
      return x > 0 ? x : coefficient * std::expm1(x);
    case CUDNN_ACTIVATION_SWISH:
      return x * Sigmoid(x);
    default:
      return x;
  }
}

// Returns the derivative of the activation at input x, where y is the output.
template <class A>
A Slope(const cudnnActivationStruct& activation, A x, A y) {
  const A coefficient = static_cast<A>(activation.coefficient);
  switch (activation.mode) {
    case CUDNN_ACTIVATION_SIGMOID:
      return y * (1 - y);
    case CUDNN_ACTIVATION_RELU:
      return x > 0 ? 1 : 0;
    case CUDNN_ACTIVATION_TANH:
      return 1 - y * y;
    case CUDNN_ACTIVATION_CLIPPED_RELU:
      return x > 0 && x < coefficient ? 1 : 0;
    case CUDNN_ACTIVATION_ELU:
      return x > 0 ? 1 : y + coefficient;
    case CUDNN_ACTIVATION_SWISH: {
      const A gate = Sigmoid(x);
      return gate + x * gate * (1 - gate);
    }
    default:
      return 1;
  }
}

cudnnStatus_t Require(cudnnHandle_t handle, const void* alpha, const void* beta) {
  HOSTGPU_REFUSE_IF(handle == nullptr || alpha == nullptr || beta == nullptr,
                    CUDNN_STATUS_BAD_PARAM);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t RequireLike(cudnnTensorDescriptor_t tensor, cudnnTensorDescriptor_t model) {
  HOSTGPU_REFUSE_IF(tensor == nullptr || model == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(tensor->type != model->type, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!SameShape(*tensor, *model), CUDNN_STATUS_BAD_PARAM);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t RequireActivation(cudnnActivationDescriptor_t activation) {
  HOSTGPU_REFUSE_IF(activation == nullptr, CUDNN_STATUS_BAD_PARAM);
  // cuDNN's documentation allows identity only in the fused convolution.
  HOSTGPU_REFUSE_IF(activation->mode == CUDNN_ACTIVATION_IDENTITY, CUDNN_STATUS_BAD_PARAM);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace hostgpu

using namespace hostgpu;

extern "C" {

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha,
                             const cudnnTensorDescriptor_t aDesc, const void* A, const void* beta,
                             const cudnnTensorDescriptor_t cDesc, void* C) {
  return Protect([&] {
    if (auto status = Require(handle, alpha, beta)) return status;
    HOSTGPU_REFUSE_IF(aDesc == nullptr || cDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(aDesc->type != cDesc->type, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(!Broadcasts(*aDesc, *cDesc), CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(cDesc->dim_count > 5, CUDNN_STATUS_NOT_SUPPORTED);
    DataType type{};
    void* a = nullptr;
    void* c = nullptr;
    if (auto status = ResolveTensor(handle, "A", aDesc, A, &type, &a)) return status;
    if (auto status = ResolveTensor(handle, "C", cDesc, C, &type, &c)) return status;
    const Scales scales = ReadScales(alpha, beta, type);
    return Enqueue(handle, {A, C}, [=, small = *aDesc, large = *cDesc] {
      WithElement(type, [&](auto element) {
        using T = decltype(element);
        const std::array<Extents, 2> strides = {large.strides, BroadcastStrides(small)};
        ForEachElement(large.dim_count, large.dims, strides, [&](const auto& at) {
          Blend(static_cast<T*>(c)[at[0]], scales, Load(static_cast<const T*>(a)[at[1]]));
        });
      });
    });
  });
}

cudnnStatus_t cudnnSetTensor(cudnnHandle_t handle, const cudnnTensorDescriptor_t yDesc, void* y,
                             const void* valuePtr) {
  return Protect([&] {
    if (auto status = Require(handle, valuePtr, valuePtr)) return status;
    DataType type{};
    void* data = nullptr;
    if (auto status = ResolveTensor(handle, "y", yDesc, y, &type, &data)) return status;
    return WithElement(type, [&](auto value) {
      using T = decltype(value);
      std::memcpy(&value, valuePtr, sizeof value);
      return Enqueue(handle, {y}, [=, tensor = *yDesc] {
        ForEachElement<1>(tensor.dim_count, tensor.dims, {tensor.strides},
                          [&](const auto& at) { static_cast<T*>(data)[at[0]] = value; });
      });
    });
  });
}

cudnnStatus_t cudnnScaleTensor(cudnnHandle_t handle, const cudnnTensorDescriptor_t yDesc, void* y,
                               const void* alpha) {
  return Protect([&] {
    if (auto status = Require(handle, alpha, alpha)) return status;
    DataType type{};
    void* data = nullptr;
    if (auto status = ResolveTensor(handle, "y", yDesc, y, &type, &data)) return status;
    const double scale = ReadScale(alpha, type);
    return Enqueue(handle, {y}, [=, tensor = *yDesc] {
      WithElement(type, [&](auto element) {
        using T = decltype(element);
        ForEachElement<1>(tensor.dim_count, tensor.dims, {tensor.strides}, [&](const auto& at) {
          T& to = static_cast<T*>(data)[at[0]];
          Store(to, static_cast<Accumulator<T>>(scale) * Load(to));
        });
      });
    });
  });
}

cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle,
                                     cudnnActivationDescriptor_t activationDesc, const void* alpha,
                                     const cudnnTensorDescriptor_t xDesc, const void* x,
                                     const void* beta, const cudnnTensorDescriptor_t yDesc,
                                     void* y) {
  return Protect([&] {
    if (auto status = Require(handle, alpha, beta)) return status;
    if (auto status = RequireActivation(activationDesc)) return status;
    if (auto status = RequireLike(yDesc, xDesc)) return status;
    DataType type{};
    void* from = nullptr;
    void* to = nullptr;
    if (auto status = ResolveTensor(handle, "x", xDesc, x, &type, &from)) return status;
    if (auto status = ResolveTensor(handle, "y", yDesc, y, &type, &to)) return status;
    const Scales scales = ReadScales(alpha, beta, type);
    return Enqueue(handle, {x, y}, [=, activation = *activationDesc, in = *xDesc, out = *yDesc] {
      WithElement(type, [&](auto element) {
        using T = decltype(element);
        ForEachElement<2>(out.dim_count, out.dims, {out.strides, in.strides}, [&](const auto& at) {
          Blend(static_cast<T*>(to)[at[0]], scales,
                Activate<Accumulator<T>>(activation, Load(static_cast<const T*>(from)[at[1]])));
        });
      });
    });
  });
}

cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle,
                                      cudnnActivationDescriptor_t activationDesc, const void* alpha,
                                      const cudnnTensorDescriptor_t yDesc, const void* y,
                                      const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                      const cudnnTensorDescriptor_t xDesc, const void* x,
                                      const void* beta, const cudnnTensorDescriptor_t dxDesc,
                                      void* dx) {
  return Protect([&] {
    if (auto status = Require(handle, alpha, beta)) return status;
    if (auto status = RequireActivation(activationDesc)) return status;
    HOSTGPU_REFUSE_IF(AnyNull(yDesc, dyDesc, xDesc, dxDesc), CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(!SameTensor(*dyDesc, *xDesc) || !SameTensor(*dxDesc, *xDesc),
                      CUDNN_STATUS_NOT_SUPPORTED);
    HOSTGPU_REFUSE_IF(!SameShape(*yDesc, *xDesc) || yDesc->type != xDesc->type,
                      CUDNN_STATUS_NOT_SUPPORTED);
    DataType type{};
    void* output = nullptr;
    void* slope = nullptr;
    void* input = nullptr;
    void* to = nullptr;
    if (auto status = ResolveTensor(handle, "y", yDesc, y, &type, &output)) return status;
    if (auto status = ResolveTensor(handle, "dy", dyDesc, dy, &type, &slope)) return status;
    if (auto status = ResolveTensor(handle, "x", xDesc, x, &type, &input)) return status;
    if (auto status = ResolveTensor(handle, "dx", dxDesc, dx, &type, &to)) return status;
    const Scales scales = ReadScales(alpha, beta, type);
    const std::array<Extents, 4> strides = {dxDesc->strides, dyDesc->strides, xDesc->strides,
                                            yDesc->strides};
    return Enqueue(handle, {y, dy, x, dx}, [=, activation = *activationDesc, shape = *xDesc] {
      WithElement(type, [&](auto element) {
        using T = decltype(element);
        using A = Accumulator<T>;
        ForEachElement(shape.dim_count, shape.dims, strides, [&](const auto& at) {
          const A gradient = Load(static_cast<const T*>(slope)[at[1]]) *
                             Slope<A>(activation, Load(static_cast<const T*>(input)[at[2]]),
                                      Load(static_cast<const T*>(output)[at[3]]));
          Blend(static_cast<T*>(to)[at[0]], scales, gradient);
        });
      });
    });
  });
}

cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                           const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                           const void* beta, const cudnnTensorDescriptor_t dbDesc,
                                           void* db) {
  return Protect([&] {
    if (auto status = Require(handle, alpha, beta)) return status;
    HOSTGPU_REFUSE_IF(dyDesc == nullptr || dbDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(dyDesc->type != dbDesc->type, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(!IsPerChannel(*dbDesc, *dyDesc), CUDNN_STATUS_BAD_PARAM);
    DataType type{};
    void* from = nullptr;
    void* to = nullptr;
    if (auto status = ResolveTensor(handle, "dy", dyDesc, dy, &type, &from)) return status;
    if (auto status = ResolveTensor(handle, "db", dbDesc, db, &type, &to)) return status;
    const Scales scales = ReadScales(alpha, beta, type);
    return Enqueue(handle, {dy, db}, [=, in = *dyDesc, out = *dbDesc] {
      WithElement(type, [&](auto element) {
        using T = decltype(element);
        using A = Accumulator<T>;
        Extents image = in.dims;
        image[1] = 1;
        for (int channel = 0; channel < in.dims[1]; ++channel) {
          const T* plane = static_cast<const T*>(from) + int64_t{in.strides[1]} * channel;
          A sum = 0;
          ForEachElement<1>(in.dim_count, image, {in.strides},
                            [&](const auto& at) { sum += Load(plane[at[0]]); });
          T& result = static_cast<T*>(to)[int64_t{out.strides[1]} * channel];
          Blend(result, scales, sum);
        }
      });
    });
  });
}

}  // extern "C"
