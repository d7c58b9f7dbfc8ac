#include <map>

#include "shim/host/cudnn/graph/names.h"
#include "shim/host/cudnn/graph/plan_json.h"
#include "shim/host/cudnn/graph/plan_schema.h"

namespace hostgpu {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::map<std::string, GraphTensor>;

// Reads fields with known types from one JSON object. complete() returns true if all fields that
// were read exist with the right type.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object), complete_(object.is_object()) {}

  bool complete() const { return complete_; }
  bool Has(const char* key) const { return object_.is_object() && object_.contains(key); }

  const Json* Get(const char* key) {
    if (complete_ && object_.contains(key)) return &object_[key];
    complete_ = false;
    return nullptr;
  }

  void Read(const char* key, int64_t* value) {
    const Json* field = Get(key);
    if (!Accept(field != nullptr && field->is_number_integer())) return;
    *value = field->get<int64_t>();
  }
  void Read(const char* key, double* value) {
    const Json* field = Get(key);
    if (!Accept(field != nullptr && field->is_number())) return;
    *value = field->get<double>();
  }
  void Read(const char* key, bool* value) {
    const Json* field = Get(key);
    if (!Accept(field != nullptr && field->is_boolean())) return;
    *value = field->get<bool>();
  }
  void Read(const char* key, std::string* value) {
    const Json* field = Get(key);
    if (!Accept(field != nullptr && field->is_string())) return;
    *value = field->get<std::string>();
  }
  void Read(const char* key, NameSet set, int* value) {
    std::string name;
    Read(key, &name);
    if (complete_) Accept(ValueOf(set, name, value));
  }
  template <class Values>
  void ReadList(const char* key, Values* values, int* count) {
    const Json* field = Get(key);
    if (!Accept(field != nullptr && field->is_array() && field->size() <= values->size())) return;
    *count = static_cast<int>(field->size());
    for (int i = 0; i < *count; ++i) {
      if (!Accept((*field)[i].is_number_integer())) return;
      (*values)[i] = (*field)[i].template get<int64_t>();
    }
  }

 private:
  bool Accept(bool acceptable) {
    complete_ = complete_ && acceptable;
    return complete_;
  }

  const Json& object_;
  bool complete_;
};

// Finalizes a descriptor that was read from a plan.
cudnnStatus_t Finish(GraphDescriptor* descriptor) {
  const cudnnStatus_t status = descriptor->Complete();
  if (status == CUDNN_STATUS_SUCCESS) descriptor->set_finalized(true);
  return status;
}

