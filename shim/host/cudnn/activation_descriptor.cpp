// Functions of cuDNN for activation descriptors.
#include "shim/host/cudnn/descriptors.h"
#include "shim/host/cudnn/refusal.h"

extern "C" {

HOSTGPU_CREATE_AND_DESTROY(Activation)

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
  hostgpu::Give(mode, activationDesc->mode);
  hostgpu::Give(reluNanOpt, activationDesc->nan_propagation);
  hostgpu::Give(coef, activationDesc->coefficient);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
