#include "shim/host/cudnn/graph/convolution.h"

namespace hostgpu {
namespace {

// Checks one attribute of a convolution. With `may_be_unset`, an attribute that was not set gets
// the value 0 for each dimension.
cudnnStatus_t CheckAxes(int64_t spatial_count, int64_t smallest, bool may_be_unset,
                        GraphConvolution::PerAxis* axes) {
  if (may_be_unset && axes->count == 0) axes->count = static_cast<int>(spatial_count);
  HOSTGPU_REFUSE_IF(axes->count != spatial_count, CUDNN_STATUS_BAD_PARAM);
  for (int i = 0; i < axes->count; ++i) {
    HOSTGPU_REFUSE_IF(axes->values[i] < smallest, CUDNN_STATUS_BAD_PARAM);
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t GraphConvolution::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_CONVOLUTION_COMP_TYPE:
      return attribute.One(CUDNN_TYPE_DATA_TYPE, &compute_type);
    case CUDNN_ATTR_CONVOLUTION_CONV_MODE:
      return attribute.One(CUDNN_TYPE_CONVOLUTION_MODE, &mode);
    case CUDNN_ATTR_CONVOLUTION_DILATIONS:
      return attribute.List(&dilation.values, &dilation.count);
    case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
      return attribute.List(&stride.values, &stride.count);
    case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
      return attribute.List(&pad_upper.values, &pad_upper.count);
    case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
      return attribute.List(&pad_lower.values, &pad_lower.count);
    case CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS:
      return attribute.One(CUDNN_TYPE_INT64, &spatial_count, CUDNN_STATUS_BAD_PARAM);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a convolution");
  }
}

cudnnStatus_t GraphConvolution::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_CONVOLUTION_COMP_TYPE:
      return request.One(CUDNN_TYPE_DATA_TYPE, compute_type);
    case CUDNN_ATTR_CONVOLUTION_CONV_MODE:
      // As in the real library, the type of this attribute is CUDNN_TYPE_DATA_TYPE when it is read.
      return request.One(CUDNN_TYPE_DATA_TYPE, mode);
    case CUDNN_ATTR_CONVOLUTION_DILATIONS:
      return request.Array(CUDNN_TYPE_INT64, dilation.values.data(), dilation.count);
    case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
      return request.Array(CUDNN_TYPE_INT64, stride.values.data(), stride.count);
    case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
      return request.Array(CUDNN_TYPE_INT64, pad_upper.values.data(), pad_upper.count);
    case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
      return request.Array(CUDNN_TYPE_INT64, pad_lower.values.data(), pad_lower.count);
    case CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS:
      return request.One(CUDNN_TYPE_INT64, spatial_count);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a convolution");
  }
}

cudnnStatus_t GraphConvolution::Complete() {
  HOSTGPU_REFUSE_IF(spatial_count < 1 || spatial_count > kMaxSpatial, CUDNN_STATUS_BAD_PARAM);
  PerAxis checked[] = {pad_lower, pad_upper, stride, dilation};
  for (int i = 0; i < 4; ++i) {
    const bool pads = i < 2;
    if (auto status = CheckAxes(spatial_count, pads ? 0 : 1, pads, &checked[i])) return status;
  }
  pad_lower = checked[0];
  pad_upper = checked[1];
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
