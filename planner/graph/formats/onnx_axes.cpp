// Adds the nodes of an ONNX model that move, cut, repeat or pad axes, join tensors, or select
// elements.
#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/graph/formats/onnx_importer.h"

namespace ucudnn::planner {
namespace {

// Returns the position of a node's axis in a Spatial; none for the batch and channels.
std::optional<size_t> SpatialOf(ViewAxis axis) {
  if (axis < ViewAxis::kDepth || axis > ViewAxis::kWidth) return std::nullopt;
  return static_cast<size_t>(axis) - static_cast<size_t>(ViewAxis::kDepth);
}

// Returns the node's axis if `digits` are all positions of one axis of the node and nothing else;
// otherwise none. The batch does not count as such an axis.
std::optional<ViewAxis> WholeAxis(const Digits& digits, const NodeExtents& extents) {
  for (size_t axis = 1; axis < kNodeAxes; ++axis) {
    if (!digits.empty() && IsWhole(digits, static_cast<ViewAxis>(axis), extents)) {
      return static_cast<ViewAxis>(axis);
    }
  }
  return std::nullopt;
}

// Sets the padding of `axis`. Negative numbers cut.
Status AddEdges(ViewAxis axis, int64_t before, int64_t after, Padding& padding) {
  const auto spatial = SpatialOf(axis);
  int32_t& front = spatial ? padding.before[*spatial] : padding.channels_before;
  int32_t& back = spatial ? padding.after[*spatial] : padding.channels_after;
  UCUDNN_ASSIGN_OR_RETURN(front, Narrow(before, "pads"));
  UCUDNN_ASSIGN_OR_RETURN(back, Narrow(after, "pads"));
  return Status::Ok();
}

}  // namespace

Status OnnxImporter::AddTranspose() {
  UCUDNN_ASSIGN_OR_RETURN(OnnxTensor tensor, RawInput(0));
  const size_t rank = tensor.view.size();
  std::vector<int64_t> permutation = Attributes().Numbers("perm");
  if (permutation.empty()) {
    for (size_t axis = rank; axis-- > 0;) permutation.push_back(static_cast<int64_t>(axis));
  }
  std::vector<bool> taken(rank, false);
  View view;
  for (const int64_t from : permutation) {
    if (from < 0 || from >= static_cast<int64_t>(rank) || taken[static_cast<size_t>(from)]) {
      return Status::Error("axis " + std::to_string(from) + " in 'perm'; expected each axis once");
    }
    taken[static_cast<size_t>(from)] = true;
    view.push_back(tensor.view[static_cast<size_t>(from)]);
  }
  if (view.size() != rank) return Status::Error("'perm' leaves axes out; expected each axis once");
  tensor.view = std::move(view);
  return Give(tensor);
}

Status OnnxImporter::GiveReshaped(const OnnxTensor& tensor, const std::vector<int64_t>& extents) {
  if (const auto view = Reshaped(tensor.view, extents)) {
    OnnxTensor seen = tensor;
    seen.view = *view;
    return Give(seen);
  }
  // The new extents would split a digit (view.h) into unequal parts. If the images stay separate, a
  // new node is added: an image that holds the tensor's numbers in the tensor's order.
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor node,
                          tensor.scores < 0 ? Result<OnnxTensor>(tensor) : NodeOfScores(tensor));
  const Digits all = AllOf(node.view);
  if (extents.empty() || extents[0] % batch_ != 0 || all.empty() ||
      !(all.front() == Digit{ViewAxis::kBatch, batch_, 1})) {
    return RefuseMixedImages();
  }
  Reshape reshape;
  std::vector<int64_t> rest = extents;  // extents of one image
  rest.front() /= batch_;
  if (rest.front() == 1) rest.erase(rest.begin());
  const auto product = [](auto begin, auto end) {
    return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
  };
  // The last axes, at most three, become the image's spatial axes. The axes before them, at least
  // one, become its channels.
  const size_t spatial = rest.empty() ? 0 : std::min<size_t>(rest.size() - 1, kMaxSpatial);
  const auto split = rest.end() - static_cast<std::ptrdiff_t>(spatial);
  UCUDNN_ASSIGN_OR_RETURN(reshape.channels, Narrow(product(rest.begin(), split), "channels"));
  for (size_t at = 0; at < spatial; ++at) {
    UCUDNN_ASSIGN_OR_RETURN(reshape.extents[kMaxSpatial - spatial + at],
                            Narrow(*(split + static_cast<std::ptrdiff_t>(at)), "an extent"));
  }
  reshape.spatial_rank = spatial == kMaxSpatial ? 3 : 2;
  Operator op = reshape;
  if (!RunsInOrder(all, ExtentsOf(node))) {
    op = Opaque{"Reshape", reshape.channels, reshape.extents, reshape.spatial_rank};
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId id, AddOperator(op, {node.node}));
  const auto view = Reshaped(PlainView(ExtentsOf({id, {}}), kNodeAxes), extents);
  if (!view) return RefuseMixedImages();
  return GiveNode(id, *view);
}

