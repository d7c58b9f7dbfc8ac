#include "shim/host/cudnn/problem.h"

#include <algorithm>
#include <iterator>

#include "shim/host/cudnn/axes.h"
#include "shim/host/cudnn/descriptors.h"
#include "shim/host/cudnn/refusal.h"

namespace hostgpu {
namespace {

bool HasNegativeStride(const cudnnTensorStruct& tensor) {
  for (int i = 0; i < tensor.dim_count; ++i) {
    if (tensor.strides[i] < 0) return true;
  }
  return false;
}

}  // namespace

bool IsComputeTypeFor(DataType data, cudnnDataType_t compute) {
  switch (data) {
    case DataType::kDouble:
      return compute == CUDNN_DATA_DOUBLE;
    case DataType::kHalf:
      return compute == CUDNN_DATA_FLOAT || compute == CUDNN_DATA_HALF;
    case DataType::kInt8:
      return compute == CUDNN_DATA_INT32;
    default:
      return compute == CUDNN_DATA_FLOAT;
  }
}

bool OperandType(int type, DataType* engine_type) {
  // The elements are in the order of the enumeration DataType.
  constexpr cudnnDataType_t kTypes[] = {CUDNN_DATA_FLOAT,  CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16,
                                        CUDNN_DATA_DOUBLE, CUDNN_DATA_INT8, CUDNN_DATA_INT32};
  const auto* const found = std::find(std::begin(kTypes), std::end(kTypes), type);
  if (found == std::end(kTypes)) return false;
  *engine_type = static_cast<DataType>(found - std::begin(kTypes));
  return true;
}

bool EngineType(cudnnDataType_t type, DataType* engine_type) {
  return type != CUDNN_DATA_INT8 && type != CUDNN_DATA_INT32 && OperandType(type, engine_type);
}

namespace {

// Describes cuDNN's INT8_CONFIG and INT8_EXT_CONFIG: a forward convolution with NHWC tensors,
// numbers of channels that are multiples of four, and y of int8 or fp32.
cudnnStatus_t DescribeInt8(Operation operation, const cudnnTensorStruct& x,
                           const cudnnFilterStruct& w, const cudnnTensorStruct& y,
                           ConvolutionShape* shape) {
  HOSTGPU_REFUSE_IF(operation != Operation::kForward, CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(x.type != w.type || (y.type != x.type && y.type != CUDNN_DATA_FLOAT),
                    CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(x.strides[1] != 1 || y.strides[1] != 1 || w.format != CUDNN_TENSOR_NHWC,
                    CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(w.dims[1] % 4 != 0 || w.dims[0] % 4 != 0, CUDNN_STATUS_NOT_SUPPORTED);
  shape->type = DataType::kInt8;
  shape->int8_result = y.type == CUDNN_DATA_FLOAT ? DataType::kFloat : DataType::kInt8;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t Describe(Operation operation, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                       cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                       Problem* problem) {
  HOSTGPU_REFUSE_IF(AnyNull(x, w, convolution, y), CUDNN_STATUS_BAD_PARAM);
  const int dim_count = x->dim_count;
  HOSTGPU_REFUSE_IF(dim_count != w->dim_count || dim_count != y->dim_count, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(convolution->spatial_count != dim_count - 2, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(dim_count != 4 && dim_count != 5, CUDNN_STATUS_NOT_SUPPORTED);

  ConvolutionShape& shape = problem->shape;
  shape.operation = operation;
  if (x->type == CUDNN_DATA_INT8) {
    if (auto status = DescribeInt8(operation, *x, *w, *y, &shape)) return status;
  } else {
    HOSTGPU_REFUSE_IF(x->type != y->type || x->type != w->type, CUDNN_STATUS_NOT_SUPPORTED);
    HOSTGPU_REFUSE_IF(!EngineType(x->type, &shape.type), CUDNN_STATUS_NOT_SUPPORTED);
  }
  HOSTGPU_REFUSE_IF(!IsComputeTypeFor(shape.type, convolution->compute_type),
                    CUDNN_STATUS_NOT_SUPPORTED);

  // This call refuses numbers of channels that do not match, and filters that are larger than the
  // padded image.
  int expected[CUDNN_DIM_MAX];
  if (cudnnStatus_t status =
          cudnnGetConvolutionNdForwardOutputDim(convolution, x, w, dim_count, expected)) {
    return status;
  }
  for (int i = 0; i < dim_count; ++i) {
    HOSTGPU_REFUSE_IF(y->dims[i] != expected[i], CUDNN_STATUS_BAD_PARAM);
  }
  HOSTGPU_REFUSE_IF(w->dims[0] % convolution->group_count != 0, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(HasNegativeStride(*x) || HasNegativeStride(*y), CUDNN_STATUS_NOT_SUPPORTED);

  shape.n = x->dims[0];
  shape.c = x->dims[1];
  shape.k = w->dims[0];
  shape.groups = convolution->group_count;
  shape.x = SpatialExtents(*x);
  shape.w = SpatialExtents(*w);
  shape.y = SpatialExtents(*y);
  shape.pad = shape.upper_pad = PerAxis(convolution->pad, 0, dim_count - 2, 0);
  shape.stride = PerAxis(convolution->stride, 0, dim_count - 2, 1);
  shape.dilation = PerAxis(convolution->dilation, 0, dim_count - 2, 1);
  shape.x_strides = FiveStrides(*x);
  shape.y_strides = FiveStrides(*y);
  shape.filter_nhwc = w->format == CUDNN_TENSOR_NHWC;
  shape.flip = convolution->mode == CUDNN_CONVOLUTION;

  problem->element_bytes = ElementBytes(x->type);
  problem->bytes = {static_cast<size_t>(x->span) * problem->element_bytes,
                    static_cast<size_t>(w->Elements()) * problem->element_bytes,
                    static_cast<size_t>(y->span) * ElementBytes(y->type)};
  problem->math_type =
      convolution->math_type == CUDNN_FMA_MATH ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
  return CUDNN_STATUS_SUCCESS;
}

double ReadScale(const void* scale, DataType type) {
  return type == DataType::kDouble ? *static_cast<const double*>(scale)
                                   : *static_cast<const float*>(scale);
}

int AlgorithmCount(Operation operation) {
  constexpr int kCounts[] = {CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
                             CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                             CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT};
  return kCounts[static_cast<int>(operation)];
}

cudnnStatus_t RequiredWorkspace(const Problem& problem, int algorithm, size_t* bytes) {
  HOSTGPU_REFUSE_IF(algorithm < 0 || algorithm >= AlgorithmCount(problem.shape.operation),
                    CUDNN_STATUS_BAD_PARAM);
  const auto needed = WorkspaceBytes(problem.shape, algorithm);
  HOSTGPU_REFUSE_IF(!needed, CUDNN_STATUS_NOT_SUPPORTED);
  *bytes = *needed;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
