// Adds the matrix products of an ONNX model: layers with weights, attentions, and other products of
// two computed tensors.
#include <algorithm>

#include "planner/graph/formats/onnx_importer.h"

namespace ucudnn::planner {
namespace {

bool IsKey(const Digit& digit) { return digit.axis >= ViewAxis::kKeyDepth; }
bool IsPosition(const Digit& digit) {
  return digit.axis >= ViewAxis::kDepth && digit.axis <= ViewAxis::kWidth;
}

Digits AsKeys(Digits digits) {
  for (Digit& digit : digits) {
    digit.axis = static_cast<ViewAxis>(static_cast<size_t>(digit.axis) + 3);
  }
  return digits;
}
Digits AsPositions(Digits digits) {
  for (Digit& digit : digits) {
    digit.axis = static_cast<ViewAxis>(static_cast<size_t>(digit.axis) - 3);
  }
  return digits;
}

Digits WithoutBatch(const Digits& digits) {
  Digits left;
  for (const Digit& digit : digits) {
    if (digit.axis != ViewAxis::kBatch) left.push_back(digit);
  }
  return left;
}

bool AreAll(const Digits& digits, bool (*predicate)(const Digit&)) {
  return std::all_of(digits.begin(), digits.end(), predicate);
}

// Returns the view without its last two axes.
View Leading(const View& view) { return {view.begin(), view.end() - 2}; }

// Returns whether `digits` (view.h) are the channels of one head: the inner digit of the channels,
// or all channels if there is one head.
bool IsHead(const Digits& digits) {
  return digits.empty() ||
         (digits.size() == 1 && digits[0].axis == ViewAxis::kChannel && digits[0].stride == 1);
}

// Returns whether the leading axes of a product hold only images, heads and windows, but no keys.
bool AreGroups(const View& view) {
  for (const Digits& digits : view) {
    for (const Digit& digit : digits) {
      if (IsKey(digit)) return false;
    }
  }
  return true;
}

}  // namespace

Status OnnxImporter::AddGemm() {
  const OnnxAttributes attributes = Attributes();
  if (ConstantInput(0) != nullptr) return Refuse("of a constant first");
  UCUDNN_ASSIGN_OR_RETURN(OnnxTensor tensor, TensorInput(0));
  if (tensor.view.size() != 2) return Status::Error("more than a matrix; expected two axes");
  const OnnxConstant* weights = WeightInput(1);
  if (weights == nullptr) return Refuse("of two computed matrices");
  if (!weights->is_known || weights->dims.size() != 2) {
    return Refuse("of a matrix whose shape is not given");
  }
  std::vector<Parameter> parameters = Weight(*weights);
  const bool transposed = attributes.Number("transB", 0) != 0;
  const int64_t outputs = weights->dims[transposed ? 0 : 1];
  if (attributes.Number("transA", 0) != 0) std::swap(tensor.view[0], tensor.view[1]);
  const bool adds = HasInput(2) && attributes.Real("beta", 1) != 0;
  const OnnxConstant* added = adds ? WeightInput(2) : nullptr;
  if (added != nullptr && !added->is_known) return Refuse("of a bias whose shape is not given");
  bool by_output = false;
  if (added != nullptr) {
    const std::vector<int64_t>& dims = added->dims;
    by_output = !dims.empty() && dims.back() == outputs && added->Elements() == outputs &&
                !Trained(*added).empty();
  }
  if (by_output) parameters.push_back({added->numbers, added->tensor, true});
  UCUDNN_RETURN_IF_ERROR(
      AddLinear(tensor, *weights, transposed, by_output, std::move(parameters), false));
  if (!adds || by_output) return Status::Ok();
  const auto found = tensors_.find(FirstOutput());
  if (found == tensors_.end()) return Status::Ok();
  OnnxTensor product = found->second;
  product.is_sole = false;
  if (added == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor sum, TensorInput(2));
    if (!Broadcast(Extents(product.view), Extents(sum.view))) {
      return Status::Error("a bias whose extents do not meet; expected equal ones or 1");
    }
    return AddOfTensors("Add", {product, sum}, {});
  }
  if (!Broadcast(Extents(product.view), added->dims)) {
    return Status::Error("a bias whose extents do not meet; expected equal ones or 1");
  }
  const std::vector<Parameter> trained = Trained(*added);
  return trained.empty() ? Give(product) : Append(Scale{false, true}, product, trained);
}

