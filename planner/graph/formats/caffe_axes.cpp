// Adds layers of Caffe that join, cut, repeat, reduce, reorder and reshape axes. Each function here
// checks its own fields.

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "planner/graph/formats/caffe_importer.h"

namespace ucudnn::planner {

Status CaffeImporter::AddConcat() {
  const CaffeFields fields = Fields("concat_param");
  const bool is_label =
      std::none_of(layer_->bottoms.begin(), layer_->bottoms.end(),
                   [this](size_t bottom) { return blobs_[bottom].node.has_value(); });
  if (is_label) return Drop();
  UCUDNN_RETURN_IF_ERROR(BottomNode(0).status());
  if (fields.Has("axis") && fields.Has("concat_dim")) {
    return Status::Error("axis and concat_dim; expected one of them");
  }
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis,
                          Axis(fields.Number("axis", fields.Number("concat_dim", 1)), "axis"));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<NodeId> bottoms, SameBottoms(axis));
  if (bottoms.size() == 1) return AddSplit();
  if (axis == 0) {
    graph_.NoteUnsupported(layer_->type, layer_->name, "along axis 0, the batch");
    PutSame(0, 0);
    return Status::Ok();
  }
  constexpr ConcatAxis kAxes[] = {ConcatAxis::kDepth, ConcatAxis::kHeight, ConcatAxis::kWidth};
  const size_t rank = BottomRank(0);
  const Concat concat{axis == 1 ? ConcatAxis::kChannels : kAxes[PositionOf(axis, rank)]};
  return Put(0, concat, bottoms, rank);
}

Status CaffeImporter::AddSlice() {
  const CaffeFields fields = Fields("slice_param");
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  if (fields.Has("axis") && fields.Has("slice_dim")) {
    return Status::Error("axis and slice_dim; expected one of them");
  }
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis,
                          Axis(fields.Number("axis", fields.Number("slice_dim", 1)), "axis"));
  const size_t tops = layer_->tops.size();
  const size_t rank = BottomRank(0);
  const int64_t extent = BottomDims(0)[axis];
  std::vector<int64_t> ends;
  for (const int32_t point : fields.Numbers("slice_point")) ends.push_back(point);
  const auto parts = static_cast<int64_t>(tops);
  if (ends.empty() && extent % parts == 0) {
    for (int64_t part = 1; part < parts; ++part) ends.push_back(part * (extent / parts));
  }
  if (ends.size() + 1 != tops) {
    return Status::Error(std::to_string(ends.size()) + " slice_point of " + std::to_string(extent) +
                         " for " + std::to_string(tops) +
                         " tops; expected one fewer than tops, or none and a multiple of them");
  }
  ends.push_back(extent);
  if (axis == 0) {
    graph_.NoteUnsupported(layer_->type, layer_->name, "along axis 0, the batch");
    for (size_t top = 0; top < tops; ++top) PutSame(top, 0);
    return Status::Ok();
  }
  if (tops == 1) return AddSplit();
  int64_t begin = 0;
  for (size_t top = 0; top < tops; ++top) {
    if (ends[top] <= begin) {
      return Status::Error("slice_point " + std::to_string(ends[top > 0 ? top - 1 : 0]) + " of " +
                           std::to_string(extent) + "; expected rising ones inside");
    }
    Padding cut;
    int32_t& before = axis == 1 ? cut.channels_before : cut.before[PositionOf(axis, rank)];
    int32_t& after = axis == 1 ? cut.channels_after : cut.after[PositionOf(axis, rank)];
    before = static_cast<int32_t>(-begin);
    after = static_cast<int32_t>(ends[top] - extent);
    UCUDNN_RETURN_IF_ERROR(Put(top, cut, {bottom}, rank));
    begin = ends[top];
  }
  return Status::Ok();
}

