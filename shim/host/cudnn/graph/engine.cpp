#include "shim/host/cudnn/graph/engine.h"

namespace hostgpu {
namespace {

// Writes at most request.requested values, and returns their number. If none was requested, returns
// the number of all values.
template <class T>
cudnnStatus_t GiveNotes(const AttributeRequest& request, cudnnBackendAttributeType_t type,
                        const std::vector<T>& notes) {
  HOSTGPU_REFUSE_IF(request.type != type, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  const auto number = static_cast<int64_t>(notes.size());
  if (request.values != nullptr) {
    std::copy_n(notes.data(), std::min(number, request.requested), static_cast<T*>(request.values));
  }
  request.Return(request.requested > 0 ? std::min(number, request.requested) : number);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t TakeChoices(const Attribute& attribute, std::vector<KnobChoice>* choices) {
  HOSTGPU_REFUSE_IF(attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  std::vector<KnobChoice> taken;
  for (int64_t i = 0; i < attribute.count; ++i) {
    void* handle = attribute.Value<void*>(i);
    HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM);
    const auto* choice = As<KnobChoice>(handle);
    HOSTGPU_REFUSE_IF(choice == nullptr, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(!choice->finalized(), CUDNN_STATUS_NOT_INITIALIZED);
    for (const KnobChoice& other : taken) {
      HOSTGPU_REFUSE_IF(other.type == choice->type, CUDNN_STATUS_BAD_PARAM);
    }
    taken.push_back(*choice);
  }
  *choices = std::move(taken);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t Engine::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
      return TakeChild(attribute, &graph);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return attribute.One(CUDNN_TYPE_INT64, &index, CUDNN_STATUS_BAD_PARAM);
    case CUDNN_ATTR_ENGINE_SM_COUNT_TARGET:
      return attribute.One(CUDNN_TYPE_INT32, &sm_count_target_);
    case CUDNN_ATTR_ENGINE_DEVICEPROP:
      return TakeChild(attribute, &device);
    case CUDNN_ATTR_ENGINE_DISABLE_CLUSTER_COOPERATIVE:
      return attribute.One(CUDNN_TYPE_BOOLEAN, &without_clusters_);
    case CUDNN_ATTR_ENGINE_KNOB_INFO:
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "an engine's own attribute");
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of an engine");
  }
}

cudnnStatus_t Engine::Get(const AttributeRequest& request) const {
  const auto& computation = *graph.computation();
  switch (request.name) {
    case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
      return GiveChild(request, graph);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return request.One(CUDNN_TYPE_INT64, index);
    case CUDNN_ATTR_ENGINE_KNOB_INFO: {
      const auto knobs = KnobsOf(computation, index);
      if (request.requested > 0) return GiveChildren<KnobInfo>(request, knobs);
      HOSTGPU_REFUSE_IF(request.type != CUDNN_TYPE_BACKEND_DESCRIPTOR,
                        CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
      request.Return(static_cast<int64_t>(knobs.size()));
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return GiveNotes(request, CUDNN_TYPE_NUMERICAL_NOTE, NotesOf(computation, index));
    case CUDNN_ATTR_ENGINE_LAYOUT_INFO:
      HOSTGPU_REFUSE_IF(request.type != CUDNN_TYPE_BACKEND_DESCRIPTOR,
                        CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
      request.Return(0);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      return GiveNotes(request, CUDNN_TYPE_BEHAVIOR_NOTE,
                       SupportsNativeGraphs(computation, index)
                           ? std::vector{CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API}
                           : std::vector<cudnnBackendBehaviorNote_t>{});
    case CUDNN_ATTR_ENGINE_SM_COUNT_TARGET:
      return request.One(CUDNN_TYPE_INT32, sm_count_target_);
    case CUDNN_ATTR_ENGINE_DEVICEPROP:
      return GiveChild(request, device);
    case CUDNN_ATTR_ENGINE_DISABLE_CLUSTER_COOPERATIVE:
      return request.One(CUDNN_TYPE_BOOLEAN, without_clusters_);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of an engine");
  }
}

cudnnStatus_t Engine::Complete() {
  HOSTGPU_REFUSE_IF(!graph.finalized(), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  HOSTGPU_REFUSE_IF(sm_count_target_ < 0, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!graph.computation(), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
  HOSTGPU_REFUSE_IF(!SetUpEngine(*graph.computation(), index, 0), CUDNN_STATUS_NOT_SUPPORTED);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t EngineConfig::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      return TakeChild(attribute, &engine);
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      return TakeChoices(attribute, &choices);
    case CUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO:
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "a configuration's own attribute");
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of an engine's configuration");
  }
}

cudnnStatus_t EngineConfig::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      return GiveChild(request, engine);
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      return GiveChildren<KnobChoice>(request, choices);
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
      return request.One(CUDNN_TYPE_INT64, static_cast<int64_t>(setup_.workspace_bytes));
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
      HOSTGPU_REFUSE_IF(request.type != CUDNN_TYPE_INT32, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine of this library has shared memory");
    case CUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "intermediates");
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of an engine's configuration");
  }
}

cudnnStatus_t EngineConfig::Complete() {
  HOSTGPU_REFUSE_IF(!engine.finalized(), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  const Computation& computation = *engine.graph.computation();
  const std::vector<KnobInfo> knobs = KnobsOf(computation, engine.index);
  int64_t workspace_knob = 0;
  for (const KnobChoice& choice : choices) {
    const auto knob = std::find_if(knobs.begin(), knobs.end(),
                                   [&](const KnobInfo& info) { return info.type == choice.type; });
    HOSTGPU_REFUSE_IF(knob == knobs.end(), CUDNN_STATUS_NOT_SUPPORTED);
    if (choice.value == -1) continue;
    HOSTGPU_REFUSE_IF(choice.value < knob->minimum || choice.value > knob->maximum,
                      CUDNN_STATUS_NOT_SUPPORTED);
    workspace_knob = choice.value;
  }
  const auto setup = SetUpEngine(computation, engine.index, workspace_knob);
  HOSTGPU_REFUSE_IF(!setup, CUDNN_STATUS_NOT_SUPPORTED);
  setup_ = *setup;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
