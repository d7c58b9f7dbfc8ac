// Adds the nodes of an ONNX model that compute element by element, or over all positions of some
// axes.
#include <algorithm>

#include "planner/graph/formats/onnx_importer.h"

namespace ucudnn::planner {
namespace {

std::vector<int64_t> WithRank(std::vector<int64_t> extents, size_t rank) {
  extents.insert(extents.begin(), rank - std::min(rank, extents.size()), 1);
  return extents;
}

View WithRank(View view, size_t rank) {
  view.insert(view.begin(), rank - std::min(rank, view.size()), Digits());
  return view;
}

// Returns whether a constant has one number for each channel, and does not vary along other axes.
bool IsByChannel(const OnnxConstant& constant, const View& view, const NodeExtents& extents) {
  const std::vector<int64_t> dims = WithRank(constant.dims, view.size());
  if (dims.size() != view.size()) return false;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] > 1 && !IsWhole(view[axis], ViewAxis::kChannel, extents)) return false;
  }
  return constant.Elements() == extents[1];
}

bool IsProduct(const std::string& type) { return type == "Mul" || type == "Div"; }
bool IsSum(const std::string& type) { return type == "Add" || type == "Sub" || type == "Sum"; }

Digits WithoutBatchOfOne(const Digits& digits) {
  Digits left;
  for (const Digit& digit : digits) {
    if (digit.size > 1) left.push_back(digit);
  }
  return left;
}

}  // namespace

Status OnnxImporter::AddActivation() {
  static const auto* const kinds = new std::map<std::string, ActivationKind>{
      {"Clip", ActivationKind::kRelu6},          {"Elu", ActivationKind::kElu},
      {"Gelu", ActivationKind::kGelu},           {"HardSigmoid", ActivationKind::kHardSigmoid},
      {"HardSwish", ActivationKind::kHardSwish}, {"LeakyRelu", ActivationKind::kLeakyRelu},
      {"Relu", ActivationKind::kRelu},           {"Sigmoid", ActivationKind::kSigmoid},
      {"Swish", ActivationKind::kSwish},         {"Tanh", ActivationKind::kTanh}};
  const auto kind = kinds->find(node_->op_type());
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor raw, RawInput(0));
  // Exporters test the scores for NaN, so that they can replace NaN after a softmax. The importer
  // treats the result of such a test as the scores themselves.
  if (raw.scores >= 0 && (node_->op_type() == "IsNaN" || node_->op_type() == "Not")) {
    return Give(raw);
  }
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  return Append(Activation{kind == kinds->end() ? ActivationKind::kOther : kind->second}, tensor);
}

Status OnnxImporter::AddElementwise() {
  const std::string& type = node_->op_type();
  std::vector<OnnxTensor> tensors;
  std::vector<int64_t> extents;
  bool are_same_scores = true;
  for (int input = 0; input < node_->input_size(); ++input) {
    std::vector<int64_t> dims;
    if (const OnnxConstant* constant = ConstantInput(input)) {
      if (!constant->is_known) return Refuse("of a constant whose shape no rule gives");
      dims = constant->dims;
    } else {
      UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, RawInput(input));
      dims = Extents(tensor.view);
      tensors.push_back(tensor);
      are_same_scores = are_same_scores && tensor.scores >= 0 && tensors.front().scores >= 0 &&
                        ScoresOf(tensor).product == ScoresOf(tensors.front()).product &&
                        tensor.view == tensors.front().view;
    }
    const auto met = Broadcast(extents, dims);
    if (!met) return Status::Error("inputs whose extents do not meet; expected equal ones or 1");
    extents = *met;
  }
  if (tensors.empty()) return Status::Error("no inputs; expected one or more");
  if (are_same_scores && extents == Extents(tensors.front().view)) {
    OnnxScores scores = ScoresOf(tensors.front());
    for (const OnnxTensor& tensor : tensors) {
      const OnnxScores& met = ScoresOf(tensor);
      scores.is_weight = scores.is_weight || met.is_weight;
      // All these tensors of scores come from one product, so their lists of parameters begin
      // alike. The common beginning is kept once.
      const auto [own, others] = std::mismatch(scores.parameters.begin(), scores.parameters.end(),
                                               met.parameters.begin(), met.parameters.end());
      scores.parameters.insert(scores.parameters.end(), others, met.parameters.end());
    }
    for (const OnnxConstant* constant : Constants()) {
      if (constant == nullptr) continue;
      for (Parameter parameter : Trained(*constant)) scores.parameters.push_back(parameter);
    }
    return GiveAsScores(tensors.front(), std::move(scores));
  }
  for (OnnxTensor& tensor : tensors) {
    if (tensor.scores < 0) continue;
    UCUDNN_ASSIGN_OR_RETURN(tensor, NodeOfScores(tensor));
  }
  if (tensors.size() > 1) return AddOfTensors(type, std::move(tensors), Constants());
  UCUDNN_ASSIGN_OR_RETURN(const auto grown, Grown(tensors.front(), extents));
  if (!grown) return RefuseMixedImages();
  if (node_->input_size() == 1) return Give(*grown);
  if (type == "Where" || !(IsSum(type) || IsProduct(type))) {
    std::vector<Parameter> parameters;
    for (const OnnxConstant* constant : Constants()) {
      if (constant == nullptr) continue;
      for (Parameter parameter : Trained(*constant)) parameters.push_back(parameter);
    }
    const auto kind = type == "PRelu" ? ActivationKind::kLeakyRelu : ActivationKind::kOther;
    return Append(Activation{kind}, *grown, std::move(parameters));
  }
  return AddWithConstants(*grown);
}