// Cuts the first bottom to the extents of the second bottom, along `axis` and all later axes.
Status CaffeImporter::AddCrop() {
  const CaffeFields fields = Fields("crop_param");
  UCUDNN_RETURN_IF_ERROR(BottomNode(0).status());
  UCUDNN_ASSIGN_OR_RETURN(const size_t first, Axis(fields.Number("axis", 2), "axis"));
  const size_t rank = BottomRank(0);
  const std::vector<int32_t> offsets = fields.Numbers("offset");
  if (offsets.size() > 1 && offsets.size() != rank - first) {
    return Status::Error(std::to_string(offsets.size()) + " offset for " +
                         std::to_string(rank - first) + " axes; expected one, or one each");
  }
  const std::optional<Dims>& wanted = Bottom(1).dims;
  if (!wanted || wanted->size() < rank) {
    return Status::Error("a second bottom of " + (wanted ? DimsText(*wanted) : "unknown extents") +
                         "; expected as many axes as of " + DimsText(BottomDims(0)));
  }
  Padding cut;
  for (size_t axis = first; axis < rank; ++axis) {
    const int64_t offset = offsets.empty() ? 0 : offsets[offsets.size() == 1 ? 0 : axis - first];
    const int64_t rest = BottomDims(0)[axis] - (*wanted)[axis] - offset;
    if (rest < 0 || (axis == 0 && (offset > 0 || rest > 0))) {
      return Status::Error("an offset of " + std::to_string(offset) + " along axis " +
                           std::to_string(axis) + " in " + DimsText(BottomDims(0)) + " for " +
                           DimsText(*wanted) + "; expected one that fits" +
                           (axis == 0 ? ", and all images of the batch" : ""));
    }
    if (axis == 0) continue;
    int32_t& before = axis == 1 ? cut.channels_before : cut.before[PositionOf(axis, rank)];
    int32_t& after = axis == 1 ? cut.channels_after : cut.after[PositionOf(axis, rank)];
    before = static_cast<int32_t>(-offset);
    after = static_cast<int32_t>(-rest);
  }
  return PutUnary(cut);
}

Status CaffeImporter::AddTile() {
  const CaffeFields fields = Fields("tile_param");
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis, Axis(fields.Number("axis", 1), "axis"));
  const int64_t tiles = fields.Number("tiles", 0);
  if (tiles < 1) return Status::Error("tiles " + std::to_string(tiles) + "; expected 1 or more");
  if (axis == 0 && tiles > 1) {
    graph_.NoteUnsupported(layer_->type, layer_->name, "along axis 0, the batch");
    PutSame(0, 0);
    return Status::Ok();
  }
  Dims dims = BottomDims(0);
  dims[axis] *= tiles;
  return Put(0, OpaqueOf("Tile", dims, {axis}, 0), {bottom}, dims.size());
}

Status CaffeImporter::AddReduction() {
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  const int32_t from = Fields("reduction_param").Number("axis", 0);
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis, Axis(from, "axis"));
  if (axis == 0) return Drop();  // along axis 0 the top is one number for the batch, like a loss
  Dims dims = BottomDims(0);
  dims.resize(axis);
  Opaque op = OpaqueOf("Reduction", dims, {},
                       static_cast<double>(ElementsOf(BottomDims(0), 1, BottomRank(0))));
  if (axis == 1) op.channel_parts = 1;
  op.rows = op.columns = false;
  return Put(0, op, {bottom}, axis);
}

// The top holds indices of the largest numbers along an axis. If the layer gives no axis, the top
// holds the indices in each image and, with out_max_val, also the numbers.
Status CaffeImporter::AddArgMax() {
  const CaffeFields fields = Fields("argmax_param");
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  const int64_t largest = fields.Number("top_k", 1);
  const bool has_axis = fields.Has("axis");
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis, Axis(fields.Number("axis", 0), "axis"));
  Dims dims = BottomDims(0);
  const double operations = static_cast<double>(ElementsOf(dims, 1, dims.size()));
  const int64_t most = has_axis ? dims[axis] : ElementsOf(dims, 1, dims.size());
  if (largest < 1 || largest > most) {
    return Status::Error("top_k " + std::to_string(largest) + " of " + std::to_string(most) +
                         "; expected 1 or more, and no more than there are");
  }
  if (has_axis && axis == 0) {
    graph_.NoteUnsupported(layer_->type, layer_->name, "along axis 0, the batch");
    PutSame(0, 0);
    return Status::Ok();
  }
  if (has_axis) {
    dims[axis] = largest;
    return Put(0, OpaqueOf("ArgMax", dims, {axis}, operations), {bottom}, dims.size());
  }
  dims = Dims(std::max<size_t>(dims.size(), 3), 1);
  dims[0] = BottomDims(0).front();
  dims[1] = fields.Flag("out_max_val", false) ? 2 : 1;
  dims[2] = largest;
  return Put(0, OpaqueOf("ArgMax", dims, {1, 2, 3, 4}, operations), {bottom}, dims.size());
}