cudnnStatus_t ReadTensor(const Json& json, Tensors* tensors) {
  Fields fields(json);
  GraphTensor tensor;
  std::string name;
  fields.Read("name", &name);
  fields.Read("dataType", NameSet::kDataType, &tensor.type);
  fields.ReadList("dim", &tensor.dims, &tensor.dim_count);
  fields.ReadList("stride", &tensor.strides, &tensor.stride_count);
  fields.Read("isVirtual", &tensor.is_virtual);
  fields.Read("isByValue", &tensor.is_by_value);
  fields.Read("vectCount", &tensor.vector_count);
  fields.Read("vectDim", &tensor.vector_dim);
  fields.Read("ptrAlignment", &tensor.alignment);
  fields.Read("reordering", NameSet::kReordering, &tensor.reordering);
  HOSTGPU_REFUSE_IF(!fields.complete(), CUDNN_STATUS_BAD_PARAM);
  char* end = nullptr;
  tensor.unique_id = std::strtoll(name.c_str(), &end, 10);
  HOSTGPU_REFUSE_IF(name.empty() || *end != '\0', CUDNN_STATUS_BAD_PARAM);
  if (auto status = Finish(&tensor)) return status;
  (*tensors)[name] = tensor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ReadOperand(Fields* fields, const char* key, const Tensors& tensors,
                          GraphTensor* operand) {
  std::string name;
  fields->Read(key, &name);
  const auto found = tensors.find(name);
  HOSTGPU_REFUSE_IF(!fields->complete() || found == tensors.end(), CUDNN_STATUS_BAD_PARAM);
  *operand = found->second;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ReadConvolution(Fields fields, const ConvolutionSchema& schema,
                              const Tensors& tensors, std::vector<GraphOperation>* operations) {
  ConvolutionOperation operation(schema.kind);
  GraphConvolution& convolution = operation.convolution;
  fields.Read("mode", NameSet::kConvolutionMode, &convolution.mode);
  fields.Read("mathPrec", NameSet::kDataType, &convolution.compute_type);
  fields.Read("alpha", &operation.alpha);
  fields.Read("beta", &operation.beta);
  const auto read = [&](const char* key, GraphConvolution::PerAxis* axes) {
    fields.ReadList(key, &axes->values, &axes->count);
  };
  if (fields.Has("pad")) {
    read("pad", &convolution.pad_lower);
    convolution.pad_upper = convolution.pad_lower;
  } else {
    read("pad_upper", &convolution.pad_upper);
    read("pad_lower", &convolution.pad_lower);
  }
  read("stride", &convolution.stride);
  read("dilation", &convolution.dilation);
  HOSTGPU_REFUSE_IF(!fields.complete(), CUDNN_STATUS_BAD_PARAM);
  convolution.spatial_count = convolution.stride.count;
  if (auto status = ReadOperand(&fields, schema.x, tensors, &operation.x)) return status;
  if (auto status = ReadOperand(&fields, schema.w, tensors, &operation.w)) return status;
  if (auto status = ReadOperand(&fields, schema.y, tensors, &operation.y)) return status;
  if (auto status = Finish(&convolution)) return status;
  if (auto status = Finish(&operation)) return status;
  operations->push_back(operation);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ReadPointwise(Fields fields, const Tensors& tensors,
                            std::vector<GraphOperation>* operations) {
  PointwiseOperation operation;
  GraphPointwise& function = operation.pointwise;
  fields.Read("pointwiseMode", NameSet::kPointwiseMode, &function.mode);
  fields.Read("mathPrec", NameSet::kDataType, &function.math_precision);
  for (const ParameterSchema& parameter : kParameters) {
    if (parameter.forward == function.mode || parameter.backward == function.mode) {
      fields.Read(parameter.key, &(function.*parameter.field));
    }
  }
  fields.Read("alpha1", &operation.alpha1);
  fields.Read("alpha2", &operation.alpha2);
  HOSTGPU_REFUSE_IF(!fields.complete(), CUDNN_STATUS_BAD_PARAM);
  for (const OperandSchema& operand : kOperands) {
    if (!fields.Has(operand.key)) continue;
    if (auto status = ReadOperand(&fields, operand.key, tensors, &(operation.*operand.field))) {
      return status;
    }
  }
  if (auto status = Finish(&function)) return status;
  if (auto status = Finish(&operation)) return status;
  operations->push_back(operation);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ReadTensorOperation(Fields fields, const TensorOperationSchema& schema,
                                  const Tensors& tensors, std::vector<GraphOperation>* operations) {
  TensorOperation operation(schema.kind);
  fields.Read("mathPrec", NameSet::kDataType, &operation.math_precision);
  if (operation.concatenates()) {
    fields.Read("axis", &operation.axis);
    fields.Read("inPlaceIndex", &operation.in_place_index);
    const Json* inputs = fields.Get("inputs");
    HOSTGPU_REFUSE_IF(!fields.complete() || !inputs->is_array(), CUDNN_STATUS_BAD_PARAM);
    for (const Json& input : *inputs) {
      const auto found = tensors.find(input.is_string() ? input.get<std::string>() : "");
      HOSTGPU_REFUSE_IF(found == tensors.end(), CUDNN_STATUS_BAD_PARAM);
      operation.inputs.push_back(found->second);
    }
  }
  for (size_t i = 0; i < schema.inputs.size(); ++i) {
    if (auto status = ReadOperand(&fields, schema.inputs[i].key, tensors, &operation.inputs[i])) {
      return status;
    }
  }
  for (size_t i = 0; i < schema.outputs.size(); ++i) {
    if (auto status = ReadOperand(&fields, schema.outputs[i].key, tensors, &operation.outputs[i])) {
      return status;
    }
  }
  if (auto status = Finish(&operation)) return status;
  operations->push_back(operation);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ReadNode(const Json& json, const Tensors& tensors,
                       std::vector<GraphOperation>* operations) {
  Fields fields(json);
  std::string kind;
  fields.Read("operation", &kind);
  HOSTGPU_REFUSE_IF(!fields.complete(), CUDNN_STATUS_BAD_PARAM);
  for (const ConvolutionSchema& schema : kConvolutions) {
    if (kind == schema.operation) return ReadConvolution(fields, schema, tensors, operations);
  }
  for (const TensorOperationSchema& schema : TensorOperations()) {
    if (kind == schema.operation) return ReadTensorOperation(fields, schema, tensors, operations);
  }
  HOSTGPU_REFUSE_IF(kind != kPointwiseOperation, CUDNN_STATUS_NOT_SUPPORTED);
  return ReadPointwise(fields, tensors, operations);
}

cudnnStatus_t ReadGraph(const Json& json, OperationGraph* graph) {
  Fields fields(json);
  std::string mode;
  fields.Read("finalizeMode", &mode);
  const Json* tensor_list = fields.Get("tensors");
  const Json* nodes = fields.Get("nodes");
  HOSTGPU_REFUSE_IF(!fields.complete() || !tensor_list->is_array() || !nodes->is_array(),
                    CUDNN_STATUS_BAD_PARAM);
  bool known = mode == kFusedConvolution || mode == kConvolutionFusion ||
               mode == kConvolutionStatistics || mode == kPointwiseFusion;
  for (const ConvolutionSchema& schema : kConvolutions) {
    known = known || mode == schema.finalize_mode;
  }
  HOSTGPU_REFUSE_IF(!known, CUDNN_STATUS_BAD_PARAM);
  Tensors tensors;
  for (const Json& tensor : *tensor_list) {
    if (auto status = ReadTensor(tensor, &tensors)) return status;
  }
  std::vector<GraphOperation> operations;
  for (const Json& node : *nodes) {
    if (auto status = ReadNode(node, tensors, &operations)) return status;
  }
  graph->set_operations(std::move(operations));
  return Finish(graph);
}

cudnnStatus_t ReadEngine(const Json& json, const DeviceProperties& device, EngineConfig* config) {
  Fields fields(json);
  fields.Read("engineId", &config->engine.index);
  const Json* choices = fields.Get("knobChoices");
  HOSTGPU_REFUSE_IF(!fields.complete() || !choices->is_object(), CUDNN_STATUS_BAD_PARAM);
  config->engine.device = device;
  if (auto status = Finish(&config->engine)) return status;
  for (const auto& [name, value] : choices->items()) {
    KnobChoice choice;
    HOSTGPU_REFUSE_IF(!ValueOf(NameSet::kKnobType, name, &choice.type), CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(!value.is_number_integer(), CUDNN_STATUS_BAD_PARAM);
    choice.value = value.get<int64_t>();
    choice.set_finalized(true);
    config->choices.push_back(choice);
  }
  return Finish(config);
}

}  // namespace

cudnnStatus_t PlanFromJson(const std::string& text, const DeviceProperties& device,
                           EngineConfig* config) {
  const Json json = Json::parse(text, nullptr, false);
  HOSTGPU_REFUSE_IF(!json.is_object(), CUDNN_STATUS_BAD_PARAM);
  Fields fields(json);
  int64_t version = 0, schema = 0;
  fields.Read("cudnnVersion", &version);
  HOSTGPU_REFUSE_IF(!fields.complete(), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(version != CUDNN_VERSION, CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
  fields.Read("schemaVersion", &schema);
  HOSTGPU_REFUSE_IF(!fields.complete(), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(schema != kSchemaVersion, CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH);
  const Json* graph = fields.Get("operationGraph");
  const Json* profile = fields.Get("GPUProfile");
  const Json* engine = fields.Get("engine");
  HOSTGPU_REFUSE_IF(!fields.complete(), CUDNN_STATUS_BAD_PARAM);
  DeviceProfile written_for;
  if (auto status = ReadDeviceProfile(*profile, &written_for)) return status;
  HOSTGPU_REFUSE_IF(written_for["deviceVer"] != device.profile()["deviceVer"],
                    CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
  EngineConfig read;
  if (auto status = ReadGraph(*graph, &read.engine.graph)) return status;
  if (auto status = ReadEngine(*engine, device, &read)) return status;
  *config = std::move(read);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