Status OnnxImporter::AddReshape() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, RawInput(0));
  auto shape = List(1, "shape");
  if (!shape) return Refuse("to a computed shape");
  const std::vector<int64_t> now = Extents(tensor.view);
  const bool zero_is_zero = Attributes().Number("allowzero", 0) != 0;
  // If the batch is 1, tries the reshape with kAnyBatch images first. This shows which axis of the
  // result holds the images.
  const bool leads = !tensor.view.empty() && !tensor.view[0].empty() &&
                     tensor.view[0].front() == Digit{ViewAxis::kBatch, batch_, 1};
  const bool says_one = leads && !shape->empty() && shape->front() == 1;
  bool are_mixed = false;
  const std::vector<const OnnxConstant*> constants = ConstantsAtAnyBatch();
  const auto at_any_batch = ListOf(*node_, constants, 1, "shape");
  const bool is_of_images = !constants.empty() && at_any_batch.has_value();
  if (batch_ == 1 && (is_of_images || !says_one)) {
    OnnxTensor many = tensor;
    many.view = WithImages(tensor.view, kAnyBatch);
    const auto extents =
        ReshapedExtents(Extents(many.view), is_of_images ? *at_any_batch : *shape, zero_is_zero);
    if (auto view = extents ? Reshaped(many.view, *extents) : std::nullopt) {
      many.view = WithImages(std::move(*view), 1);
      return Give(many);
    }
    are_mixed = extents && !extents->empty() && extents->front() % kAnyBatch != 0;
  }
  const auto extents = ReshapedExtents(now, *shape, zero_is_zero);
  if (extents && Reshaped(tensor.view, *extents)) return GiveReshaped(tensor, *extents);
  // A batch of 1 in the shape may be the batch of the example with which the network was exported.
  // So a reshape to 1 that does not fit is tried with the network's batch.
  if (!shape->empty() && shape->front() == 1 && batch_ > 1 && BatchAxis(tensor) == size_t{0}) {
    (*shape)[0] = batch_;
    const auto of_batch = ReshapedExtents(now, *shape, zero_is_zero);
    if (of_batch) return GiveReshaped(tensor, *of_batch);
    (*shape)[0] = 1;
  }
  if (extents && are_mixed) return RefuseMixedImages();
  if (extents) return GiveReshaped(tensor, *extents);
  const auto text = [](const std::vector<int64_t>& numbers) {
    std::string joined;
    for (const int64_t number : numbers) {
      const bool of_batch = number > 0 && number % kAnyBatch == 0;
      joined +=
          (joined.empty() ? "" : "x") + (number == kAnyBatch ? "N"
                                         : of_batch ? "N*" + std::to_string(number / kAnyBatch)
                                                    : std::to_string(number));
    }
    return joined;
  };
  return Status::Error("reshapes " + text(now) + " to " + text(*shape) +
                       "; expected as many numbers");
}

Status OnnxImporter::AddFlatten() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, RawInput(0));
  const std::vector<int64_t> extents = Extents(tensor.view);
  const int64_t given = Attributes().Number("axis", 1);
  const auto axis = given == static_cast<int64_t>(extents.size()) ? extents.size()
                                                                  : AxisOf(given, extents.size());
  if (!axis) return Status::Error("axis " + std::to_string(given) + "; expected one it has");
  OnnxTensor flat = tensor;
  flat.view.assign(2, Digits());
  for (size_t at = 0; at < extents.size(); ++at) {
    Digits& digits = flat.view[at < *axis ? 0 : 1];
    digits.insert(digits.end(), tensor.view[at].begin(), tensor.view[at].end());
  }
  for (Digits& digits : flat.view) digits = Joined(digits);
  return Give(flat);
}

