#include <map>

#include "shim/host/cudnn/graph/names.h"
#include "shim/host/cudnn/graph/plan_json.h"
#include "shim/host/cudnn/graph/plan_schema.h"

namespace hostgpu {
namespace {

using Json = nlohmann::ordered_json;

std::string Name(NameSet set, int value) {
  const char* name = NameOf(set, value);
  return name != nullptr ? name : std::to_string(value);
}

template <class Values>
Json List(const Values& values, int count) {
  Json list = Json::array();
  for (int i = 0; i < count; ++i) list.push_back(values[i]);
  return list;
}

Json TensorToJson(const GraphTensor& tensor) {
  return {{"name", std::to_string(tensor.unique_id)},
          {"dataType", Name(NameSet::kDataType, tensor.type)},
          {"dim", List(tensor.dims, tensor.dim_count)},
          {"stride", List(tensor.strides, tensor.dim_count)},
          {"isVirtual", tensor.is_virtual},
          {"isByValue", tensor.is_by_value},
          {"vectCount", tensor.vector_count},
          {"vectDim", tensor.vector_dim},
          {"ptrAlignment", tensor.alignment},
          {"reordering", Name(NameSet::kReordering, tensor.reordering)}};
}

Json NodeToJson(const ConvolutionOperation& operation) {
  const GraphConvolution& convolution = operation.convolution;
  const ConvolutionSchema& schema = SchemaOf(operation.operation());
  const int spatial = static_cast<int>(convolution.spatial_count);
  Json node = {{"operation", schema.operation},
               {"mode", Name(NameSet::kConvolutionMode, convolution.mode)},
               {"mathPrec", Name(NameSet::kDataType, convolution.compute_type)},
               {"alpha", operation.alpha},
               {"beta", operation.beta}};
  if (convolution.pad_lower.values == convolution.pad_upper.values) {
    node["pad"] = List(convolution.pad_lower.values, spatial);
  } else {
    node["pad_upper"] = List(convolution.pad_upper.values, spatial);
    node["pad_lower"] = List(convolution.pad_lower.values, spatial);
  }
  node["stride"] = List(convolution.stride.values, spatial);
  node["dilation"] = List(convolution.dilation.values, spatial);
  node[schema.x] = std::to_string(operation.x.unique_id);
  node[schema.w] = std::to_string(operation.w.unique_id);
  node[schema.y] = std::to_string(operation.y.unique_id);
  if (operation.groups() > 1) node["groupCount"] = operation.groups();
  return node;
}

Json NodeToJson(const PointwiseOperation& operation) {
  const GraphPointwise& f = operation.pointwise;
  Json node = {{"operation", kPointwiseOperation},
               {"pointwiseMode", Name(NameSet::kPointwiseMode, f.mode)},
               {"mathPrec", Name(NameSet::kDataType, f.math_precision)}};
  for (const ParameterSchema& parameter : kParameters) {
    if (parameter.forward == f.mode || parameter.backward == f.mode) {
      node[parameter.key] = f.*parameter.field;
    }
  }
  node["alpha1"] = operation.alpha1;
  node["alpha2"] = operation.alpha2;
  for (const OperandSchema& operand : kOperands) {
    const GraphTensor& tensor = operation.*operand.field;
    if (tensor.dim_count > 0) node[operand.key] = std::to_string(tensor.unique_id);
  }
  return node;
}

Json NodeToJson(const TensorOperation& operation) {
  const TensorOperationSchema& schema = operation.schema();
  Json node = {{"operation", schema.operation},
               {"mathPrec", Name(NameSet::kDataType, operation.math_precision)}};
  if (operation.concatenates()) {
    node["axis"] = operation.axis;
    node["inPlaceIndex"] = operation.in_place_index;
    node["inputs"] = Json::array();
    for (const GraphTensor& input : operation.inputs) {
      node["inputs"].push_back(std::to_string(input.unique_id));
    }
  }
  for (size_t i = 0; i < schema.inputs.size(); ++i) {
    node[schema.inputs[i].key] = std::to_string(operation.inputs[i].unique_id);
  }
  for (size_t i = 0; i < schema.outputs.size(); ++i) {
    node[schema.outputs[i].key] = std::to_string(operation.outputs[i].unique_id);
  }
  return node;
}

void AddTensors(const GraphOperation& operation, std::map<int64_t, Json>* tensors) {
  for (const GraphTensor* input : InputsOf(operation)) {
    tensors->emplace(input->unique_id, TensorToJson(*input));
  }
  for (const GraphTensor* output : OutputsOf(operation)) {
    tensors->emplace(output->unique_id, TensorToJson(*output));
  }
}

template <class Predicate>
bool HasOne(const std::vector<GraphOperation>& operations, const Predicate& predicate) {
  return std::any_of(operations.begin(), operations.end(), predicate);
}

bool IsConvolution(const GraphOperation& operation) {
  return std::holds_alternative<ConvolutionOperation>(operation);
}

bool IsStatistics(const GraphOperation& operation) {
  const auto* tensors = std::get_if<TensorOperation>(&operation);
  return tensors != nullptr && tensors->kind() == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR;
}

// Returns true if the first operation is a forward convolution, and only ADD operations and at most
// one activation follow.
bool AddsAndActivates(const std::vector<GraphOperation>& operations) {
  if (std::get<ConvolutionOperation>(operations.front()).operation() != Operation::kForward) {
    return false;
  }
  bool activated = false;
  for (size_t i = 1; i < operations.size(); ++i) {
    const auto* pointwise = std::get_if<PointwiseOperation>(&operations[i]);
    if (pointwise == nullptr || activated) return false;
    activated = pointwise->pointwise.mode != CUDNN_POINTWISE_ADD;
    if (activated && ArityOf(pointwise->pointwise.mode) != PointwiseArity::kUnary) return false;
  }
  return true;
}

const char* FinalizeMode(const std::vector<GraphOperation>& operations) {
  if (HasOne(operations, IsConvolution) && HasOne(operations, IsStatistics)) {
    return kConvolutionStatistics;
  }
  const auto* first = std::get_if<ConvolutionOperation>(&operations.front());
  if (operations.size() > 1 && first != nullptr) {
    return AddsAndActivates(operations) ? kFusedConvolution : kConvolutionFusion;
  }
  if (first != nullptr) return SchemaOf(first->operation()).finalize_mode;
  return HasOne(operations, IsConvolution) ? kConvolutionFusion : kPointwiseFusion;
}

}  // namespace

std::string PlanToJson(const EngineConfig& config, const DeviceProfile& profile) {
  // The nodes are sorted so that producers precede consumers, as in the real library.
  std::vector<GraphOperation> operations = config.engine.graph.operations();
  if (OrderOperations(&operations) != CUDNN_STATUS_SUCCESS) return {};
  std::map<int64_t, Json> tensors;
  Json nodes = Json::array();
  for (const GraphOperation& operation : operations) {
    AddTensors(operation, &tensors);
    nodes.push_back(std::visit([](const auto& node) { return NodeToJson(node); }, operation));
  }
  Json tensor_list = Json::array();
  for (auto& [id, tensor] : tensors) tensor_list.push_back(std::move(tensor));
  Json choices = Json::object();
  for (const KnobInfo& knob : KnobsOf(*config.engine.graph.computation(), config.engine.index)) {
    int64_t value = -1;
    for (const KnobChoice& choice : config.choices) {
      if (choice.type == knob.type) value = choice.value;
    }
    choices[Name(NameSet::kKnobType, knob.type)] = value;
  }
  const Json plan = {{"cudnnVersion", CUDNN_VERSION},
                     {"schemaVersion", kSchemaVersion},
                     {"operationGraph",
                      {{"finalizeMode", FinalizeMode(operations)},
                       {"tensors", std::move(tensor_list)},
                       {"nodes", std::move(nodes)}}},
                     {"GPUProfile", profile},
                     {"engine",
                      {{"engineId", config.engine.index},
                       {"smVersion", profile.value("deviceVer", int64_t{0})},
                       {"knobChoices", std::move(choices)}}}};
  return plan.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hostgpu