Status OnnxImporter::AddMatMul() {
  const OnnxConstant* first = ConstantInput(0);
  const OnnxConstant* second = ConstantInput(1);
  const OnnxConstant* weights = second != nullptr ? second : first;
  if (weights == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor a, RawInput(0));
    UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor b, RawInput(1));
    return AddProductOfTensors(a, b);
  }
  if (!weights->is_known) return Refuse("of a matrix whose shape no rule gives");
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(second != nullptr ? 0 : 1));
  std::vector<Parameter> parameters = Weight(*weights);
  OnnxConstant matrix = *weights;
  // Leading axes of extent 1 do not change the product.
  while (matrix.dims.size() > 2 && matrix.dims.front() == 1 &&
         matrix.dims.size() <= tensor.view.size()) {
    matrix.dims.erase(matrix.dims.begin());
  }
  if (matrix.dims.size() < 2 || tensor.view.size() < 2) return Refuse("of a vector");
  if (matrix.dims.size() > 2) return AddMatrices(tensor, matrix, second == nullptr);
  return AddLinear(tensor, matrix, second == nullptr, false, std::move(parameters),
                   second == nullptr);
}

Status OnnxImporter::AddMatrices(OnnxTensor tensor, const OnnxConstant& matrices, bool is_first) {
  std::vector<int64_t> dims = matrices.dims;
  if (is_first) {
    std::iter_swap(tensor.view.end() - 1, tensor.view.end() - 2);
    std::iter_swap(dims.end() - 1, dims.end() - 2);
  }
  const std::vector<int64_t> own = Extents(tensor.view);
  const int64_t outputs = dims.back();
  auto extents = Broadcast({own.begin(), own.end() - 2}, {dims.begin(), dims.end() - 2});
  if (!extents || dims[dims.size() - 2] != own.back()) {
    return Status::Error("matrices whose extents do not meet; expected as many features");
  }
  extents->insert(extents->end(), own.end() - 2, own.end());
  UCUDNN_ASSIGN_OR_RETURN(const auto grown, Grown(tensor, *extents));
  if (!grown) return RefuseMixedImages();
  double operations = 2.0 * static_cast<double>(outputs) / static_cast<double>(batch_);
  for (const int64_t extent : *extents) operations *= static_cast<double>(extent);
  UCUDNN_ASSIGN_OR_RETURN(auto made, Changed("MatMul", *grown, {{extents->size() - 1, outputs}}, {},
                                             operations, Trained(matrices)));
  if (!made) return RefuseMixedImages();
  if (is_first) std::iter_swap(made->view.end() - 1, made->view.end() - 2);
  return Give(*made);
}

