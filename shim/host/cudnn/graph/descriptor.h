// The objects behind cudnnBackendDescriptor_t. A descriptor that is set as another's attribute is
// copied at that moment, as in the real library: afterwards it may be destroyed, or be finalized
// too late. Thread-compatible; owned by the application.
#pragma once

#include <memory>

#include "shim/host/cudnn/graph/attribute.h"

namespace hostgpu {

class GraphDescriptor {
 public:
  explicit GraphDescriptor(cudnnBackendDescriptorType_t kind) : kind_(kind) {}
  virtual ~GraphDescriptor() = default;

  cudnnBackendDescriptorType_t kind() const { return kind_; }
  bool finalized() const { return finalized_; }
  void set_finalized(bool finalized) { finalized_ = finalized; }

  // Resets the descriptor to a newly created one.
  virtual void Reset() = 0;
  // Sets an attribute of a descriptor that is not finalized; `values` is never null.
  virtual cudnnStatus_t Set(const Attribute& attribute) = 0;
  // Gets an attribute of a finalized descriptor; `requested` is not negative if there are values to
  // write.
  virtual cudnnStatus_t Get(const AttributeRequest& request) const = 0;
  // Checks and derives members when the descriptor is finalized.
  virtual cudnnStatus_t Complete() { return CUDNN_STATUS_SUCCESS; }

 protected:
  GraphDescriptor(const GraphDescriptor&) = default;
  GraphDescriptor& operator=(const GraphDescriptor&) = default;

 private:
  cudnnBackendDescriptorType_t kind_;
  bool finalized_ = false;
};

// A descriptor of the only kind of its class.
template <class D, cudnnBackendDescriptorType_t kKind>
class DescriptorOf : public GraphDescriptor {
 public:
  DescriptorOf() : GraphDescriptor(kKind) {}
  void Reset() override { static_cast<D&>(*this) = D(); }
};

// Returns null if the stand-in has no such descriptor.
std::unique_ptr<GraphDescriptor> NewGraphDescriptor(cudnnBackendDescriptorType_t kind);

// Returns the descriptor behind a handle; null if it is of another kind.
template <class D>
D* As(void* handle) {
  return dynamic_cast<D*>(static_cast<GraphDescriptor*>(handle));
}

// Copies a single descriptor attribute into `child`. A count other than one is refused with
// `wrong_count`.
template <class D>
cudnnStatus_t TakeChild(const Attribute& attribute, D* child,
                        cudnnStatus_t wrong_type = CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                        cudnnStatus_t wrong_count = CUDNN_STATUS_NOT_SUPPORTED) {
  HOSTGPU_REFUSE_IF(attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR, wrong_type);
  HOSTGPU_REFUSE_IF(attribute.count != 1, wrong_count);
  void* handle = attribute.Value<void*>();
  HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM);
  const D* given = As<D>(handle);
  HOSTGPU_REFUSE_IF(given == nullptr, CUDNN_STATUS_BAD_PARAM);
  *child = *given;
  return CUDNN_STATUS_SUCCESS;
}

// Overwrites the caller's descriptor of the same kind with `child`.
template <class D>
cudnnStatus_t GiveChild(const AttributeRequest& request, const D& child,
                        cudnnStatus_t wrong_type = CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                        cudnnStatus_t wrong_count = CUDNN_STATUS_NOT_SUPPORTED) {
  HOSTGPU_REFUSE_IF(request.type != CUDNN_TYPE_BACKEND_DESCRIPTOR, wrong_type);
  HOSTGPU_REFUSE_IF(request.requested != 1 || request.values == nullptr, wrong_count);
  void* handle = *static_cast<void**>(request.values);
  HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM);
  D* target = As<D>(handle);
  HOSTGPU_REFUSE_IF(target == nullptr || target->kind() != child.kind(), CUDNN_STATUS_BAD_PARAM);
  *target = child;
  request.Return(1);
  return CUDNN_STATUS_SUCCESS;
}

// Writes as many of `children` as the caller has passed descriptors for.
template <class D, class Children>
cudnnStatus_t GiveChildren(const AttributeRequest& request, const Children& children) {
  HOSTGPU_REFUSE_IF(request.type != CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  const int64_t number = std::min<int64_t>(request.requested, children.size());
  if (request.values != nullptr) {
    void** handles = static_cast<void**>(request.values);
    for (int64_t i = 0; i < number; ++i) {
      HOSTGPU_REFUSE_IF(handles[i] == nullptr || As<D>(handles[i]) == nullptr,
                        CUDNN_STATUS_BAD_PARAM);
    }
    for (int64_t i = 0; i < number; ++i) *As<D>(handles[i]) = children[i];
  }
  request.Return(number);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
