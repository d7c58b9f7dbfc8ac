#include "api/split_hooks.h"

#include <cudnn.h>

#include <array>

#include "api/process.h"
#include "interposer/spatial/bias_gradient.h"
#include "interposer/spatial/normalization.h"
#include "interposer/spatial/pooling.h"

// The headers are of the oldest supported cuDNN. They mark functions as deprecated, but newer
// releases still have these functions.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ucudnn {
namespace {

interposer::SplitContext Context() { return ProcessInterposer()->split_context(); }
const cudnn::Functions& RealOnes() { return ProcessInterposer()->functions(); }

// Returns split(), or forward() if the program has excluded its own calls from splitting. If
// split() runs out of memory, the splitter fails permanently.
template <typename Split, typename Forward>
cudnnStatus_t SplitOr(Split split, Forward forward) {
  interposer::Splitter& splitter = ProcessInterposer()->splitter();
  if (splitter.refusal().empty() && !splitter.enabled()) return forward();
  return Guarded(split, [&] { return splitter.Fail("out of memory in a split call"); });
}

cudnnStatus_t BackwardBias(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t dy_desc,
                           const void* dy, const void* beta, cudnnTensorDescriptor_t db_desc,
                           void* db) {
  return SplitOr(
      [&] {
        return interposer::RunBiasGradient(Context(),
                                           {handle, alpha, dy_desc, dy, beta, db_desc, db});
      },
      [&] {
        return RealOnes().cudnnConvolutionBackwardBias(handle, alpha, dy_desc, dy, beta, db_desc,
                                                       db);
      });
}

cudnnStatus_t PoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling,
                             const void* alpha, cudnnTensorDescriptor_t x_desc, const void* x,
                             const void* beta, cudnnTensorDescriptor_t y_desc, void* y) {
  return SplitOr(
      [&] {
        return interposer::RunPooling(
            Context(), {Operation::kForward, handle, pooling, alpha, beta, x_desc, x, y_desc, y});
      },
      [&] {
        return RealOnes().cudnnPoolingForward(handle, pooling, alpha, x_desc, x, beta, y_desc, y);
      });
}

cudnnStatus_t PoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling,
                              const void* alpha, cudnnTensorDescriptor_t y_desc, const void* y,
                              cudnnTensorDescriptor_t dy_desc, const void* dy,
                              cudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                              cudnnTensorDescriptor_t dx_desc, void* dx) {
  return SplitOr(
      [&] {
        return interposer::RunPooling(
            Context(), {Operation::kBackwardData, handle, pooling, alpha, beta, x_desc, x, y_desc,
                        const_cast<void*>(y), dy_desc, dy, dx_desc, dx});
      },
      [&] {
        return RealOnes().cudnnPoolingBackward(handle, pooling, alpha, y_desc, y, dy_desc, dy,
                                               x_desc, x, beta, dx_desc, dx);
      });
}

template <typename Call>
cudnnStatus_t NormOr(const Call& call, const cudnn::NormSpaces* spaces) {
  return SplitOr([&] { return interposer::RunNorm(Context(), call, spaces); },
                 [&] {
                   return spaces == nullptr ? cudnn::Normalize(RealOnes(), call)
                                            : cudnn::Normalize(RealOnes(), call, *spaces);
                 });
}

cudnnStatus_t NormForward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
                          const void* beta, cudnnTensorDescriptor_t x_desc, const void* x,
                          cudnnTensorDescriptor_t y_desc, void* y,
                          cudnnTensorDescriptor_t parameters, const void* scale, const void* bias,
                          double factor, void* running_mean, void* running_variance, double epsilon,
                          void* saved_mean, void* saved_inverse) {
  return NormOr(cudnn::NormTraining{handle, mode, alpha, beta, x_desc, x, y_desc, y, parameters,
                                    scale, bias, factor, running_mean, running_variance, epsilon,
                                    saved_mean, saved_inverse},
                nullptr);
}

cudnnStatus_t NormForwardEx(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                            cudnnBatchNormOps_t operations, const void* alpha, const void* beta,
                            cudnnTensorDescriptor_t x_desc, const void* x,
                            cudnnTensorDescriptor_t z_desc, const void* z,
                            cudnnTensorDescriptor_t y_desc, void* y,
                            cudnnTensorDescriptor_t parameters, const void* scale, const void* bias,
                            double factor, void* running_mean, void* running_variance,
                            double epsilon, void* saved_mean, void* saved_inverse,
                            cudnnActivationDescriptor_t activation, void* workspace,
                            size_t workspace_bytes, void* reserve, size_t reserve_bytes) {
  const cudnn::NormSpaces spaces = {operations, activation,      z_desc,  const_cast<void*>(z),
                                    workspace,  workspace_bytes, reserve, reserve_bytes};
  return NormOr(cudnn::NormTraining{handle, mode, alpha, beta, x_desc, x, y_desc, y, parameters,
                                    scale, bias, factor, running_mean, running_variance, epsilon,
                                    saved_mean, saved_inverse},
                &spaces);
}