Status OnnxImporter::AddWithConstants(const OnnxTensor& tensor) {
  std::vector<Parameter> parameters;
  const OnnxConstant* only = nullptr;
  for (const OnnxConstant* constant : Constants()) {
    if (constant == nullptr) continue;
    only = constant;
    for (Parameter parameter : Trained(*constant)) parameters.push_back(parameter);
  }
  if (parameters.empty()) return Give(tensor);
  if (IsProduct(node_->op_type())) return Append(Scale{true, false}, tensor, parameters);
  if (only != nullptr && CompletesLayer(tensor, *only, parameters)) return Give(tensor);
  return Append(Scale{false, true}, tensor, parameters);
}

bool OnnxImporter::CompletesLayer(const OnnxTensor& tensor, const OnnxConstant& constant,
                                  const std::vector<Parameter>& parameters) {
  if (!tensor.is_sole || graph_.Uses(tensor.node) > 0 ||
      !IsByChannel(constant, tensor.view, ExtentsOf(tensor))) {
    return false;
  }
  const auto completes = [&](bool* part) {
    if (part == nullptr || *part) return false;
    *part = true;
    graph_.AddParameters(tensor.node, parameters);
    return true;
  };
  Operator& op = graph_.OperatorOf(tensor.node);
  if (auto* layer = std::get_if<Convolution>(&op)) return completes(&layer->bias);
  if (auto* layer = std::get_if<TransposedConvolution>(&op)) return completes(&layer->bias);
  if (auto* layer = std::get_if<FullyConnected>(&op)) return completes(&layer->bias);
  if (auto* layer = std::get_if<Linear>(&op)) return completes(&layer->bias);
  auto* scale = std::get_if<Scale>(&op);
  return scale != nullptr && completes(&scale->shift);
}

bool OnnxImporter::IsGateOf(const OnnxTensor& gate, const OnnxTensor& input) {
  auto* activation = std::get_if<Activation>(&graph_.OperatorOf(gate.node));
  if (activation == nullptr || !gate.is_sole || graph_.Uses(gate.node) > 0 ||
      graph_.NodeOf(gate.node).inputs.front() != input.node || gate.view != input.view) {
    return false;
  }
  // Tensors of the file whose node is the gate are forgotten, because the node now computes another
  // function.
  for (const std::string& name : names_[gate.node]) tensors_.erase(name);
  switch (activation->kind) {
    case ActivationKind::kSigmoid:
      activation->kind = ActivationKind::kSwish;
      break;
    case ActivationKind::kHardSigmoid:
    case ActivationKind::kRelu6:
      activation->kind = ActivationKind::kHardSwish;
      break;
    // kOther is taken for the error function, whose product with its input is a Gelu.
    case ActivationKind::kOther:
      activation->kind = ActivationKind::kGelu;
      break;
    default:
      activation->kind = ActivationKind::kOther;
  }
  return true;
}

