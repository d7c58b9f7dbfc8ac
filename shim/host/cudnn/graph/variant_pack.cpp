#include "shim/host/cudnn/graph/variant_pack.h"

namespace hostgpu {
namespace {

template <class T>
cudnnStatus_t TakeList(const Attribute& attribute, cudnnBackendAttributeType_t wanted,
                       std::vector<T>* list) {
  HOSTGPU_REFUSE_IF(attribute.type != wanted, CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(attribute.count < 1, CUDNN_STATUS_BAD_PARAM);
  const T* values = static_cast<const T*>(attribute.values);
  list->assign(values, values + attribute.count);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t VariantPack::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
      return TakeList(attribute, CUDNN_TYPE_INT64, &unique_ids_);
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
      return TakeList(attribute, CUDNN_TYPE_VOID_PTR, &pointers_);
    case CUDNN_ATTR_VARIANT_PACK_INTERMEDIATES:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "intermediates");
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
      return attribute.One(CUDNN_TYPE_VOID_PTR, &workspace_, CUDNN_STATUS_NOT_SUPPORTED);
    case CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS: {
      std::vector<int64_t> ids;
      if (auto status = TakeList(attribute, CUDNN_TYPE_INT64, &ids)) return status;
      overrides_shapes_ = true;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES:
    case CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES:
      HOSTGPU_REFUSE_IF(attribute.type != CUDNN_TYPE_VOID_PTR, CUDNN_STATUS_NOT_SUPPORTED);
      overrides_shapes_ = true;
      return CUDNN_STATUS_SUCCESS;
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a variant pack");
  }
}

cudnnStatus_t VariantPack::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
    case CUDNN_ATTR_VARIANT_PACK_INTERMEDIATES:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "an attribute that is not read back");
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
      return request.One(CUDNN_TYPE_VOID_PTR, workspace_, CUDNN_STATUS_NOT_INITIALIZED);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a variant pack");
  }
}

cudnnStatus_t VariantPack::Complete() {
  HOSTGPU_REFUSE_IF(pointers_.size() != unique_ids_.size(), CUDNN_STATUS_BAD_PARAM);
  return CUDNN_STATUS_SUCCESS;
}

void* VariantPack::PointerOf(int64_t unique_id) const {
  for (size_t i = 0; i < unique_ids_.size(); ++i) {
    if (unique_ids_[i] == unique_id) return pointers_[i];
  }
  return nullptr;
}

}  // namespace hostgpu
