#include "cudnn/fused_convolution.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/json_value.h"
#include "cudnn/fused_operations.h"
#include "cudnn/knobs.h"
#include "cudnn/plan_json.h"

namespace ucudnn::cudnn {
namespace {

using namespace plan_json;
using Kind = JsonValue::Kind;

constexpr int64_t kSchema = 4;
constexpr int kMaxTensors = 64;  // the number of bits of FusedConvolution::batched

class Reader {
 public:
  Reader(const JsonValue& root, const FusedConvolution* like) : root_(root), like_(like) {}

  Result<FusedConvolution> Read() {
    UCUDNN_RETURN_IF_ERROR(
        OnlyKnown(root_, "the plan",
                  {"cudnnVersion", "schemaVersion", "operationGraph", "GPUProfile", "engine"}));
    UCUDNN_RETURN_IF_ERROR(Fixed(root_, "schemaVersion", kSchema));
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* graph, Member(root_, "operationGraph", Kind::kObject));
    UCUDNN_RETURN_IF_ERROR(
        OnlyKnown(*graph, "the operation graph", {"finalizeMode", "tensors", "nodes"}));
    UCUDNN_RETURN_IF_ERROR(ReadTensors(*graph));
    UCUDNN_RETURN_IF_ERROR(ReadNodes(*graph));
    UCUDNN_RETURN_IF_ERROR(ReadEngine());
    if (like_ != nullptr) convolution_.problem.math = like_->problem.math;
    return convolution_;
  }

