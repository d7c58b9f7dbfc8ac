#include "planner/graph/formats/onnx.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/text.h"
#include "planner/graph/formats/onnx_importer.h"

namespace ucudnn::planner {
namespace {

constexpr int64_t kNewestOpset = 22;

bool Draws(const std::string& type) {
  return type == "Bernoulli" || type == "Multinomial" || type.rfind("Random", 0) == 0;
}

bool ReadsGraphs(const onnx::NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [](const onnx::AttributeProto& attribute) {
                       return attribute.has_g() || attribute.graphs_size() > 0;
                     });
}

}  // namespace

Result<int32_t> Narrow(int64_t number, const std::string& what) {
  if (number < std::numeric_limits<int32_t>::min() ||
      number > std::numeric_limits<int32_t>::max()) {
    return Status::Error(what + " " + std::to_string(number) + "; expected 32 bits");
  }
  return static_cast<int32_t>(number);
}

Result<Graph> OnnxImporter::Import(const onnx::ModelProto& model, ImportedTensors* tensors) {
  const onnx::GraphProto& graph = model.graph();
  opset_ = kNewestOpset;
  for (const onnx::OperatorSetIdProto& set : model.opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") opset_ = set.version();
  }
  ReadNames(graph);
  FindLayouts(graph);
  for (const onnx::NodeProto& node : graph.node()) {
    node_ = &node;
    first_node_ = graph_.Nodes();
    if (const Status added = AddNode(); !added.ok()) {
      return graph_.Fault(node.name().empty() ? FirstOutput() : node.name(), added.message());
    }
  }
  std::vector<NodeId> outputs;
  node_ = &no_node_;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    const auto found = tensors_.find(output.name());
    if (found == tensors_.end()) continue;
    if (found->second.scores >= 0) {
      const Result<OnnxTensor> made = NodeOfScores(found->second);
      if (!made.ok()) return graph_.Fault(output.name(), made.message());
      found->second = *made;
    }
    outputs.push_back(found->second.node);
  }
  if (outputs.empty() && graph.output_size() > 0 && graph_.Nodes() > 0) {
    return graph_.Fault(graph.output(0).name(),
                        "no layers; expected a network between an input "
                        "and this output");
  }
  graph_.SplitFusedLinears(outputs);
  std::vector<NodeId> ids;
  UCUDNN_ASSIGN_OR_RETURN(
      Graph made, graph_.Finish(std::filesystem::path(file_).stem().string(), outputs, &ids));
  for (const auto& [name, tensor] : tensors_) {
    const NodeId node = ids[static_cast<size_t>(tensor.node)];
    if (tensors != nullptr && tensor.scores < 0 && node >= 0)
      (*tensors)[name] = {node, tensor.view};
  }
  return made;
}

void OnnxImporter::ReadNames(const onnx::GraphProto& graph) {
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    OnnxConstant constant = ReadConstant(tensor, next_tensor_++, options_.folder);
    if (tensor.external_data_size() > 0) {
      Keep(tensor.name(), std::move(constant));
    } else {
      constants_[tensor.name()] = std::move(constant);
    }
  }
  for (const onnx::SparseTensorProto& sparse : graph.sparse_initializer()) {
    constants_[sparse.values().name()] = ReadSparseConstant(sparse, next_tensor_++);
  }
  bool is_first = true;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    inputs_[input.name()] = &input;
    const auto& shape = input.type().tensor_type().shape();
    if (constants_.count(input.name()) > 0 || shape.dim_size() == 0 || !is_first) continue;
    const int64_t images = shape.dim(0).dim_value();
    batch_ = images < 1 ? kAnyBatch : images;
    is_first = false;
  }
  // A node with subgraphs may read any tensor, so every tensor gets one more reader.
  const bool are_graphs = std::any_of(graph.node().begin(), graph.node().end(), ReadsGraphs);
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& name : node.input()) ++readers_[name];
    if (!are_graphs) continue;
    for (const std::string& name : node.output()) ++readers_[name];
  }
  for (const onnx::ValueInfoProto& output : graph.output()) ++readers_[output.name()];
}