Result<std::optional<OnnxTensor>> OnnxImporter::Grown(OnnxTensor tensor,
                                                      const std::vector<int64_t>& extents) {
  tensor.view = WithRank(tensor.view, extents.size());
  const std::vector<int64_t> now = Extents(tensor.view);
  std::map<size_t, int64_t> grown;
  const bool has_batch = Holds(AllOf(tensor.view), ViewAxis::kBatch);
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (now[axis] == extents[axis]) continue;
    // A tensor without images has the same numbers for every image, so its first axis can become
    // the batch.
    if (!has_batch && axis == 0 && extents[axis] == batch_) {
      tensor.view[axis] = {{ViewAxis::kBatch, batch_, 1}};
      continue;
    }
    // The axis holds the only image of a batch of 1. Repeating it would turn one image into
    // several, and with a larger batch the operator would combine different images. Neither is
    // supported.
    if (Holds(tensor.view[axis], ViewAxis::kBatch)) return {std::nullopt};
    grown[axis] = extents[axis];
  }
  if (grown.empty()) return {tensor};
  return Changed("Expand", tensor, grown, {}, 0);
}

Result<std::optional<OnnxTensor>> OnnxImporter::Conformed(const OnnxTensor& tensor,
                                                          const OnnxTensor& like) {
  OnnxTensor conformed = tensor;
  conformed.view = WithRank(tensor.view, like.view.size());
  bool is_alike = true;
  // Pairs of corresponding digits (view.h): the first is of `like`, the second of `conformed`.
  std::vector<std::pair<Digit, Digit>> pairs;
  const auto images = BatchAxis(conformed);
  const auto others = BatchAxis(like);
  // If the images of `tensor` are along an axis where `like` has one element, and the images of
  // `like` are along another axis, a larger batch would combine each image with all images.
  if (images && others && images != others && Extent(like.view[*images]) == 1) {
    return {std::nullopt};
  }
  for (size_t axis = 0; axis < like.view.size(); ++axis) {
    const Digits own = WithoutBatchOfOne(conformed.view[axis]);
    const Digits other = WithoutBatchOfOne(like.view[axis]);
    if (own.empty()) continue;
    is_alike = is_alike && Joined(own) == Joined(other);
    const auto aligned = Aligned(other, own);
    if (!aligned) return {std::nullopt};
    for (size_t at = 0; at < aligned->first.size(); ++at) {
      pairs.emplace_back(aligned->first[at], aligned->second[at]);
    }
  }
  for (const auto& [other, own] : pairs) {
    const bool of_batch = own.axis == ViewAxis::kBatch;
    if ((other.axis == ViewAxis::kBatch) != of_batch || (of_batch && !(own == other))) {
      return {std::nullopt};
    }
  }
  // If `tensor` has, along each axis, the digits of `like` or no digits, it needs no new node.
  if (is_alike) return {conformed};
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
    if (a.first.axis != b.first.axis) return a.first.axis < b.first.axis;
    return a.first.stride > b.first.stride;
  });
  Digits order;
  View made(pairs.size());
  for (size_t at = 0; at < pairs.size(); ++at) {
    order.push_back(pairs[at].second);
    made[at] = {pairs[at].first};
  }
  const Remainder remainder = Compacted(made);
  Reshape reshape;
  UCUDNN_ASSIGN_OR_RETURN(reshape.channels, Narrow(remainder.extents[1], "channels"));
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    UCUDNN_ASSIGN_OR_RETURN(reshape.extents[axis],
                            Narrow(remainder.extents[2 + axis], "an extent"));
  }
  reshape.spatial_rank = reshape.extents[0] > 1 ? 3 : 2;
  Operator op = reshape;
  if (!RunsInOrder(order, ExtentsOf(tensor))) {
    op = Opaque{"Transpose", reshape.channels, reshape.extents, reshape.spatial_rank};
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node,
                          graph_.Add("", node_->name() + ".axes", op, {tensor.node}));
  View view = like.view;
  for (size_t axis = 0; axis < view.size(); ++axis) {
    if (Extent(conformed.view[axis]) == 1) view[axis] = conformed.view[axis];
  }
  // If the new node lacks some digits of an axis, Compacted() closes the gaps that they leave.
  Remainder left = Compacted(view);
  return {OnnxTensor{node, std::move(left.view), false}};
}

