// Pooling descriptors. The order of the checks, and what a refused call has already changed, are
// the real library's.
#include <new>

#include "shim/host/cudnn/descriptors.h"
#include "shim/host/cudnn/refusal.h"

namespace {

// The real library computes in 32 bits that wrap.
int WrappedProduct(int a, int b) {
  return static_cast<int>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

// How far a window can move; negative where it is larger than the padded image.
int Room(int extent, int window, int pad) {
  return static_cast<int>(static_cast<uint32_t>(extent) + 2 * static_cast<uint32_t>(pad) -
                          static_cast<uint32_t>(window));
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* poolingDesc) {
  HOSTGPU_REFUSE_IF(poolingDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  *poolingDesc = new (std::nothrow) cudnnPoolingStruct;
  HOSTGPU_REFUSE_IF(*poolingDesc == nullptr, CUDNN_STATUS_ALLOC_FAILED);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t poolingDesc) {
  delete poolingDesc;
  return CUDNN_STATUS_SUCCESS;
}

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
  if (mode != nullptr) *mode = poolingDesc->mode;
  if (maxpoolingNanOpt != nullptr) *maxpoolingNanOpt = poolingDesc->nan_propagation;
  if (nbDims != nullptr) *nbDims = poolingDesc->spatial_count;
  // As many as were asked for, also where there are fewer.
  for (int i = 0; i < nbDimsRequested; ++i) {
    if (windowDimA != nullptr) windowDimA[i] = poolingDesc->window[i];
    if (paddingA != nullptr) paddingA[i] = poolingDesc->pad[i];
    if (strideA != nullptr) strideA[i] = poolingDesc->stride[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

// Answers the first two axes, however many there are.
cudnnStatus_t cudnnGetPooling2dDescriptor(const cudnnPoolingDescriptor_t poolingDesc,
                                          cudnnPoolingMode_t* mode,
                                          cudnnNanPropagation_t* maxpoolingNanOpt,
                                          int* windowHeight, int* windowWidth, int* verticalPadding,
                                          int* horizontalPadding, int* verticalStride,
                                          int* horizontalStride) {
  HOSTGPU_REFUSE_IF(poolingDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  if (mode != nullptr) *mode = poolingDesc->mode;
  if (maxpoolingNanOpt != nullptr) *maxpoolingNanOpt = poolingDesc->nan_propagation;
  if (windowHeight != nullptr) *windowHeight = poolingDesc->window[0];
  if (windowWidth != nullptr) *windowWidth = poolingDesc->window[1];
  if (verticalPadding != nullptr) *verticalPadding = poolingDesc->pad[0];
  if (horizontalPadding != nullptr) *horizontalPadding = poolingDesc->pad[1];
  if (verticalStride != nullptr) *verticalStride = poolingDesc->stride[0];
  if (horizontalStride != nullptr) *horizontalStride = poolingDesc->stride[1];
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
    outputTensorDimA[1] = WrappedProduct(dims[1], type == CUDNN_DATA_INT8x4 ? 4 : 32);
  }
  for (int i = 0; i < poolingDesc->spatial_count; ++i) {
    const int room = Room(dims[i + 2], poolingDesc->window[i], poolingDesc->pad[i]);
    HOSTGPU_REFUSE_IF(room < 0, CUDNN_STATUS_BAD_PARAM);
    outputTensorDimA[i + 2] = static_cast<int>(uint32_t{1} + room / poolingDesc->stride[i]);
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
  for (int i = 0; i < 4; ++i) {
    if (results[i] != nullptr) *results[i] = dims[i];
  }
  return status;
}

}  // extern "C"