Status OnnxImporter::AddLinear(OnnxTensor tensor, const OnnxConstant& weights, bool transposed,
                               bool bias, std::vector<Parameter> parameters, bool swaps_axes) {
  if (swaps_axes) std::iter_swap(tensor.view.end() - 1, tensor.view.end() - 2);
  const size_t last = tensor.view.size() - 1;
  const int64_t inputs = weights.dims[transposed ? 1 : 0];
  const int64_t outputs = weights.dims[transposed ? 0 : 1];
  const int64_t features = Extent(tensor.view[last]);
  if (inputs != features) {
    return Status::Error("a matrix for " + std::to_string(inputs) + " features over " +
                         std::to_string(features) + "; expected as many");
  }
  const NodeExtents extents = ExtentsOf(tensor);
  const auto give = [&](NodeId node, View view) {
    if (swaps_axes) std::iter_swap(view.end() - 1, view.end() - 2);
    return GiveNode(node, std::move(view));
  };
  View view = tensor.view;
  view[last].clear();
  if (outputs > 1) view[last] = {{ViewAxis::kChannel, outputs, 1}};
  UCUDNN_ASSIGN_OR_RETURN(const int32_t narrow, Narrow(outputs, "outputs"));
  int64_t all = 1;
  for (size_t axis = 1; axis < kNodeAxes; ++axis) all *= extents[axis];
  if (BatchAxis(tensor) && all == features && RunsInOrder(tensor.view[last], [&] {
        NodeExtents image = extents;
        image[0] = 1;
        return image;
      }())) {
    UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(FullyConnected{narrow, bias},
                                                           {tensor.node}, std::move(parameters)));
    return give(node, std::move(view));
  }
  const bool by_position = tensor.view[last].empty()
                               ? extents[1] == 1
                               : IsWhole(tensor.view[last], ViewAxis::kChannel, extents);
  if (by_position) {
    UCUDNN_ASSIGN_OR_RETURN(
        const NodeId node, AddOperator(Linear{narrow, bias}, {tensor.node}, std::move(parameters)));
    return give(node, std::move(view));
  }
  // If the images stay separate, the product becomes an Opaque whose channels are the outputs.
  const double operations = 2.0 * static_cast<double>(all) / static_cast<double>(features) *
                            static_cast<double>(features) * static_cast<double>(outputs);
  UCUDNN_ASSIGN_OR_RETURN(const auto made, Changed(node_->op_type(), tensor, {{last, outputs}}, {},
                                                   operations, std::move(parameters)));
  if (!made) return RefuseMixedImages();
  return give(made->node, made->view);
}

bool OnnxImporter::AreScores(const OnnxTensor& a, const OnnxTensor& b) const {
  const size_t rank = a.view.size();
  if (rank < 2 || b.view.size() != rank || a.scores >= 0 || b.scores >= 0) return false;
  const Digits& head = a.view[rank - 1];
  const Digits& queries = a.view[rank - 2];
  const Digits& keys = b.view[rank - 1];
  if (!IsHead(head) || head != b.view[rank - 2]) return false;
  const View groups = Leading(a.view);
  if (groups != Leading(b.view) || !AreGroups(groups)) return false;
  if (!AreAll(queries, IsPosition) || !AreAll(keys, IsPosition)) return false;
  int64_t channels = Extent(head);
  for (const Digit& digit : AllOf(groups)) {
    if (digit.axis == ViewAxis::kChannel) channels *= digit.size;
  }
  if (channels != ExtentsOf(a)[1] || channels != ExtentsOf(b)[1]) return false;
  // Windows tile the queries and the keys in the same way, so with windows both must have the same
  // positions.
  const Digits outer = WithoutBatch(AllOf(groups));
  const bool has_windows = std::any_of(outer.begin(), outer.end(), IsPosition);
  return !has_windows || queries == keys;
}

Status OnnxImporter::GiveScores(const OnnxTensor& a, const OnnxTensor& b) {
  OnnxScores scores;
  scores.product = static_cast<int>(scores_.size());
  scores.queries = a.node;
  scores.keys = b.node;
  scores.name = node_->name().empty() ? FirstOutput() : node_->name();
  OnnxTensor tensor{a.node, a.view};
  tensor.view.back() = AsKeys(b.view.back());
  return GiveAsScores(std::move(tensor), std::move(scores));
}

Status OnnxImporter::GiveAsScores(OnnxTensor tensor, OnnxScores scores) {
  tensor.scores = static_cast<int>(scores_.size());
  scores_.push_back(std::move(scores));
  return Give(tensor);
}

