#include "shim/host/cudnn/graph/pointwise.h"

namespace hostgpu {

cudnnStatus_t GraphPointwise::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_POINTWISE_MODE:
      return attribute.One(CUDNN_TYPE_POINTWISE_MODE, &mode, CUDNN_STATUS_BAD_PARAM);
    case CUDNN_ATTR_POINTWISE_MATH_PREC:
      return attribute.One(CUDNN_TYPE_DATA_TYPE, &math_precision, CUDNN_STATUS_BAD_PARAM);
    case CUDNN_ATTR_POINTWISE_NAN_PROPAGATION:
      return attribute.One(CUDNN_TYPE_NAN_PROPOGATION, &nan_propagation, CUDNN_STATUS_BAD_PARAM);
    case CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP:
      return attribute.Number(&lower_clip);
    case CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP:
      return attribute.Number(&upper_clip);
    case CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE:
      return attribute.Number(&lower_clip_slope);
    case CUDNN_ATTR_POINTWISE_ELU_ALPHA:
      return attribute.Number(&elu_alpha);
    case CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA:
      return attribute.Number(&softplus_beta);
    case CUDNN_ATTR_POINTWISE_SWISH_BETA:
      return attribute.Number(&swish_beta);
    case CUDNN_ATTR_POINTWISE_AXIS:
      return attribute.One(CUDNN_TYPE_INT64, &axis, CUDNN_STATUS_BAD_PARAM);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a pointwise function");
  }
}

cudnnStatus_t GraphPointwise::Get(const AttributeRequest&) const {
  return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "pointwise functions are not read back");
}

PointwiseArity ArityOf(int mode) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_ADD_SQUARE:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_MAX:
    case CUDNN_POINTWISE_MIN:
    case CUDNN_POINTWISE_MOD:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_POW:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_ATAN2:
    case CUDNN_POINTWISE_LOGICAL_AND:
    case CUDNN_POINTWISE_LOGICAL_OR:
      return PointwiseArity::kBinary;
    case CUDNN_POINTWISE_LOGICAL_NOT:
    case CUDNN_POINTWISE_GEN_INDEX:
      return PointwiseArity::kUnary;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return PointwiseArity::kTernary;
    default:
      break;
  }
  if (mode >= CUDNN_POINTWISE_CMP_EQ && mode <= CUDNN_POINTWISE_CMP_LE) {
    return PointwiseArity::kBinary;
  }
  if ((mode >= CUDNN_POINTWISE_SQRT && mode <= CUDNN_POINTWISE_RECIPROCAL) ||
      (mode >= CUDNN_POINTWISE_RELU_FWD && mode <= CUDNN_POINTWISE_GELU_APPROX_TANH_FWD)) {
    return PointwiseArity::kUnary;
  }
  if (mode >= CUDNN_POINTWISE_RELU_BWD && mode <= CUDNN_POINTWISE_GELU_APPROX_TANH_BWD) {
    return PointwiseArity::kBackward;
  }
  return PointwiseArity::kUnknown;
}

}  // namespace hostgpu
