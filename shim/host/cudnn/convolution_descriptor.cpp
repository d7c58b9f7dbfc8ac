// Functions of cuDNN for convolution descriptors and for the output extents that these determine.
// As in tensor_descriptor.cpp, the checks, their order and the state after a refused call are the
// real library's, including 32-bit wrap-around.
#include "shim/host/cudnn/descriptors.h"
#include "shim/host/cudnn/refusal.h"

using namespace hostgpu;

namespace {

bool IsComputeType(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF ||
         type == CUDNN_DATA_INT32;
}

}  // namespace

extern "C" {

HOSTGPU_CREATE_AND_DESTROY(Convolution)

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convDesc,
                                          cudnnMathType_t mathType) {
  HOSTGPU_REFUSE_IF(convDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(mathType < CUDNN_DEFAULT_MATH || mathType > CUDNN_FMA_MATH,
                    CUDNN_STATUS_BAD_PARAM);
  convDesc->math_type = mathType;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t convDesc,
                                          cudnnMathType_t* mathType) {
  HOSTGPU_REFUSE_IF(convDesc == nullptr || mathType == nullptr, CUDNN_STATUS_BAD_PARAM);
  *mathType = convDesc->math_type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convDesc, int groupCount) {
  HOSTGPU_REFUSE_IF(convDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(groupCount <= 0, CUDNN_STATUS_BAD_PARAM);
  convDesc->group_count = groupCount;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t convDesc,
                                            int* groupCount) {
  HOSTGPU_REFUSE_IF(convDesc == nullptr || groupCount == nullptr, CUDNN_STATUS_BAD_PARAM);
  *groupCount = convDesc->group_count;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convDesc,
                                              int arrayLength, const int padA[],
                                              const int filterStrideA[], const int dilationA[],
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t dataType) {
  HOSTGPU_REFUSE_IF(convDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(arrayLength < 0, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF((mode != CUDNN_CONVOLUTION) && (mode != CUDNN_CROSS_CORRELATION),
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!IsComputeType(dataType), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(arrayLength > cudnnConvolutionStruct::kMaxSpatial, CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(
      arrayLength > 0 && (padA == nullptr || filterStrideA == nullptr || dilationA == nullptr),
      CUDNN_STATUS_BAD_PARAM);
  convDesc->spatial_count = arrayLength;
  convDesc->mode = mode;
  convDesc->compute_type = dataType;
  // A value is stored before it is checked, so a refused call changes the descriptor, as in the
  // real library.
  for (int i = 0; i < arrayLength; ++i) {
    convDesc->pad[i] = padA[i];
    HOSTGPU_REFUSE_IF(padA[i] < 0, CUDNN_STATUS_BAD_PARAM);
    convDesc->stride[i] = filterStrideA[i];
    HOSTGPU_REFUSE_IF(filterStrideA[i] <= 0, CUDNN_STATUS_BAD_PARAM);
    convDesc->dilation[i] = dilationA[i];
    HOSTGPU_REFUSE_IF(dilationA[i] <= 0, CUDNN_STATUS_BAD_PARAM);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convDesc, int pad_h,
                                              int pad_w, int u, int v, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t computeType) {
  const int pad[] = {pad_h, pad_w};
  const int stride[] = {u, v};
  const int dilation[] = {dilation_h, dilation_w};
  return cudnnSetConvolutionNdDescriptor(convDesc, 2, pad, stride, dilation, mode, computeType);
}

cudnnStatus_t cudnnGetConvolutionNdDescriptor(const cudnnConvolutionDescriptor_t convDesc,
                                              int arrayLengthRequested, int* arrayLength,
                                              int padA[], int strideA[], int dilationA[],
                                              cudnnConvolutionMode_t* mode,
                                              cudnnDataType_t* computeType) {
  HOSTGPU_REFUSE_IF(convDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(arrayLengthRequested < 0, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(arrayLengthRequested > cudnnConvolutionStruct::kMaxSpatial,
                    CUDNN_STATUS_NOT_SUPPORTED);
  Give(arrayLength, convDesc->spatial_count);
  Give(mode, convDesc->mode);
  Give(computeType, convDesc->compute_type);
  for (int i = 0; i < arrayLengthRequested; ++i) {
    if (padA != nullptr) padA[i] = convDesc->pad[i];
    if (strideA != nullptr) strideA[i] = convDesc->stride[i];
    if (dilationA != nullptr) dilationA[i] = convDesc->dilation[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(const cudnnConvolutionDescriptor_t convDesc,
                                                    const cudnnTensorDescriptor_t inputTensorDesc,
                                                    const cudnnFilterDescriptor_t filterDesc,
                                                    int nbDims, int tensorOuputDimA[]) {
  HOSTGPU_REFUSE_IF(convDesc == nullptr || inputTensorDesc == nullptr || filterDesc == nullptr,
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(nbDims < 0 || nbDims > inputTensorDesc->dim_count, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(convDesc->spatial_count != (filterDesc->dim_count - 2), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(inputTensorDesc->dim_count != filterDesc->dim_count, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(
      inputTensorDesc->dims[1] != Multiply(convDesc->group_count, filterDesc->dims[1]),
      CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(tensorOuputDimA == nullptr, CUDNN_STATUS_BAD_PARAM);
  tensorOuputDimA[0] = inputTensorDesc->dims[0];  // written even if nbDims < 2
  tensorOuputDimA[1] = filterDesc->dims[0];
  for (int i = 2; i < nbDims; ++i) {
    const int stride = convDesc->stride[i - 2];
    const int padded = Add(inputTensorDesc->dims[i], Multiply(2, convDesc->pad[i - 2]));
    const int window = Add(Multiply(filterDesc->dims[i] - 1, convDesc->dilation[i - 2]), 1);
    HOSTGPU_REFUSE_IF(padded < window, CUDNN_STATUS_BAD_PARAM);
    // A refused setter can leave a stride of 0 or less in the descriptor. The real library would
    // crash here.
    HOSTGPU_REFUSE_IF(stride <= 0, CUDNN_STATUS_BAD_PARAM);
    tensorOuputDimA[i] = Add(Subtract(padded, window) / stride, 1);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(const cudnnConvolutionDescriptor_t convDesc,
                                                    const cudnnTensorDescriptor_t inputTensorDesc,
                                                    const cudnnFilterDescriptor_t filterDesc,
                                                    int* n, int* c, int* h, int* w) {
  int dims[4] = {};
  const cudnnStatus_t status =
      cudnnGetConvolutionNdForwardOutputDim(convDesc, inputTensorDesc, filterDesc, 4, dims);
  int* const results[] = {n, c, h, w};
  for (int i = 0; i < 4; ++i) Give(results[i], dims[i]);
  return status;
}

}  // extern "C"