Result<bool> OnnxImporter::AddAttention(const OnnxTensor& weights, const OnnxTensor& values) {
  const OnnxScores scores = ScoresOf(weights);
  const size_t rank = weights.view.size();
  if (!scores.is_weight || values.scores >= 0 || values.view.size() != rank) return false;
  const Digits& keys = weights.view[rank - 1];
  const Digits& queries = weights.view[rank - 2];
  const Digits& head = values.view[rank - 1];
  if (!AreAll(keys, IsKey) || AsPositions(keys) != values.view[rank - 2] || !IsHead(head) ||
      !AreAll(queries, IsPosition)) {
    return false;
  }
  // The values of a head may have another number of channels than its queries and keys.
  const NodeExtents of_queries = planner::ExtentsOf(graph_.ShapeOf(scores.queries), batch_);
  const NodeExtents of_values = ExtentsOf(values);
  int64_t heads = 1;
  View view = weights.view;
  std::array<bool, kMaxSpatial> has_window = {false, false, false};
  for (size_t axis = 0; axis + 2 < rank; ++axis) {
    if (view[axis].size() != values.view[axis].size()) return false;
    for (size_t at = 0; at < view[axis].size(); ++at) {
      Digit& digit = view[axis][at];
      const Digit& of_value = values.view[axis][at];
      if (digit.axis != of_value.axis || digit.size != of_value.size) return false;
      if (digit.axis == ViewAxis::kChannel) {
        heads *= digit.size;
        digit.stride = of_value.stride;
      } else if (digit.stride != of_value.stride) {
        return false;
      }
      if (IsPosition(digit)) has_window[static_cast<size_t>(digit.axis) - 2] = true;
    }
  }
  if (heads * Extent(head) != of_values[1] || of_queries[1] % heads != 0) return false;
  Attention attention;
  UCUDNN_ASSIGN_OR_RETURN(attention.heads, Narrow(heads, "heads"));
  UCUDNN_ASSIGN_OR_RETURN(attention.keys, Narrow(Extent(keys), "keys"));
  for (size_t spatial = 0; spatial < kMaxSpatial; ++spatial) {
    if (!has_window[spatial]) continue;
    int32_t window = 1;
    for (const Digit& digit : queries) {
      if (static_cast<size_t>(digit.axis) != spatial + 2) continue;
      // A digit whose stride is not 1 means that the window's positions form a grid over the whole
      // axis, so no division along this axis keeps windows whole.
      if (digit.stride != 1) {
        window = 0;
      } else {
        UCUDNN_ASSIGN_OR_RETURN(window, Narrow(digit.size, "window"));
      }
    }
    attention.window[spatial] = window;
  }
  view[rank - 1] = head;
  UCUDNN_ASSIGN_OR_RETURN(
      const NodeId node,
      AddOperator(attention, {scores.queries, scores.keys, values.node}, scores.parameters));
  UCUDNN_RETURN_IF_ERROR(GiveNode(node, std::move(view)));
  return true;
}

Result<OnnxTensor> OnnxImporter::NodeOfScores(const OnnxTensor& tensor) {
  const OnnxScores scores = ScoresOf(tensor);
  // The node of scores has a channel for each head and window, a row for each query and a column
  // for each key.
  Digits queries;
  Digits keys;
  int64_t groups = 1;
  View view = tensor.view;
  std::vector<Digit*> outer;
  std::vector<Digit*> rows;
  std::vector<Digit*> columns;
  const NodeExtents of_queries = planner::ExtentsOf(graph_.ShapeOf(scores.queries), batch_);
  Digits all = AllOf(tensor.view);
  int64_t keys_of_query = 1;
  for (const Digit& digit : all) {
    if (IsKey(digit)) keys_of_query *= digit.size;
  }
  for (Digits& digits : view) {
    for (Digit& digit : digits) {
      if (IsKey(digit)) {
        columns.push_back(&digit);
      } else if (IsPosition(digit)) {
        rows.push_back(&digit);
      } else if (digit.axis == ViewAxis::kChannel) {
        outer.push_back(&digit);
      }
    }
  }
  const auto by_place = [](const Digit* a, const Digit* b) {
    return a->axis != b->axis ? a->axis > b->axis : a->stride < b->stride;
  };
  const auto place = [&](std::vector<Digit*>& digits, ViewAxis axis) {
    std::stable_sort(digits.begin(), digits.end(), by_place);
    int64_t stride = 1;
    for (Digit* digit : digits) {
      *digit = {axis, digit->size, stride};
      stride *= digit->size;
    }
    return stride;
  };
  groups = place(outer, ViewAxis::kChannel);
  const int64_t height = place(rows, ViewAxis::kHeight);
  const int64_t width = place(columns, ViewAxis::kWidth);
  Opaque opaque;
  opaque.kind = scores.is_weight ? "Softmax of MatMul" : "MatMul";
  UCUDNN_ASSIGN_OR_RETURN(opaque.channels, Narrow(groups, "channels"));
  UCUDNN_ASSIGN_OR_RETURN(opaque.extents[1], Narrow(height, "an extent"));
  UCUDNN_ASSIGN_OR_RETURN(opaque.extents[2], Narrow(width, "an extent"));
  opaque.operations = 2.0 * static_cast<double>(of_queries[1]) * static_cast<double>(height) *
                      static_cast<double>(keys_of_query);
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node,
                          graph_.Add("", scores.name + ".scores", opaque,
                                     {scores.queries, scores.keys}, scores.parameters));
  for (Digits& digits : view) digits = Joined(digits);
  return OnnxTensor{node, std::move(view), false};
}