Status OnnxImporter::AddSqueeze() {
  UCUDNN_ASSIGN_OR_RETURN(OnnxTensor tensor, RawInput(0));
  const auto axes = List(1, "axes");
  if (!axes) return Refuse("of computed axes");
  const size_t rank = tensor.view.size();
  std::vector<bool> gone(rank, false);
  for (size_t axis = 0; axes->empty() && axis < rank; ++axis) {
    const Digits& digits = tensor.view[axis];
    if (digits.size() == 1 && digits[0].size == 1) return RefuseMixedImages();
    gone[axis] = digits.empty();
  }
  for (const int64_t given : *axes) {
    const auto axis = AxisOf(given, rank);
    if (!axis || Extent(tensor.view[*axis]) != 1) {
      return Status::Error("axis " + std::to_string(given) + "; expected one of extent 1");
    }
    gone[*axis] = true;
  }
  View view;
  Digits batch;  // digits of a batch of 1 whose axis is dropped
  for (size_t axis = 0; axis < rank; ++axis) {
    if (gone[axis]) {
      batch.insert(batch.end(), tensor.view[axis].begin(), tensor.view[axis].end());
    } else {
      view.push_back(tensor.view[axis]);
    }
  }
  if (!batch.empty()) {
    if (view.empty()) return RefuseMixedImages();
    view.front().insert(view.front().begin(), kParked);
  }
  tensor.view = std::move(view);
  return Give(tensor);
}

Status OnnxImporter::AddUnsqueeze() {
  UCUDNN_ASSIGN_OR_RETURN(OnnxTensor tensor, RawInput(0));
  const auto axes = List(1, "axes");
  if (!axes) return Refuse("of computed axes");
  const size_t rank = tensor.view.size() + axes->size();
  std::vector<bool> is_new(rank, false);
  for (const int64_t given : *axes) {
    const auto axis = AxisOf(given, rank);
    if (!axis || is_new[*axis]) {
      return Status::Error("axis " + std::to_string(given) + "; expected each axis once");
    }
    is_new[*axis] = true;
  }
  View view;
  size_t next = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    view.push_back(is_new[axis] ? Digits() : tensor.view[next++]);
  }
  // A tensor without axes holds one number, which is the same for every image. If the batch is 1,
  // the first axis of the result becomes the batch axis.
  if (batch_ == 1 && tensor.view.empty()) view[0] = {{ViewAxis::kBatch, 1, 1}};
  // A new first axis becomes the batch axis. If the digit (view.h) of a batch of 1 stands in front
  // of another axis' digits as kParked, it moves to the new axis.
  if (batch_ == 1 && is_new[0] && rank > 1) {
    for (size_t axis = 1; axis < rank; ++axis) {
      if (view[axis].empty() || !(view[axis][0] == kParked)) continue;
      view[0] = {{ViewAxis::kBatch, 1, 1}};
      view[axis].erase(view[axis].begin());
    }
  }
  tensor.view = std::move(view);
  return Give(tensor);
}

Status OnnxImporter::AddExpand() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const auto shape = List(1, "");
  if (!shape) return Refuse("to a computed shape");
  const auto extents = Broadcast(Extents(tensor.view), *shape);
  if (!extents) return Status::Error("extents that do not meet; expected equal ones or 1");
  UCUDNN_ASSIGN_OR_RETURN(const auto grown, Grown(tensor, *extents));
  return grown ? Give(*grown) : RefuseMixedImages();
}

Status OnnxImporter::AddTile() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const auto repeats = List(1, "repeats");
  const std::vector<int64_t> extents = Extents(tensor.view);
  if (!repeats || repeats->size() != extents.size()) return Refuse("by computed repeats");
  std::map<size_t, int64_t> changed;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    const int64_t times = (*repeats)[axis];
    if (times < 1 || times > std::numeric_limits<int32_t>::max()) {
      return Refuse("that leaves nothing");
    }
    if (times > 1 && __builtin_mul_overflow(extents[axis], times, &changed[axis])) {
      return Status::Error("repeats " + std::to_string(times) + "; expected 32 bits of elements");
    }
  }
  return changed.empty() ? Give(tensor) : AddChanged(tensor, changed);
}

