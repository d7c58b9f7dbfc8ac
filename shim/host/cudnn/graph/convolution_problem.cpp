// Converts a graph's convolution to the engines' description.
#include "shim/host/cudnn/axes.h"
#include "shim/host/cudnn/graph/computation.h"
#include "shim/host/cudnn/refusal.h"

namespace hostgpu {
namespace {

cudnnStatus_t CheckTensor(const GraphTensor& tensor) {
  HOSTGPU_REFUSE_IF(tensor.vector_count != 1 || tensor.is_by_value || tensor.is_ragged ||
                        tensor.reordering != CUDNN_TENSOR_REORDERING_NONE,
                    CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  for (int i = 0; i < tensor.dim_count; ++i) {
    HOSTGPU_REFUSE_IF(tensor.dims[i] > 1 && tensor.strides[i] == 0,
                      CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  }
  return CUDNN_STATUS_SUCCESS;
}

std::array<int64_t, 3> Values(const GraphConvolution::PerAxis& axes, int64_t otherwise) {
  return PerAxis(axes.values, 0, axes.count, otherwise);
}

bool IsPacked(const GraphTensor& tensor, bool channels_last) {
  int64_t stride = 1;
  const auto follows = [&](int axis) {
    const bool matches = tensor.dims[axis] == 1 || tensor.strides[axis] == stride;
    return matches && !__builtin_mul_overflow(stride, tensor.dims[axis], &stride);
  };
  if (channels_last && !follows(1)) return false;
  for (int axis = tensor.dim_count - 1; axis >= 2; --axis) {
    if (!follows(axis)) return false;
  }
  return (channels_last || follows(1)) && follows(0);
}

cudnnStatus_t DescribeTypes(const ConvolutionOperation& operation, ConvolutionShape* shape) {
  const GraphTensor& result = operation.output();
  const GraphTensor& data = &result == &operation.x ? operation.y : operation.x;
  HOSTGPU_REFUSE_IF(!OperandType(data.type, &shape->type) || shape->type == DataType::kInt32,
                    CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  if (shape->type == DataType::kInt8) {
    HOSTGPU_REFUSE_IF(shape->operation != Operation::kForward || operation.w.type != data.type,
                      CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    HOSTGPU_REFUSE_IF(result.type != CUDNN_DATA_INT8 && result.type != CUDNN_DATA_INT32 &&
                          result.type != CUDNN_DATA_FLOAT,
                      CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    OperandType(result.type, &shape->int8_result);
    return CUDNN_STATUS_SUCCESS;
  }
  // A virtual result is not in memory, so its type does not matter.
  for (const GraphTensor* tensor : {&operation.x, &operation.w, &operation.y}) {
    HOSTGPU_REFUSE_IF(!(tensor == &result && tensor->is_virtual) && tensor->type != data.type,
                      CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t DescribeConvolution(const ConvolutionOperation& operation, Problem* problem) {
  const GraphTensor& x = operation.x;
  const GraphTensor& w = operation.w;
  const GraphTensor& y = operation.y;
  const GraphConvolution& convolution = operation.convolution;
  HOSTGPU_REFUSE_IF(operation.HasGroupAxis(), CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  for (const GraphTensor* tensor : {&x, &w, &y}) {
    if (auto status = CheckTensor(*tensor)) return status;
  }
  ConvolutionShape& shape = problem->shape;
  shape.operation = operation.operation();
  if (auto status = DescribeTypes(operation, &shape)) return status;
  HOSTGPU_REFUSE_IF(
      !IsComputeTypeFor(shape.type, static_cast<cudnnDataType_t>(convolution.compute_type)),
      CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  HOSTGPU_REFUSE_IF(
      convolution.mode != CUDNN_CONVOLUTION && convolution.mode != CUDNN_CROSS_CORRELATION,
      CUDNN_STATUS_NOT_SUPPORTED);
  const bool nchw_filter = IsPacked(w, false);
  HOSTGPU_REFUSE_IF(!nchw_filter && !IsPacked(w, true), CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);

  shape.n = x.dims[0];
  shape.c = x.dims[1];
  shape.k = w.dims[0];
  shape.groups = operation.groups();
  shape.x = SpatialExtents(x);
  shape.w = SpatialExtents(w);
  shape.y = SpatialExtents(y);
  shape.pad = Values(convolution.pad_lower, 0);
  shape.upper_pad = Values(convolution.pad_upper, 0);
  shape.stride = Values(convolution.stride, 1);
  shape.dilation = Values(convolution.dilation, 1);
  shape.x_strides = FiveStrides(x);
  shape.y_strides = FiveStrides(y);
  shape.filter_nhwc = !nchw_filter;
  shape.flip = convolution.mode == CUDNN_CONVOLUTION;
  problem->element_bytes = BytesOf(shape.type);
  problem->math_type = CUDNN_DEFAULT_MATH;
  HOSTGPU_REFUSE_IF(!x.SpanBytes(&problem->bytes.x) || !w.SpanBytes(&problem->bytes.w) ||
                        !y.SpanBytes(&problem->bytes.y),
                    CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
