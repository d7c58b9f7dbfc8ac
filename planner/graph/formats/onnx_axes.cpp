// Nodes of an ONNX model that only move axes and edges.
#include <algorithm>

#include "planner/graph/formats/onnx_importer.h"

namespace ucudnn::planner {

Status OnnxImporter::AddTranspose() {
  UCUDNN_ASSIGN_OR_RETURN(OnnxTensor tensor, TensorInput(0));
  const std::vector<int64_t> permutation = OnnxAttributes(*node_).Numbers("perm");
  const auto rank = static_cast<int64_t>(tensor.rank);
  std::vector<int64_t> to_first = {0, rank - 1};
  std::vector<int64_t> to_last = {0};
  std::vector<int64_t> none = {0};
  for (int64_t axis = 1; axis < rank; ++axis) {
    if (axis < rank - 1) to_first.push_back(axis);
    if (axis > 1) to_last.push_back(axis);
    none.push_back(axis);
  }
  to_last.push_back(1);
  if (permutation == none) return Give(tensor);
  const bool one_pixel = IsOnePixel(ShapeOf(tensor));
  if (permutation == (tensor.channels_last ? to_first : to_last) || one_pixel) {
    tensor.channels_last = !tensor.channels_last;
    return Give(tensor);
  }
  return PassUnsupported("that does more than move the channels between second and last");
}

Status OnnxImporter::AddFlatten() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const int64_t axis = OnnxAttributes(*node_).Number("axis", 1);
  if (axis != 1 && axis != 1 - static_cast<int64_t>(tensor.rank)) {
    return PassUnsupported("at axis " + std::to_string(axis));
  }
  return AppendFeatures(Flatten{}, tensor);
}

Status OnnxImporter::AddReshape() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const auto shape = List(1, "shape");
  if (!shape) return PassUnsupported("to a computed shape");
  // Whatever the batch: the exporter's own may be written out.
  const std::vector<int64_t> extents = Extents(tensor);
  const auto keeps = [&](size_t axis) {
    const int64_t wanted = (*shape)[axis];
    return wanted == -1 || wanted == 0 || wanted == extents[axis];
  };
  if (shape->size() == 2) {
    const int64_t features = (*shape)[1];
    if (features != -1 && features != ShapeOf(tensor).Features() &&
        !(features == 0 && tensor.rank == 2)) {
      return PassUnsupported("to " + std::to_string(features) + " features");
    }
    return tensor.rank == 2 ? Give(tensor) : AppendFeatures(Flatten{}, tensor);
  }
  if (shape->size() == tensor.rank) {
    bool same = true;
    for (size_t axis = 1; axis < tensor.rank; ++axis) same = same && keeps(axis);
    if (same) return Give(tensor);
  }
  // Features as an image of one pixel.
  const bool pixel =
      tensor.rank == 2 && shape->size() == 4 && keeps(1) && (*shape)[2] == 1 && (*shape)[3] == 1;
  if (pixel) return Give({tensor.node, 4, false});
  if (tensor.rank == 2 && (shape->size() == 4 || shape->size() == 5)) {
    return AddImage(tensor, *shape);
  }
  return PassUnsupported("to " + std::to_string(shape->size()) + " other axes");
}

Status OnnxImporter::AddImage(const OnnxTensor& tensor, std::vector<int64_t> shape) {
  if (shape[1] == 0) shape[1] = ShapeOf(tensor).Features();
  // The one axis that the others leave open.
  __int128 given = 1;
  for (size_t axis = 1; axis < shape.size(); ++axis) {
    if (shape[axis] != -1) given = std::clamp<__int128>(given * shape[axis], 0, INT64_MAX);
  }
  const auto open = std::find(shape.begin() + 1, shape.end(), -1);
  if (open != shape.end() && given > 0) {
    *open = ShapeOf(tensor).Features() / static_cast<int64_t>(given);
  }
  Reshape image;
  image.spatial_rank = static_cast<int32_t>(shape.size()) - 2;
  UCUDNN_ASSIGN_OR_RETURN(image.channels, Narrow(shape[1], "shape"));
  for (size_t axis = 2; axis < shape.size(); ++axis) {
    const size_t place = kMaxSpatial - shape.size() + axis;
    UCUDNN_ASSIGN_OR_RETURN(image.extents[place], Narrow(shape[axis], "shape"));
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node,
                          graph_.Add(node_->name(), FirstOutput(), image, {tensor.node}));
  return Give({node, shape.size(), false});
}

Status OnnxImporter::AddSqueeze() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  if (!IsOnePixel(ShapeOf(tensor))) return PassUnsupported("of an image");
  const auto axes = List(1, "axes");
  size_t spatial = axes ? 0 : tensor.rank - 2;
  for (const int64_t axis : axes.value_or(std::vector<int64_t>())) {
    if (PlaceOf(tensor, axis).axis != Axis::kSpatial) return PassUnsupported("of other axes");
    ++spatial;
  }
  if (spatial != tensor.rank - 2) return PassUnsupported("of some axes of an image");
  return Give({tensor.node, 2, false});
}

