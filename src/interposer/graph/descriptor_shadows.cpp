#include "interposer/graph/descriptor_shadows.h"

#include <algorithm>

namespace ucudnn::interposer {
namespace {

bool IsConvolution(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

bool IsConvolution(GraphKind kind) {
  return kind == GraphKind::kConvolution || kind == GraphKind::kUndividable;
}

template <typename Value>
Value First(const void* values) {
  return *static_cast<const Value*>(values);
}

using Axes = std::array<int64_t, CUDNN_DIM_MAX>;

Axes ByAxis(int64_t count, const void* values) {
  Axes axes = {};
  std::copy_n(static_cast<const int64_t*>(values), std::min<int64_t>(count, axes.size()),
              axes.begin());
  return axes;
}

double ImageSpan(const Axes& extents, const Axes& strides) {
  double span = 1;
  for (size_t axis = 1; axis < extents.size() && extents[axis] > 0; ++axis) {
    span += static_cast<double>(extents[axis] - 1) * static_cast<double>(strides[axis]);
  }
  return span;
}

}  // namespace

DescriptorShadow* DescriptorShadows::At(cudnnBackendDescriptor_t descriptor) {
  const auto entry = shadows_.find(descriptor);
  return entry == shadows_.end() ? nullptr : &entry->second;
}

void DescriptorShadows::OnCreate(cudnnBackendDescriptor_t descriptor,
                                 cudnnBackendDescriptorType_t type) {
  DescriptorShadow shadow;
  shadow.type = type;
  MutexLock lock(mutex_);
  shadow.number = ++created_;
  shadows_.insert_or_assign(descriptor, shadow);
}

void DescriptorShadows::Inherit(DescriptorShadow& to, cudnnBackendDescriptor_t from) {
  const DescriptorShadow* const other = At(from);
  to.kind = other != nullptr ? other->kind : GraphKind::kUnknown;
  to.is_pointwise = other != nullptr && other->is_pointwise;
  to.wide = other != nullptr ? other->wide : std::nullopt;
  to.span = other != nullptr ? other->span : 0;
  to.is_heuristics_first = other != nullptr && other->is_heuristics_first;
  to.list = other != nullptr ? other->list : nullptr;
  if (to.handle == nullptr && other != nullptr) to.handle = other->handle;
}

void DescriptorShadows::TakeOperations(DescriptorShadow& graph, int64_t count,
                                       const cudnnBackendDescriptor_t* operations) {
  graph.kind = GraphKind::kOther;
  graph.is_pointwise = true;
  graph.wide.reset();
  for (int64_t i = 0; i < count; ++i) {
    const DescriptorShadow* const shadow = At(operations[i]);
    const bool is_pointwise = shadow != nullptr && !shadow->reads_position &&
                              shadow->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
    graph.is_pointwise = graph.is_pointwise && is_pointwise;
    if (shadow == nullptr || is_pointwise || IsConvolution(shadow->type) || graph.wide) continue;
    graph.wide = WideOperation{shadow->type, shadow->norm};
  }
  for (int64_t i = 0; i < count; ++i) {
    const DescriptorShadow* const operation = At(operations[i]);
    if (operation == nullptr) {
      graph.kind = GraphKind::kUnknown;
      return;
    }
    if (!IsConvolution(operation->type)) continue;
    graph.span = operation->span;
    if (operation->ragged || graph.dynamic) {
      graph.kind = GraphKind::kUnfamiliar;
      return;
    }
    graph.kind = operation->batch == 1 ? GraphKind::kUndividable : GraphKind::kConvolution;
  }
}

void DescriptorShadows::OnSet(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                              int64_t count, const void* values) {
  if (count < 1 || values == nullptr) return;
  MutexLock lock(mutex_);
  DescriptorShadow* const shadow = At(descriptor);
  if (shadow == nullptr) return;
  switch (name) {
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
      shadow->batch = First<int64_t>(values);
      shadow->extents = ByAxis(count, values);
      shadow->span = ImageSpan(shadow->extents, shadow->strides);
      break;
    case CUDNN_ATTR_TENSOR_STRIDES:
      shadow->strides = ByAxis(count, values);
      shadow->span = ImageSpan(shadow->extents, shadow->strides);
      break;
    case CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC:
      shadow->ragged = true;
      break;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X:
      if (const DescriptorShadow* image = At(First<cudnnBackendDescriptor_t>(values))) {
        shadow->batch = image->batch;
        shadow->ragged |= image->ragged;
        shadow->span = std::max(shadow->span, image->span);
      }
      break;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY:
      if (const DescriptorShadow* output = At(First<cudnnBackendDescriptor_t>(values))) {
        shadow->ragged |= output->ragged;
        shadow->span = std::max(shadow->span, output->span);
      }
      break;
    case CUDNN_ATTR_POINTWISE_MODE:
      shadow->reads_position = First<cudnnPointwiseMode_t>(values) == CUDNN_POINTWISE_GEN_INDEX;
      break;
    case CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR:
      if (const DescriptorShadow* mode = At(First<cudnnBackendDescriptor_t>(values))) {
        shadow->reads_position = mode->reads_position;
      }
      break;
    case CUDNN_ATTR_OPERATION_NORM_FWD_MODE:
    case CUDNN_ATTR_OPERATION_NORM_BWD_MODE:
      shadow->norm = First<cudnnBackendNormMode_t>(values);
      break;
    case CUDNN_ATTR_OPERATIONGRAPH_OPS:
      TakeOperations(*shadow, count, static_cast<const cudnnBackendDescriptor_t*>(values));
      break;
    case CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED:
      // The program may set this attribute before or after it sets the operations.
      shadow->dynamic = First<bool>(values);
      if (shadow->dynamic && IsConvolution(shadow->kind)) shadow->kind = GraphKind::kUnfamiliar;
      break;
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE:
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
      shadow->handle = First<cudnnHandle_t>(values);
      break;
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
    case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
    case CUDNN_ATTR_ENGINECFG_ENGINE:
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
      Inherit(*shadow, First<cudnnBackendDescriptor_t>(values));
      break;
    default:
      break;
  }
}

void DescriptorShadows::OnGet(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                              int64_t count, const void* values) {
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
    case CUDNN_ATTR_ENGINECFG_ENGINE:
    case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
      break;
    default:
      return;
  }
  if (values == nullptr) return;
  const auto* const parts = static_cast<const cudnnBackendDescriptor_t*>(values);
  MutexLock lock(mutex_);
  const bool listed = name == CUDNN_ATTR_ENGINEHEUR_RESULTS;
  std::shared_ptr<ListedConfigurations> list;
  try {
    if (listed) list = std::make_shared<ListedConfigurations>();
    if (listed) list->reserve(static_cast<size_t>(count));
  } catch (...) {
    list = nullptr;  // out of memory: the configurations belong to no list
  }
  for (int64_t i = 0; i < count; ++i) {
    DescriptorShadow* const part = At(parts[i]);
    if (part == nullptr) continue;
    Inherit(*part, descriptor);
    if (listed) part->is_heuristics_first = i == 0;
    if (list != nullptr) {
      part->list = list;
      list->emplace_back(parts[i], part->number);
    }
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
      const DescriptorShadow* const configuration = At(descriptor);
      part->configuration = descriptor;
      part->configuration_number = configuration == nullptr ? 0 : configuration->number;
      part->keeps_native.reset();
    }
  }
}