Status OnnxImporter::AddOfTensors(const std::string& type, std::vector<OnnxTensor> tensors,
                                  const std::vector<const OnnxConstant*>& constants) {
  std::vector<int64_t> extents;
  std::vector<Parameter> parameters;
  for (const OnnxTensor& tensor : tensors) extents = *Broadcast(extents, Extents(tensor.view));
  for (const OnnxConstant* constant : constants) {
    if (constant == nullptr) continue;
    extents = *Broadcast(extents, constant->dims);
    for (Parameter parameter : Trained(*constant)) parameters.push_back(parameter);
  }
  if (type == "Mul" && tensors.size() == 2 && parameters.empty()) {
    if (IsGateOf(tensors[1], tensors[0])) return Give(tensors[1]);
    if (IsGateOf(tensors[0], tensors[1])) return Give(tensors[0]);
  }
  // The result has the axes of the first tensor that has all extents of the result.
  size_t base = tensors.size();
  for (size_t at = tensors.size(); at-- > 0;) {
    if (WithRank(Extents(tensors[at].view), extents.size()) == extents) base = at;
  }
  if (base == tensors.size()) {
    base = 0;
    UCUDNN_ASSIGN_OR_RETURN(const auto grown, Grown(tensors[0], extents));
    if (!grown) return RefuseMixedImages();
    tensors[0] = *grown;
  }
  OnnxTensor& like = tensors[base];
  like.view = WithRank(like.view, extents.size());
  std::vector<NodeId> inputs;
  bool is_alike = true;
  for (const OnnxTensor& tensor : tensors) {
    UCUDNN_ASSIGN_OR_RETURN(const auto conformed, Conformed(tensor, like));
    if (!conformed) return Refuse("of inputs whose axes do not correspond");
    inputs.push_back(conformed->node);
    const NodeExtents own = ExtentsOf(*conformed);
    const NodeExtents all = ExtentsOf(like);
    for (size_t axis = 1; axis < kNodeAxes; ++axis) {
      is_alike = is_alike && (own[axis] == 1 || own[axis] == all[axis]);
    }
    for (size_t axis = 0; axis < conformed->view.size(); ++axis) {
      const Digits digits = WithoutBatchOfOne(conformed->view[axis]);
      is_alike = is_alike &&
                 (digits.empty() || Joined(digits) == Joined(WithoutBatchOfOne(like.view[axis])));
    }
  }
  std::swap(inputs[0], inputs[base]);
  const Shape& shape = graph_.ShapeOf(like.node);
  bool are_equal = true;
  bool are_gates = true;
  for (const NodeId input : inputs) {
    const Shape& own = graph_.ShapeOf(input);
    are_equal = are_equal && own == shape;
    are_gates = are_gates && own.c == shape.c &&
                (own.extents == shape.extents || own.extents == Spatial{1, 1, 1});
  }
  Operator op = planner::Add{};
  if (type == "Mul" && inputs.size() == 2 && are_gates && is_alike && parameters.empty()) {
    op = Multiply{};
  } else if (!(type == "Add" || type == "Sum") || !are_equal || !is_alike || !parameters.empty()) {
    Opaque opaque{type, shape.c, shape.extents, shape.spatial_rank};
    if (is_alike) {
      opaque.channel_parts = shape.c;
      opaque.rows = opaque.columns = true;
    }
    op = opaque;
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(op, inputs, std::move(parameters)));
  return GiveNode(node, like.view);
}

Status OnnxImporter::AddMixing(const OnnxTensor& tensor, const std::vector<size_t>& axes,
                               std::vector<Parameter> parameters) {
  Digits mixed;
  for (const size_t axis : axes) {
    const Digits& digits = tensor.view[axis];
    if (MixesImages(digits)) return RefuseMixedImages();
    mixed.insert(mixed.end(), digits.begin(), digits.end());
  }
  const Shape& shape = graph_.ShapeOf(tensor.node);
  const Separation separation = SeparationOf(mixed, ExtentsOf(tensor));
  Opaque opaque{node_->op_type(), shape.c, shape.extents, shape.spatial_rank};
  opaque.channel_parts = static_cast<int32_t>(separation.channel_parts);
  opaque.rows = separation.rows;
  opaque.columns = separation.columns;
  opaque.sums = node_->op_type().find("Normalization") != std::string::npos;
  return Append(opaque, tensor, std::move(parameters));
}

