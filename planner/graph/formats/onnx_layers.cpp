// Adds layers of an ONNX model: convolutions, poolings, local response and batch normalizations,
// dropouts, resizes, and moves of channels to positions or back.
#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/graph/formats/onnx_importer.h"

namespace ucudnn::planner {
namespace {

// Returns the numbers from position `offset` on as a Spatial, with `neutral` along the spatial axes
// that a tensor of `rank` axes lacks.
Result<Spatial> ReadSpatial(const std::vector<int64_t>& numbers, size_t offset, size_t rank,
                            int32_t neutral, const std::string& name) {
  Spatial spatial = {neutral, neutral, neutral};
  if (numbers.empty()) return spatial;
  const size_t axes = rank - 2;
  if (numbers.size() < offset + axes) {
    return Status::Error(std::to_string(numbers.size()) + " " + name + "; expected one for each " +
                         "axis of the image");
  }
  for (size_t i = 0; i < axes; ++i) {
    UCUDNN_ASSIGN_OR_RETURN(spatial[kMaxSpatial - axes + i], Narrow(numbers[offset + i], name));
  }
  return spatial;
}

}  // namespace

Result<OnnxImporter::Sliding> OnnxImporter::ReadSliding(const OnnxTensor& tensor,
                                                        const Spatial& extents) const {
  const OnnxAttributes attributes(*node_);
  const size_t rank = tensor.view.size();
  const std::vector<int64_t> pads = attributes.Numbers("pads");
  Sliding sliding;
  UCUDNN_ASSIGN_OR_RETURN(sliding.stride,
                          ReadSpatial(attributes.Numbers("strides"), 0, rank, 1, "strides"));
  UCUDNN_ASSIGN_OR_RETURN(sliding.dilation,
                          ReadSpatial(attributes.Numbers("dilations"), 0, rank, 1, "dilations"));
  UCUDNN_ASSIGN_OR_RETURN(sliding.pad, ReadSpatial(pads, 0, rank, 0, "pads"));
  UCUDNN_ASSIGN_OR_RETURN(sliding.end_pad, ReadSpatial(pads, rank - 2, rank, 0, "pads"));
  const std::string automatic = attributes.Text("auto_pad");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    UCUDNN_RETURN_IF_ERROR(PadToSame(tensor, extents, automatic == "SAME_LOWER", sliding));
  } else if (automatic == "VALID") {
    sliding.pad = sliding.end_pad = {0, 0, 0};
  } else if (!automatic.empty() && automatic != "NOTSET") {
    return Status::Error("auto_pad " + automatic +
                         "; expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  }
  return sliding;
}

Status OnnxImporter::PadToSame(const OnnxTensor& tensor, const Spatial& extents, bool lower,
                               Sliding& sliding) const {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t image = graph_.ShapeOf(tensor.node).extents[axis];
    const int64_t stride = sliding.stride[axis];
    if (stride < 1) {
      return Status::Error("stride " + std::to_string(stride) + "; expected 1 or more");
    }
    const int64_t steps = (image - 1) / stride;
    const int64_t window = int64_t{extents[axis] - int64_t{1}} * sliding.dilation[axis] + 1;
    const int64_t total = std::max<int64_t>(0, steps * stride + window - image);
    const int64_t smaller = total / 2;
    UCUDNN_ASSIGN_OR_RETURN(sliding.pad[axis], Narrow(lower ? total - smaller : smaller, "pads"));
    UCUDNN_ASSIGN_OR_RETURN(sliding.end_pad[axis],
                            Narrow(lower ? smaller : total - smaller, "pads"));
  }
  return Status::Ok();
}

Result<Spatial> OnnxImporter::Difference(const Spatial& a, const Spatial& b) {
  Spatial difference;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    UCUDNN_ASSIGN_OR_RETURN(difference[axis], Narrow(int64_t{a[axis]} - b[axis], "pads"));
  }
  return difference;
}