Status OnnxImporter::AddPad() {
  UCUDNN_ASSIGN_OR_RETURN(OnnxTensor tensor, TensorInput(0));
  const size_t rank = tensor.view.size();
  auto pads = List(1, opset_ < 2 ? "paddings" : "pads");
  const auto axes = List(3, "");
  if (!pads || !axes || pads->size() != 2 * (axes->empty() ? rank : axes->size())) {
    return Refuse("by a computed number of elements");
  }
  const std::string mode = Attributes().Text("mode");
  const bool is_constant = mode.empty() || mode == "constant";
  const size_t count = pads->size() / 2;
  const std::vector<int64_t> extents = Extents(tensor.view);
  std::map<size_t, std::pair<int64_t, int64_t>> padded;
  std::map<size_t, int64_t> changed;
  for (size_t i = 0; i < count; ++i) {
    const auto axis = AxisOf(axes->empty() ? static_cast<int64_t>(i) : (*axes)[i], rank);
    if (!axis) return Status::Error("pads of an axis that is not there");
    const int64_t before = (*pads)[i];
    const int64_t after = (*pads)[i + count];
    if (before == 0 && after == 0) continue;
    UCUDNN_RETURN_IF_ERROR(Narrow(before, "pads").status());
    UCUDNN_RETURN_IF_ERROR(Narrow(after, "pads").status());
    padded[*axis] = {before, after};
    changed[*axis] = extents[*axis] + before + after;
    if (changed[*axis] < 1) return Status::Error("pads that leave nothing; expected a tensor");
  }
  if (padded.empty()) return Give(tensor);
  bool is_whole = is_constant;
  Padding padding;
  View view = tensor.view;
  const NodeExtents own = ExtentsOf(tensor);
  for (const auto& [axis, edges] : padded) {
    const auto whole = WholeAxis(tensor.view[axis], own);
    if (!whole) {
      is_whole = false;
      break;
    }
    UCUDNN_RETURN_IF_ERROR(AddEdges(*whole, edges.first, edges.second, padding));
    view[axis] = {{*whole, changed[axis], 1}};
    if (changed[axis] == 1) view[axis].clear();
  }
  if (!is_whole) return AddChanged(tensor, changed);
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(padding, {tensor.node}));
  return GiveNode(node, std::move(view));
}

Result<std::optional<OnnxTensor>> OnnxImporter::AsRow(const OnnxTensor& tensor, size_t axis) {
  const NodeExtents extents = ExtentsOf(tensor);
  const std::vector<ViewAxis> spatial = {ViewAxis::kDepth, ViewAxis::kHeight, ViewAxis::kWidth};
  if (!AreWhole(tensor.view[axis], spatial, extents)) return {std::nullopt};
  const int64_t positions = Extent(tensor.view[axis]);
  if (positions == extents[4]) return {tensor};
  Reshape reshape;
  UCUDNN_ASSIGN_OR_RETURN(reshape.channels, Narrow(extents[1], "channels"));
  UCUDNN_ASSIGN_OR_RETURN(reshape.extents[2], Narrow(positions, "an extent"));
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node,
                          graph_.Add("", node_->name() + ".row", reshape, {tensor.node}));
  OnnxTensor row{node, tensor.view};
  row.view[axis] = {{ViewAxis::kWidth, positions, 1}};
  return {row};
}