std::optional<DescriptorShadow> DescriptorShadows::OnDestroy(cudnnBackendDescriptor_t descriptor) {
  MutexLock lock(mutex_);
  const auto entry = shadows_.find(descriptor);
  if (entry == shadows_.end()) return std::nullopt;
  const DescriptorShadow shadow = entry->second;
  shadows_.erase(entry);
  return shadow;
}

std::vector<cudnnBackendDescriptor_t> DescriptorShadows::Lend(const ListedConfigurations& list) {
  MutexLock lock(mutex_);
  std::vector<cudnnBackendDescriptor_t> alive;
  alive.reserve(list.size());
  for (const auto& [configuration, number] : list) {
    const DescriptorShadow* const shadow = At(configuration);
    if (shadow != nullptr && shadow->number == number) alive.push_back(configuration);
  }
  for (const cudnnBackendDescriptor_t configuration : alive) lent_.try_emplace(configuration);
  for (const cudnnBackendDescriptor_t configuration : alive) ++lent_[configuration].times;
  return alive;
}

bool DescriptorShadows::DestroyLater(cudnnBackendDescriptor_t configuration) {
  MutexLock lock(mutex_);
  const auto lent = lent_.find(configuration);
  if (lent == lent_.end() || lent->second.times == 0) return false;
  lent->second.destroyed = true;
  return true;
}

bool DescriptorShadows::Return(cudnnBackendDescriptor_t configuration) {
  MutexLock lock(mutex_);
  const auto lent = lent_.find(configuration);
  if (lent == lent_.end() || --lent->second.times > 0) return false;
  const bool destroyed = lent->second.destroyed;
  lent_.erase(lent);
  return destroyed;
}

LentConfigurations::~LentConfigurations() {
  for (const cudnnBackendDescriptor_t configuration : all_) {
    if (shadows_.Return(configuration)) functions_.cudnnBackendDestroyDescriptor(configuration);
  }
}

bool DescriptorShadows::AnswerNative(cudnnBackendDescriptor_t engine, bool keeps) {
  MutexLock lock(mutex_);
  DescriptorShadow* const shadow = At(engine);
  if (shadow == nullptr) return keeps;
  if (!shadow->keeps_native) shadow->keeps_native = keeps;
  return *shadow->keeps_native;
}

std::optional<DescriptorShadow> DescriptorShadows::Find(cudnnBackendDescriptor_t descriptor) {
  MutexLock lock(mutex_);
  const DescriptorShadow* const shadow = At(descriptor);
  if (shadow == nullptr) return std::nullopt;
  DescriptorShadow found = *shadow;
  const DescriptorShadow* const configuration = At(found.configuration);
  if (configuration == nullptr || configuration->number != found.configuration_number) {
    found.configuration = nullptr;
  }
  return found;
}

}  // namespace ucudnn::interposer