void OnnxImporter::FindLayouts(const onnx::GraphProto& graph) {
  static const auto* const kKeepingAxes =
      new std::set<std::string>{"Add", "Cast", "CastLike", "Div", "Identity", "Mul", "Pad", "Sub"};
  static const auto* const kOfImages = new std::set<std::string>{"AveragePool",
                                                                 "BatchNormalization",
                                                                 "Conv",
                                                                 "ConvTranspose",
                                                                 "GlobalAveragePool",
                                                                 "GlobalMaxPool",
                                                                 "GroupNormalization",
                                                                 "InstanceNormalization",
                                                                 "LRN",
                                                                 "MaxPool"};
  std::map<std::string, std::string> origins;  // by tensor: the graph input that has the same axes
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
      if (kOfImages->count(node.op_type()) > 0) channels_first_.insert(input);
    }
  }
}

Status OnnxImporter::AddNode() {
  const std::string& type = node_->op_type();
  for (const std::string& name : node_->output()) {
    if (!name.empty() && tensors_.count(name) + constants_.count(name) + inputs_.count(name) > 0) {
      return Status::Error("output " + Quoted(name) + " is there already; expected a new name");
    }
  }
  if (ReadsGraphs(*node_)) return Refuse("with graphs of its own");
  if (Draws(type)) return Refuse("that draws numbers");
  if (!node_->domain().empty() && node_->domain() != "ai.onnx") {
    return Refuse("of domain " + Quoted(node_->domain()));
  }
  if (type == "Constant") {
    Keep(FirstOutput(), ReadConstantNode(*node_, next_tensor_++, options_.folder));
    return Status::Ok();
  }
  if (type == "Shape" || type == "Size") return AddShape();
  if (Fold()) return Status::Ok();
  const auto member = Members().find(type);
  return member == Members().end() ? RefuseUnknown() : (this->*member->second)();
}

bool OnnxImporter::Fold() {
  const std::vector<const OnnxConstant*> inputs = Constants();
  for (size_t input = 0; input < inputs.size(); ++input) {
    // CastLike reads only the type of its second input.
    if (node_->op_type() == "CastLike" && input == 1) break;
    if (inputs[input] == nullptr && HasInput(static_cast<int>(input))) return false;
  }
  const auto keep = [&](ConstantsByName& among, const std::vector<const OnnxConstant*>& of) {
    std::vector<OnnxConstant> folded = FoldConstants(*node_, of, opset_);
    for (int output = 0; output < node_->output_size(); ++output) {
      OnnxConstant& constant = folded[static_cast<size_t>(output)];
      if (constant.tensor < 0) constant.tensor = next_tensor_++;
      Keep(among, node_->output(output), std::move(constant));
    }
  };
  const std::vector<const OnnxConstant*> at_any_batch = ConstantsAtAnyBatch();
  keep(constants_, inputs);
  if (!at_any_batch.empty()) keep(constants_at_any_batch_, at_any_batch);
  return true;
}

void OnnxImporter::Keep(ConstantsByName& among, const std::string& name, OnnxConstant constant) {
  // Exporters compute far fewer than kMostValues numbers from shapes, but a malicious file could
  // make the importer compute many more.
  constexpr int64_t kMostValues = 1 << 22;
  const bool was_spent = kept_values_ > kMostValues;
  if (constant.values) {
    kept_values_ += static_cast<int64_t>(constant.values->size()) * (1 + node_->input_size());
  }
  if (was_spent) constant.values.reset();
  among[name] = std::move(constant);
  if (was_spent || kept_values_ <= kMostValues) return;
  for (auto& [other, kept] : constants_) kept.values.reset();
  for (auto& [other, kept] : constants_at_any_batch_) kept.values.reset();
}