Status OnnxImporter::AddUnsqueeze() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const auto axes = List(1, "axes");
  if (tensor.rank != 2 || !axes || axes->size() != 2) return PassUnsupported("of an image");
  const std::set<int64_t> wanted(axes->begin(), axes->end());
  if (wanted == std::set<int64_t>{2, 3} || wanted == std::set<int64_t>{-1, -2}) {
    return Give({tensor.node, 4, false});
  }
  if (wanted == std::set<int64_t>{1, 2}) return Give({tensor.node, 4, true});
  return PassUnsupported("to other axes");
}

Status OnnxImporter::AddPadding(const OnnxTensor& tensor, const Padding& padding) {
  if (padding.before == Spatial{0, 0, 0} && padding.after == Spatial{0, 0, 0}) {
    return Give(tensor);
  }
  return Append(padding, tensor);
}

Status OnnxImporter::AddPad() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const auto pads = List(1, "pads");
  if (!pads || HasInput(3) || pads->size() != 2 * tensor.rank) {
    return PassUnsupported("by a computed number of pixels, or of chosen axes");
  }
  Padding padding;
  for (size_t axis = 0; axis < tensor.rank; ++axis) {
    const int64_t before = (*pads)[axis];
    const int64_t after = (*pads)[axis + tensor.rank];
    const AxisPlace place = PlaceOf(tensor, static_cast<int64_t>(axis));
    if (place.axis != Axis::kSpatial) {
      if (before != 0 || after != 0) return PassUnsupported("of batch or channels");
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(padding.before[place.spatial], Narrow(before, "pads"));
    UCUDNN_ASSIGN_OR_RETURN(padding.after[place.spatial], Narrow(after, "pads"));
  }
  return AddPadding(tensor, padding);
}

Status OnnxImporter::AddSlice() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const auto starts = List(1, "starts");
  const auto ends = List(2, "ends");
  auto axes = List(3, "axes");
  const auto steps = List(4, "steps");
  if (!starts || !ends || starts->size() != ends->size() || (HasInput(3) && !axes) ||
      (HasInput(4) && !steps)) {
    return PassUnsupported("of a computed part");
  }
  if (!axes) {
    axes.emplace();
    while (axes->size() < starts->size()) axes->push_back(static_cast<int64_t>(axes->size()));
  }
  if (axes->size() != starts->size() || (steps && steps->size() != starts->size())) {
    return Status::Error(std::to_string(axes->size()) + " axes for " +
                         std::to_string(starts->size()) + " parts; expected as many");
  }
  const std::vector<int64_t> extents = Extents(tensor);
  Padding padding;
  for (size_t i = 0; i < axes->size(); ++i) {
    const AxisPlace place = PlaceOf(tensor, (*axes)[i]);
    if (place.axis == Axis::kNone || (steps && (*steps)[i] != 1)) {
      return PassUnsupported("with steps, or of other axes");
    }
    const auto axis = static_cast<size_t>(
        (*axes)[i] < 0 ? (*axes)[i] + static_cast<int64_t>(tensor.rank) : (*axes)[i]);
    const int64_t extent = extents[axis];
    const auto bounded = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? std::max(at, -extent) + extent : at, 0, extent);
    };
    const int64_t begin = bounded((*starts)[i]);
    const int64_t end = bounded((*ends)[i]);
    if (place.axis != Axis::kSpatial) {
      const bool whole = begin == 0 && (end == extent || place.axis == Axis::kBatch);
      if (!whole) return PassUnsupported("of channels or batch");
      continue;
    }
    padding.before[place.spatial] = static_cast<int32_t>(-begin);
    padding.after[place.spatial] = static_cast<int32_t>(end - extent);
  }
  return AddPadding(tensor, padding);
}

Status OnnxImporter::AddResize() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const int scales_input = node_->op_type() == "Resize" && node_->input_size() > 2 ? 2 : 1;
  const std::vector<int64_t> extents = Extents(tensor);
  std::vector<double> factors;
  const OnnxConstant* scales = ConstantInput(scales_input);
  if (scales != nullptr && scales->values && !scales->values->empty()) factors = *scales->values;
  if (const auto* attribute = OnnxAttributes(*node_).Find("scales")) {
    factors.assign(attribute->floats().begin(), attribute->floats().end());
  }
  if (const auto sizes = List(3, "sizes"); sizes && sizes->size() == tensor.rank) {
    factors = {1};
    for (size_t axis = 1; axis < tensor.rank; ++axis) {
      factors.push_back(static_cast<double>((*sizes)[axis]) / static_cast<double>(extents[axis]));
    }
  }
  if (factors.size() != tensor.rank) return PassUnsupported("by a computed factor");
  Upsampling upsampling;
  for (size_t axis = 0; axis < tensor.rank; ++axis) {
    const AxisPlace place = PlaceOf(tensor, static_cast<int64_t>(axis));
    const double factor = factors[axis];
    const bool whole = factor >= 1 && factor <= 1 << 30 &&
                       factor == static_cast<double>(static_cast<int32_t>(factor));
    if (!whole || (place.axis != Axis::kSpatial && factor != 1)) {
      return PassUnsupported("by other factors than whole ones of the image");
    }
    if (place.axis == Axis::kSpatial) {
      upsampling.factor[place.spatial] = static_cast<int32_t>(factor);
    }
  }
  return Append(upsampling, tensor);
}

}  // namespace ucudnn::planner