Status OnnxImporter::AddProductOfTensors(const OnnxTensor& a, const OnnxTensor& b) {
  if (AreScores(a, b)) return GiveScores(a, b);
  if (a.scores >= 0) {
    UCUDNN_ASSIGN_OR_RETURN(const bool is_attention, AddAttention(a, b));
    if (is_attention) return Status::Ok();
  }
  UCUDNN_ASSIGN_OR_RETURN(OnnxTensor first, TensorInput(0));
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor second, TensorInput(1));
  const size_t rank = std::max(first.view.size(), second.view.size());
  if (first.view.size() < 2 || second.view.size() < 2) return Refuse("of a vector");
  std::vector<int64_t> left = Extents(first.view);
  std::vector<int64_t> right = Extents(second.view);
  const int64_t inner = left.back();
  const int64_t outputs = right.back();
  if (right[right.size() - 2] != inner) {
    return Status::Error("a product of " + std::to_string(inner) + " and " +
                         std::to_string(right[right.size() - 2]) + " features; expected as many");
  }
  left.insert(left.begin(), rank - left.size(), 1);
  right.insert(right.begin(), rank - right.size(), 1);
  std::vector<int64_t> extents(left.begin(), left.end() - 2);
  const auto met = Broadcast(extents, {right.begin(), right.end() - 2});
  if (!met) return Status::Error("extents that do not meet; expected equal ones or 1");
  extents = *met;
  extents.insert(extents.end(), left.end() - 2, left.end());
  UCUDNN_ASSIGN_OR_RETURN(const auto grown, Grown(first, extents));
  if (!grown) return RefuseMixedImages();
  // In both tensors, the first digit (view.h) of the same leading axis must hold all images.
  OnnxTensor padded = second;
  padded.view.insert(padded.view.begin(), rank - second.view.size(), Digits());
  bool meet = false;
  for (size_t axis = 0; axis + 2 < rank; ++axis) {
    const Digits& own = grown->view[axis];
    const Digits& other = padded.view[axis];
    meet = meet || (!own.empty() && !other.empty() && own[0] == other[0] &&
                    own[0] == Digit{ViewAxis::kBatch, batch_, 1});
  }
  if (!meet) return RefuseMixedImages();
  double positions = 1;
  for (const int64_t extent : extents) positions *= static_cast<double>(extent);
  const double operations =
      2 * positions / static_cast<double>(batch_) * static_cast<double>(outputs);
  UCUDNN_ASSIGN_OR_RETURN(
      const auto made, Changed("MatMul", *grown, {{rank - 1, outputs}}, {second.node}, operations));
  return made ? Give(*made) : RefuseMixedImages();
}

}  // namespace ucudnn::planner