const std::map<std::string, OnnxImporter::Member>& OnnxImporter::Members() {
  static const auto* const members = [] {
    auto* made = new std::map<std::string, Member>{
        {"ArgMax", &OnnxImporter::AddReduction},
        {"ArgMin", &OnnxImporter::AddReduction},
        {"AveragePool", &OnnxImporter::AddPooling},
        {"BatchNormalization", &OnnxImporter::AddBatchNormalization},
        {"Cast", &OnnxImporter::AddNothing},
        {"CastLike", &OnnxImporter::AddNothing},
        {"Concat", &OnnxImporter::AddConcat},
        {"Conv", &OnnxImporter::AddConvolution},
        {"ConvTranspose", &OnnxImporter::AddTransposedConvolution},
        {"DepthToSpace", &OnnxImporter::AddDepthToSpace},
        {"DequantizeLinear", &OnnxImporter::AddNothing},
        {"Dropout", &OnnxImporter::AddDropout},
        {"Expand", &OnnxImporter::AddExpand},
        {"Flatten", &OnnxImporter::AddFlatten},
        {"Gather", &OnnxImporter::AddGather},
        {"Gemm", &OnnxImporter::AddGemm},
        {"GlobalAveragePool", &OnnxImporter::AddGlobalPooling},
        {"GlobalLpPool", &OnnxImporter::AddGlobalPooling},
        {"GlobalMaxPool", &OnnxImporter::AddGlobalPooling},
        {"GroupNormalization", &OnnxImporter::AddNormalization},
        {"Identity", &OnnxImporter::AddNothing},
        {"InstanceNormalization", &OnnxImporter::AddNormalization},
        {"LRN", &OnnxImporter::AddLrn},
        {"LayerNormalization", &OnnxImporter::AddNormalization},
        {"LogSoftmax", &OnnxImporter::AddSoftmax},
        {"MatMul", &OnnxImporter::AddMatMul},
        {"MaxPool", &OnnxImporter::AddPooling},
        {"Pad", &OnnxImporter::AddPad},
        {"QuantizeLinear", &OnnxImporter::AddNothing},
        {"RMSNormalization", &OnnxImporter::AddNormalization},
        {"Reshape", &OnnxImporter::AddReshape},
        {"Resize", &OnnxImporter::AddResize},
        {"Slice", &OnnxImporter::AddSlice},
        {"Softmax", &OnnxImporter::AddSoftmax},
        {"SpaceToDepth", &OnnxImporter::AddDepthToSpace},
        {"Split", &OnnxImporter::AddSplit},
        {"Squeeze", &OnnxImporter::AddSqueeze},
        {"Tile", &OnnxImporter::AddTile},
        {"Transpose", &OnnxImporter::AddTranspose},
        {"Unsqueeze", &OnnxImporter::AddUnsqueeze},
        {"Upsample", &OnnxImporter::AddResize}};
    for (const char* type :
         {"Abs",       "Acos",    "Acosh",      "Asin",      "Asinh", "Atan",
          "Atanh",     "Ceil",    "Celu",       "Clip",      "Cos",   "Cosh",
          "Elu",       "Erf",     "Exp",        "Floor",     "Gelu",  "HardSigmoid",
          "HardSwish", "IsInf",   "IsNaN",      "LeakyRelu", "Log",   "Mish",
          "Neg",       "Not",     "Reciprocal", "Relu",      "Round", "Selu",
          "Shrink",    "Sigmoid", "Sign",       "Sin",       "Sinh",  "Softplus",
          "Softsign",  "Sqrt",    "Swish",      "Tan",       "Tanh",  "ThresholdedRelu"}) {
      (*made)[type] = &OnnxImporter::AddActivation;
    }
    for (const char* type :
         {"Add",   "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max",
          "Mean",  "Min", "Mod", "Mul",   "Or",      "PRelu",          "Pow",  "Sub",         "Sum",
          "Where", "Xor"}) {
      (*made)[type] = &OnnxImporter::AddElementwise;
    }
    for (const char* type :
         {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
          "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"}) {
      (*made)[type] = &OnnxImporter::AddReduction;
    }
    return made;
  }();
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

const OnnxConstant* OnnxImporter::WeightInput(int index) {
  if (const OnnxConstant* constant = ConstantInput(index)) return constant;
  if (!HasInput(index)) return nullptr;
  const std::string& name = node_->input(index);
  const auto input = inputs_.find(name);
  if (input == inputs_.end() || tensors_.count(name) > 0) return nullptr;
  onnx::TensorProto weights;
  weights.set_data_type(1);  // float32
  for (const auto& dim : input->second->type().tensor_type().shape().dim()) {
    weights.add_dims(dim.has_dim_value() ? dim.dim_value() : -1);
  }
  OnnxConstant constant = ReadConstant(weights, next_tensor_++);
  return constant.is_known ? &(constants_[name] = std::move(constant)) : nullptr;
}

std::vector<const OnnxConstant*> OnnxImporter::Constants() const {
  std::vector<const OnnxConstant*> constants;
  for (int input = 0; input < node_->input_size(); ++input) {
    constants.push_back(ConstantInput(input));
  }
  return constants;
}

std::vector<const OnnxConstant*> OnnxImporter::ConstantsAtAnyBatch() const {
  std::vector<const OnnxConstant*> constants = Constants();
  bool are_of_images = false;
  for (int input = 0; input < node_->input_size(); ++input) {
    const auto found = constants_at_any_batch_.find(node_->input(input));
    if (found == constants_at_any_batch_.end()) continue;
    constants[static_cast<size_t>(input)] = &found->second;
    are_of_images = true;
  }
  if (!are_of_images) constants.clear();
  return constants;
}

std::optional<std::vector<int64_t>> OnnxImporter::List(int input,
                                                       const std::string& attribute) const {
  return ListOf(*node_, Constants(), static_cast<size_t>(input), attribute);
}

std::vector<Parameter> OnnxImporter::Trained(const OnnxConstant& constant) {
  if (!constant.IsReal() || constant.repeated || constant.numbers <= 1) return {};
  return {{constant.numbers, constant.tensor, true}};
}

std::vector<Parameter> OnnxImporter::Weight(const OnnxConstant& constant) {
  std::vector<Parameter> trained = Trained(constant);
  if (trained.empty()) trained.push_back({0, -1, false});
  return trained;
}

Result<OnnxTensor> OnnxImporter::RawInput(int index) {
  if (!HasInput(index)) {
    return Status::Error("no input " + std::to_string(index + 1) + "; expected one");
  }
  const std::string& name = node_->input(index);
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  const auto constant = constants_.find(name);
  const auto input = inputs_.find(name);
  if (constant == constants_.end() && input != inputs_.end()) {
    return AddInput(name, *input->second);
  }
  return Status::Error("input " + Quoted(name) +
                       (constant != constants_.end() ? " is constant" : "") +
                       "; expected what a node before it gives");
}

Result<OnnxTensor> OnnxImporter::TensorInput(int index) {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, RawInput(index));
  return tensor.scores < 0 ? tensor : NodeOfScores(tensor);
}