Result<std::optional<OnnxImporter::Weights>> OnnxImporter::ReadWeights(size_t rank) {
  Weights weights;
  weights.filter = WeightInput(1);
  if (weights.filter == nullptr || !weights.filter->is_known) return {std::nullopt};
  if (weights.filter->dims.size() != rank || rank < 3) {
    return Status::Error("a filter of " + std::to_string(weights.filter->dims.size()) +
                         " axes over a tensor of " + std::to_string(rank) +
                         "; expected as many, three to five");
  }
  weights.parameters = Weight(*weights.filter);
  if (!HasInput(2)) return {weights};
  const OnnxConstant* bias = WeightInput(2);
  if (bias == nullptr || !bias->is_known) return {std::nullopt};
  const std::vector<Parameter> trained = Trained(*bias);
  weights.bias = !trained.empty();
  weights.parameters.insert(weights.parameters.end(), trained.begin(), trained.end());
  return {weights};
}

Status OnnxImporter::AddConvolution() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const size_t rank = tensor.view.size();
  UCUDNN_ASSIGN_OR_RETURN(const auto weights, ReadWeights(rank));
  if (!weights)
    return Refuse("of a filter or a bias that is computed, or whose shape is not given");
  UCUDNN_ASSIGN_OR_RETURN(const auto image, Image(tensor));
  if (!image) return RefuseMixedImages();
  const OnnxConstant& filter = *weights->filter;
  Convolution convolution;
  UCUDNN_ASSIGN_OR_RETURN(convolution.filters, Narrow(filter.dims[0], "filters"));
  UCUDNN_ASSIGN_OR_RETURN(convolution.groups, Narrow(Attributes().Number("group", 1), "group"));
  UCUDNN_ASSIGN_OR_RETURN(convolution.window,
                          ReadSpatial(filter.dims, 2, rank, 1, "filter extents"));
  UCUDNN_ASSIGN_OR_RETURN(const Sliding sliding, ReadSliding(*image, convolution.window));
  convolution.stride = sliding.stride;
  convolution.pad = sliding.pad;
  convolution.dilation = sliding.dilation;
  UCUDNN_ASSIGN_OR_RETURN(convolution.extra_pad, Difference(sliding.end_pad, sliding.pad));
  convolution.bias = weights->bias;
  const int32_t channels = graph_.ShapeOf(image->node).c;
  if (convolution.groups >= 1 && channels % convolution.groups == 0 &&
      filter.dims[1] != channels / convolution.groups) {
    return Status::Error("a filter of " + std::to_string(filter.dims[1]) + " channels in " +
                         std::to_string(convolution.groups) + " groups over " +
                         std::to_string(channels) + "; expected as many");
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node,
                          AddOperator(convolution, {image->node}, weights->parameters));
  return GiveNode(node, PlainView(ExtentsOf({node, {}}), rank));
}

Status OnnxImporter::AddTransposedConvolution() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const size_t rank = tensor.view.size();
  UCUDNN_ASSIGN_OR_RETURN(const auto weights, ReadWeights(rank));
  if (!weights)
    return Refuse("of a filter or a bias that is computed, or whose shape is not given");
  UCUDNN_ASSIGN_OR_RETURN(const auto image, Image(tensor));
  if (!image) return RefuseMixedImages();
  const OnnxConstant& filter = *weights->filter;
  TransposedConvolution layer;
  UCUDNN_ASSIGN_OR_RETURN(layer.groups, Narrow(Attributes().Number("group", 1), "group"));
  UCUDNN_ASSIGN_OR_RETURN(const int32_t of_a_group, Narrow(filter.dims[1], "filters"));
  UCUDNN_ASSIGN_OR_RETURN(layer.filters, Narrow(int64_t{of_a_group} * layer.groups, "filters"));
  UCUDNN_ASSIGN_OR_RETURN(layer.window, ReadSpatial(filter.dims, 2, rank, 1, "filter extents"));
  if (filter.dims[0] != graph_.ShapeOf(image->node).c) {
    return Status::Error("a filter of " + std::to_string(filter.dims[0]) + " channels over " +
                         std::to_string(graph_.ShapeOf(image->node).c) + "; expected as many");
  }
  layer.bias = weights->bias;
  UCUDNN_RETURN_IF_ERROR(ReadTransposedExtents(*image, layer));
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node,
                          AddOperator(layer, {image->node}, weights->parameters));
  return GiveNode(node, PlainView(ExtentsOf({node, {}}), rank));
}