Status OnnxImporter::AddSoftmax() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor raw, RawInput(0));
  const size_t rank = raw.view.size();
  const int64_t given = Attributes().Number("axis", opset_ < 13 ? 1 : -1);
  const auto axis = AxisOf(given, rank);
  if (!axis) return Status::Error("axis " + std::to_string(given) + "; expected one it has");
  std::vector<size_t> axes = {*axis};
  for (size_t more = *axis + 1; opset_ < 13 && more < rank; ++more) axes.push_back(more);
  if (raw.scores >= 0) {
    Digits over;
    for (const size_t at : axes) {
      over.insert(over.end(), raw.view[at].begin(), raw.view[at].end());
    }
    const auto is_key = [](const Digit& digit) { return digit.axis >= ViewAxis::kKeyDepth; };
    const Digits all = AllOf(raw.view);
    if (!over.empty() && std::all_of(over.begin(), over.end(), is_key) &&
        std::count_if(all.begin(), all.end(), is_key) == static_cast<ptrdiff_t>(over.size()) &&
        node_->op_type() == "Softmax") {
      OnnxScores scores = ScoresOf(raw);
      scores.is_weight = true;
      return GiveAsScores(raw, std::move(scores));
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  if (axes.size() == 1 && IsWhole(tensor.view[*axis], ViewAxis::kChannel, ExtentsOf(tensor))) {
    return Append(Softmax{}, tensor);
  }
  return AddMixing(tensor, axes, {});
}

Status OnnxImporter::AddNormalization() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const std::string& type = node_->op_type();
  const size_t rank = tensor.view.size();
  const bool over_image = type == "InstanceNormalization" || type == "GroupNormalization";
  std::vector<Parameter> parameters;
  for (int input = 1; input <= 2 && HasInput(input); ++input) {
    const OnnxConstant* constant = WeightInput(input);
    if (constant == nullptr || !constant->is_known) return Refuse("by computed numbers");
    // Exporters write a group normalisation as an instance normalisation with a scale of 1 and a
    // shift of 0, and then scale and shift by channel.
    const double neutral = input == 1 ? 1 : 0;
    const bool is_neutral = type == "InstanceNormalization" && constant->values &&
                            std::all_of(constant->values->begin(), constant->values->end(),
                                        [&](double value) { return value == neutral; });
    if (is_neutral) continue;
    for (Parameter parameter : Trained(*constant)) parameters.push_back(parameter);
  }
  if (node_->output_size() > 1 && readers_.count(node_->output(1)) > 0) {
    return Refuse("whose statistics are read");
  }
  if (!over_image) {
    const auto first = AxisOf(Attributes().Number("axis", -1), rank);
    if (!first) return Status::Error("no such axis; expected one it has");
    std::vector<size_t> axes;
    for (size_t axis = *first; axis < rank; ++axis) axes.push_back(axis);
    return AddMixing(tensor, axes, std::move(parameters));
  }
  if (rank < 2) return Status::Error("one axis; expected batch and channels");
  std::vector<size_t> axes;
  for (size_t axis = 2; axis < rank; ++axis) axes.push_back(axis);
  if (type == "InstanceNormalization") return AddMixing(tensor, axes, std::move(parameters));
  // A group is a run of adjacent channels, so the groups are the outer digit (view.h) of the
  // channels.
  const int64_t groups = Attributes().Number("num_groups", 0);
  std::vector<int64_t> extents = Extents(tensor.view);
  if (groups < 1 || extents[1] % groups != 0) {
    return Status::Error(std::to_string(groups) + " groups of " + std::to_string(extents[1]) +
                         " channels; expected a divisor");
  }
  extents[1] /= groups;
  extents.insert(extents.begin() + 1, groups);
  const auto apart = Reshaped(tensor.view, extents);
  if (!apart) {  // if a digit cannot be split into groups, all channels count as one group
    axes.push_back(1);
    return AddMixing(tensor, axes, std::move(parameters));
  }
  OnnxTensor grouped = tensor;
  grouped.view = *apart;
  axes.push_back(rank);
  UCUDNN_RETURN_IF_ERROR(AddMixing(grouped, axes, std::move(parameters)));
  const auto made = tensors_.find(FirstOutput());
  if (made != tensors_.end() && made->second.view == grouped.view) {
    made->second.view = tensor.view;
  }
  return Status::Ok();
}

