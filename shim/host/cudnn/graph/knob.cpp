#include "shim/host/cudnn/graph/knob.h"

namespace hostgpu {

cudnnStatus_t KnobInfo::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_KNOB_INFO_TYPE:
    case CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE:
    case CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE:
    case CUDNN_ATTR_KNOB_INFO_STRIDE:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "engines alone describe their knobs");
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a knob");
  }
}

cudnnStatus_t KnobInfo::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_KNOB_INFO_TYPE:
      return request.One(CUDNN_TYPE_KNOB_TYPE, type);
    case CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE:
      return request.One(CUDNN_TYPE_INT64, maximum);
    case CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE:
      return request.One(CUDNN_TYPE_INT64, minimum);
    case CUDNN_ATTR_KNOB_INFO_STRIDE:
      return request.One(CUDNN_TYPE_INT64, stride);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a knob");
  }
}

cudnnStatus_t KnobInfo::Complete() {
  return Refuse(CUDNN_STATUS_BAD_PARAM, "engines alone describe their knobs");
}

cudnnStatus_t KnobChoice::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      return attribute.One(CUDNN_TYPE_KNOB_TYPE, &type);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
      return attribute.One(CUDNN_TYPE_INT64, &value);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a knob's choice");
  }
}

cudnnStatus_t KnobChoice::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      return request.One(CUDNN_TYPE_KNOB_TYPE, type);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
      return request.One(CUDNN_TYPE_INT64, value);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a knob's choice");
  }
}

}  // namespace hostgpu