Result<OnnxTensor> OnnxImporter::AddInput(const std::string& name,
                                          const onnx::ValueInfoProto& info) {
  const auto& shape = info.type().tensor_type().shape();
  const auto rank = static_cast<size_t>(shape.dim_size());
  const auto refuse = [&](const std::string& what) {
    return Status::Error("input " + Quoted(name) + ": " + what);
  };
  if (rank > 5 || !info.type().tensor_type().has_shape()) {
    return refuse(std::to_string(rank) + " axes; expected batch, channels and those of images");
  }
  const auto extent_of = [](const auto& dim) {
    return dim.dim_value() > 0 || dim.dim_param().empty() ? std::to_string(dim.dim_value())
                                                          : Quoted(dim.dim_param());
  };
  // A tensor without axes is one number, which is the same for every image.
  const int64_t images = rank == 0 ? batch_ : shape.dim(0).dim_value();
  if (images < 1 ? batch_ != kAnyBatch : batch_ != images || images > kLargestBatch) {
    return refuse("batch " + (rank == 0 ? std::to_string(images) : extent_of(shape.dim(0))) +
                  " beside inputs of another batch");
  }
  const bool channels_last = (rank > 3 && channels_last_.count(name) > 0) ||
                             (rank == 3 && channels_first_.count(name) == 0);
  std::vector<int32_t> extents;
  for (size_t axis = 1; axis < rank; ++axis) {
    const auto& dim = shape.dim(static_cast<int>(axis));
    int64_t extent = dim.dim_value();
    const size_t spatial = rank - axis + (channels_last ? 1 : 0) - 1;  // counted from the last axis
    const bool is_spatial = rank > 3 && spatial < rank - 2;
    if (extent < 1 && is_spatial && spatial < 2 && options_.size[1 - spatial] > 0) {
      extent = options_.size[1 - spatial];
    }
    if (extent < 1 || extent > std::numeric_limits<int32_t>::max()) {
      return refuse("extent " + extent_of(dim) + " of axis " + std::to_string(axis) +
                    "; expected a number (only the batch is dynamic)");
    }
    extents.push_back(static_cast<int32_t>(extent));
  }
  if (channels_last) std::rotate(extents.begin(), extents.end() - 1, extents.end());
  Input input{extents.empty() ? 1 : extents[0], {1, 1, 1}, rank == 5 ? 3 : 2};
  if (extents.size() > 1) {
    std::copy(extents.begin() + 1, extents.end(),
              input.extents.end() - static_cast<std::ptrdiff_t>(extents.size() - 1));
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, graph_.Add(name, "input", input, {}));
  OnnxTensor tensor{node, {}};
  if (rank > 0) tensor.view = PlainView(ExtentsOf(tensor), rank);
  if (channels_last)
    std::rotate(tensor.view.begin() + 1, tensor.view.begin() + 2, tensor.view.end());
  return tensors_[name] = tensor;
}

