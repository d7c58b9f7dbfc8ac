#include "shim/host/cudnn/graph/convolution_operation.h"

namespace hostgpu {
namespace {

// The caller's extents may have any values. A product or sum that overflows wraps around, and then
// matches no extent.
int64_t Product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t Sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// The role of an attribute in any of the three operations.
enum class Role { kAlpha, kBeta, kConvolution, kX, kW, kY, kNone };

Role RoleOf(cudnnBackendDescriptorType_t kind, cudnnBackendAttributeName_t name) {
  int first = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA;
  if (kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
    first = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA;
  } else if (kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) {
    first = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
  }
  // In each enumeration the order is ALPHA, BETA, CONV_DESC, and then W X Y, W DX DY, or DW X DY.
  const int place = name - first;
  constexpr Role kRoles[] = {Role::kAlpha, Role::kBeta, Role::kConvolution,
                             Role::kW,     Role::kX,    Role::kY};
  return place >= 0 && place < 6 ? kRoles[place] : Role::kNone;
}

// Reads a scaling factor. The forward operation also accepts integers.
cudnnStatus_t TakeScale(const Attribute& attribute, Operation operation, double* scale,
                        int* scale_type) {
  const bool known = attribute.type == CUDNN_TYPE_FLOAT || attribute.type == CUDNN_TYPE_DOUBLE ||
                     (attribute.type == CUDNN_TYPE_INT32 && operation == Operation::kForward);
  HOSTGPU_REFUSE_IF(attribute.count <= 0, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!known, operation == Operation::kBackwardData ? CUDNN_STATUS_NOT_SUPPORTED
                                                                  : CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(attribute.count != 1, CUDNN_STATUS_BAD_PARAM);
  switch (attribute.type) {
    case CUDNN_TYPE_FLOAT:
      *scale = attribute.Value<float>();
      break;
    case CUDNN_TYPE_DOUBLE:
      *scale = attribute.Value<double>();
      break;
    default:
      *scale = attribute.Value<int32_t>();
  }
  if (operation != Operation::kBackwardFilter) *scale_type = attribute.type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t GiveScale(const AttributeRequest& request, double scale, int scale_type) {
  if (scale_type == CUDNN_TYPE_DOUBLE) {
    return request.One(CUDNN_TYPE_DOUBLE, scale, CUDNN_STATUS_BAD_PARAM);
  }
  if (scale_type == CUDNN_TYPE_INT32) {
    return request.One(CUDNN_TYPE_INT32, static_cast<int32_t>(scale), CUDNN_STATUS_BAD_PARAM);
  }
  return request.One(CUDNN_TYPE_FLOAT, static_cast<float>(scale), CUDNN_STATUS_BAD_PARAM);
}

template <class D>
cudnnStatus_t TakeOperand(const Attribute& attribute, D* operand) {
  HOSTGPU_REFUSE_IF(attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR || attribute.count <= 0,
                    CUDNN_STATUS_BAD_PARAM);
  return TakeChild(attribute, operand, CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_NOT_SUPPORTED);
}

// Returns an operand in the form in which the real library returns it: without a name, and with an
// axis of groups before the channels, or before the filters of w.
GraphTensor WithGroups(const GraphTensor& tensor, int64_t groups, bool is_filter) {
  GraphTensor grouped = tensor;
  if (tensor.dim_count >= GraphTensor::kMaxDims) return grouped;
  const int axis = is_filter ? 0 : 1;
  for (int i = tensor.dim_count; i > axis; --i) {
    grouped.dims[i] = tensor.dims[i - 1];
    grouped.strides[i] = tensor.strides[i - 1];
  }
  grouped.dims[axis] = groups;
  grouped.dims[axis + 1] = tensor.dims[axis] / groups;
  grouped.strides[axis] = tensor.strides[axis] * grouped.dims[axis + 1];
  grouped.dim_count = grouped.stride_count = tensor.dim_count + 1;
  return grouped;
}

}  // namespace

cudnnStatus_t ConvolutionOperation::GiveTensor(const AttributeRequest& request,
                                               const GraphTensor& tensor, bool is_filter) const {
  GraphTensor given = HasGroupAxis() ? tensor : WithGroups(tensor, groups(), is_filter);
  given.unique_id = -1;
  return GiveChild(request, given, CUDNN_STATUS_NOT_INITIALIZED, CUDNN_STATUS_NOT_INITIALIZED);
}

Operation ConvolutionOperation::operation() const {
  switch (kind()) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return Operation::kBackwardData;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return Operation::kBackwardFilter;
    default:
      return Operation::kForward;
  }
}

const GraphTensor& ConvolutionOperation::output() const {
  const GraphTensor* const results[] = {&y, &x, &w};
  return *results[static_cast<int>(operation())];
}

cudnnStatus_t ConvolutionOperation::Set(const Attribute& attribute) {
  switch (RoleOf(kind(), attribute.name)) {
    case Role::kAlpha:
      return TakeScale(attribute, operation(), &alpha, &alpha_type_);
    case Role::kBeta:
      return TakeScale(attribute, operation(), &beta, &beta_type_);
    case Role::kConvolution:
      return TakeOperand(attribute, &convolution);
    case Role::kX:
      if (operation() == Operation::kBackwardFilter) return TakeChild(attribute, &x);
      return TakeOperand(attribute, &x);
    case Role::kW:
      return TakeOperand(attribute, &w);
    case Role::kY:
      return TakeOperand(attribute, &y);
    case Role::kNone:
      break;
  }
  return Refuse(operation() == Operation::kBackwardFilter ? CUDNN_STATUS_NOT_SUPPORTED
                                                          : CUDNN_STATUS_BAD_PARAM,
                "no attribute of this convolution operation");
}

cudnnStatus_t ConvolutionOperation::Get(const AttributeRequest& request) const {
  switch (RoleOf(kind(), request.name)) {
    case Role::kAlpha:
      return GiveScale(request, alpha, alpha_type_);
    case Role::kBeta:
      return GiveScale(request, beta, beta_type_);
    case Role::kConvolution:
      return GiveChild(request, convolution, CUDNN_STATUS_NOT_INITIALIZED,
                       CUDNN_STATUS_NOT_INITIALIZED);
    case Role::kX:
      return GiveTensor(request, x, false);
    case Role::kW:
      return GiveTensor(request, w, true);
    case Role::kY:
      return GiveTensor(request, y, false);
    case Role::kNone:
      break;
  }
  return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of this convolution operation");
}

cudnnStatus_t ConvolutionOperation::Complete() {
  HOSTGPU_REFUSE_IF(!x.finalized() || !w.finalized() || !convolution.finalized() || !y.finalized(),
                    CUDNN_STATUS_BAD_PARAM);
  const int dim_count = x.dim_count;
  HOSTGPU_REFUSE_IF(dim_count != w.dim_count || dim_count != y.dim_count, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(convolution.spatial_count > dim_count - 2, CUDNN_STATUS_BAD_PARAM);
  for (int i = 0; i < dim_count; ++i) {
    HOSTGPU_REFUSE_IF(x.dims[i] <= 0 || w.dims[i] <= 0 || y.dims[i] <= 0, CUDNN_STATUS_BAD_PARAM);
  }
  HOSTGPU_REFUSE_IF(convolution.spatial_count < dim_count - 3, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(y.dims[0] != x.dims[0], CUDNN_STATUS_BAD_PARAM);
  if (HasGroupAxis()) {
    HOSTGPU_REFUSE_IF(x.dims[1] != w.dims[0] || y.dims[1] != w.dims[0], CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(x.dims[2] != w.dims[2], CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(Product(y.vector_count, y.dims[2]) != w.dims[1], CUDNN_STATUS_BAD_PARAM);
  } else {
    HOSTGPU_REFUSE_IF(x.dims[1] % w.dims[1] != 0, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(w.dims[0] % groups() != 0, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(Product(y.vector_count, y.dims[1]) != w.dims[0], CUDNN_STATUS_BAD_PARAM);
  }
  const int first = dim_count - convolution.spatial_count;
  for (int i = 0; i < convolution.spatial_count; ++i) {
    const int64_t reach = Sum(Product(convolution.dilation.values[i], w.dims[first + i] - 1), 1);
    const int64_t padded = Sum(
        x.dims[first + i], Sum(convolution.pad_lower.values[i], convolution.pad_upper.values[i]));
    HOSTGPU_REFUSE_IF(padded < reach, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF((padded - reach) / convolution.stride.values[i] + 1 != y.dims[first + i],
                      CUDNN_STATUS_BAD_PARAM);
  }
  HOSTGPU_REFUSE_IF(convolution.spatial_count > 3, CUDNN_STATUS_NOT_INITIALIZED);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
