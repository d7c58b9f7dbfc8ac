// Functions of cuDNN for tensor descriptors. The order of the checks and the state after a refused
// call are the real library's.
#include <climits>
#include <cstdlib>
#include "shim/host/cudnn/descriptors.h"
#include "shim/host/cudnn/refusal.h"

namespace hostgpu {

size_t ElementBytes(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
      return 1;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
    case CUDNN_DATA_INT8x4:
    case CUDNN_DATA_UINT8x4:
      return 4;
    case CUDNN_DATA_DOUBLE:
      return 8;
    case CUDNN_DATA_INT8x32:
      return 32;
    default:
      return 0;
  }
}

bool IsTensorType(cudnnDataType_t type) { return ElementBytes(type) != 0; }

bool IsVectorType(cudnnDataType_t type) {
  return type == CUDNN_DATA_INT8x4 || type == CUDNN_DATA_UINT8x4 || type == CUDNN_DATA_INT8x32;
}

int ChannelsPerVector(cudnnDataType_t type) { return type == CUDNN_DATA_INT8x32 ? 32 : 4; }

namespace {

cudnnStatus_t CheckForm(cudnnDataType_t type, int nbDims) {
  HOSTGPU_REFUSE_IF(!IsTensorType(type), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(nbDims < 2, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(nbDims > CUDNN_DIM_MAX, CUDNN_STATUS_NOT_SUPPORTED);
  return CUDNN_STATUS_SUCCESS;
}

int64_t Span(const cudnnTensorStruct& tensor) {
  int64_t span = 1;
  for (int i = 0; i < tensor.dim_count; ++i) {
    const int stride = tensor.strides[i];
    const int64_t magnitude = stride == INT_MIN ? INT_MIN : std::abs(stride);
    span += (tensor.dims[i] - int64_t{1}) * magnitude;
  }
  return span;
}

// As in the real library, extents and strides that precede a refused value are stored.
cudnnStatus_t Store(cudnnTensorStruct& tensor, cudnnDataType_t type, int nbDims, const int* dimA,
                    const int* strideA) {
  tensor.type = type;
  tensor.dim_count = nbDims;
  for (int i = 0; i < nbDims; ++i) {
    HOSTGPU_REFUSE_IF(dimA[i] <= 0, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF((strideA[i] == 0) && (dimA[i] != 1), CUDNN_STATUS_BAD_PARAM);
    tensor.dims[i] = dimA[i];
    tensor.strides[i] = strideA[i];
  }
  tensor.span = Span(tensor);
  HOSTGPU_REFUSE_IF(static_cast<uint64_t>(tensor.span) > INT_MAX, CUDNN_STATUS_NOT_SUPPORTED);
  return CUDNN_STATUS_SUCCESS;
}

// Sets packed strides. The last dimension has stride 1; with `channels_last` the channels have it
// instead.
void PackedStrides(bool channels_last, int nbDims, const int* dims, int* strides) {
  strides[nbDims - 1] = channels_last ? dims[1] : 1;
  for (int i = nbDims - 2; i >= (channels_last ? 2 : 0); --i) {
    strides[i] = Multiply(strides[i + 1], dims[i + 1]);
  }
  if (channels_last) {
    // With two dimensions the channels are also the last dimension. The real library then reads
    // beyond its array, so the stand-in does not imitate its result.
    strides[0] = nbDims > 2 ? Multiply(strides[2], dims[2]) : dims[1];
    if (nbDims > 2) strides[1] = 1;
  }
}

cudnnStatus_t StorePacked(cudnnTensorStruct& tensor, cudnnTensorFormat_t format,
                          cudnnDataType_t type, int nbDims, const int* dimA) {
  std::array<int, CUDNN_DIM_MAX> strides{};
  PackedStrides(format == CUDNN_TENSOR_NHWC, nbDims, dimA, strides.data());
  return Store(tensor, type, nbDims, dimA, strides.data());
}

}  // namespace
}  // namespace hostgpu

using namespace hostgpu;

extern "C" {

HOSTGPU_CREATE_AND_DESTROY(Tensor)

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensorDesc,
                                         cudnnTensorFormat_t format, cudnnDataType_t dataType,
                                         int n, int c, int h, int w) {
  HOSTGPU_REFUSE_IF(tensorDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!IsTensorType(dataType), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF((n <= 0) || (c <= 0) || (h <= 0) || (w <= 0), CUDNN_STATUS_BAD_PARAM);
  if (format == CUDNN_TENSOR_NCHW_VECT_C) {
    HOSTGPU_REFUSE_IF(!IsVectorType(dataType), CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(c % ChannelsPerVector(dataType), CUDNN_STATUS_BAD_PARAM);
    c /= ChannelsPerVector(dataType);
  } else {
    HOSTGPU_REFUSE_IF(format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC,
                      CUDNN_STATUS_BAD_PARAM);
  }
  tensorDesc->format = format;
  const int dims[] = {n, c, h, w};
  return StorePacked(*tensorDesc, format, dataType, 4, dims);
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensorDesc,
                                           cudnnDataType_t dataType, int n, int c, int h, int w,
                                           int nStride, int cStride, int hStride, int wStride) {
  const int dims[] = {n, c, h, w};
  const int strides[] = {nStride, cStride, hStride, wStride};
  return cudnnSetTensorNdDescriptor(tensorDesc, dataType, 4, dims, strides);
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensorDesc,
                                         cudnnDataType_t dataType, int nbDims, const int dimA[],
                                         const int strideA[]) {
  HOSTGPU_REFUSE_IF(tensorDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  if (cudnnStatus_t status = CheckForm(dataType, nbDims)) return status;
  HOSTGPU_REFUSE_IF(dimA == nullptr || strideA == nullptr, CUDNN_STATUS_BAD_PARAM);
  tensorDesc->format = CUDNN_TENSOR_NCHW;
  return Store(*tensorDesc, dataType, nbDims, dimA, strideA);
}

cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t tensorDesc,
                                           cudnnTensorFormat_t format, cudnnDataType_t dataType,
                                           int nbDims, const int dimA[]) {
  HOSTGPU_REFUSE_IF(tensorDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(dimA == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC &&
                        format != CUDNN_TENSOR_NCHW_VECT_C,
                    CUDNN_STATUS_BAD_PARAM);
  if (format != CUDNN_TENSOR_NCHW_VECT_C) {
    if (cudnnStatus_t status = CheckForm(dataType, nbDims)) return status;
    tensorDesc->format = format;
    return StorePacked(*tensorDesc, format, dataType, nbDims, dimA);
  }
  HOSTGPU_REFUSE_IF(nbDims < 2, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(dimA[1] % ChannelsPerVector(dataType), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!IsTensorType(dataType), CUDNN_STATUS_BAD_PARAM);
  // The real library stores the layout before it checks the number of dimensions.
  tensorDesc->format = format;
  if (cudnnStatus_t status = CheckForm(dataType, nbDims)) return status;
  std::array<int, CUDNN_DIM_MAX> dims{};
  for (int i = 0; i < nbDims; ++i) dims[i] = dimA[i];
  dims[1] /= ChannelsPerVector(dataType);
  return StorePacked(*tensorDesc, format, dataType, nbDims, dims.data());
}

cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensorDesc,
                                         int nbDimsRequested, cudnnDataType_t* dataType,
                                         int* nbDims, int dimA[], int strideA[]) {
  HOSTGPU_REFUSE_IF(tensorDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  Give(dataType, tensorDesc->type);
  Give(nbDims, tensorDesc->dim_count);
  const bool vectors = tensorDesc->format == CUDNN_TENSOR_NCHW_VECT_C;
  // For a vector layout, the real library multiplies dimA[1] even if the caller asked for only one
  // dimension. The stand-in does not.
  for (int i = 0; i < nbDimsRequested && i < tensorDesc->dim_count; ++i) {
    if (dimA != nullptr) {
      dimA[i] = tensorDesc->dims[i];
      if (i == 1 && vectors) dimA[i] = Multiply(dimA[i], ChannelsPerVector(tensorDesc->type));
    }
    if (strideA != nullptr) strideA[i] = tensorDesc->strides[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensor4dDescriptor(const cudnnTensorDescriptor_t tensorDesc,
                                         cudnnDataType_t* dataType, int* n, int* c, int* h, int* w,
                                         int* nStride, int* cStride, int* hStride, int* wStride) {
  HOSTGPU_REFUSE_IF(tensorDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  Give(dataType, tensorDesc->type);
  Give(n, tensorDesc->dims[0]);
  // A descriptor with the vector layout may have a type that is no vector type. Then the number of
  // channels per element is unknown.
  int channels_per_element = 1;
  if (tensorDesc->format == CUDNN_TENSOR_NCHW_VECT_C) {
    HOSTGPU_REFUSE_IF(!IsVectorType(tensorDesc->type), CUDNN_STATUS_BAD_PARAM);
    channels_per_element = ChannelsPerVector(tensorDesc->type);
  }
  Give(c, Multiply(tensorDesc->dims[1], channels_per_element));
  Give(h, tensorDesc->dims[2]);
  Give(w, tensorDesc->dims[3]);
  int* const strides[] = {nStride, cStride, hStride, wStride};
  for (int i = 0; i < 4; ++i) {
    Give(strides[i], tensorDesc->strides[i]);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t tensorDesc, size_t* size) {
  HOSTGPU_REFUSE_IF(tensorDesc == nullptr || size == nullptr, CUDNN_STATUS_BAD_PARAM);
  *size = static_cast<size_t>(tensorDesc->span) * ElementBytes(tensorDesc->type);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