Result<NodeId> OnnxImporter::AddOperator(const Operator& op, const std::vector<NodeId>& inputs,
                                         std::vector<Parameter> parameters, int output) {
  const std::string fallback = output < node_->output_size() ? node_->output(output) : "scores";
  return graph_.Add(output == 0 ? node_->name() : "", fallback, op, inputs, std::move(parameters));
}

Status OnnxImporter::Give(OnnxTensor tensor, int output) {
  if (output >= node_->output_size() || node_->output(output).empty()) {
    return output > 0 ? Status::Ok() : Status::Error("no output; expected one");
  }
  if (tensor.view.size() > kMostAxes) {
    return Status::Error(std::to_string(tensor.view.size()) + " axes; expected at most " +
                         std::to_string(kMostAxes));
  }
  const std::string& name = node_->output(output);
  const auto readers = readers_.find(name);
  tensor.is_sole = tensor.is_sole && readers != readers_.end() && readers->second == 1;
  names_[tensor.node].push_back(name);
  tensors_[name] = std::move(tensor);
  return Status::Ok();
}

Status OnnxImporter::Append(const Operator& op, const OnnxTensor& tensor,
                            std::vector<Parameter> parameters) {
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(op, {tensor.node}, std::move(parameters)));
  return GiveNode(node, tensor.view);
}

Status OnnxImporter::AddNothing() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, RawInput(0));
  return Give(tensor);
}

Status OnnxImporter::Refuse(const std::string& why) {
  graph_.NoteUnsupported(node_->op_type(), node_->name().empty() ? FirstOutput() : node_->name(),
                         why);
  for (int i = 0; i < node_->input_size(); ++i) {
    if (HasInput(i) && ConstantInput(i) == nullptr) {
      UCUDNN_ASSIGN_OR_RETURN(OnnxTensor tensor, TensorInput(i));
      tensor.is_sole = false;
      for (const std::string& output : node_->output()) tensors_[output] = tensor;
      return Status::Ok();
    }
  }
  for (const std::string& output : node_->output()) {
    constants_[output] = {};
    constants_[output].is_known = false;
  }
  return Status::Ok();
}

std::optional<size_t> OnnxImporter::BatchAxis(const OnnxTensor& tensor) const {
  for (size_t axis = 0; axis < tensor.view.size(); ++axis) {
    const Digits& digits = tensor.view[axis];
    if (digits.size() == 1 && digits[0] == Digit{ViewAxis::kBatch, batch_, 1}) return axis;
  }
  return std::nullopt;
}

Result<std::optional<OnnxTensor>> OnnxImporter::Image(const OnnxTensor& tensor) {
  const size_t rank = tensor.view.size();
  const NodeExtents extents = ExtentsOf(tensor);
  if (rank < 2 || rank > kNodeAxes || BatchAxis(tensor) != size_t{0}) return {std::nullopt};
  const View plain = PlainView(extents, rank);
  if (tensor.view == plain && AllOf(plain) == AllOf(PlainView(extents, kNodeAxes))) return {tensor};
  const std::vector<int64_t> wanted = Extents(tensor.view);
  Reshape reshape;
  UCUDNN_ASSIGN_OR_RETURN(reshape.channels, Narrow(wanted[1], "channels"));
  for (size_t axis = 2; axis < rank; ++axis) {
    UCUDNN_ASSIGN_OR_RETURN(reshape.extents[kMaxSpatial - rank + axis],
                            Narrow(wanted[axis], "an extent"));
  }
  reshape.spatial_rank = rank == 5 ? 3 : 2;
  Operator op = reshape;
  if (!RunsInOrder(AllOf(tensor.view), extents)) {
    op = Opaque{"Transpose", reshape.channels, reshape.extents, reshape.spatial_rank};
  } else if (rank == 2) {
    op = Flatten{};
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(op, {tensor.node}));
  OnnxTensor image{node, {}};
  image.view = PlainView(ExtentsOf(image), rank);
  return {image};
}