 private:
  Status ReadTensors(const JsonValue& graph) {
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* tensors, Member(graph, "tensors", Kind::kArray));
    if (tensors->items.size() > kMaxTensors) return Unfamiliar("too many tensors");
    convolution_.tensors = static_cast<int>(tensors->items.size());
    std::set<int64_t> uids;
    for (const JsonValue& item : tensors->items) {
      UCUDNN_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(item));
      if (!uids.insert(tensor.uid).second) return Unfamiliar("a tensor is there twice");
      tensors_.push_back(std::move(tensor));
    }
    return Status::Ok();
  }

  void MarkBatched(int tensor) { convolution_.batched |= uint64_t{1} << tensor; }

  Status ReadNodes(const JsonValue& graph) {
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* mode, Member(graph, "finalizeMode", Kind::kText));
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* nodes, Member(graph, "nodes", Kind::kArray));
    if (nodes->items.empty()) return Unfamiliar("no operation");
    const JsonValue& first = nodes->items[0];
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* name, Member(first, "operation", Kind::kText));
    struct NodeNames {
      const char *name, *mode, *x, *w, *y;
      Operation operation;
    };
    constexpr NodeNames kNodeNames[] = {
        {"CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR", "CONV_FORWARD", "X", "W", "Y",
         Operation::kForward},
        {"CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR", "CONV_BWD_DATA", "dX", "W",
         "dY", Operation::kBackwardData},
        {"CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR", "CONV_BWD_FILTER", "X",
         "dW", "dY", Operation::kBackwardFilter}};
    const auto* const known =
        std::find_if(std::begin(kNodeNames), std::end(kNodeNames),
                     [&](const NodeNames& k) { return name->text == k.name; });
    if (known == std::end(kNodeNames) && nodes->items.size() > 1) {
      return Status::Error("operations before the convolution");
    }
    if (known == std::end(kNodeNames)) return Unfamiliar("operation " + name->text);
    const bool fused = nodes->items.size() > 1;
    if (fused && known->operation == Operation::kBackwardFilter) {
      return Status::Error("operations behind a gradient of the filter, whose pieces are sums");
    }
    // The operations are checked before finalizeMode, because a refusal that names an operation is
    // the better message.
    for (size_t i = 1; i < nodes->items.size(); ++i) {
      UCUDNN_RETURN_IF_ERROR(
          Fixed(nodes->items[i], "operation", "CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR"));
    }
    const bool is_known_mode =
        fused ? mode->text == "CONV_ADD_BIAS_ACT" || mode->text == "GENERIC_CONV_FUSION"
              : mode->text == known->mode;
    if (!is_known_mode) return Unfamiliar("finalizeMode " + mode->text);
    UCUDNN_RETURN_IF_ERROR(
        OnlyKnown(first, "the convolution",
                  {"operation", "mode", "mathPrec", "alpha", "beta", "pad", "pad_lower",
                   "pad_upper", "stride", "dilation", "groupCount", known->x, known->w, known->y}));
    convolution_.problem.operation = known->operation;
    UCUDNN_ASSIGN_OR_RETURN(int x, FindTensor(tensors_, first, known->x, used_));
    UCUDNN_ASSIGN_OR_RETURN(const int w, FindTensor(tensors_, first, known->w, used_));
    UCUDNN_ASSIGN_OR_RETURN(int y, FindTensor(tensors_, first, known->y, used_));
    UCUDNN_RETURN_IF_ERROR(ReadConvolution(first, tensors_[x], tensors_[w], tensors_[y]));
    MarkBatched(x);
    MarkBatched(y);
    if (fused) {
      UCUDNN_RETURN_IF_ERROR(
          ReadFused(nodes->items, known->operation == Operation::kBackwardData ? x : y));
    }
    if (x == w || w == y || x == y) return Unfamiliar("a tensor is read and written");
    for (const int io : {x, w, y}) {
      if (tensors_[io].is_virtual) return Unfamiliar("an operand is virtual");
      if (tensors_[io].type != tensors_[x].type) return Unfamiliar("operands of several types");
    }
    if (used_ != (tensors_.size() == 64 ? ~uint64_t{0} : (uint64_t{1} << tensors_.size()) - 1)) {
      return Unfamiliar("a tensor belongs to no operation");
    }
    convolution_.x_uid = tensors_[x].uid;
    convolution_.w_uid = tensors_[w].uid;
    convolution_.w_alignment = tensors_[w].alignment;
    convolution_.y_uid = tensors_[y].uid;
    convolution_.problem.x_strides = Widen(tensors_[x]);
    convolution_.problem.y_strides = Widen(tensors_[y]);
    return ReadAlignment();
  }

  // Reads the operations after the convolution. On entry `output` is the index of the convolution's
  // result; it becomes the index of the last operation's result.
  Status ReadFused(const std::vector<JsonValue>& nodes, int& output) {
    FusedOperations operations(tensors_, output, convolution_.problem.type,
                               convolution_.problem.compute,
                               like_ != nullptr ? &like_->operands : nullptr);
    for (size_t i = 1; i < nodes.size(); ++i) UCUDNN_RETURN_IF_ERROR(operations.Add(nodes[i]));
    output = operations.result();
    used_ |= operations.used();
    convolution_.batched |= operations.batched();
    UCUDNN_ASSIGN_OR_RETURN(convolution_.operands, operations.Operands());
    fusion_ = operations.text();
    return Status::Ok();
  }

  Status ReadAlignment() {
    int64_t alignment = 1;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if ((convolution_.batched >> i & 1) == 0) continue;
      if (!IsBatchLeading(tensors_[i])) return Status::Error("the batch is not the leading extent");
      if (!tensors_[i].is_virtual) alignment = std::max(alignment, tensors_[i].alignment);
    }
    convolution_.problem.alignment = static_cast<int32_t>(alignment);
    // LegalStep keeps only the image and the output aligned at batch boundaries. An operand of a
    // narrower type may be less aligned there than the plan declares, so each operand is checked.
    if (convolution_.problem.n == 1) return Status::Ok();  // a single image has no boundary
    const int64_t step = LegalStep(convolution_.problem);
    for (const FusedOperand& operand : convolution_.operands) {
      const auto tensor = std::find_if(tensors_.begin(), tensors_.end(),
                                       [&](const Tensor& one) { return one.uid == operand.uid; });
      const auto element = static_cast<int64_t>(ElementBytes(operand.type));
      if (step * operand.strides[0] * element % tensor->alignment != 0) {
        return Status::Error("an operand's images are less aligned than the output's");
      }
    }
    return Status::Ok();
  }

  Status ReadConvolution(const JsonValue& node, const Tensor& x, const Tensor& w, const Tensor& y) {
    ConvolutionProblem& problem = convolution_.problem;
    const int rank = static_cast<int>(x.dims.size()) - 2;
    if (rank != 2 && rank != 3) return Status::Error("the convolution is neither 2-D nor 3-D");
    if (w.dims.size() != x.dims.size() || y.dims.size() != x.dims.size()) {
      return Unfamiliar("tensors of several ranks");
    }
    problem.spatial_rank = rank;
    problem.type = w.type;  // because y of a fused convolution may be virtual and of another type
    UCUDNN_ASSIGN_OR_RETURN(problem.compute, Type(node, "mathPrec"));
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* mode, Member(node, "mode", Kind::kText));
    if (mode->text != "CUDNN_CROSS_CORRELATION" && mode->text != "CUDNN_CONVOLUTION") {
      return Unfamiliar("mode " + mode->text);
    }
    problem.mode = mode->text == "CUDNN_CONVOLUTION" ? ConvolutionMode::kConvolution
                                                     : ConvolutionMode::kCrossCorrelation;
    UCUDNN_ASSIGN_OR_RETURN(convolution_.alpha, Number(node, "alpha"));
    UCUDNN_ASSIGN_OR_RETURN(convolution_.beta, Number(node, "beta"));
    UCUDNN_RETURN_IF_ERROR(ReadPads(node, rank));
    UCUDNN_RETURN_IF_ERROR(ReadSpatial(node, "stride", rank, 1, kMaxExtent, problem.stride));
    UCUDNN_RETURN_IF_ERROR(
        ReadSpatial(node, "dilation", rank, 1, kMaxFilterExtent, problem.dilation));
    problem.n = static_cast<int32_t>(x.dims[0]);
    problem.c = static_cast<int32_t>(x.dims[1]);
    problem.k = static_cast<int32_t>(w.dims[0]);
    if (w.dims[1] > problem.c || problem.c % w.dims[1] != 0) return Unfamiliar("the groups");
    problem.groups = static_cast<int32_t>(problem.c / w.dims[1]);
    if (node.Find("groupCount") != nullptr) {
      UCUDNN_RETURN_IF_ERROR(Fixed(node, "groupCount", problem.groups));
    } else if (problem.groups != 1) {
      return Unfamiliar("the groups");
    }
    if (problem.k % problem.groups != 0) return Unfamiliar("the groups");
    for (int i = 0; i < rank; ++i) {
      const int axis = kMaxSpatial - rank + i;
      if (w.dims[2 + i] > kMaxFilterExtent) return Unfamiliar("the filter's extent");
      problem.x[axis] = static_cast<int32_t>(x.dims[2 + i]);
      problem.w[axis] = static_cast<int32_t>(w.dims[2 + i]);
    }
    UCUDNN_ASSIGN_OR_RETURN(problem.layout, FilterLayout(w));
    const Spatial output = OutputExtents(problem);
    if (y.dims[0] != problem.n || y.dims[1] != problem.k) return Unfamiliar("the output's extents");
    for (int i = 0; i < rank; ++i) {
      if (y.dims[2 + i] != output[kMaxSpatial - rank + i]) {
        return Unfamiliar("the output's extents");
      }
    }
    return Status::Ok();
  }

  // Reads "pad", which holds for both sides, or "pad_lower" (before) and "pad_upper" (behind) if
  // "pad" is absent.
  Status ReadPads(const JsonValue& node, int rank) {
    ConvolutionProblem& problem = convolution_.problem;
    const bool is_even = node.Find("pad") != nullptr;
    if (is_even && (node.Find("pad_lower") != nullptr || node.Find("pad_upper") != nullptr)) {
      return Unfamiliar("the padding");
    }
    UCUDNN_RETURN_IF_ERROR(
        ReadSpatial(node, is_even ? "pad" : "pad_lower", rank, 0, kMaxExtent, problem.pad));
    if (is_even) return Status::Ok();
    Spatial behind = problem.pad;
    UCUDNN_RETURN_IF_ERROR(ReadSpatial(node, "pad_upper", rank, 0, kMaxExtent, behind));
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      problem.extra_pad[axis] = behind[axis] - problem.pad[axis];
    }
    return Status::Ok();
  }

  Status ReadEngine() {
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* engine, Member(root_, "engine", Kind::kObject));
    UCUDNN_RETURN_IF_ERROR(
        OnlyKnown(*engine, "the engine", {"engineId", "smVersion", "knobChoices", "payload"}));
    convolution_.compiled = engine->Find("payload") != nullptr;
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* id, Member(*engine, "engineId", Kind::kInteger));
    UCUDNN_ASSIGN_OR_RETURN(const JsonValue* choices,
                            Member(*engine, "knobChoices", Kind::kObject));
    std::map<int, int64_t> knobs;
    for (const auto& [name, value] : choices->members) {
      const std::optional<int> number = KnobNumber(name);
      if (!number || !value.is(Kind::kInteger)) return Unfamiliar("knob " + name);
      constexpr int64_t kDefault = -1;
      if (value.integer != kDefault) knobs[*number] = value.integer;
    }
    convolution_.engine = EngineId::Graph{id->integer, {knobs.begin(), knobs.end()}, fusion_};
    return Status::Ok();
  }

  const JsonValue& root_;
  const FusedConvolution* const like_;
  FusedConvolution convolution_;
  std::vector<Tensor> tensors_;
  uint64_t used_ = 0;
  std::string fusion_;
};

}  // namespace

bool HoldsConvolution(std::string_view json) {
  return json.find("\"CUDNN_BACKEND_OPERATION_CONVOLUTION_") != std::string_view::npos;
}

const char* UnfamiliarAtAGlance(std::string_view json) {
  static const std::string schema = "\"schemaVersion\":" + std::to_string(kSchema) + ",";
  if (json.find(schema) == std::string_view::npos) return "its JSON is of an unknown schema";
  if (!HoldsConvolution(json)) return "there is no convolution in it";
  return nullptr;
}

Result<FusedConvolution> ReadFusedConvolution(std::string_view json, const FusedConvolution* like) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue root, ParseJson(json));
  return Reader(root, like).Read();
}

}  // namespace ucudnn::cudnn
