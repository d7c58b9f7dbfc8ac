// Batch normalisation's Ex calls. Only CUDNN_BATCHNORM_OPS_BN is supported. With this operation the
// Ex calls do the same as the plain calls. They ignore z, dz, activation, workspace, reserve space,
// and the y of a backward call. As in the real 9.19 library, this operation needs 0 bytes of
// workspace and reserve space.
#include "shim/host/cudnn/batch_normalization.h"
#include "shim/host/cudnn/descriptors.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/problem.h"
#include "shim/host/cudnn/refusal.h"

namespace hostgpu {
namespace {

cudnnStatus_t RequireNothingBehind(cudnnBatchNormOps_t operations,
                                   cudnnActivationDescriptor_t activation) {
  HOSTGPU_REFUSE_IF(
      operations < CUDNN_BATCHNORM_OPS_BN || operations > CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION,
      CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(operations != CUDNN_BATCHNORM_OPS_BN && activation == nullptr,
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(operations != CUDNN_BATCHNORM_OPS_BN, CUDNN_STATUS_NOT_SUPPORTED);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t RequireType(cudnnTensorDescriptor_t x) {
  DataType type{};
  HOSTGPU_REFUSE_IF(!EngineType(x->type, &type), CUDNN_STATUS_NOT_SUPPORTED);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace hostgpu

using namespace hostgpu;

extern "C" {

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t bnOps,
    const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t yDesc, const cudnnTensorDescriptor_t bnScaleBiasMeanVarDesc,
    const cudnnActivationDescriptor_t activationDesc, size_t* sizeInBytes) {
  HOSTGPU_REFUSE_IF(AnyNull(handle, xDesc, yDesc, bnScaleBiasMeanVarDesc, sizeInBytes),
                    CUDNN_STATUS_BAD_PARAM);
  if (auto status = CheckNormalizedShapes(mode, xDesc, yDesc, bnScaleBiasMeanVarDesc)) {
    return status;
  }
  if (auto status = RequireNothingBehind(bnOps, activationDesc)) return status;
  if (auto status = RequireType(xDesc)) return status;
  *sizeInBytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t bnOps,
    const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t dyDesc, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t dxDesc, const cudnnTensorDescriptor_t dBnScaleBiasDesc,
    const cudnnActivationDescriptor_t activationDesc, size_t* sizeInBytes) {
  HOSTGPU_REFUSE_IF(AnyNull(handle, xDesc, dyDesc, dxDesc, dBnScaleBiasDesc, sizeInBytes),
                    CUDNN_STATUS_BAD_PARAM);
  for (const cudnnTensorDescriptor_t other : {dyDesc, dxDesc}) {
    if (auto status = CheckNormalizedShapes(mode, xDesc, other, dBnScaleBiasDesc)) return status;
  }
  if (auto status = RequireNothingBehind(bnOps, activationDesc)) return status;
  if (auto status = RequireType(xDesc)) return status;
  *sizeInBytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

// Like the real library, this function does not read the contents of xDesc.
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t bnOps,
    const cudnnActivationDescriptor_t activationDesc, const cudnnTensorDescriptor_t xDesc,
    size_t* sizeInBytes) {
  HOSTGPU_REFUSE_IF(handle == nullptr || xDesc == nullptr || sizeInBytes == nullptr,
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!IsBatchNormMode(mode), CUDNN_STATUS_BAD_PARAM);
  if (auto status = RequireNothingBehind(bnOps, activationDesc)) return status;
  *sizeInBytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t bnOps, const void* alpha,
    const void* beta, const cudnnTensorDescriptor_t xDesc, const void* xData,
    const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t yDesc, void* yData,
    const cudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void* bnScale, const void* bnBias,
    double exponentialAverageFactor, void* resultRunningMean, void* resultRunningVariance,
    double epsilon, void* resultSaveMean, void* resultSaveInvVariance,
    cudnnActivationDescriptor_t activationDesc, void*, size_t, void*, size_t) {
  if (auto status = RequireNothingBehind(bnOps, activationDesc)) return status;
  return hostgpuTrainBatchNorm(handle, mode, alpha, beta, xDesc, xData, yDesc, yData,
                               bnScaleBiasMeanVarDesc, bnScale, bnBias, exponentialAverageFactor,
                               resultRunningMean, resultRunningVariance, epsilon, resultSaveMean,
                               resultSaveInvVariance);
}

cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t bnOps,
    const void* alphaDataDiff, const void* betaDataDiff, const void* alphaParamDiff,
    const void* betaParamDiff, const cudnnTensorDescriptor_t xDesc, const void* xData,
    const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t dyDesc,
    const void* dyData, const cudnnTensorDescriptor_t, void*, const cudnnTensorDescriptor_t dxDesc,
    void* dxData, const cudnnTensorDescriptor_t dBnScaleBiasDesc, const void* bnScaleData,
    const void*, void* dBnScaleData, void* dBnBiasData, double epsilon, const void* savedMean,
    const void* savedInvVariance, cudnnActivationDescriptor_t activationDesc, void*, size_t, void*,
    size_t) {
  if (auto status = RequireNothingBehind(bnOps, activationDesc)) return status;
  return hostgpuUnlearnBatchNorm(handle, mode, alphaDataDiff, betaDataDiff, alphaParamDiff,
                                 betaParamDiff, xDesc, xData, dyDesc, dyData, dxDesc, dxData,
                                 dBnScaleBiasDesc, bnScaleData, dBnScaleData, dBnBiasData, epsilon,
                                 savedMean, savedInvVariance);
}

}  // extern "C"