Result<std::optional<OnnxTensor>> OnnxImporter::Changed(
    const std::string& kind, const OnnxTensor& tensor, const std::map<size_t, int64_t>& changed,
    const std::vector<NodeId>& others, double operations, std::vector<Parameter> parameters) {
  View view = tensor.view;
  Digits mixed;
  for (const auto& [axis, extent] : changed) {
    Digits& digits = view[axis];
    if (MixesImages(digits)) return {std::nullopt};
    if (extent < 1) return Status::Error("an axis of no elements; expected one or more");
    UCUDNN_RETURN_IF_ERROR(Narrow(extent, "an extent").status());
    mixed.insert(mixed.end(), digits.begin(), digits.end());
    Digits made;
    // `place` is the node's axis at the same position as `axis`, counted from the last axis. For
    // the view's first axis, and if the view has more axes than a node, `place` is channels. A
    // tensor axis without digits (view.h) becomes `place` if the node has extent 1 along `place`;
    // otherwise the tensor axis becomes channels.
    const ViewAxis place = axis < 1 || view.size() > kNodeAxes || axis + kNodeAxes < view.size() + 2
                               ? ViewAxis::kChannel
                               : static_cast<ViewAxis>(kNodeAxes - view.size() + axis);
    const bool is_free = ExtentsOf(tensor)[static_cast<size_t>(place)] == 1;
    Digit whole = {is_free ? place : ViewAxis::kChannel, extent, 0};
    // If the axis has digits, the new digit replaces all of them except digits of the batch. It
    // gets the axis and the stride of the digit with the largest stride. If any digit is of
    // channels, only digits of channels are candidates.
    const auto rank_of = [](const Digit& digit) {
      return std::pair(digit.stride > 0 && digit.axis == ViewAxis::kChannel, digit.stride);
    };
    for (const Digit& digit : digits) {
      if (digit.axis == ViewAxis::kBatch) {
        made.push_back(digit);
      } else if (rank_of(whole) < rank_of(digit)) {
        whole = {digit.axis, extent, digit.stride};
      }
    }
    if (extent > 1) made.push_back(whole);
    digits = std::move(made);
  }
  Remainder remainder = Compacted(view);
  const NodeExtents& extents = remainder.extents;
  Opaque opaque;
  opaque.kind = kind;
  UCUDNN_ASSIGN_OR_RETURN(opaque.channels, Narrow(extents[1], "channels"));
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    UCUDNN_ASSIGN_OR_RETURN(opaque.extents[axis], Narrow(extents[2 + axis], "an extent"));
  }
  opaque.spatial_rank = opaque.extents[0] > 1 ? 3 : 2;
  opaque.operations = operations;
  if (others.empty()) {
    const Separation separation = SeparationOf(mixed, ExtentsOf(tensor));
    const bool divides = extents[1] % separation.channel_parts == 0;
    opaque.channel_parts = divides ? static_cast<int32_t>(separation.channel_parts) : 1;
    opaque.rows = separation.rows;
    opaque.columns = separation.columns;
  }
  std::vector<NodeId> inputs = {tensor.node};
  inputs.insert(inputs.end(), others.begin(), others.end());
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(opaque, inputs, std::move(parameters)));
  return {OnnxTensor{node, std::move(remainder.view), true}};
}

Status OnnxImporter::AddChanged(const OnnxTensor& tensor, const std::map<size_t, int64_t>& changed,
                                double operations, std::vector<Parameter> parameters) {
  UCUDNN_ASSIGN_OR_RETURN(const auto made, Changed(node_->op_type(), tensor, changed, {},
                                                   operations, std::move(parameters)));
  return made ? Give(*made) : RefuseMixedImages();
}

Status OnnxImporter::AddShape() {
  std::vector<int64_t> extents;
  if (const OnnxConstant* const constant = ConstantInput(0)) {
    if (!constant->is_known) {
      constants_[FirstOutput()] = *constant;
      return Status::Ok();
    }
    extents = constant->dims;
  } else {
    UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, RawInput(0));
    extents = Extents(tensor.view);
    if (batch_ == 1) {
      const std::vector<int64_t> at_any_batch = Extents(WithImages(tensor.view, kAnyBatch));
      OnnxConstant made = ShapeConstant(*node_, at_any_batch);
      if (made.values != ShapeConstant(*node_, extents).values) {
        constants_at_any_batch_[FirstOutput()] = std::move(made);
      }
    }
  }
  constants_[FirstOutput()] = ShapeConstant(*node_, extents);
  return Status::Ok();
}

Result<Graph> ImportOnnx(const std::string& model, const std::string& file,
                         const ImportOptions& options, ImportedTensors* tensors) {
  onnx::ModelProto proto;
  // A protocol buffer has at most 2 GiB; larger models keep their weights in separate files.
  if (model.size() > std::numeric_limits<int32_t>::max() || !proto.ParseFromString(model)) {
    return Status::Error(file + ": no ONNX model; expected protocol buffers of at most 2 GiB");
  }
  return OnnxImporter(file, options).Import(proto, tensors);
}

}  // namespace ucudnn::planner
