#include "planner/graph/formats/onnx.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/text.h"
#include "planner/graph/formats/onnx_importer.h"

namespace ucudnn::planner {

AxisPlace PlaceOf(const OnnxTensor& tensor, int64_t axis) {
  const auto rank = static_cast<int64_t>(tensor.rank);
  if (axis < -rank || axis >= rank) return {};
  if (axis < 0) axis += rank;
  if (axis == 0) return {Axis::kBatch};
  const int64_t channel = tensor.channels_last ? rank - 1 : 1;
  if (axis == channel) return {Axis::kChannel};
  const int64_t behind = tensor.channels_last ? axis - 1 : axis - 2;
  return {Axis::kSpatial, static_cast<size_t>(behind + kMaxSpatial - (rank - 2))};
}

bool IsOnePixel(const Shape& shape) { return shape.extents == Spatial{1, 1, 1}; }

Result<int32_t> Narrow(int64_t number, const std::string& what) {
  if (number < std::numeric_limits<int32_t>::min() ||
      number > std::numeric_limits<int32_t>::max()) {
    return Status::Error(what + " " + std::to_string(number) + "; expected 32 bits");
  }
  return static_cast<int32_t>(number);
}

Result<Graph> OnnxImporter::Import(const onnx::GraphProto& graph) {
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    constants_[tensor.name()] = ReadConstant(tensor);
  }
  for (const onnx::ValueInfoProto& input : graph.input()) inputs_[input.name()] = &input;
  FindChannelsLast(graph);
  for (const onnx::NodeProto& node : graph.node()) {
    node_ = &node;
    if (const Status added = AddNode(); !added.ok()) {
      return graph_.Fault(node.name().empty() ? FirstOutput() : node.name(), added.message());
    }
  }
  return graph_.Finish(std::filesystem::path(file_).stem().string());
}

void OnnxImporter::FindChannelsLast(const onnx::GraphProto& graph) {
  static const auto* const kKeepingAxes =
      new std::set<std::string>{"Add", "Cast", "CastLike", "Div", "Identity", "Mul", "Pad", "Sub"};
  std::map<std::string, std::string> origins;  // of tensors with the axes of an input
  for (const auto& [name, input] : inputs_) origins[name] = name;
  std::set<std::string> decided;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& name : node.input()) {
      const auto origin = origins.find(name);
      if (origin == origins.end() || decided.count(origin->second) > 0) continue;
      const std::string input = origin->second;
      if (kKeepingAxes->count(node.op_type()) > 0 && node.output_size() > 0) {
        origins[node.output(0)] = input;
        continue;
      }
      decided.insert(input);
      const std::vector<int64_t> permutation = OnnxAttributes(node).Numbers("perm");
      if (node.op_type() == "Transpose" && (permutation == std::vector<int64_t>{0, 3, 1, 2} ||
                                            permutation == std::vector<int64_t>{0, 4, 1, 2, 3})) {
        channels_last_.insert(input);
      }
    }
  }
}

Status OnnxImporter::AddNode() {
  const std::string& type = node_->op_type();
  if (node_->domain().empty() || node_->domain() == "ai.onnx") {
    if (type == "Constant") {
      constants_[FirstOutput()] = ReadConstantNode(*node_);
      return Status::Ok();
    }
    if (type == "Shape") return AddShape();
    if (Fold()) return Status::Ok();
    const auto member = Members().find(type);
    if (member != Members().end()) return (this->*member->second)();
  }
  return PassUnsupported("");
}

bool OnnxImporter::Fold() {
  std::vector<const OnnxConstant*> inputs;
  for (const std::string& name : node_->input()) {
    if (node_->op_type() == "CastLike" && inputs.size() == 1) break;  // only the type of the second
    const auto found = constants_.find(name);
    if (found == constants_.end() && !name.empty()) return false;
    inputs.push_back(found == constants_.end() ? nullptr : &found->second);
  }
  OnnxConstant folded = FoldConstants(*node_, inputs);
  // Values are computed for nodes with one output alone.
  for (const std::string& output : node_->output()) constants_[output] = {folded.dims};
  if (node_->output_size() == 1) constants_[FirstOutput()] = std::move(folded);
  return true;
}