Status OnnxImporter::CutTransposed(size_t axis, int64_t total, bool lower,
                                   TransposedConvolution& layer) {
  // If the output must be larger than the windows make it, the additional pixels are at the end.
  const int64_t smaller = total / 2;
  const int64_t before = total < 0 ? 0 : (lower ? total - smaller : smaller);
  UCUDNN_ASSIGN_OR_RETURN(layer.pad[axis], Narrow(before, "output_shape"));
  UCUDNN_ASSIGN_OR_RETURN(layer.extra_extent[axis], Narrow(2 * before - total, "output_shape"));
  return Status::Ok();
}

Status OnnxImporter::ReadTransposedExtents(const OnnxTensor& image,
                                           TransposedConvolution& layer) const {
  const OnnxAttributes attributes(*node_);
  const size_t rank = image.view.size();
  UCUDNN_ASSIGN_OR_RETURN(layer.stride,
                          ReadSpatial(attributes.Numbers("strides"), 0, rank, 1, "strides"));
  UCUDNN_ASSIGN_OR_RETURN(layer.dilation,
                          ReadSpatial(attributes.Numbers("dilations"), 0, rank, 1, "dilations"));
  UCUDNN_ASSIGN_OR_RETURN(const Spatial more, ReadSpatial(attributes.Numbers("output_padding"), 0,
                                                          rank, 0, "output_padding"));
  const std::vector<int64_t> given = attributes.Numbers("output_shape");
  const std::string automatic = attributes.Text("auto_pad");
  const bool same = automatic.rfind("SAME", 0) == 0;
  if (given.empty() && !same) {
    if (automatic != "VALID") {
      const std::vector<int64_t> pads = attributes.Numbers("pads");
      UCUDNN_ASSIGN_OR_RETURN(layer.pad, ReadSpatial(pads, 0, rank, 0, "pads"));
      UCUDNN_ASSIGN_OR_RETURN(const Spatial end, ReadSpatial(pads, rank - 2, rank, 0, "pads"));
      UCUDNN_ASSIGN_OR_RETURN(layer.extra_extent, Difference(layer.pad, end));
    }
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      UCUDNN_ASSIGN_OR_RETURN(layer.extra_extent[axis],
                              Narrow(int64_t{layer.extra_extent[axis]} + more[axis], "pads"));
    }
    return Status::Ok();
  }
  // In older operator sets the list begins with the batch and the channels.
  const size_t offset = given.size() == rank ? 2 : 0;
  UCUDNN_ASSIGN_OR_RETURN(const Spatial wanted,
                          ReadSpatial(given, offset, rank, 1, "output_shape"));
  for (size_t axis = kMaxSpatial - (rank - 2); axis < kMaxSpatial; ++axis) {
    const int64_t pixels = graph_.ShapeOf(image.node).extents[axis];
    const int64_t stride = layer.stride[axis];
    const int64_t window = int64_t{layer.window[axis] - int64_t{1}} * layer.dilation[axis] + 1;
    const int64_t out = given.empty() ? pixels * stride : wanted[axis];
    const int64_t total = (pixels - 1) * stride + more[axis] + window - out;
    // ONNX cuts the odd pixel at the beginning unless the node asks for SAME_UPPER.
    UCUDNN_RETURN_IF_ERROR(CutTransposed(axis, total, automatic != "SAME_UPPER", layer));
    UCUDNN_ASSIGN_OR_RETURN(
        layer.extra_extent[axis],
        Narrow(int64_t{layer.extra_extent[axis]} + more[axis], "output_padding"));
  }
  return Status::Ok();
}

