#include "cudnn/compiled_plan.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json_value.h"
#include "cudnn/descriptors.h"
#include "cudnn/fused_convolution.h"
#include "cudnn/graph_parts.h"
#include "cudnn/plan_json.h"
#include "cudnn/pointwise_modes.h"

namespace ucudnn::cudnn {
namespace {

using namespace plan_json;
using Kind = JsonValue::Kind;

class Builder {
 public:
  Builder(const Functions& functions, const PlanDevice& device, const FusedConvolution& convolution)
      : functions_(functions), device_(device), convolution_(convolution) {}

  Result<BackendDescriptor> BuildGraph(const JsonValue& root) {
    const JsonValue* const graph = root.Find("operationGraph");
    if (graph == nullptr) return Unfamiliar("no graph");
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* tensors, Member(*graph, "tensors", Kind::kArray));
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* nodes, Member(*graph, "nodes", Kind::kArray));
    for (const JsonValue& item : tensors->items) UCUDNN_RETURN_IF_ERROR(AddTensor(item));
    for (const JsonValue& node : nodes->items) {
      const bool is_convolution = &node == nodes->items.data();
      auto operation = is_convolution ? Convolution(node) : Pointwise(node);
      UCUDNN_RETURN_IF_ERROR(operation.status());
      parts_.push_back(std::move(*operation));
      operations_.push_back(parts_.back().get());
    }
    return MakeGraph(functions_, device_, operations_);
  }

  Result<BackendDescriptor> BuildPlanOf(const JsonValue& root) {
    const EngineId::Graph* const engine = convolution_.engine.graph();
    if (engine == nullptr) return Unfamiliar("no engine");
    UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor built, BuildGraph(root));
    UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor configuration,
                            MakeConfiguration(functions_, device_, built.get(), *engine));
    return MakePlan(functions_, device_, configuration.get());
  }

 private:
  Status AddTensor(const JsonValue& item) {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor read, ReadTensor(item));
    UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor tensor,
                            MakeTensor(functions_, {read.uid, read.type, read.dims, read.strides,
                                                    read.alignment, read.is_virtual}));
    tensors_[std::to_string(read.uid)] = std::move(tensor);
    return Status::Ok();
  }

  Result<cudnnBackendDescriptor_t> Operand(const JsonValue& node, const char* role) {
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* name, Member(node, role, Kind::kText));
    const auto found = tensors_.find(name->text);
    if (found == tensors_.end()) return Unfamiliar("there is no tensor " + name->text);
    return found->second.get();
  }

  Result<BackendDescriptor> Convolution(const JsonValue& node) {
    const bool to_image = convolution_.problem.operation == Operation::kBackwardData;
    const bool to_filter = convolution_.problem.operation == Operation::kBackwardFilter;
    UCUDNN_ASSIGN_OR_RETURN(const auto x, Operand(node, to_image ? "dX" : "X"));
    UCUDNN_ASSIGN_OR_RETURN(const auto w, Operand(node, to_filter ? "dW" : "W"));
    UCUDNN_ASSIGN_OR_RETURN(const auto y, Operand(node, to_image || to_filter ? "dY" : "Y"));
    return MakeConvolution(functions_, convolution_.problem, x, w, y,
                           {convolution_.alpha, convolution_.beta});
  }

  Result<BackendDescriptor> PointwiseDescriptor(const JsonValue& node, const PointwiseMode& mode) {
    UCUDNN_ASSIGN_OR_RETURN(
        BackendDescriptor pointwise,
        BackendDescriptor::Create(functions_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
    UCUDNN_ASSIGN_OR_RETURN(const DataType type, Type(node, "mathPrec"));
    const cudnnDataType_t precision = CudnnType(type);
    UCUDNN_RETURN_IF_ERROR(
        pointwise.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode.mode));
    UCUDNN_RETURN_IF_ERROR(
        pointwise.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision));
    for (const auto& [forward, backward, number, name] : PointwiseAttributes()) {
      if ((mode.mode != forward && mode.mode != backward) || node.Find(number) == nullptr) continue;
      UCUDNN_ASSIGN_OR_RETURN(const double value, Number(node, number));
      UCUDNN_RETURN_IF_ERROR(pointwise.Set(name, CUDNN_TYPE_DOUBLE, 1, &value));
    }
    UCUDNN_RETURN_IF_ERROR(pointwise.Finalize());
    return pointwise;
  }

  Result<BackendDescriptor> Pointwise(const JsonValue& node) {
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* name, Member(node, "pointwiseMode", Kind::kText));
    const PointwiseMode* const mode = FindPointwiseMode(name->text);
    if (mode == nullptr) return Unfamiliar("pointwise operation " + name->text);
    UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor pointwise, PointwiseDescriptor(node, *mode));
    UCUDNN_ASSIGN_OR_RETURN(
        BackendDescriptor operation,
        BackendDescriptor::Create(functions_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
    UCUDNN_RETURN_IF_ERROR(
        SetPart(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise.get()));
    const PointwiseRoles roles = RolesOf(mode->arity);
    const bool backward = mode->arity == Arity::kBackward;
    const std::pair<const char*, cudnnBackendAttributeName_t> operands[] = {
        {roles.first, CUDNN_ATTR_OPERATION_POINTWISE_XDESC},
        {roles.second,
         backward ? CUDNN_ATTR_OPERATION_POINTWISE_DYDESC : CUDNN_ATTR_OPERATION_POINTWISE_BDESC},
        {roles.output,
         backward ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC}};
    for (const auto& [role, attribute] : operands) {
      if (role == nullptr) continue;
      UCUDNN_ASSIGN_OR_RETURN(const auto operand, Operand(node, role));
      UCUDNN_RETURN_IF_ERROR(SetPart(operation, attribute, operand));
    }
    for (const auto& [scale, attribute] :
         {std::pair{"alpha1", CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1},
          std::pair{"alpha2", CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2}}) {
      UCUDNN_ASSIGN_OR_RETURN(const double value, Number(node, scale));
      const auto narrow = static_cast<float>(value);
      UCUDNN_RETURN_IF_ERROR(operation.Set(attribute, CUDNN_TYPE_FLOAT, 1, &narrow));
    }
    UCUDNN_RETURN_IF_ERROR(operation.Finalize());
    return operation;
  }

  const Functions& functions_;
  const PlanDevice device_;
  const FusedConvolution& convolution_;
  std::map<std::string, BackendDescriptor> tensors_;  // by the tensor's unique identifier
  std::vector<BackendDescriptor> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

}  // namespace

Result<BackendDescriptor> GraphOfPlan(const Functions& functions, const PlanDevice& device,
                                      std::string_view json) {
  UCUDNN_ASSIGN_OR_RETURN(const FusedConvolution convolution, ReadFusedConvolution(json));
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue root, ParseJson(json));
  return Builder(functions, device, convolution).BuildGraph(root);
}

Result<BackendDescriptor> CompilePlan(const Functions& functions, const PlanDevice& device,
                                      std::string_view json) {
  UCUDNN_ASSIGN_OR_RETURN(const FusedConvolution convolution, ReadFusedConvolution(json));
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue root, ParseJson(json));
  return Builder(functions, device, convolution).BuildPlanOf(root);
}

}  // namespace ucudnn::cudnn
