// Activation descriptors.
#include <new>

#include "shim/host/cudnn/descriptors.h"
#include "shim/host/cudnn/refusal.h"

extern "C" {

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* activationDesc) {
  HOSTGPU_REFUSE_IF(activationDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  *activationDesc = new (std::nothrow) cudnnActivationStruct;
  HOSTGPU_REFUSE_IF(*activationDesc == nullptr, CUDNN_STATUS_ALLOC_FAILED);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activationDesc) {
  delete activationDesc;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activationDesc,
                                           cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t reluNanOpt, double coef) {
  HOSTGPU_REFUSE_IF(activationDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(mode < CUDNN_ACTIVATION_SIGMOID || mode > CUDNN_ACTIVATION_SWISH,
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF((reluNanOpt != CUDNN_NOT_PROPAGATE_NAN) && (reluNanOpt != CUDNN_PROPAGATE_NAN),
                    CUDNN_STATUS_BAD_PARAM);
  activationDesc->mode = mode;
  activationDesc->nan_propagation = reluNanOpt;
  activationDesc->coefficient = coef;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetActivationDescriptor(const cudnnActivationDescriptor_t activationDesc,
                                           cudnnActivationMode_t* mode,
                                           cudnnNanPropagation_t* reluNanOpt, double* coef) {
  HOSTGPU_REFUSE_IF(activationDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  if (mode != nullptr) *mode = activationDesc->mode;
  if (reluNanOpt != nullptr) *reluNanOpt = activationDesc->nan_propagation;
  if (coef != nullptr) *coef = activationDesc->coefficient;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t activationDesc,
                                                    double swish_beta) {
  HOSTGPU_REFUSE_IF(activationDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  activationDesc->swish_beta = swish_beta;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t activationDesc,
                                                    double* swish_beta) {
  HOSTGPU_REFUSE_IF(activationDesc == nullptr || swish_beta == nullptr, CUDNN_STATUS_BAD_PARAM);
  *swish_beta = activationDesc->swish_beta;
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