// Permute, a layer of SSD's fork, puts axes in another order. Axes that `order` does not name
// follow the named axes, in their old order.
Status CaffeImporter::AddPermute() {
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  const Dims& dims = BottomDims(0);
  std::vector<int32_t> order = Fields("permute_param").Numbers("order");
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const auto number = static_cast<int32_t>(axis);
    if (std::find(order.begin(), order.end(), number) == order.end()) order.push_back(number);
  }
  std::vector<int32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (order.size() != dims.size() || sorted.back() >= static_cast<int32_t>(dims.size())) {
    return Status::Error("order of " + std::to_string(order.size()) + " axes for " +
                         DimsText(dims) + "; expected each axis once");
  }
  if (sorted == order) return AddSplit();
  if (order.front() != 0) {
    graph_.NoteUnsupported(layer_->type, layer_->name, "along axis 0, the batch");
    PutSame(0, 0);
    return Status::Ok();
  }
  Dims permuted;
  for (const int32_t axis : order) permuted.push_back(dims[static_cast<size_t>(axis)]);
  return Put(0, OpaqueOf("Permute", permuted, {1, 2, 3, 4}, 0), {bottom}, dims.size());
}

Status CaffeImporter::AddFlatten() {
  const CaffeFields fields = Fields("flatten_param");
  UCUDNN_RETURN_IF_ERROR(BottomNode(0).status());
  UCUDNN_ASSIGN_OR_RETURN(const size_t begin, Axis(fields.Number("axis", 1), "axis"));
  UCUDNN_ASSIGN_OR_RETURN(const size_t end, Axis(fields.Number("end_axis", -1), "end_axis"));
  if (end < begin) {
    return Status::Error("end_axis " + std::to_string(end) + " before axis " +
                         std::to_string(begin) + "; expected the same or a later one");
  }
  const Dims& dims = BottomDims(0);
  Dims flat(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(begin));
  flat.push_back(ElementsOf(dims, begin, end + 1));
  flat.insert(flat.end(), dims.begin() + static_cast<ptrdiff_t>(end) + 1, dims.end());
  return PutReshaped(flat);
}

// Follows Caffe's ReshapeLayer::Reshape.
Status CaffeImporter::AddReshape() {
  const CaffeFields fields = Fields("reshape_param");
  UCUDNN_RETURN_IF_ERROR(BottomNode(0).status());
  const Dims& dims = BottomDims(0);
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t from = fields.Number("axis", 0);
  const int64_t begin = from < 0 ? from + rank + 1 : from;
  const int64_t count = fields.Number("num_axes", -1);
  const int64_t end = count == -1 ? rank : begin + count;
  if (begin < 0 || begin > rank || count < -1 || end > rank) {
    return Status::Error("axis " + std::to_string(from) + " and num_axes " + std::to_string(count) +
                         " of " + DimsText(dims) + "; expected axes that it has");
  }
  Dims shape(dims.begin(), dims.begin() + begin);
  std::optional<size_t> inferred;
  for (const int32_t number : fields.Message("shape").Numbers("dim")) {
    if (number < -1 || (number == -1 && inferred) ||
        (number == 0 && static_cast<int64_t>(shape.size()) >= rank)) {
      return Status::Error("dim " + std::to_string(number) + " for " + DimsText(dims) +
                           "; expected extents, one -1 at most, and 0 only for an axis there is");
    }
    if (number == -1) inferred = shape.size();
    shape.push_back(number == 0 ? dims[shape.size()] : std::abs(number));
  }
  shape.insert(shape.end(), dims.begin() + end, dims.end());
  const int64_t whole = ElementsOf(dims, 0, dims.size());
  const int64_t known = ElementsOf(shape, 0, shape.size());
  if (inferred && whole % known == 0) shape[*inferred] = whole / known;
  if (ElementsOf(shape, 0, shape.size()) != whole) {
    return Status::Error("makes " + DimsText(dims) + " to " + DimsText(shape) +
                         "; expected as many numbers");
  }
  return PutReshaped(shape);
}

Status CaffeImporter::PutReshaped(const Dims& dims) {
  if (layer_->top_names[0] == layer_->bottom_names[0]) {
    return Status::Error("in place, which Caffe refuses; expected another top");
  }
  if (dims.empty() || dims.size() > 5 || dims.front() != BottomDims(0).front()) {
    const std::string why = DimsText(BottomDims(0)) + " to " + DimsText(dims) +
                            (dims.size() > 5 ? ", more than five axes" : ", which moves the batch");
    graph_.NoteUnsupported(layer_->type, layer_->name, why);
    PutSame(0, 0);
    return Status::Ok();
  }
  if (dims == BottomDims(0)) return AddSplit();
  if (dims.size() <= 2) return Put(0, Flatten{}, {*Bottom(0).node}, dims.size());
  const Opaque image = OpaqueOf("", dims, {}, 0);
  return Put(0, Reshape{image.channels, image.extents, image.spatial_rank}, {*Bottom(0).node},
             dims.size());
}

}  // namespace ucudnn::planner