cudnnStatus_t NormBackward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* data_alpha,
                           const void* data_beta, const void* parameter_alpha,
                           const void* parameter_beta, cudnnTensorDescriptor_t x_desc,
                           const void* x, cudnnTensorDescriptor_t dy_desc, const void* dy,
                           cudnnTensorDescriptor_t dx_desc, void* dx,
                           cudnnTensorDescriptor_t parameters, const void* scale, void* dscale,
                           void* dbias, double epsilon, const void* saved_mean,
                           const void* saved_inverse) {
  return NormOr(cudnn::NormGradient{handle, mode, data_alpha, data_beta, parameter_alpha,
                                    parameter_beta, x_desc, x, dy_desc, dy, dx_desc, dx, parameters,
                                    scale, dscale, dbias, epsilon, saved_mean, saved_inverse},
                nullptr);
}

// `y` and `bias` are operands of a fused activation. Only the real library computes fused
// activations, so RunNorm does not get these operands.
cudnnStatus_t NormBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations,
    const void* data_alpha, const void* data_beta, const void* parameter_alpha,
    const void* parameter_beta, cudnnTensorDescriptor_t x_desc, const void* x,
    cudnnTensorDescriptor_t y_desc, const void* y, cudnnTensorDescriptor_t dy_desc, const void* dy,
    cudnnTensorDescriptor_t dz_desc, void* dz, cudnnTensorDescriptor_t dx_desc, void* dx,
    cudnnTensorDescriptor_t parameters, const void* scale, const void* bias, void* dscale,
    void* dbias, double epsilon, const void* saved_mean, const void* saved_inverse,
    cudnnActivationDescriptor_t activation, void* workspace, size_t workspace_bytes, void* reserve,
    size_t reserve_bytes) {
  const cudnn::NormSpaces spaces = {operations, activation,      dz_desc, dz,
                                    workspace,  workspace_bytes, reserve, reserve_bytes};
  const cudnn::NormGradient call = {
      handle,  mode,       data_alpha,   data_beta, parameter_alpha, parameter_beta, x_desc, x,
      dy_desc, dy,         dx_desc,      dx,        parameters,      scale,          dscale, dbias,
      epsilon, saved_mean, saved_inverse};
  return SplitOr([&] { return interposer::RunNorm(Context(), call, &spaces); },
                 [&] {
                   return RealOnes().cudnnBatchNormalizationBackwardEx(
                       handle, mode, operations, data_alpha, data_beta, parameter_alpha,
                       parameter_beta, x_desc, x, y_desc, y, dy_desc, dy, dz_desc, dz, dx_desc, dx,
                       parameters, scale, bias, dscale, dbias, epsilon, saved_mean, saved_inverse,
                       activation, workspace, workspace_bytes, reserve, reserve_bytes);
                 });
}

// The type of the parameter `function` makes the compiler compare the hook's signature with the
// signature of cuDNN's function.
template <typename Function>
Hook HookOf(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

std::span<const Hook> SplitHooks() {
#define UCUDNN_SPLIT_HOOK(name, function) HookOf<decltype(::name)>(#name, &function)
  static const std::array hooks = {
      UCUDNN_SPLIT_HOOK(cudnnConvolutionBackwardBias, BackwardBias),
      UCUDNN_SPLIT_HOOK(cudnnPoolingForward, PoolingForward),
      UCUDNN_SPLIT_HOOK(cudnnPoolingBackward, PoolingBackward),
      UCUDNN_SPLIT_HOOK(cudnnBatchNormalizationForwardTraining, NormForward),
      UCUDNN_SPLIT_HOOK(cudnnBatchNormalizationForwardTrainingEx, NormForwardEx),
      UCUDNN_SPLIT_HOOK(cudnnBatchNormalizationBackward, NormBackward),
      UCUDNN_SPLIT_HOOK(cudnnBatchNormalizationBackwardEx, NormBackwardEx),
  };
#undef UCUDNN_SPLIT_HOOK
  return hooks;
}

}  // namespace ucudnn
