// Functions of cuDNN for pooling descriptors. The order of the checks and the state after a refused
// call are the real library's.
#include "shim/host/cudnn/descriptors.h"
#include "shim/host/cudnn/refusal.h"

using namespace hostgpu;

extern "C" {

HOSTGPU_CREATE_AND_DESTROY(Pooling)

cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t poolingDesc,
                                          const cudnnPoolingMode_t mode,
                                          const cudnnNanPropagation_t maxpoolingNanOpt, int nbDims,
                                          const int windowDimA[], const int paddingA[],
                                          const int strideA[]) {
  HOSTGPU_REFUSE_IF(poolingDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(nbDims <= 0, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(nbDims > cudnnPoolingStruct::kMaxSpatial, CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(mode < CUDNN_POOLING_MAX || mode > CUDNN_POOLING_MAX_DETERMINISTIC,
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(
      maxpoolingNanOpt != CUDNN_NOT_PROPAGATE_NAN && maxpoolingNanOpt != CUDNN_PROPAGATE_NAN,
      CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(windowDimA == nullptr || paddingA == nullptr || strideA == nullptr,
                    CUDNN_STATUS_BAD_PARAM);
  poolingDesc->mode = mode;
  poolingDesc->nan_propagation = maxpoolingNanOpt;
  poolingDesc->spatial_count = nbDims;
  for (int i = 0; i < nbDims; ++i) {
    HOSTGPU_REFUSE_IF(windowDimA[i] <= 0, CUDNN_STATUS_BAD_PARAM);
    poolingDesc->window[i] = windowDimA[i];
    poolingDesc->pad[i] = paddingA[i];
    HOSTGPU_REFUSE_IF(strideA[i] <= 0, CUDNN_STATUS_BAD_PARAM);
    poolingDesc->stride[i] = strideA[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t poolingDesc,
                                          cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t maxpoolingNanOpt, int windowHeight,
                                          int windowWidth, int verticalPadding,
                                          int horizontalPadding, int verticalStride,
                                          int horizontalStride) {
  const int window[] = {windowHeight, windowWidth};
  const int pad[] = {verticalPadding, horizontalPadding};
  const int stride[] = {verticalStride, horizontalStride};
  return cudnnSetPoolingNdDescriptor(poolingDesc, mode, maxpoolingNanOpt, 2, window, pad, stride);
}

cudnnStatus_t cudnnGetPoolingNdDescriptor(const cudnnPoolingDescriptor_t poolingDesc,
                                          int nbDimsRequested, cudnnPoolingMode_t* mode,
                                          cudnnNanPropagation_t* maxpoolingNanOpt, int* nbDims,
                                          int windowDimA[], int paddingA[], int strideA[]) {
  HOSTGPU_REFUSE_IF(poolingDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(nbDimsRequested > cudnnPoolingStruct::kMaxSpatial, CUDNN_STATUS_NOT_SUPPORTED);
  Give(mode, poolingDesc->mode);
  Give(maxpoolingNanOpt, poolingDesc->nan_propagation);
  Give(nbDims, poolingDesc->spatial_count);
  // As in the real library, writes as many values as the caller asked for, even if the descriptor
  // has fewer.
  for (int i = 0; i < nbDimsRequested; ++i) {
    if (windowDimA != nullptr) windowDimA[i] = poolingDesc->window[i];
    if (paddingA != nullptr) paddingA[i] = poolingDesc->pad[i];
    if (strideA != nullptr) strideA[i] = poolingDesc->stride[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetPoolingNdForwardOutputDim(const cudnnPoolingDescriptor_t poolingDesc,
                                                const cudnnTensorDescriptor_t inputTensorDesc,
                                                int nbDims, int outputTensorDimA[]) {
  HOSTGPU_REFUSE_IF(poolingDesc == nullptr || inputTensorDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(inputTensorDesc->dim_count != nbDims, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(poolingDesc->spatial_count != nbDims - 2, CUDNN_STATUS_BAD_PARAM);
  const auto& dims = inputTensorDesc->dims;
  outputTensorDimA[0] = dims[0];
  outputTensorDimA[1] = dims[1];
  if (inputTensorDesc->format == CUDNN_TENSOR_NCHW_VECT_C) {
    const cudnnDataType_t type = inputTensorDesc->type;
    HOSTGPU_REFUSE_IF(type != CUDNN_DATA_INT8x4 && type != CUDNN_DATA_INT8x32,
                      CUDNN_STATUS_BAD_PARAM);
    outputTensorDimA[1] = Multiply(dims[1], type == CUDNN_DATA_INT8x4 ? 4 : 32);
  }
  for (int i = 0; i < poolingDesc->spatial_count; ++i) {
    // The distance by which the window can move in the padded image; negative if the window is
    // larger than the padded image.
    const int padded = Add(dims[i + 2], Multiply(2, poolingDesc->pad[i]));
    const int room = Subtract(padded, poolingDesc->window[i]);
    HOSTGPU_REFUSE_IF(room < 0, CUDNN_STATUS_BAD_PARAM);
    // A refused setter can leave a stride at 0, its value in a new descriptor. The real library
    // would crash here.
    HOSTGPU_REFUSE_IF(poolingDesc->stride[i] == 0, CUDNN_STATUS_BAD_PARAM);
    outputTensorDimA[i + 2] = Add(1, room / poolingDesc->stride[i]);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetPooling2dForwardOutputDim(const cudnnPoolingDescriptor_t poolingDesc,
                                                const cudnnTensorDescriptor_t inputTensorDesc,
                                                int* n, int* c, int* h, int* w) {
  int dims[4] = {};
  const cudnnStatus_t status =
      cudnnGetPoolingNdForwardOutputDim(poolingDesc, inputTensorDesc, 4, dims);
  int* const results[] = {n, c, h, w};
  for (int i = 0; i < 4; ++i) Give(results[i], dims[i]);
  return status;
}

}  // extern "C"
