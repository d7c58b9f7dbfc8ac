#include "shim/host/cudnn/graph/tensor.h"

#include <algorithm>

#include "shim/host/cudnn/descriptors.h"

namespace hostgpu {
namespace {

// Returns true if the tensor's type allows its vector_count: 1, 4 or 32 for 8-bit integers, the
// type's own count for vector types, and any number for other types.
bool HasType(const GraphTensor& tensor) {
  switch (tensor.type) {
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
      return tensor.vector_count == 1 || tensor.vector_count == 4 || tensor.vector_count == 32;
    case CUDNN_DATA_INT8x4:
    case CUDNN_DATA_UINT8x4:
      return tensor.vector_count == 4;
    case CUDNN_DATA_INT8x32:
      return tensor.vector_count == 32;
    default:
      return true;
  }
}

}  // namespace

size_t GraphElementBytes(int type) {
  if (type == CUDNN_DATA_INT64) return 8;
  return std::max<size_t>(ElementBytes(static_cast<cudnnDataType_t>(type)), 1);
}

cudnnStatus_t GraphTensor::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
      return attribute.One(CUDNN_TYPE_INT64, &alignment);
    case CUDNN_ATTR_TENSOR_DATA_TYPE:
      return attribute.One(CUDNN_TYPE_DATA_TYPE, &type);
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
      return attribute.List(&dims, &dim_count);
    case CUDNN_ATTR_TENSOR_STRIDES:
      return attribute.List(&strides, &stride_count);
    case CUDNN_ATTR_TENSOR_VECTOR_COUNT:
      return attribute.One(CUDNN_TYPE_INT64, &vector_count);
    case CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION:
      return attribute.One(CUDNN_TYPE_INT64, &vector_dim);
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
      return attribute.One(CUDNN_TYPE_INT64, &unique_id);
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
      return attribute.One(CUDNN_TYPE_BOOLEAN, &is_virtual);
    case CUDNN_ATTR_TENSOR_IS_BY_VALUE:
      return attribute.One(CUDNN_TYPE_BOOLEAN, &is_by_value);
    case CUDNN_ATTR_TENSOR_REORDERING_MODE:
      return attribute.One(CUDNN_TYPE_TENSOR_REORDERING_MODE, &reordering);
    case CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC: {
      void* offsets = nullptr;
      if (auto status = attribute.One(CUDNN_TYPE_BACKEND_DESCRIPTOR, &offsets)) return status;
      is_ragged = offsets != nullptr;
      return CUDNN_STATUS_SUCCESS;
    }
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a tensor");
  }
}

cudnnStatus_t GraphTensor::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
    case CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "an attribute that is not read back");
    case CUDNN_ATTR_TENSOR_DATA_TYPE:
      return request.One(CUDNN_TYPE_DATA_TYPE, type);
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
      return request.Array(CUDNN_TYPE_INT64, dims.data(), dim_count);
    case CUDNN_ATTR_TENSOR_STRIDES:
      return request.Array(CUDNN_TYPE_INT64, strides.data(), stride_count);
    case CUDNN_ATTR_TENSOR_VECTOR_COUNT:
      return request.One(CUDNN_TYPE_INT64, vector_count);
    case CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION:
      return request.One(CUDNN_TYPE_INT64, vector_dim);
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
      return request.One(CUDNN_TYPE_INT64, unique_id);
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
      return request.One(CUDNN_TYPE_BOOLEAN, is_virtual);
    case CUDNN_ATTR_TENSOR_IS_BY_VALUE:
      return request.One(CUDNN_TYPE_BOOLEAN, is_by_value);
    case CUDNN_ATTR_TENSOR_REORDERING_MODE:
      // The real library demands CUDNN_TYPE_INT64 here although it writes a 32-bit value.
      return request.One(CUDNN_TYPE_INT64, reordering);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a tensor");
  }
}

cudnnStatus_t GraphTensor::Complete() {
  HOSTGPU_REFUSE_IF(dim_count < 1, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(dim_count != stride_count, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(dim_count > kMaxDims, CUDNN_STATUS_BAD_PARAM);
  int long_axes = 0;
  for (int i = 0; i < dim_count; ++i) {
    HOSTGPU_REFUSE_IF(dims[i] < 0, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(strides[i] < 0, CUDNN_STATUS_BAD_PARAM);
    if (dims[i] > 1) ++long_axes;
  }
  HOSTGPU_REFUSE_IF(vector_dim >= 0 && vector_dim > dim_count, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(is_by_value && long_axes > 1, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!HasType(*this), CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(type == CUDNN_DATA_FAST_FLOAT_FOR_FP8, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(
      alignment <= 0 || alignment % static_cast<int64_t>(GraphElementBytes(type)) != 0,
      CUDNN_STATUS_BAD_PARAM);
  return CUDNN_STATUS_SUCCESS;
}

bool GraphTensor::MakeDense() {
  const bool channels_last = dim_count > 1 && dims[1] > 1 && strides[1] == 1;
  int64_t stride = 1;
  const auto place = [&](int axis) {
    strides[axis] = stride;
    return !__builtin_mul_overflow(stride, dims[axis], &stride);
  };
  bool placed = !channels_last || place(1);
  for (int axis = dim_count - 1; axis >= 0; --axis) {
    if (axis != 1 || !channels_last) placed = place(axis) && placed;
  }
  return placed;
}

bool GraphTensor::SpanBytes(size_t* bytes) const {
  int64_t elements = 1;
  for (int i = 0; i < dim_count; ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(dims[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(elements, reach, &elements)) {
      return false;
    }
  }
  return !__builtin_mul_overflow(static_cast<size_t>(elements), GraphElementBytes(type), bytes) &&
         *bytes <= SIZE_MAX / 4;
}

}  // namespace hostgpu
