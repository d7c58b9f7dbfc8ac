#include "shim/host/cudnn/graph/heuristics.h"

#include "shim/host/hostgpu.h"

namespace hostgpu {
namespace {

// Sets `config` to a finalized configuration; returns false if the engine does not support the
// graph. A `workspace_knob` of -1 sets no knob.
bool Configure(const OperationGraph& graph, const DeviceProperties& device, int64_t index,
               int64_t workspace_knob, EngineConfig* config) {
  config->engine.graph = graph;
  config->engine.index = index;
  config->engine.device = device;
  if (config->engine.Complete() != CUDNN_STATUS_SUCCESS) return false;
  config->engine.set_finalized(true);
  if (workspace_knob >= 0) {
    KnobChoice choice;
    choice.type = CUDNN_KNOB_TYPE_WORKSPACE;
    choice.value = workspace_knob;
    choice.set_finalized(true);
    config->choices.push_back(choice);
  }
  if (config->Complete() != CUDNN_STATUS_SUCCESS) return false;
  config->set_finalized(true);
  return true;
}

}  // namespace

cudnnStatus_t EngineHeuristics::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_ENGINEHEUR_MODE:
      return attribute.One(CUDNN_TYPE_HEUR_MODE, &mode_);
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
      return TakeChild(attribute, &graph_, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                       CUDNN_STATUS_BAD_PARAM);
    case CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET:
      return attribute.One(CUDNN_TYPE_INT32, &sm_count_target_);
    case CUDNN_ATTR_ENGINEHEUR_DEVICEPROP:
      return TakeChild(attribute, &device_);
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of heuristics");
  }
}

cudnnStatus_t EngineHeuristics::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_ENGINEHEUR_MODE:
      return request.One(CUDNN_TYPE_HEUR_MODE, mode_);
    case CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET:
      return request.One(CUDNN_TYPE_INT32, sm_count_target_);
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      if (request.requested > 0) return GiveChildren<EngineConfig>(request, results_);
      HOSTGPU_REFUSE_IF(request.type != CUDNN_TYPE_BACKEND_DESCRIPTOR,
                        CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
      request.Return(static_cast<int64_t>(results_.size()));
      return CUDNN_STATUS_SUCCESS;
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of heuristics");
  }
}

cudnnStatus_t EngineHeuristics::Complete() {
  HOSTGPU_REFUSE_IF(!graph_.finalized(), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(hostgpuFaultDue("query"), CUDNN_STATUS_ALLOC_FAILED);
  results_.clear();
  // For an unknown mode there are no configurations.
  if (!graph_.computation() || mode_ < 0 || mode_ >= CUDNN_HEUR_MODES_COUNT) {
    return CUDNN_STATUS_SUCCESS;
  }
  const auto add = [&](int64_t index, int64_t workspace_knob) {
    EngineConfig config;
    if (Configure(graph_, device_, index, workspace_knob, &config)) {
      results_.push_back(std::move(config));
    }
  };
  const Computation& computation = *graph_.computation();
  if (mode_ != CUDNN_HEUR_MODE_FALLBACK) {
    // Engine 0 is added last. Mode B adds a configuration for each value of an engine's knob; the
    // other modes add one only for the smallest value.
    for (int64_t index = 1; index < GraphEngineCount(computation); ++index) {
      for (const KnobInfo& knob : KnobsOf(computation, index)) {
        const int64_t last = mode_ == CUDNN_HEUR_MODE_B ? knob.maximum : knob.minimum;
        for (int64_t value = knob.minimum; value <= last; ++value) add(index, value);
      }
      if (KnobsOf(computation, index).empty()) add(index, -1);
    }
  }
  add(0, -1);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