Status OnnxImporter::AddPooling() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const size_t rank = tensor.view.size();
  if (rank < 3) return Refuse("of features");
  if (node_->output_size() > 1 && readers_.count(node_->output(1)) > 0) {
    return Refuse("whose indices are read");
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto image, Image(tensor));
  if (!image) return RefuseMixedImages();
  Pooling pooling;
  pooling.kind = node_->op_type() == "MaxPool" ? PoolingKind::kMaximum : PoolingKind::kAverage;
  UCUDNN_ASSIGN_OR_RETURN(pooling.window, ReadSpatial(Attributes().Numbers("kernel_shape"), 0, rank,
                                                      1, "kernel_shape"));
  UCUDNN_ASSIGN_OR_RETURN(const Sliding sliding, ReadSliding(*image, pooling.window));
  pooling.stride = sliding.stride;
  pooling.pad = sliding.pad;
  UCUDNN_ASSIGN_OR_RETURN(pooling.extra_pad, Difference(sliding.end_pad, sliding.pad));
  pooling.round_up = Attributes().Number("ceil_mode", 0) != 0;
  if (sliding.dilation != Spatial{1, 1, 1}) {
    // A dilated pooling becomes an Opaque. It has the extents of a pooling without gaps, whose
    // window reaches from the first to the last element of the dilated window.
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      UCUDNN_ASSIGN_OR_RETURN(
          pooling.window[axis],
          Narrow((int64_t{pooling.window[axis]} - 1) * sliding.dilation[axis] + 1, "a window"));
    }
    UCUDNN_ASSIGN_OR_RETURN(const Shape shape,
                            OutputShape(pooling, {graph_.ShapeOf(image->node)}, 1));
    std::map<size_t, int64_t> changed;
    for (size_t axis = 2; axis < rank; ++axis) {
      changed[axis] = shape.extents[kMaxSpatial - rank + axis];
    }
    return AddChanged(*image, changed);
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(pooling, {image->node}));
  return GiveNode(node, PlainView(ExtentsOf({node, {}}), rank));
}

Status OnnxImporter::AddLrn() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  UCUDNN_ASSIGN_OR_RETURN(const auto image, Image(tensor));
  if (!image) return RefuseMixedImages();
  const OnnxAttributes attributes(*node_);
  UCUDNN_ASSIGN_OR_RETURN(const int32_t size, Narrow(attributes.Number("size", 5), "size"));
  return Append(
      LocalResponseNormalization{size, attributes.Real("alpha", 1e-4),
                                 attributes.Real("beta", 0.75), attributes.Real("bias", 1)},
      *image);
}

Status OnnxImporter::AddBatchNormalization() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  std::vector<Parameter> parameters;
  for (int input = 1; input <= 4; ++input) {
    const OnnxConstant* constant = WeightInput(input);
    if (constant == nullptr || !constant->is_known) return Refuse("by computed numbers");
    if (input > 2) continue;  // the running statistics, which are not trained
    for (Parameter parameter : Trained(*constant)) parameters.push_back(parameter);
  }
  for (int output = 1; output < node_->output_size(); ++output) {
    const bool is_read = readers_.count(node_->output(output)) > 0;
    if (is_read && opset_ < 14) return Refuse("whose statistics are read");
  }
  const bool scales = !parameters.empty();
  return Append(BatchNormalization{scales}, tensor, std::move(parameters));
}

Status OnnxImporter::AddDropout() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, RawInput(0));
  const OnnxConstant* ratio = ConstantInput(1);
  const bool given = ratio != nullptr && ratio->values && ratio->values->size() == 1 &&
                     (*ratio->values)[0] >= 0 && (*ratio->values)[0] <= 1;
  if (node_->output_size() > 1 && readers_.count(node_->output(1)) > 0) {
    return Refuse("whose mask is read");
  }
  if (tensor.scores >= 0) return Give(tensor);
  return Append(Dropout{given ? (*ratio->values)[0] : Attributes().Real("ratio", 0.5)}, tensor);
}

