// Batch normalisation: training, inference and gradients, per activation (one mean for every
// element of an image) and spatial (one mean for every channel). The work is asynchronous. x, y, dx
// and dy have any strides that are not negative and are fp32, fp16, bf16 or fp64. Scale, bias,
// means and variances are packed; they are fp64 if x is, otherwise fp32. Sums are computed in fp64
// for every type.
#include <cmath>
#include <initializer_list>

#include "shim/host/cudnn/batch_normalization.h"
#include "shim/host/cudnn/blend.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/operand.h"
#include "shim/host/cudnn/strided.h"

namespace hostgpu {
namespace {

// Visits the groups of elements that share one mean, and the elements of each group, in `Tensors`
// tensors with the same shape.
template <size_t Tensors>
class Groups {
 public:
  Groups(const cudnnTensorStruct& parameters, const std::array<cudnnTensorStruct, Tensors>& tensors)
      : rank_(parameters.dim_count), groups_(parameters.dims) {
    for (size_t t = 0; t < Tensors; ++t)
      element_strides_[t] = group_strides_[t] = tensors[t].strides;
    group_strides_[Tensors] = parameters.strides;
    for (int i = 0; i < rank_; ++i) {
      elements_[i] = parameters.dims[i] == 1 ? tensors[0].dims[i] : 1;
      size_ *= elements_[i];
    }
  }

  double size() const { return static_cast<double>(size_); }
  // Calls body(offsets) for each group. `offsets` has the offset of the group's first element in
  // every tensor, and then the offset of the group's parameters.
  template <class Body>
  void ForEachGroup(const Body& body) const {
    ForEachElement(rank_, groups_, group_strides_, body);
  }
  // Calls body(offsets) for each element of a group. `offsets` has the element's offset from the
  // group's first element in every tensor.
  template <class Body>
  void ForEachInGroup(const Body& body) const {
    ForEachElement(rank_, elements_, element_strides_, body);
  }