const std::map<std::string, OnnxImporter::Member>& OnnxImporter::Members() {
  static const auto* const members =
      new std::map<std::string, Member>{{"Add", &OnnxImporter::AddSum},
                                        {"AveragePool", &OnnxImporter::AddPooling},
                                        {"BatchNormalization", &OnnxImporter::AddNormalization},
                                        {"Cast", &OnnxImporter::AddNothing},
                                        {"CastLike", &OnnxImporter::AddNothing},
                                        {"Clip", &OnnxImporter::AddActivation},
                                        {"Concat", &OnnxImporter::AddConcat},
                                        {"Conv", &OnnxImporter::AddConvolution},
                                        {"ConvTranspose", &OnnxImporter::AddTransposedConvolution},
                                        {"Div", &OnnxImporter::AddProduct},
                                        {"Dropout", &OnnxImporter::AddDropout},
                                        {"Elu", &OnnxImporter::AddActivation},
                                        {"Flatten", &OnnxImporter::AddFlatten},
                                        {"Gelu", &OnnxImporter::AddActivation},
                                        {"Gemm", &OnnxImporter::AddGemm},
                                        {"GlobalAveragePool", &OnnxImporter::AddGlobalPooling},
                                        {"GlobalMaxPool", &OnnxImporter::AddGlobalPooling},
                                        {"HardSigmoid", &OnnxImporter::AddActivation},
                                        {"HardSwish", &OnnxImporter::AddActivation},
                                        {"Identity", &OnnxImporter::AddNothing},
                                        {"LRN", &OnnxImporter::AddLrn},
                                        {"LeakyRelu", &OnnxImporter::AddActivation},
                                        {"LogSoftmax", &OnnxImporter::AddSoftmax},
                                        {"MatMul", &OnnxImporter::AddMatMul},
                                        {"MaxPool", &OnnxImporter::AddPooling},
                                        {"Mul", &OnnxImporter::AddProduct},
                                        {"Pad", &OnnxImporter::AddPad},
                                        {"ReduceMax", &OnnxImporter::AddReduction},
                                        {"ReduceMean", &OnnxImporter::AddReduction},
                                        {"Relu", &OnnxImporter::AddActivation},
                                        {"Reshape", &OnnxImporter::AddReshape},
                                        {"Resize", &OnnxImporter::AddResize},
                                        {"Sigmoid", &OnnxImporter::AddActivation},
                                        {"Slice", &OnnxImporter::AddSlice},
                                        {"Softmax", &OnnxImporter::AddSoftmax},
                                        {"Squeeze", &OnnxImporter::AddSqueeze},
                                        {"Sub", &OnnxImporter::AddSum},
                                        {"Sum", &OnnxImporter::AddSum},
                                        {"Swish", &OnnxImporter::AddActivation},
                                        {"Tanh", &OnnxImporter::AddActivation},
                                        {"Transpose", &OnnxImporter::AddTranspose},
                                        {"Unsqueeze", &OnnxImporter::AddUnsqueeze},
                                        {"Upsample", &OnnxImporter::AddResize}};
  return *members;
}

bool OnnxImporter::HasInput(int index) const {
  return index < node_->input_size() && !node_->input(index).empty();
}

const OnnxConstant* OnnxImporter::ConstantInput(int index) const {
  if (!HasInput(index)) return nullptr;
  const auto found = constants_.find(node_->input(index));
  return found == constants_.end() ? nullptr : &found->second;
}

bool OnnxImporter::HasBias() const {
  const OnnxConstant* const constant = ConstantInput(2);
  return HasInput(2) && (constant == nullptr || !constant->repeated);
}

std::optional<std::vector<int64_t>> OnnxImporter::List(int input,
                                                       const std::string& attribute) const {
  if (const OnnxConstant* constant = ConstantInput(input)) return constant->WholeNumbers();
  if (HasInput(input)) return std::nullopt;
  if (OnnxAttributes(*node_).Find(attribute) == nullptr) return std::nullopt;
  return OnnxAttributes(*node_).Numbers(attribute);
}

Result<OnnxTensor> OnnxImporter::TensorInput(int index) {
  if (!HasInput(index)) {
    return Status::Error("no input " + std::to_string(index + 1) + "; expected one");
  }
  const std::string& name = node_->input(index);
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  const auto input = inputs_.find(name);
  if (input != inputs_.end()) return AddInput(name, *input->second);
  return Status::Error("input " + Quoted(name) +
                       (constants_.count(name) > 0 ? " is constant" : "") +
                       "; expected what a node before it gives");
}