// Long because it reads one attribute after the other.
Status OnnxImporter::AddResize() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const OnnxAttributes attributes(*node_);
  const size_t rank = tensor.view.size();
  const std::vector<int64_t> extents = Extents(tensor.view);
  const bool is_resize = node_->op_type() == "Resize" && opset_ >= 11;
  const std::string mode = attributes.Text("mode").empty() ? "nearest" : attributes.Text("mode");
  const std::string coordinates = attributes.Text("coordinate_transformation_mode");
  if (coordinates == "tf_crop_and_resize") return Refuse("of a part of the image");
  std::vector<int64_t> axes = attributes.Numbers("axes");
  if (axes.empty()) {
    for (size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<int64_t>(axis));
  }
  std::vector<double> scales;
  const OnnxConstant* constant = ConstantInput(is_resize ? 2 : 1);
  if (constant != nullptr && constant->values) scales = *constant->values;
  if (const auto* attribute = attributes.Find("scales")) {
    scales.assign(attribute->floats().begin(), attribute->floats().end());
  }
  const double height = attributes.Real("height_scale", 0);
  const double width = attributes.Real("width_scale", 0);
  if (height > 0 && width > 0 && rank == 4) scales = {1, 1, height, width};
  std::optional<std::vector<int64_t>> sizes = is_resize ? List(3, "") : std::vector<int64_t>();
  if (!sizes || (sizes->empty() ? scales.size() : sizes->size()) != axes.size()) {
    return Refuse("by a computed factor");
  }
  std::map<size_t, int64_t> changed;
  std::vector<double> factors(rank, 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = AxisOf(axes[i], rank);
    if (!axis) return Status::Error("axis " + std::to_string(axes[i]) + "; expected one it has");
    const auto extent = static_cast<double>(extents[*axis]);
    factors[*axis] = sizes->empty() ? scales[i] : static_cast<double>((*sizes)[i]) / extent;
  }
  const std::string policy = attributes.Text("keep_aspect_ratio_policy");
  if (!sizes->empty() && (policy == "not_larger" || policy == "not_smaller")) {
    double kept = 0;
    for (const int64_t given : axes) {
      const double factor = factors[*AxisOf(given, rank)];
      const bool is_first = given == axes.front();
      kept = is_first ? factor
                      : (policy == "not_larger" ? std::min(kept, factor) : std::max(kept, factor));
    }
    for (const int64_t given : axes) factors[*AxisOf(given, rank)] = kept;
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    const double wanted = factors[axis] * static_cast<double>(extents[axis]);
    if (!(wanted >= 0.5 && wanted < 2147483648.0)) return Refuse("to no image");
    // If the factor is a quotient computed from `sizes`, the product is inexact and is rounded to
    // the nearest integer.
    const bool rounds = !sizes->empty();
    const auto extent =
        static_cast<int64_t>(rounds ? std::floor(wanted + 0.5) : std::floor(wanted));
    if (extent < 1) return Refuse("to no image");
    if (extent != extents[axis]) changed[axis] = extent;
  }
  if (changed.empty() &&
      std::all_of(factors.begin(), factors.end(), [](double factor) { return factor == 1; })) {
    return Give(tensor);
  }
  // If all factors are whole and along whole axes of an image, the node is an Upsampling.
  Upsampling upsampling;
  View view = tensor.view;
  const NodeExtents node_extents = ExtentsOf(tensor);
  bool is_whole = true;
  for (size_t axis = 0; axis < rank; ++axis) {
    const double factor = factors[axis];
    if (factor == 1) continue;
    const bool counts = factor >= 1 && factor <= 1 << 30 && factor == std::floor(factor);
    size_t place = kMaxSpatial;
    for (size_t spatial = 0; spatial < kMaxSpatial; ++spatial) {
      const auto label = static_cast<ViewAxis>(2 + spatial);
      if (!view[axis].empty() && IsWhole(view[axis], label, node_extents)) place = spatial;
    }
    is_whole = is_whole && counts && place < kMaxSpatial;
    if (!is_whole) break;
    upsampling.factor[place] = static_cast<int32_t>(factor);
    view[axis][0].size *= upsampling.factor[place];
  }
  const std::string rounding = attributes.Text("nearest_mode");
  const bool is_asymmetric = coordinates == "asymmetric" || !is_resize;
  const bool is_floor = rounding == "floor" || !is_resize;
  const bool rounds_off = rounding.empty() || rounding.rfind("round", 0) == 0;
  const bool is_nearest = mode == "nearest" && (is_asymmetric ? is_floor : rounds_off);
  if (!is_nearest) upsampling.reach = 1;
  if (mode == "cubic") upsampling.reach = 3;
  const bool far = attributes.Number("antialias", 0) != 0 || coordinates == "tf_half_pixel_for_nn";
  const bool shifts = mode == "nearest" && coordinates == "align_corners";
  if (!is_whole || far || shifts) {
    std::map<size_t, int64_t> mixed;
    for (size_t axis = 0; axis < rank; ++axis) {
      if (factors[axis] != 1) {
        mixed[axis] = changed.count(axis) > 0 ? changed[axis] : extents[axis];
      }
    }
    return AddChanged(tensor, mixed);
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, AddOperator(upsampling, {tensor.node}));
  return GiveNode(node, std::move(view));
}

