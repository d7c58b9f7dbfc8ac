// Functions of cuDNN for filter descriptors. As in tensor_descriptor.cpp, the checks and the state
// after a refused call are the real library's.
#include "shim/host/cudnn/descriptors.h"
#include "shim/host/cudnn/refusal.h"

using namespace hostgpu;

namespace {

// Filters accept all tensor types except INT32.
bool IsFilterType(cudnnDataType_t type) { return IsTensorType(type) && type != CUDNN_DATA_INT32; }

}  // namespace

int64_t cudnnFilterStruct::Elements() const {
  if (dim_count == 0) return 0;
  uint64_t elements = 1;  // wraps around as in the real library
  for (int i = 0; i < dim_count; ++i) elements *= static_cast<uint64_t>(int64_t{dims[i]});
  return static_cast<int64_t>(elements);
}

extern "C" {

HOSTGPU_CREATE_AND_DESTROY(Filter)

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filterDesc,
                                         cudnnDataType_t dataType, cudnnTensorFormat_t format,
                                         int nbDims, const int filterDimA[]) {
  HOSTGPU_REFUSE_IF(filterDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(nbDims <= 2, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!IsFilterType(dataType), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF((format != CUDNN_TENSOR_NCHW) && (format != CUDNN_TENSOR_NHWC) &&
                        (format != CUDNN_TENSOR_NCHW_VECT_C),
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(nbDims > CUDNN_DIM_MAX, CUDNN_STATUS_NOT_SUPPORTED);
  const bool isVectorType = IsVectorType(dataType);
  HOSTGPU_REFUSE_IF((CUDNN_TENSOR_NCHW_VECT_C == format) && !isVectorType, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(filterDimA == nullptr, CUDNN_STATUS_BAD_PARAM);
  filterDesc->type = dataType;
  filterDesc->format = format;
  filterDesc->dim_count = nbDims;
  for (int i = 0; i < nbDims; ++i) {
    HOSTGPU_REFUSE_IF(filterDimA[i] <= 0, CUDNN_STATUS_BAD_PARAM);
    filterDesc->dims[i] = filterDimA[i];
  }
  if (format == CUDNN_TENSOR_NCHW_VECT_C) filterDesc->dims[1] /= ChannelsPerVector(dataType);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filterDesc,
                                         cudnnDataType_t dataType, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w) {
  const int dims[] = {k, c, h, w};
  return cudnnSetFilterNdDescriptor(filterDesc, dataType, format, 4, dims);
}

cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t filterDesc,
                                         int nbDimsRequested, cudnnDataType_t* dataType,
                                         cudnnTensorFormat_t* format, int* nbDims,
                                         int filterDimA[]) {
  HOSTGPU_REFUSE_IF(filterDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(nbDimsRequested <= 0, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(nbDimsRequested > CUDNN_DIM_MAX, CUDNN_STATUS_NOT_SUPPORTED);
  Give(dataType, filterDesc->type);
  Give(format, filterDesc->format);
  Give(nbDims, filterDesc->dim_count);
  HOSTGPU_REFUSE_IF(filterDimA == nullptr, CUDNN_STATUS_BAD_PARAM);
  // For a vector layout, the real library writes filterDimA[1] even if the caller asked for only
  // one dimension. The stand-in does not.
  for (int i = 0; i < nbDimsRequested; ++i) {
    filterDimA[i] = filterDesc->dims[i];
    if (i == 1 && filterDesc->format == CUDNN_TENSOR_NCHW_VECT_C) {
      filterDimA[i] = Multiply(filterDimA[i], ChannelsPerVector(filterDesc->type));
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t filterDesc, size_t* size) {
  HOSTGPU_REFUSE_IF(size == nullptr, CUDNN_STATUS_BAD_PARAM);
  *size = 0;
  HOSTGPU_REFUSE_IF(filterDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  *size = static_cast<size_t>(filterDesc->Elements()) * ElementBytes(filterDesc->type);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
