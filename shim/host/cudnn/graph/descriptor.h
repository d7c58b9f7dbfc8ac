// The objects behind cudnnBackendDescriptor_t. A descriptor that is set as an attribute of another
// descriptor is copied at that moment, as in the real library; destroying or finalizing it later
// has no effect on the copy. Thread-compatible; the application owns the descriptors.
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

  // Resets the descriptor to the state after its creation.
  virtual void Reset() = 0;
  // Sets an attribute of a descriptor that is not finalized. attribute.values is never null.
  virtual cudnnStatus_t Set(const Attribute& attribute) = 0;
  // Gets an attribute of a finalized descriptor. request.requested is not negative if
  // request.values is not null.
  virtual cudnnStatus_t Get(const AttributeRequest& request) const = 0;
  // Prepares for finalization: checks the attributes and computes derived members. If it succeeds,
  // the caller calls set_finalized.
  virtual cudnnStatus_t Complete() { return CUDNN_STATUS_SUCCESS; }

 protected:
  GraphDescriptor(const GraphDescriptor&) = default;
  GraphDescriptor& operator=(const GraphDescriptor&) = default;

 private:
  cudnnBackendDescriptorType_t kind_;
  bool finalized_ = false;
};

// Base of a descriptor class that implements only one kind of descriptor.
template <class D, cudnnBackendDescriptorType_t kKind>
class DescriptorOf : public GraphDescriptor {
 public:
  DescriptorOf() : GraphDescriptor(kKind) {}
  void Reset() override { static_cast<D&>(*this) = D(); }
};

// Returns a new descriptor; null if the stand-in does not implement this kind.
std::unique_ptr<GraphDescriptor> NewGraphDescriptor(cudnnBackendDescriptorType_t kind);

// Returns the descriptor of a handle; null if the descriptor is not a D.
template <class D>
D* As(void* handle) {
  return dynamic_cast<D*>(static_cast<GraphDescriptor*>(handle));
}

// Copies the one descriptor of an attribute into `child`. Returns `wrong_count` if the attribute
// has another number of values.
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

// Copies `child` to the caller's descriptor, which must be of the same kind.
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

// Copies the first of the `children` to the caller's descriptors, at most as many as the caller
// requested.
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