 private:
  int rank_;
  Extents groups_, elements_{};
  int64_t size_ = 1;
  std::array<Extents, Tensors> element_strides_{};
  std::array<Extents, Tensors + 1> group_strides_{};
};

struct Moments {
  double mean, variance;  // the sum of squares is divided by the number of elements
};

template <size_t Tensors, class T>
Moments MomentsOf(const Groups<Tensors>& groups, const T* x) {
  double sum = 0;
  groups.ForEachInGroup([&](const auto& at) { sum += static_cast<double>(Load(x[at[0]])); });
  const double mean = sum / groups.size();
  double squares = 0;
  groups.ForEachInGroup([&](const auto& at) {
    const double deviation = static_cast<double>(Load(x[at[0]])) - mean;
    squares += deviation * deviation;
  });
  return {mean, squares / groups.size()};
}

// Sets running = factor * now + (1 - factor) * running. With factor 1 the old value is not read.
// Does nothing if the caller passed null.
template <class P>
void Average(void* running, int64_t at, double now, double factor) {
  if (running == nullptr) return;
  P& value = static_cast<P*>(running)[at];
  const double before = factor == 1 ? 0 : (1 - factor) * static_cast<double>(value);
  value = static_cast<P>(factor * now + before);
}

struct ForwardCall {
  cudnnTensorStruct x_layout, y_layout, parameters;
  Scales scales;
  double factor = 0, epsilon = 0;
  bool training = false;
  void* x = nullptr;
  void* y = nullptr;
  void* scale = nullptr;
  void* bias = nullptr;
  void* mean = nullptr;      // training: the running mean; inference: the estimated mean
  void* variance = nullptr;  // training: the running variance; inference: the estimated variance
  void* saved_mean = nullptr;
  void* saved_inverse = nullptr;
};

template <class T>
void Forward(const ForwardCall& call) {
  using P = Accumulator<T>;
  const Groups<2> groups(call.parameters, {call.x_layout, call.y_layout});
  // The running variance is unbiased: its sum of squares is divided by the number of elements minus
  // 1.
  const double bessel = groups.size() > 1 ? groups.size() / (groups.size() - 1) : 1;
  groups.ForEachGroup([&](const auto& start) {
    const T* x = static_cast<const T*>(call.x) + start[0];
    T* y = static_cast<T*>(call.y) + start[1];
    const int64_t parameter = start[2];
    Moments moments{};
    if (call.training) {
      moments = MomentsOf(groups, x);
      Average<P>(call.mean, parameter, moments.mean, call.factor);
      Average<P>(call.variance, parameter, moments.variance * bessel, call.factor);
    } else {
      moments = {static_cast<const P*>(call.mean)[parameter],
                 static_cast<const P*>(call.variance)[parameter]};
    }
    const double inverse = 1 / std::sqrt(moments.variance + call.epsilon);
    if (call.saved_mean != nullptr) {
      static_cast<P*>(call.saved_mean)[parameter] = static_cast<P>(moments.mean);
      static_cast<P*>(call.saved_inverse)[parameter] = static_cast<P>(inverse);
    }
    const double scale = static_cast<const P*>(call.scale)[parameter];
    const double bias = static_cast<const P*>(call.bias)[parameter];
    groups.ForEachInGroup([&](const auto& at) {
      const double normal = (static_cast<double>(Load(x[at[0]])) - moments.mean) * inverse;
      Blend(y[at[1]], call.scales, static_cast<P>(scale * normal + bias));
    });
  });
}

struct BackwardCall {
  cudnnTensorStruct x_layout, dy_layout, dx_layout, parameters;
  Scales data_scales, parameter_scales;
  double epsilon = 0;
  void* x = nullptr;
  void* dy = nullptr;
  void* dx = nullptr;
  void* scale = nullptr;
  void* dscale = nullptr;
  void* dbias = nullptr;
  void* saved_mean = nullptr;  // null if mean and inverse must be computed from x
  void* saved_inverse = nullptr;
};

// Computes the gradients of each group. With normal = (x - mean) * inverse and m elements in the
// group: dbias = sum(dy), dscale = sum(dy * normal), dx = scale * inverse * (dy - (dbias + normal *
// dscale) / m).
template <class T>
void Backward(const BackwardCall& call) {
  using P = Accumulator<T>;
  const Groups<3> groups(call.parameters, {call.x_layout, call.dy_layout, call.dx_layout});
  groups.ForEachGroup([&](const auto& start) {
    const T* x = static_cast<const T*>(call.x) + start[0];
    const T* dy = static_cast<const T*>(call.dy) + start[1];
    T* dx = static_cast<T*>(call.dx) + start[2];
    const int64_t parameter = start[3];
    double mean = 0, inverse = 0;
    if (call.saved_mean != nullptr) {
      mean = static_cast<const P*>(call.saved_mean)[parameter];
      inverse = static_cast<const P*>(call.saved_inverse)[parameter];
    } else {
      const Moments moments = MomentsOf(groups, x);
      mean = moments.mean;
      inverse = 1 / std::sqrt(moments.variance + call.epsilon);
    }
    double dbias = 0, dscale = 0;
    groups.ForEachInGroup([&](const auto& at) {
      const double slope = Load(dy[at[1]]);
      dbias += slope;
      dscale += slope * (static_cast<double>(Load(x[at[0]])) - mean) * inverse;
    });
    const double scale = static_cast<const P*>(call.scale)[parameter];
    groups.ForEachInGroup([&](const auto& at) {
      const double normal = (static_cast<double>(Load(x[at[0]])) - mean) * inverse;
      const double slope =
          static_cast<double>(Load(dy[at[1]])) - (dbias + normal * dscale) / groups.size();
      Blend(dx[at[2]], call.data_scales, static_cast<P>(scale * inverse * slope));
    });
    Blend(static_cast<P*>(call.dscale)[parameter], call.parameter_scales, static_cast<P>(dscale));
    Blend(static_cast<P*>(call.dbias)[parameter], call.parameter_scales, static_cast<P>(dbias));
  });
}

struct Parameter {
  const char* name;
  const void* address;  // null if the caller does not want the parameter; *host then stays null
  void** host;
};

cudnnStatus_t ResolveParameters(cudnnHandle_t handle, cudnnTensorDescriptor_t layout,
                                std::initializer_list<Parameter> parameters) {
  DataType type{};
  for (const Parameter& parameter : parameters) {
    if (parameter.address == nullptr) continue;
    if (auto status = ResolveTensor(handle, parameter.name, layout, parameter.address, &type,
                                    parameter.host)) {
      return status;
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

// Enqueues training or inference. `call` already has the members that do not depend on tensors or
// parameters. Saved statistics are null if the caller does not want them.
cudnnStatus_t EnqueueForward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
                             const void* beta, cudnnTensorDescriptor_t x_layout, const void* x,
                             cudnnTensorDescriptor_t y_layout, void* y,
                             cudnnTensorDescriptor_t parameters, const void* scale,
                             const void* bias, const void* mean, const void* variance,
                             const void* saved_mean, const void* saved_inverse, ForwardCall call) {
  HOSTGPU_REFUSE_IF(AnyNull(handle, x_layout, y_layout, parameters, alpha, beta, x, y, scale, bias),
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!IsBatchNormMode(mode), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(call.epsilon < 0, CUDNN_STATUS_BAD_PARAM);
  if (auto status = CheckNormalizedShapes(mode, x_layout, y_layout, parameters)) return status;
  call.x_layout = *x_layout;
  call.y_layout = *y_layout;
  call.parameters = *parameters;
  DataType type{};
  if (auto status = ResolveTensor(handle, "x", x_layout, x, &type, &call.x)) return status;
  if (auto status = ResolveTensor(handle, "y", y_layout, y, &type, &call.y)) return status;
  if (auto status = ResolveParameters(
          handle, parameters,
          {{"the scale", scale, &call.scale},
           {"the bias", bias, &call.bias},
           {call.training ? "the running mean" : "the mean", mean, &call.mean},
           {call.training ? "the running variance" : "the variance", variance, &call.variance},
           {"the saved mean", saved_mean, &call.saved_mean},
           {"the saved inverse", saved_inverse, &call.saved_inverse}})) {
    return status;
  }
  call.scales = ReadScales(alpha, beta, type);
  return Enqueue(handle, {x, y, scale, bias, mean, variance, saved_mean, saved_inverse}, [=] {
    WithElement(type, [&](auto element) { Forward<decltype(element)>(call); });
  });
}

}  // namespace

bool IsBatchNormMode(cudnnBatchNormMode_t mode) {
  return mode >= CUDNN_BATCHNORM_PER_ACTIVATION && mode <= CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
}

cudnnStatus_t CheckNormalizedShapes(cudnnBatchNormMode_t mode, cudnnTensorDescriptor_t x,
                                    cudnnTensorDescriptor_t other,
                                    cudnnTensorDescriptor_t parameters) {
  HOSTGPU_REFUSE_IF(x->dim_count != 4 && x->dim_count != 5, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!SameShape(*x, *other) || x->type != other->type, CUDNN_STATUS_BAD_PARAM);
  cudnnTensorStruct derived;
  if (auto status = cudnnDeriveBNTensorDescriptor(&derived, x, mode)) return status;
  HOSTGPU_REFUSE_IF(!SameTensor(*parameters, derived), CUDNN_STATUS_BAD_PARAM);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu

using namespace hostgpu;

extern "C" {

cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derivedBnDesc,
                                            const cudnnTensorDescriptor_t xDesc,
                                            cudnnBatchNormMode_t mode) {
  HOSTGPU_REFUSE_IF(xDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!IsBatchNormMode(mode), CUDNN_STATUS_BAD_PARAM);
  const bool narrow = xDesc->type == CUDNN_DATA_HALF || xDesc->type == CUDNN_DATA_BFLOAT16 ||
                      xDesc->type == CUDNN_DATA_INT8;
  Extents dims = xDesc->dims;
  dims[0] = 1;
  for (int i = 2; mode != CUDNN_BATCHNORM_PER_ACTIVATION && i < xDesc->dim_count; ++i) dims[i] = 1;
  Extents strides{};
  int64_t stride = 1;
  for (int i = xDesc->dim_count - 1; i >= 0; --i) {
    strides[i] = static_cast<int>(stride);
    stride = static_cast<int>(stride * dims[i]);
  }
  return cudnnSetTensorNdDescriptor(derivedBnDesc, narrow ? CUDNN_DATA_FLOAT : xDesc->type,
                                    xDesc->dim_count, dims.data(), strides.data());
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t xDesc, const void* x, const cudnnTensorDescriptor_t yDesc,
    void* y, const cudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void* bnScale,
    const void* bnBias, double exponentialAverageFactor, void* resultRunningMean,
    void* resultRunningVariance, double epsilon, void* resultSaveMean,
    void* resultSaveInvVariance) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF((resultSaveMean == nullptr) != (resultSaveInvVariance == nullptr),
                      CUDNN_STATUS_BAD_PARAM);
    ForwardCall call;
    call.factor = exponentialAverageFactor;
    call.epsilon = epsilon;
    call.training = true;
    return EnqueueForward(handle, mode, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc,
                          bnScale, bnBias, resultRunningMean, resultRunningVariance, resultSaveMean,
                          resultSaveInvVariance, call);
  });
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t xDesc, const void* x, const cudnnTensorDescriptor_t yDesc,
    void* y, const cudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void* bnScale,
    const void* bnBias, const void* estimatedMean, const void* estimatedVariance, double epsilon) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(estimatedMean == nullptr || estimatedVariance == nullptr,
                      CUDNN_STATUS_BAD_PARAM);
    ForwardCall call;
    call.epsilon = epsilon;
    return EnqueueForward(handle, mode, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc,
                          bnScale, bnBias, estimatedMean, estimatedVariance, nullptr, nullptr,
                          call);
  });
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alphaDataDiff,
    const void* betaDataDiff, const void* alphaParamDiff, const void* betaParamDiff,
    const cudnnTensorDescriptor_t xDesc, const void* x, const cudnnTensorDescriptor_t dyDesc,
    const void* dy, const cudnnTensorDescriptor_t dxDesc, void* dx,
    const cudnnTensorDescriptor_t dBnScaleBiasDesc, const void* bnScale, void* dBnScaleResult,
    void* dBnBiasResult, double epsilon, const void* savedMean, const void* savedInvVariance) {
  return Protect([&] {
    const cudnnTensorDescriptor_t parameters = dBnScaleBiasDesc;
    HOSTGPU_REFUSE_IF(
        AnyNull(handle, xDesc, dyDesc, dxDesc, parameters, alphaDataDiff, betaDataDiff,
                alphaParamDiff, betaParamDiff, x, dy, dx, bnScale, dBnScaleResult, dBnBiasResult),
        CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF((savedMean == nullptr) != (savedInvVariance == nullptr),
                      CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(!IsBatchNormMode(mode), CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(epsilon < 0, CUDNN_STATUS_BAD_PARAM);
    if (auto status = CheckNormalizedShapes(mode, xDesc, dyDesc, parameters)) return status;
    if (auto status = CheckNormalizedShapes(mode, xDesc, dxDesc, parameters)) return status;
    BackwardCall call{*xDesc, *dyDesc, *dxDesc, *parameters, {}, {}, epsilon};
    DataType type{};
    if (auto status = ResolveTensor(handle, "x", xDesc, x, &type, &call.x)) return status;
    if (auto status = ResolveTensor(handle, "dy", dyDesc, dy, &type, &call.dy)) return status;
    if (auto status = ResolveTensor(handle, "dx", dxDesc, dx, &type, &call.dx)) return status;
    if (auto status =
            ResolveParameters(handle, parameters,
                              {{"the scale", bnScale, &call.scale},
                               {"the scale's gradient", dBnScaleResult, &call.dscale},
                               {"the bias's gradient", dBnBiasResult, &call.dbias},
                               {"the saved mean", savedMean, &call.saved_mean},
                               {"the saved inverse", savedInvVariance, &call.saved_inverse}})) {
      return status;
    }
    call.data_scales = ReadScales(alphaDataDiff, betaDataDiff, type);
    call.parameter_scales = ReadScales(alphaParamDiff, betaParamDiff, type);
    return Enqueue(
        handle, {x, dy, dx, bnScale, dBnScaleResult, dBnBiasResult, savedMean, savedInvVariance},
        [=] { WithElement(type, [&](auto element) { Backward<decltype(element)>(call); }); });
  });
}

[[gnu::alias(
    "cudnnBatchNormalizationForwardTraining")]] decltype(cudnnBatchNormalizationForwardTraining)
    hostgpuTrainBatchNorm;
[[gnu::alias("cudnnBatchNormalizationBackward")]] decltype(cudnnBatchNormalizationBackward)
    hostgpuUnlearnBatchNorm;

}  // extern "C"