// Expresses DepthToSpace and SpaceToDepth as a reshape, a transposition and another reshape.
Status OnnxImporter::AddDepthToSpace() {
  UCUDNN_ASSIGN_OR_RETURN(OnnxTensor tensor, TensorInput(0));
  const int64_t block = Attributes().Number("blocksize", 0);
  const std::vector<int64_t> extents = Extents(tensor.view);
  const bool fits = std::all_of(extents.begin(), extents.end(), [](int64_t extent) {
    return extent >= 1 && extent <= std::numeric_limits<int32_t>::max();
  });
  if (extents.size() != 4 || block < 1 || block > 1 << 15 || !fits) {
    return Status::Error("blocksize " + std::to_string(block) + " over " +
                         std::to_string(extents.size()) + " axes; expected 1 or more over four");
  }
  const bool to_space = node_->op_type() == "DepthToSpace";
  const bool columns_first = Attributes().Text("mode") == "CRD";
  std::vector<int64_t> apart;
  std::vector<size_t> order;
  std::vector<int64_t> joined;
  const int64_t n = extents[0], c = extents[1], h = extents[2], w = extents[3];
  if (to_space) {
    apart = columns_first ? std::vector<int64_t>{n, c / (block * block), block, block, h, w}
                          : std::vector<int64_t>{n, block, block, c / (block * block), h, w};
    order = columns_first ? std::vector<size_t>{0, 1, 4, 2, 5, 3}
                          : std::vector<size_t>{0, 3, 4, 1, 5, 2};
    joined = {n, c / (block * block), h * block, w * block};
  } else {
    apart = {n, c, h / block, block, w / block, block};
    order = {0, 3, 5, 1, 2, 4};
    joined = {n, c * block * block, h / block, w / block};
  }
  const bool divides = to_space ? c % (block * block) == 0 : h % block == 0 && w % block == 0;
  if (!divides) {
    return Status::Error("blocksize " + std::to_string(block) + "; expected one that divides");
  }
  const auto parts = Reshaped(tensor.view, apart);
  // If the axis that must be split (channels in DepthToSpace, h or w in SpaceToDepth) has digits
  // (view.h) that do not divide into blocks, the operator becomes an Opaque.
  if (!parts) return AddChanged(tensor, {{1, joined[1]}, {2, joined[2]}, {3, joined[3]}});
  View turned;
  for (const size_t axis : order) turned.push_back((*parts)[axis]);
  const auto view = Reshaped(turned, joined);
  if (!view) return RefuseMixedImages();
  tensor.view = *view;
  return Give(tensor);
}

}  // namespace ucudnn::planner