Status OnnxImporter::AddGlobalPooling() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  std::map<size_t, int64_t> changed;
  bool is_whole = BatchAxis(tensor) == size_t{0};
  Digits pooled;
  for (size_t axis = 2; axis < tensor.view.size(); ++axis) {
    changed[axis] = 1;
    pooled.insert(pooled.end(), tensor.view[axis].begin(), tensor.view[axis].end());
  }
  if (!is_whole) return RefuseMixedImages();
  const NodeExtents extents = ExtentsOf(tensor);
  const std::vector<ViewAxis> spatial = {ViewAxis::kDepth, ViewAxis::kHeight, ViewAxis::kWidth};
  if (!AreWhole(pooled, spatial, extents)) return AddChanged(tensor, changed);
  const bool is_maximum = node_->op_type() == "GlobalMaxPool";
  UCUDNN_ASSIGN_OR_RETURN(
      const NodeId node,
      AddOperator(GlobalPooling{is_maximum ? PoolingKind::kMaximum : PoolingKind::kAverage},
                  {tensor.node}));
  View view = tensor.view;
  for (size_t axis = 2; axis < view.size(); ++axis) view[axis].clear();
  return GiveNode(node, std::move(view));
}

Status OnnxImporter::AddReduction() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const std::string& type = node_->op_type();
  const bool finds = type == "ArgMax" || type == "ArgMin";
  std::optional<std::vector<int64_t>> given =
      finds ? std::vector<int64_t>{Attributes().Number("axis", 0)} : List(1, "axes");
  if (!given) return Refuse("over computed axes");
  const size_t rank = tensor.view.size();
  if (given->empty()) {
    if (Attributes().Number("noop_with_empty_axes", 0) != 0) {
      return type == "ReduceSum" || type == "ReduceMean" || type == "ReduceMax" ||
                     type == "ReduceMin" || type == "ReduceProd"
                 ? Give(tensor)
                 : Append(Activation{ActivationKind::kOther}, tensor);
    }
    for (size_t axis = 0; axis < rank; ++axis) given->push_back(static_cast<int64_t>(axis));
  }
  std::map<size_t, int64_t> changed;
  Digits reduced;
  for (const int64_t number : *given) {
    const auto axis = AxisOf(number, rank);
    if (!axis) return Status::Error("axis " + std::to_string(number) + "; expected one it has");
    changed[*axis] = 1;
  }
  for (const auto& [axis, extent] : changed) {
    if (MixesImages(tensor.view[axis])) return RefuseMixedImages();
    const Digits digits = WithoutBatchOfOne(tensor.view[axis]);
    reduced.insert(reduced.end(), digits.begin(), digits.end());
  }
  std::optional<OnnxTensor> made;
  const std::vector<ViewAxis> spatial = {ViewAxis::kDepth, ViewAxis::kHeight, ViewAxis::kWidth};
  if (!finds && reduced.empty()) {
    made = tensor;
  } else if (!finds && AreWhole(reduced, spatial, ExtentsOf(tensor))) {
    const GlobalPooling pooling{type == "ReduceMax" ? PoolingKind::kMaximum
                                                    : PoolingKind::kAverage};
    UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(pooling, {tensor.node}));
    made = OnnxTensor{node, tensor.view, true};
    for (const auto& [axis, extent] : changed) {
      std::erase_if(made->view[axis],
                    [](const Digit& digit) { return digit.axis != ViewAxis::kBatch; });
    }
  } else {
    UCUDNN_ASSIGN_OR_RETURN(made, Changed(type, tensor, changed, {}, 0));
  }
  if (!made) return RefuseMixedImages();
  if (Attributes().Number("keepdims", 1) == 0) {
    View left;
    for (size_t axis = 0; axis < rank; ++axis) {
      if (changed.count(axis) == 0) left.push_back(made->view[axis]);
    }
    // If a dropped axis has the digit of a batch of 1 (view.h), the first remaining axis gets it.
    for (const auto& [axis, extent] : changed) {
      if (!made->view[axis].empty() && left.empty()) return RefuseMixedImages();
      if (!made->view[axis].empty()) left.front().insert(left.front().begin(), kParked);
    }
    made->view = std::move(left);
  }
  return Give(*made);
}

}  // namespace ucudnn::planner
