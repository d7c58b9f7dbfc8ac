/* A cudnnAddTensor that does nothing. Split convolutions call this function, and null_cudnn.c
   lacks it. */
#include <cudnn.h>

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha,
                             const cudnnTensorDescriptor_t a_desc, const void* a, const void* beta,
                             const cudnnTensorDescriptor_t c_desc, void* c) {
  (void)handle, (void)alpha, (void)a_desc, (void)a, (void)beta, (void)c_desc, (void)c;
  return CUDNN_STATUS_SUCCESS;
}
