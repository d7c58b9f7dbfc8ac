#include "shim/host/cudnn/graph/pointwise_operation.h"

namespace hostgpu {
namespace {

// Copies a descriptor attribute to `operand`; a null descriptor removes the operand.
template <class D>
cudnnStatus_t TakeOptional(const Attribute& attribute, D* operand) {
  void* handle = nullptr;
  if (auto status = attribute.One(CUDNN_TYPE_BACKEND_DESCRIPTOR, &handle, CUDNN_STATUS_BAD_PARAM)) {
    return status;
  }
  if (handle == nullptr) {
    *operand = D();
    return CUDNN_STATUS_SUCCESS;
  }
  return TakeChild(attribute, operand, CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_BAD_PARAM);
}

}  // namespace

cudnnStatus_t PointwiseOperation::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR:
      return TakeOptional(attribute, &pointwise);
    case CUDNN_ATTR_OPERATION_POINTWISE_XDESC:
      return TakeOptional(attribute, &x);
    case CUDNN_ATTR_OPERATION_POINTWISE_BDESC:
      return TakeOptional(attribute, &b);
    case CUDNN_ATTR_OPERATION_POINTWISE_YDESC:
      return TakeOptional(attribute, &y);
    case CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1:
      return attribute.Number(&alpha1);
    case CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2:
      return attribute.Number(&alpha2);
    case CUDNN_ATTR_OPERATION_POINTWISE_DXDESC:
      return TakeOptional(attribute, &dx);
    case CUDNN_ATTR_OPERATION_POINTWISE_DYDESC:
      return TakeOptional(attribute, &dy);
    case CUDNN_ATTR_OPERATION_POINTWISE_TDESC:
      return TakeOptional(attribute, &t);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a pointwise operation");
  }
}

cudnnStatus_t PointwiseOperation::Get(const AttributeRequest&) const {
  return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "pointwise operations are not read back");
}

cudnnStatus_t PointwiseOperation::Complete() {
  const PointwiseArity arity = ArityOf(pointwise.mode);
  if (arity == PointwiseArity::kUnknown) return CUDNN_STATUS_SUCCESS;
  const bool clips =
      pointwise.mode == CUDNN_POINTWISE_RELU_FWD || pointwise.mode == CUDNN_POINTWISE_RELU_BWD;
  HOSTGPU_REFUSE_IF(clips && pointwise.lower_clip > pointwise.upper_clip, CUDNN_STATUS_BAD_PARAM);
  if (arity == PointwiseArity::kBackward) {
    const GraphTensor& like = HasMask() ? t : x;
    HOSTGPU_REFUSE_IF(dx.dim_count != like.dim_count, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(dx.dim_count != dy.dim_count, CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
  }
  HOSTGPU_REFUSE_IF(arity == PointwiseArity::kTernary && !t.finalized(), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(x.dim_count != y.dim_count, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(arity != PointwiseArity::kUnary && x.dim_count != b.dim_count,
                    CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(arity == PointwiseArity::kTernary && x.dim_count != t.dim_count,
                    CUDNN_STATUS_BAD_PARAM);
  if (pointwise.mode == CUDNN_POINTWISE_GEN_INDEX) {
    HOSTGPU_REFUSE_IF(pointwise.axis < 0 || pointwise.axis >= x.dim_count, CUDNN_STATUS_BAD_PARAM);
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