Result<std::optional<OnnxTensor>> OnnxImporter::Sliced(const OnnxTensor& tensor, size_t axis,
                                                       int64_t begin, int64_t count, int output) {
  const Digits& digits = tensor.view[axis];
  if (count == Extent(digits)) return {tensor};
  if (digits.empty() || Holds(digits, ViewAxis::kBatch)) return {std::nullopt};
  const Digit outer = digits.front();
  const int64_t inner = Extent(digits) / outer.size;
  if (begin % inner != 0 || count % inner != 0) {
    // If the range lies within one value of the outer digit (view.h), one cut selects this value,
    // and a second cut selects the range inside it.
    if (digits.size() > 1 && begin / inner == (begin + count - 1) / inner) {
      UCUDNN_ASSIGN_OR_RETURN(const auto one,
                              Sliced(tensor, axis, begin / inner * inner, inner, output));
      if (one) return Sliced(*one, axis, begin % inner, count, output);
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto row, AsRow(tensor, axis));
    if (!row || row->node == tensor.node) return {std::nullopt};
    return Sliced(*row, axis, begin, count, output);
  }
  const int64_t first = begin / inner;
  const int64_t left = count / inner;
  View view = tensor.view;
  view[axis].front().size = left;
  if (left == 1) view[axis].erase(view[axis].begin());
  const NodeExtents extents = ExtentsOf(tensor);
  if (outer.stride * outer.size == extents[static_cast<size_t>(outer.axis)]) {
    Padding padding;
    UCUDNN_RETURN_IF_ERROR(AddEdges(outer.axis, -first * outer.stride,
                                    -(outer.size - first - left) * outer.stride, padding));
    // The cuts that node_ makes along several axes, one after the other, are merged into one
    // Padding.
    if (tensor.node >= first_node_ && tensor.is_sole) {
      if (const auto* cut = std::get_if<Padding>(&graph_.NodeOf(tensor.node).op)) {
        for (size_t spatial = 0; spatial < kMaxSpatial; ++spatial) {
          padding.before[spatial] += cut->before[spatial];
          padding.after[spatial] += cut->after[spatial];
        }
        padding.channels_before += cut->channels_before;
        padding.channels_after += cut->channels_after;
        UCUDNN_RETURN_IF_ERROR(graph_.Restate(tensor.node, padding));
        return {OnnxTensor{tensor.node, std::move(view), true}};
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(padding, {tensor.node}, {}, output));
    return {OnnxTensor{node, std::move(view), true}};
  }
  Remainder remainder = Compacted(view);
  Opaque opaque;
  opaque.kind = node_->op_type();
  UCUDNN_ASSIGN_OR_RETURN(opaque.channels, Narrow(remainder.extents[1], "channels"));
  for (size_t spatial = 0; spatial < kMaxSpatial; ++spatial) {
    UCUDNN_ASSIGN_OR_RETURN(opaque.extents[spatial],
                            Narrow(remainder.extents[2 + spatial], "an extent"));
  }
  opaque.spatial_rank = opaque.extents[0] > 1 ? 3 : 2;
  const Separation separation = SeparationOf({outer}, extents);
  opaque.channel_parts = opaque.channels % separation.channel_parts == 0
                             ? static_cast<int32_t>(separation.channel_parts)
                             : 1;
  opaque.rows = separation.rows;
  opaque.columns = separation.columns;
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(opaque, {tensor.node}, {}, output));
  return {OnnxTensor{node, std::move(remainder.view), true}};
}