Result<OnnxTensor> OnnxImporter::AddInput(const std::string& name,
                                          const onnx::ValueInfoProto& info) {
  const auto& shape = info.type().tensor_type().shape();
  const auto rank = static_cast<size_t>(shape.dim_size());
  if (rank != 2 && rank != 4 && rank != 5) {
    return Status::Error("input " + Quoted(name) + ": " + std::to_string(rank) +
                         " axes; expected batch, channels and those of images");
  }
  std::vector<int32_t> extents;
  for (size_t axis = 1; axis < rank; ++axis) {
    const auto& dim = shape.dim(static_cast<int>(axis));
    if (dim.dim_value() < 1 || dim.dim_value() > std::numeric_limits<int32_t>::max()) {
      return Status::Error(
          "input " + Quoted(name) + ": extent " +
          (dim.dim_param().empty() ? std::to_string(dim.dim_value()) : Quoted(dim.dim_param())) +
          " of axis " + std::to_string(axis) + "; expected a number (only the batch is dynamic)");
    }
    extents.push_back(static_cast<int32_t>(dim.dim_value()));
  }
  const bool channels_last = rank > 2 && channels_last_.count(name) > 0;
  if (channels_last) std::rotate(extents.begin(), extents.end() - 1, extents.end());
  Input input{extents[0], {1, 1, 1}, rank == 5 ? 3 : 2};
  std::copy(extents.begin() + 1, extents.end(),
            input.extents.end() - static_cast<ptrdiff_t>(extents.size() - 1));
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, graph_.Add(name, "input", input, {}));
  return tensors_[name] = {node, rank, channels_last};
}

Status OnnxImporter::Give(const OnnxTensor& tensor) {
  if (FirstOutput().empty()) return Status::Error("no output; expected one");
  tensors_[FirstOutput()] = tensor;
  return Status::Ok();
}

Status OnnxImporter::Append(const Operator& op, const OnnxTensor& tensor) {
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node,
                          graph_.Add(node_->name(), FirstOutput(), op, {tensor.node}));
  return Give({node, tensor.rank, tensor.channels_last});
}

Status OnnxImporter::AppendFeatures(const Operator& op, const OnnxTensor& tensor) {
  return Append(op, {tensor.node, 2, false});
}

Status OnnxImporter::AddNothing() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  return Give(tensor);
}

Status OnnxImporter::PassUnsupported(const std::string& why) {
  graph_.NoteUnsupported(node_->op_type(), node_->name().empty() ? FirstOutput() : node_->name(),
                         why);
  for (int i = 0; i < node_->input_size(); ++i) {
    if (HasInput(i) && ConstantInput(i) == nullptr) {
      UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(i));
      for (const std::string& output : node_->output()) tensors_[output] = tensor;
      return Status::Ok();
    }
  }
  for (const std::string& output : node_->output()) constants_[output] = {};
  return Status::Ok();
}

std::vector<int64_t> OnnxImporter::Extents(const OnnxTensor& tensor) const {
  const Shape& shape = ShapeOf(tensor);
  std::vector<int64_t> extents;
  for (size_t axis = 0; axis < tensor.rank; ++axis) {
    const AxisPlace place = PlaceOf(tensor, static_cast<int64_t>(axis));
    extents.push_back(place.axis == Axis::kBatch ? 1
                      : place.axis == Axis::kChannel
                          ? (tensor.rank == 2 ? shape.Features() : shape.c)
                          : shape.extents[place.spatial]);
  }
  return extents;
}

Status OnnxImporter::AddShape() {
  if (const OnnxConstant* const constant = ConstantInput(0)) {
    constants_[FirstOutput()] = ShapeConstant(*node_, constant->dims);
    return Status::Ok();
  }
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  constants_[FirstOutput()] = ShapeConstant(*node_, Extents(tensor));
  return Status::Ok();
}

Result<Graph> ImportOnnx(const std::string& model, const std::string& file,
                         const ImportOptions& options) {
  onnx::ModelProto proto;
  // Protocol buffers end at 2 GiB; larger models keep their weights in files of their own.
  if (model.size() > std::numeric_limits<int32_t>::max() || !proto.ParseFromString(model)) {
    return Status::Error(file + ": no ONNX model; expected protocol buffers of at most 2 GiB");
  }
  return OnnxImporter(file, options).Import(proto.graph());
}

}  // namespace ucudnn::planner