Status OnnxImporter::AddSlice() {
  UCUDNN_ASSIGN_OR_RETURN(OnnxTensor tensor, TensorInput(0));
  const auto starts = List(1, "starts");
  const auto ends = List(2, "ends");
  auto axes = List(3, "axes");
  const auto steps = List(4, "steps");
  if (!starts || !ends || !axes || !steps || starts->size() != ends->size()) {
    return Refuse("of a computed part");
  }
  if (axes->empty()) {
    axes->resize(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (axes->size() != starts->size() || !(steps->empty() || steps->size() == starts->size())) {
    return Status::Error(std::to_string(axes->size()) + " axes for " +
                         std::to_string(starts->size()) + " parts; expected as many");
  }
  for (size_t i = 0; i < axes->size(); ++i) {
    const auto axis = AxisOf((*axes)[i], tensor.view.size());
    const int64_t step = steps->empty() ? 1 : (*steps)[i];
    if (!axis || step == 0) return Status::Error("a step of 0, or no such axis");
    const int64_t extent = Extent(tensor.view[*axis]);
    if (extent < 1) return Status::Error("more elements than expected of an axis (2^48)");
    SlicedAxis part = SliceOf(extent, (*starts)[i], (*ends)[i], step);
    // A cut that keeps all images is valid for any batch, and changes nothing.
    const bool is_batch = BatchAxis(tensor) == *axis;
    if (is_batch && (*starts)[i] == 0 && step == 1 && (*ends)[i] >= extent) continue;
    if (part.count < 1) return Status::Error("a slice of nothing; expected an element");
    if (part.step == 1 || part.count == 1) {
      UCUDNN_ASSIGN_OR_RETURN(const auto sliced, Sliced(tensor, *axis, part.begin, part.count));
      if (sliced) {
        tensor = *sliced;
        continue;
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto picked,
                            Changed("Slice", tensor, {{*axis, part.count}}, {}, 0));
    if (!picked) return RefuseMixedImages();
    tensor = *picked;
  }
  return Give(tensor);
}

Status OnnxImporter::AddSplit() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const auto axis = AxisOf(Attributes().Number("axis", 0), tensor.view.size());
  if (!axis) return Status::Error("no such axis; expected one it has");
  const auto parts = SplitExtents(*node_, Extent(tensor.view[*axis]), List(1, "split"));
  if (!parts) return Refuse("into computed parts, or parts that do not add up");
  int64_t begin = 0;
  for (size_t at = 0; at < parts->size(); ++at) {
    const auto output = static_cast<int>(at);
    const int64_t count = (*parts)[at];
    if (count < 1) return Refuse("into nothing");
    UCUDNN_ASSIGN_OR_RETURN(auto part, Sliced(tensor, *axis, begin, count, output));
    if (!part) {
      UCUDNN_ASSIGN_OR_RETURN(part, Changed("Split", tensor, {{*axis, count}}, {}, 0));
    }
    if (!part) return RefuseMixedImages();
    UCUDNN_RETURN_IF_ERROR(Give(*part, output));
    begin += count;
  }
  return Status::Ok();
}

// Looks up rows of a table: each index is replaced by the numbers of a row.
Status OnnxImporter::AddLookup(const OnnxConstant& table) {
  if (!table.is_known) return Refuse("of a constant whose shape no rule gives");
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(1));
  const auto axis = AxisOf(Attributes().Number("axis", 0), table.dims.size());
  if (!axis) return Status::Error("no such axis; expected one it has");
  OnnxTensor indices = tensor;
  std::map<size_t, int64_t> grown;
  const auto add_axis = [&](size_t at, int64_t extent) {
    indices.view.insert(indices.view.begin() + static_cast<std::ptrdiff_t>(at), Digits());
    grown[at] = extent;
  };
  for (size_t at = 0; at < *axis; ++at) add_axis(at, table.dims[at]);
  for (size_t at = *axis + 1; at < table.dims.size(); ++at) {
    add_axis(indices.view.size(), table.dims[at]);
  }
  if (grown.empty()) return Append(Activation{ActivationKind::kOther}, indices, Trained(table));
  return AddChanged(indices, grown, 0, Trained(table));
}

Status OnnxImporter::AddGather() {
  if (ConstantInput(0) != nullptr) return AddLookup(*ConstantInput(0));
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const OnnxConstant* indices = ConstantInput(1);
  const auto axis = AxisOf(Attributes().Number("axis", 0), tensor.view.size());
  if (!axis) return Status::Error("no such axis; expected one it has");
  if (indices == nullptr || !indices->is_known) return Refuse("by computed indices");
  if (indices->Elements() < 1) return Refuse("of nothing");
  const int64_t extent = Extent(tensor.view[*axis]);
  const int64_t count = indices->Elements();
  const auto numbers = indices->WholeNumbers();
  bool is_range = CountsUp(*indices);
  int64_t begin = 0;
  const auto is_there = [&](int64_t index) { return index >= -extent && index < extent; };
  if (numbers) {
    if (!std::all_of(numbers->begin(), numbers->end(), is_there)) {
      return Status::Error("an index that the axis lacks");
    }
    const auto from_begin = [&](int64_t index) { return index < 0 ? index + extent : index; };
    begin = from_begin(numbers->front());
    is_range = true;
    for (size_t at = 0; at < numbers->size(); ++at) {
      is_range = is_range && from_begin((*numbers)[at]) == begin + static_cast<int64_t>(at);
    }
  } else if (is_range && count > extent) {
    return Status::Error("an index that the axis lacks");
  }
  std::optional<OnnxTensor> made;
  if (is_range) {
    UCUDNN_ASSIGN_OR_RETURN(made, Sliced(tensor, *axis, begin, count));
  }
  if (!made) {
    UCUDNN_ASSIGN_OR_RETURN(made, Changed("Gather", tensor, {{*axis, count}}, {}, 0));
  }
  if (!made && !numbers && !is_range) return Refuse("by indices whose numbers are not in the file");
  if (!made) return RefuseMixedImages();
  // The axes of `indices` take the place of the axis along which they select.
  const auto parts = Reshaped({made->view[*axis]}, indices->dims);
  if (!parts) {
    std::vector<int64_t> extents = Extents(made->view);
    const auto place = extents.begin() + static_cast<std::ptrdiff_t>(*axis);
    extents.insert(extents.erase(place), indices->dims.begin(), indices->dims.end());
    return GiveReshaped(*made, extents);
  }
  const auto place = made->view.begin() + static_cast<std::ptrdiff_t>(*axis);
  made->view.insert(made->view.erase(place), parts->begin(), parts->end());
  return Give(*made);
}

std::optional<OnnxTensor> OnnxImporter::Rolled(const std::vector<OnnxTensor>& parts, size_t axis) {
  if (parts.size() != 2) return std::nullopt;
  const bool are_sole = parts[0].is_sole && parts[1].is_sole;
  const Node& front = graph_.NodeOf(parts[0].node);
  const Node& back = graph_.NodeOf(parts[1].node);
  const auto* first = std::get_if<Padding>(&front.op);
  const auto* last = std::get_if<Padding>(&back.op);
  if (first == nullptr || last == nullptr || front.inputs != back.inputs) return std::nullopt;
  const NodeId source = front.inputs.front();
  const NodeExtents extents = planner::ExtentsOf(graph_.ShapeOf(source), batch_);
  for (size_t spatial = 0; spatial < kMaxSpatial; ++spatial) {
    const int32_t cut = first->before[spatial];
    if (cut >= 0) continue;
    const auto kept = static_cast<int32_t>(extents[2 + spatial] + cut);
    Padding expected;
    expected.before[spatial] = cut;
    Padding rest;
    rest.after[spatial] = -kept;
    const auto label = static_cast<ViewAxis>(2 + spatial);
    const bool same = first->before == expected.before && first->after == expected.after &&
                      last->before == rest.before && last->after == rest.after &&
                      first->channels_before == 0 && first->channels_after == 0 &&
                      last->channels_before == 0 && last->channels_after == 0;
    if (!same || parts[0].view[axis].size() > 1 ||
        (!parts[0].view[axis].empty() && parts[0].view[axis][0].axis != label)) {
      continue;
    }
    Roll roll;
    roll.shift[spatial] = kept;
    const Result<NodeId> node = AddOperator(roll, {source});
    if (!node.ok()) return std::nullopt;
    OnnxTensor rolled{*node, parts[0].view, true};
    rolled.view[axis] = {{label, extents[2 + spatial], 1}};
    for (const OnnxTensor& part : parts) {
      if (are_sole) graph_.DropIfUnused(part.node);
    }
    return rolled;
  }
  return std::nullopt;
}

// Long because each way of joining has its own condition.
Status OnnxImporter::AddConcat() {
  std::vector<OnnxTensor> parts;
  std::vector<const OnnxConstant*> constants;  // by input; null if the input is computed
  size_t rank = 0;
  for (int input = 0; input < node_->input_size(); ++input) {
    constants.push_back(ConstantInput(input));
    if (constants.back() != nullptr) {
      if (!constants.back()->is_known) return Refuse("of a constant whose shape no rule gives");
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(input));
    parts.push_back(tensor);
    rank = tensor.view.size();
  }
  const auto axis = AxisOf(Attributes().Number("axis", opset_ < 4 ? 1 : 0), rank);
  if (!axis) return Status::Error("no such axis; expected one it has");
  if (parts.size() == 1 && constants.size() == 1) return Give(parts.front());
  if (const auto rolled = parts.size() == constants.size() ? Rolled(parts, *axis) : std::nullopt) {
    return Give(*rolled);
  }
  if (MixesImages(parts.front().view[*axis])) return RefuseMixedImages();
  // Gives all parts the axes of the first part, except the joined axis. Then tests whether each
  // part has, along the joined axis, exactly one axis of its node, and whether this is the same
  // axis in all parts.
  std::optional<ViewAxis> label;
  bool is_followed = true;
  for (size_t at = 0; at < parts.size(); ++at) {
    if (parts[at].view.size() != rank) return Status::Error("inputs of different ranks");
    OnnxTensor like = parts.front();
    like.view[*axis] = parts[at].view[*axis];
    UCUDNN_ASSIGN_OR_RETURN(const auto conformed, Conformed(parts[at], like));
    if (!conformed) return Refuse("of inputs whose axes do not correspond");
    OnnxTensor part = *conformed;
    if (rank == 2 && *axis == 1 && BatchAxis(part) == size_t{0}) {
      UCUDNN_ASSIGN_OR_RETURN(const auto features, Image(part));
      if (features) part = *features;
    } else if (part.view[*axis].size() > 1) {
      UCUDNN_ASSIGN_OR_RETURN(const auto row, AsRow(part, *axis));
      if (row) part = *row;
    }
    parts[at] = part;
    for (size_t other = 0; other < rank; ++other) {
      if (other == *axis) continue;
      is_followed = is_followed && Joined(part.view[other]) == Joined(parts.front().view[other]);
    }
    const auto whole = WholeAxis(part.view[*axis], ExtentsOf(part));
    if (part.view[*axis].empty()) continue;  // one element fits any axis
    is_followed = is_followed && whole && (!label || label == whole);
    label = whole;
  }
  // If all parts have one element along the joined axis, they are joined along an axis that has
  // extent 1 in every node.
  for (size_t free = 1; !label && free < kNodeAxes; ++free) {
    const auto candidate = free == 1 ? ViewAxis::kWidth : static_cast<ViewAxis>(free - 1);
    const bool is_free = std::all_of(parts.begin(), parts.end(), [&](const OnnxTensor& part) {
      return ExtentsOf(part)[static_cast<size_t>(candidate)] == 1;
    });
    if (is_free) label = candidate;
  }
  is_followed = is_followed && label;
  const NodeExtents first = ExtentsOf(parts.front());
  for (const OnnxTensor& part : parts) {
    const NodeExtents own = ExtentsOf(part);
    for (size_t at = 1; is_followed && at < kNodeAxes; ++at) {
      is_followed = at == static_cast<size_t>(*label) || own[at] == first[at];
    }
    const bool is_one = is_followed && part.view[*axis].empty();
    is_followed = is_followed && (!is_one || own[static_cast<size_t>(*label)] == 1);
  }
  int64_t extent = 0;
  std::vector<Parameter> all;
  for (size_t input = 0, at = 0; input < constants.size(); ++input) {
    if (constants[input] == nullptr) {
      extent += Extent(parts[at++].view[*axis]);
      continue;
    }
    if (constants[input]->dims.size() != rank) return Status::Error("inputs of different ranks");
    extent += constants[input]->dims[*axis];
    for (Parameter parameter : Trained(*constants[input])) all.push_back(parameter);
  }
  if (!is_followed) {
    std::vector<NodeId> others;
    for (size_t at = 1; at < parts.size(); ++at) others.push_back(parts[at].node);
    UCUDNN_ASSIGN_OR_RETURN(const auto made, Changed("Concat", parts.front(), {{*axis, extent}},
                                                     others, 0, std::move(all)));
    return made ? Give(*made) : RefuseMixedImages();
  }
  // Constants become padding of the part before them. Leading constants become padding of the first
  // part.
  std::vector<NodeId> inputs;
  int64_t before = 0;
  std::vector<Parameter> edge;
  size_t next = 0;
  for (size_t input = 0; input < constants.size();) {
    if (constants[input] != nullptr) {
      before += constants[input]->dims[*axis];
      for (Parameter parameter : Trained(*constants[input])) edge.push_back(parameter);
      ++input;
      continue;
    }
    int64_t after = 0;
    for (++input; input < constants.size() && constants[input] != nullptr; ++input) {
      after += constants[input]->dims[*axis];
      for (Parameter parameter : Trained(*constants[input])) edge.push_back(parameter);
    }
    NodeId part = parts[next++].node;
    if (before > 0 || after > 0) {
      Padding padding;
      UCUDNN_RETURN_IF_ERROR(AddEdges(*label, before, after, padding));
      UCUDNN_ASSIGN_OR_RETURN(part, AddOperator(padding, {part}, std::move(edge)));
      before = 0;
      edge.clear();
    }
    inputs.push_back(part);
  }
  View view = parts.front().view;
  view[*axis] = {{*label, extent, 1}};
  if (inputs.size() == 1) return GiveNode(inputs.front(), std::move(view));
  const auto along = static_cast<ConcatAxis>(static_cast<int>(*label) - 1);
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(Concat{along}, inputs));
  return GiveNode(node, std::move(view));
}

}  // namespace ucudnn::planner
