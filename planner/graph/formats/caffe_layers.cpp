// The layers of Caffe as operators of a graph. What Caffe's own layers check is checked here.

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "planner/graph/formats/caffe_importer.h"

namespace ucudnn::planner {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 62;

// The elements along the axes from `begin` up to `end`; 2^62 for more.
int64_t ElementsOf(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  __int128 count = 1;
  for (size_t axis = begin; axis < end; ++axis) {
    count = std::min<__int128>(count * dims[axis], kMostElements);
  }
  return static_cast<int64_t>(count);
}

std::string DimsText(const std::vector<int64_t>& dims) {
  std::vector<std::string> texts;
  for (const int64_t dim : dims) texts.push_back(std::to_string(dim));
  return Join(texts, "x");
}

// The position of a Caffe axis, from 2 on, in Spatial: the last axis is w.
size_t PositionOf(size_t axis, size_t rank) { return axis + kMaxSpatial - rank; }

Spatial SpatialOf(const std::vector<int32_t>& numbers, int32_t neutral) {
  Spatial spatial = {neutral, neutral, neutral};
  const size_t first = kMaxSpatial - numbers.size();
  for (size_t i = 0; i < numbers.size(); ++i) spatial[first + i] = numbers[i];
  return spatial;
}

}  // namespace

Result<std::vector<NodeId>> CaffeImporter::SameBottoms(std::optional<size_t> free) const {
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < layer_->bottoms.size(); ++i) {
    UCUDNN_ASSIGN_OR_RETURN(const NodeId node, BottomNode(i));
    nodes.push_back(node);
    Dims dims = BottomDims(i);
    if (free && dims.size() == BottomRank(0)) dims[*free] = BottomDims(0)[*free];
    if (dims != BottomDims(0)) {
      return Status::Error("bottoms of " + DimsText(BottomDims(0)) + " and " +
                           DimsText(BottomDims(i)) + "; expected the same extents" +
                           (free ? " but along axis " + std::to_string(*free) : ""));
    }
  }
  return nodes;
}

Opaque CaffeImporter::OpaqueOf(const std::string& kind, const Dims& dims,
                               const std::set<size_t>& mixed, double operations) {
  Opaque op;
  op.kind = kind;
  op.operations = operations;
  const size_t rank = dims.size();
  op.spatial_rank = rank == 5 ? 3 : 2;
  op.rows = op.columns = true;
  for (size_t axis = 1; axis < rank; ++axis) {
    // Shapes of no pixels are refused.
    const auto extent = static_cast<int32_t>(dims[axis] > INT32_MAX ? 0 : dims[axis]);
    if (axis == 1) {
      op.channels = extent;
    } else {
      op.extents[PositionOf(axis, rank)] = extent;
    }
  }
  for (const size_t axis : mixed) {
    if (axis < 2 || axis >= rank) continue;
    if (PositionOf(axis, rank) == 1) op.rows = false;
    if (PositionOf(axis, rank) == 2) op.columns = false;
  }
  op.channel_parts = mixed.contains(1) ? 1 : std::max(op.channels, 1);
  return op;
}

// As BaseConvolutionLayer::LayerSetUp and PoolingLayer::LayerSetUp read them.
Result<std::vector<int32_t>> CaffeImporter::ReadWindow(const CaffeFields& fields,
                                                       const WindowWords& words,
                                                       size_t axes) const {
  std::vector<int32_t> numbers = fields.Numbers(words.each);
  const bool has_height = fields.Has(words.height);
  const bool has_width = fields.Has(words.width);
  const std::string names = std::string(words.each) + ", " + words.height + " and " + words.width;
  if (has_height || has_width) {
    if (!numbers.empty() || axes != 2 || (words.needs_both && has_height != has_width)) {
      return Status::Error(names + ": expected the first, or the others of an image in 2-D" +
                           (words.needs_both ? ", both" : ""));
    }
    const int32_t other = std::min(words.standard, words.least);
    numbers = {fields.Number(words.height, other), fields.Number(words.width, other)};
  }
  if (numbers.empty()) numbers = {words.standard};
  if (numbers.size() == 1) numbers.resize(axes, numbers.front());
  if (numbers.size() != axes) {
    return Status::Error(std::to_string(numbers.size()) + " " + words.each + " for " +
                         std::to_string(axes) + " spatial axes; expected one, or one each");
  }
  for (const int32_t number : numbers) {
    if (number >= words.least) continue;
    return Status::Error(std::string(words.each) + " " + std::to_string(number) + "; expected " +
                         std::to_string(words.least) + " or more");
  }
  return numbers;
}

Result<CaffeImporter::Windows> CaffeImporter::ReadConvolutionWindows(const CaffeFields& fields,
                                                                     size_t axes) const {
  Windows windows;
  UCUDNN_ASSIGN_OR_RETURN(
      windows.window,
      ReadWindow(fields, {"kernel_size", "kernel_h", "kernel_w", 0, 1, false}, axes));
  UCUDNN_ASSIGN_OR_RETURN(windows.stride,
                          ReadWindow(fields, {"stride", "stride_h", "stride_w", 1, 1, true}, axes));
  UCUDNN_ASSIGN_OR_RETURN(windows.pad,
                          ReadWindow(fields, {"pad", "pad_h", "pad_w", 0, 0, false}, axes));
  const bool has_holes = fields.Has("hole") || fields.Has("hole_h") || fields.Has("hole_w");
  const bool has_dilation =
      fields.Has("dilation") || fields.Has("dilation_h") || fields.Has("dilation_w");
  if (has_holes && has_dilation) return Status::Error("hole and dilation; expected one of them");
  const WindowWords words = has_holes
                                ? WindowWords{"hole", "hole_h", "hole_w", 1, 1, false}
                                : WindowWords{"dilation", "dilation_h", "dilation_w", 1, 1, false};
  UCUDNN_ASSIGN_OR_RETURN(windows.dilation, ReadWindow(fields, words, axes));
  return windows;
}

// Every bottom with the same filters, into its own top. `groups` 0: one for each channel.
template <typename AnyConvolution>
Status CaffeImporter::PutConvolutions(int32_t groups) {
  const CaffeFields fields = Fields("convolution_param");
  const size_t layers = layer_->bottoms.size();
  if (layer_->tops.size() != layers) {
    return Status::Error(std::to_string(layers) + " bottoms and " +
                         std::to_string(layer_->tops.size()) + " tops; expected as many");
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<NodeId> bottoms, SameBottoms(std::nullopt));
  const size_t rank = BottomRank(0);
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis, Axis(fields.Number("axis", 1), "axis"));
  constexpr bool kForward = std::is_same_v<AnyConvolution, Convolution>;
  if (axis != 1 && (groups != 1 || axis == 0 || layers != 1)) {
    graph_.NoteUnsupported(layer_->type, layer_->name, "along axis " + std::to_string(axis));
    for (size_t top = 0; top < layers; ++top) PutSame(top, top);
    return Status::Ok();
  }
  if (axis != 1) return PutConvolutionAlong(axis, kForward);
  if (rank < 2) return Status::Error("a bottom of one axis; expected n and c at least");
  UCUDNN_ASSIGN_OR_RETURN(const Windows windows, ReadConvolutionWindows(fields, rank - 2));
  const int64_t channels = BottomDims(0)[1];
  AnyConvolution convolution;
  convolution.filters = fields.Number("num_output", 0);
  convolution.window = SpatialOf(windows.window, 1);
  convolution.stride = SpatialOf(windows.stride, 1);
  convolution.pad = SpatialOf(windows.pad, 0);
  convolution.dilation = SpatialOf(windows.dilation, 1);
  convolution.groups =
      fields.Number("group", groups == 0 ? static_cast<int32_t>(channels) : groups);
  convolution.bias = fields.Flag("bias_term", true);
  if (convolution.filters < 1) return Status::Error("num_output 0; expected 1 or more");
  if (convolution.groups < 1 || channels % convolution.groups != 0 ||
      convolution.filters % convolution.groups != 0) {
    return Status::Error("group " + std::to_string(convolution.groups) +
                         "; expected a divisor of " + std::to_string(channels) + " channels and " +
                         std::to_string(convolution.filters) + " of num_output");
  }
  Dims weights = {kForward ? convolution.filters : channels,
                  (kForward ? channels : convolution.filters) / convolution.groups};
  weights.insert(weights.end(), windows.window.begin(), windows.window.end());
  std::vector<Dims> blobs = {std::move(weights)};
  if (convolution.bias) blobs.push_back({convolution.filters});
  UCUDNN_ASSIGN_OR_RETURN(const auto parameters, ReadParameters(*layer_, blobs, false, layers));
  for (size_t i = 0; i < layers; ++i) {
    UCUDNN_RETURN_IF_ERROR(Put(i, convolution, {bottoms[i]}, rank, parameters));
  }
  return Status::Ok();
}

Status CaffeImporter::AddConvolution() { return PutConvolutions<Convolution>(1); }
Status CaffeImporter::AddDepthwise() { return PutConvolutions<Convolution>(0); }
Status CaffeImporter::AddDeconvolution() { return PutConvolutions<TransposedConvolution>(1); }

// A convolution whose channels are another axis: those in front of it count as images.
Status CaffeImporter::PutConvolutionAlong(size_t axis, bool forward) {
  const CaffeFields fields = Fields("convolution_param");
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  const size_t rank = BottomRank(0);
  UCUDNN_ASSIGN_OR_RETURN(const Windows windows, ReadConvolutionWindows(fields, rank - axis - 1));
  const int32_t groups = fields.Number("group", 1);
  const int32_t filters = fields.Number("num_output", 0);
  Dims dims = BottomDims(0);
  if (filters < 1 || groups < 1 || dims[axis] % groups != 0 || filters % groups != 0) {
    return Status::Error("num_output " + std::to_string(filters) + " in " + std::to_string(groups) +
                         " group; expected a positive multiple of it, and of it " +
                         std::to_string(dims[axis]) + " channels");
  }
  const int64_t inputs = dims[axis];
  Dims weights = forward ? Dims{filters, inputs / groups} : Dims{inputs, filters / groups};
  dims[axis] = filters;
  std::set<size_t> mixed = {axis};
  for (size_t i = 0; i < windows.window.size(); ++i) {
    int64_t& extent = dims[axis + 1 + i];
    const int64_t window = (int64_t{windows.window[i]} - 1) * windows.dilation[i] + 1;
    const int64_t pad = windows.pad[i];
    const int64_t made = forward ? (extent + 2 * pad - window) / windows.stride[i] + 1
                                 : (extent - 1) * windows.stride[i] + window - 2 * pad;
    if (made < 1 || (forward && extent + 2 * pad < window)) {
      return Status::Error("a window of " + std::to_string(window) + " over " +
                           std::to_string(extent) + " padded by " + std::to_string(pad) +
                           "; expected one that fits inside");
    }
    extent = made;
    weights.push_back(windows.window[i]);
    mixed.insert(axis + 1 + i);
  }
  const Dims& larger = forward ? dims : BottomDims(0);
  const double operations = 2.0 * static_cast<double>(ElementsOf(larger, 1, rank)) *
                            static_cast<double>(ElementsOf(weights, 1, weights.size()));
  std::vector<Dims> blobs = {weights};
  if (fields.Flag("bias_term", true)) blobs.push_back({filters});
  UCUDNN_ASSIGN_OR_RETURN(auto parameters, ReadParameters(*layer_, blobs, true));
  return Put(
      0, OpaqueOf(layer_->type + " along axis " + std::to_string(axis), dims, mixed, operations),
      {bottom}, rank, std::move(parameters));
}

Status CaffeImporter::AddPooling() {
  const CaffeFields fields = Fields("pooling_param");
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  const size_t rank = BottomRank(0);
  if (rank != 4 && rank != 5) {
    return Status::Error("a bottom of " + DimsText(BottomDims(0)) + "; expected n, c, h and w");
  }
  const std::string pool = fields.Word("pool", "MAX");
  const PoolingKind kind = pool == "AVE" ? PoolingKind::kAverage : PoolingKind::kMaximum;
  const bool is_global = fields.Flag("global_pooling", false);
  if (is_global &&
      (fields.Has("kernel_size") || fields.Has("kernel_h") || fields.Has("kernel_w"))) {
    return Status::Error("global_pooling and a kernel; expected one of them");
  }
  const size_t axes = rank - 2;
  std::vector<int32_t> window;
  for (size_t axis = 2; axis < rank && is_global; ++axis) {
    window.push_back(static_cast<int32_t>(BottomDims(0)[axis]));
  }
  if (!is_global) {
    UCUDNN_ASSIGN_OR_RETURN(
        window, ReadWindow(fields, {"kernel_size", "kernel_h", "kernel_w", 0, 1, true}, axes));
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto stride,
                          ReadWindow(fields, {"stride", "stride_h", "stride_w", 1, 1, true}, axes));
  UCUDNN_ASSIGN_OR_RETURN(const auto pad,
                          ReadWindow(fields, {"pad", "pad_h", "pad_w", 0, 0, true}, axes));
  const bool is_padded = std::any_of(pad.begin(), pad.end(), [](int32_t at) { return at > 0; });
  const bool is_strided =
      std::any_of(stride.begin(), stride.end(), [](int32_t at) { return at > 1; });
  if (is_global && (is_padded || is_strided)) {
    return Status::Error("global_pooling with a pad or stride; expected pad 0 and stride 1");
  }
  if (is_padded && pool == "STOCHASTIC") {
    return Status::Error("a pad of stochastic pooling; expected none");
  }
  const bool rounds_up = fields.Has("round_mode") ? fields.Word("round_mode", "CEIL") == "CEIL"
                                                  : fields.Flag("ceil_mode", true);
  if (fields.Has("round_mode") && fields.Flag("ceil_mode", rounds_up) != rounds_up) {
    return Status::Error("round_mode and ceil_mode differ; expected one of them");
  }
  Dims dims = BottomDims(0);
  std::vector<int32_t> overhang;  // of the last window, beyond what a floor gives
  for (size_t i = 0; i < axes; ++i) {
    if (is_padded && pad[i] >= window[i]) {
      return Status::Error("pad " + std::to_string(pad[i]) + " of a window of " +
                           std::to_string(window[i]) + "; expected a smaller one");
    }
    // As PoolingLayer::Reshape counts: only padded images lose a last window that begins in the
    // pad.
    int64_t& extent = dims[2 + i];
    const int64_t room = extent + 2 * int64_t{pad[i]} - window[i];
    int64_t steps = room < 0 ? 0 : (room + (rounds_up ? stride[i] - 1 : 0)) / stride[i];
    if (room < 0 && (!rounds_up || -room >= stride[i])) {
      return Status::Error("a window of " + std::to_string(window[i]) + " over an image of " +
                           std::to_string(extent) + " padded by " + std::to_string(pad[i]) +
                           "; expected one that fits inside");
    }
    if (is_padded && steps * stride[i] >= extent + pad[i]) --steps;
    const int64_t end = steps * stride[i] + window[i] - extent - 2 * int64_t{pad[i]};
    overhang.push_back(static_cast<int32_t>(std::clamp<int64_t>(end, 0, INT32_MAX)));
    extent = steps + 1;
  }
  if (layer_->tops.size() > 1) PutLabel(1, dims);  // which pixels were the largest
  if (pool == "STOCHASTIC") {
    Opaque op = OpaqueOf("stochastic Pooling", dims, {2, 3, 4}, 0);
    op.operations = static_cast<double>(ElementsOf(dims, 1, rank));
    for (const int32_t extent : window) op.operations *= extent;
    return Put(0, op, {bottom}, rank);
  }
  if (is_global) return Put(0, GlobalPooling{kind}, {bottom}, rank);
  Pooling pooling{kind, SpatialOf(window, 1), SpatialOf(stride, 1), SpatialOf(pad, 0), rounds_up};
  const Result<Shape> shape = OutputShape(pooling, {graph_.ShapeOf(bottom)}, 1);
  bool is_exact = shape.ok();
  for (size_t axis = 2; axis < rank && is_exact; ++axis) {
    is_exact = shape->extents[PositionOf(axis, rank)] == dims[axis];
  }
  if (!is_exact) {
    pooling.round_up = false;
    pooling.extra_pad = SpatialOf(overhang, 0);
  }
  return Put(0, pooling, {bottom}, rank);
}

Status CaffeImporter::AddInnerProduct() {
  const CaffeFields fields = Fields("inner_product_param");
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis, Axis(fields.Number("axis", 1), "axis"));
  const int32_t outputs = fields.Number("num_output", 0);
  const bool bias = fields.Flag("bias_term", true);
  if (outputs < 1) return Status::Error("num_output 0; expected 1 or more");
  const int64_t inputs = ElementsOf(BottomDims(0), axis, BottomRank(0));
  std::vector<Dims> blobs = {{outputs, inputs}};
  if (fields.Flag("transpose", false)) std::swap(blobs[0][0], blobs[0][1]);
  if (bias) blobs.push_back({outputs});
  if (axis == 0) {
    graph_.NoteUnsupported(layer_->type, layer_->name, "along axis 0, the batch");
    PutSame(0, 0);
    return Status::Ok();
  }
  UCUDNN_ASSIGN_OR_RETURN(auto parameters, ReadParameters(*layer_, blobs, axis != 1));
  if (axis == 1) return Put(0, FullyConnected{outputs, bias}, {bottom}, 2, std::move(parameters));
  Dims dims = BottomDims(0);
  std::set<size_t> mixed;
  for (size_t at = axis; at < dims.size(); ++at) mixed.insert(at);
  dims.resize(axis);
  dims.push_back(outputs);
  const double operations =
      2.0 * static_cast<double>(ElementsOf(dims, 1, dims.size())) * static_cast<double>(inputs);
  Opaque op = OpaqueOf("InnerProduct along axis " + std::to_string(axis), dims, mixed, operations);
  // Where the top has fewer axes, its h is not the bottom's.
  if (axis + 1 != BottomRank(0)) op.rows = op.columns = false;
  return Put(0, op, {bottom}, axis + 1, std::move(parameters));
}

Status CaffeImporter::AddLrn() {
  const CaffeFields fields = Fields("lrn_param");
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  if (BottomRank(0) != 4) {
    return Status::Error("a bottom of " + DimsText(BottomDims(0)) + "; expected n, c, h and w");
  }
  const LocalResponseNormalization lrn{fields.Number("local_size", 5), fields.Real("alpha", 1),
                                       fields.Real("beta", 0.75), fields.Real("k", 1)};
  if (lrn.size % 2 == 0) {
    return Status::Error("local_size " + std::to_string(lrn.size) + "; expected an odd number");
  }
  if (fields.Word("norm_region", "ACROSS_CHANNELS") == "ACROSS_CHANNELS") return PutUnary(lrn);
  const double operations = 2.0 * static_cast<double>(ElementsOf(BottomDims(0), 1, 4)) * lrn.size *
                            static_cast<double>(lrn.size);
  return Put(0, OpaqueOf("LRN within channels", BottomDims(0), {2, 3}, operations), {bottom}, 4);
}

Status CaffeImporter::AddMvn() {
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  std::set<size_t> mixed = {2, 3, 4};
  if (Fields("mvn_param").Flag("across_channels", false)) mixed.insert(1);
  const size_t rank = BottomRank(0);
  const double operations = 4.0 * static_cast<double>(ElementsOf(BottomDims(0), 1, rank));
  return Put(0, OpaqueOf("MVN", BottomDims(0), mixed, operations), {bottom}, rank);
}

Status CaffeImporter::AddDropout() {
  if (layer_->is_testing) return AddSplit();
  return PutUnary(Dropout{Fields("dropout_param").Real("dropout_ratio", 0.5)});
}

const CaffeLayer* CaffeImporter::CompletingScale(size_t blob) const {
  const std::vector<size_t>& readers = net_.readers[blob];
  if (readers.size() != 1) return nullptr;
  const CaffeLayer& scale = net_.layers[readers.front()];
  const CaffeFields fields = CaffeFields(scale.text).Message("scale_param");
  const bool completes = scale.type == "Scale" && scale.bottoms.size() == 1 &&
                         scale.tops.size() == 1 && fields.Number("axis", 1) == 1 &&
                         fields.Number("num_axes", 1) == 1 && fields.Flag("bias_term", false);
  return completes ? &scale : nullptr;
}

// Caffe normalises in one layer, and scales and shifts in the next.
Status CaffeImporter::AddNormalization() {
  UCUDNN_RETURN_IF_ERROR(BottomNode(0).status());
  if (layer_->params.size() > 3) {
    return Status::Error(std::to_string(layer_->params.size()) + " param; expected at most 3");
  }
  for (const CaffeParam& param : layer_->params) {
    if (param.rate.value_or(1) == 0) continue;
    return Status::Error("lr_mult of statistics; expected 0, as no layer trains them");
  }
  const int64_t channels = BottomRank(0) == 1 ? 1 : BottomDims(0)[1];
  const bool is_fixed = Fields("batch_norm_param").Flag("use_global_stats", layer_->is_testing);
  if (is_fixed) return PutUnary(Scale{}, {{channels, -1, false}, {channels, -1, false}});
  const CaffeLayer* const scale = CompletingScale(layer_->tops[0]);
  if (scale == nullptr) return PutUnary(BatchNormalization{false});
  UCUDNN_ASSIGN_OR_RETURN(auto parameters, ReadParameters(*scale, {{channels}, {channels}}));
  merged_.insert(scale);
  return PutUnary(BatchNormalization{true}, std::move(parameters));
}

Status CaffeImporter::AddWholeNormalization() {
  UCUDNN_RETURN_IF_ERROR(BottomNode(0).status());
  const CaffeFields fields = Fields("bn_param");
  const int64_t channels = BottomRank(0) == 1 ? 1 : BottomDims(0)[1];
  const bool is_fixed =
      fields.Flag("frozen", layer_->is_testing) || fields.Word("bn_mode", "LEARN") == "INFERENCE";
  // Forks keep the statistics behind the scales and shifts.
  std::vector<Dims> blobs = {{channels}, {channels}, {channels}, {channels}};
  UCUDNN_ASSIGN_OR_RETURN(auto parameters, ReadParameters(*layer_, blobs, is_fixed));
  for (size_t i = 2; i < parameters.size(); ++i) parameters[i].trained = false;
  if (is_fixed) return PutUnary(Scale{}, std::move(parameters));
  const bool is_plain =
      std::all_of(parameters.begin(), parameters.begin() + (parameters.empty() ? 0 : 2),
                  [](const Parameter& at) { return at.trained && at.tensor < 0; });
  parameters.resize(is_plain ? 0 : 2);
  return PutUnary(BatchNormalization{true}, std::move(parameters));
}

Status CaffeImporter::AddScale() {
  const CaffeFields fields = Fields("scale_param");
  if (merged_.contains(layer_)) return AddSplit();
  if (layer_->bottoms.size() == 1) {
    return AddScaling(true, fields.Flag("bias_term", false), fields);
  }
  if (fields.Flag("bias_term", false)) {
    return Status::Error(
        "bias_term of a scale that is a bottom: its extents are the bottom's, with the batch; "
        "expected a Bias behind it");
  }
  return AddScalingByBottom(true, fields);
}

Status CaffeImporter::AddBias() {
  const CaffeFields fields = Fields("bias_param");
  return layer_->bottoms.size() == 1 ? AddScaling(false, true, fields)
                                     : AddScalingByBottom(false, fields);
}

// By parameters along `num_axes` axes from `axis` on.
Status CaffeImporter::AddScaling(bool scale, bool shift, const CaffeFields& fields) {
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  const size_t rank = BottomRank(0);
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis, Axis(fields.Number("axis", 1), "axis"));
  const int64_t count = fields.Number("num_axes", 1);
  if (count < -1 || count + static_cast<int64_t>(axis) > static_cast<int64_t>(rank)) {
    return Status::Error("num_axes " + std::to_string(count) + " from axis " +
                         std::to_string(axis) + " of " + DimsText(BottomDims(0)) +
                         " on; expected -1, or so many axes");
  }
  const size_t end = count == -1 ? rank : axis + static_cast<size_t>(count);
  if (axis == 0 && end > 0) {
    return Status::Error("axis 0: parameters of each image of the batch; expected 1 or more");
  }
  const Dims& dims = BottomDims(0);
  const Dims blob(dims.begin() + static_cast<ptrdiff_t>(axis),
                  dims.begin() + static_cast<ptrdiff_t>(end));
  const std::vector<Dims> blobs(scale && shift ? 2 : 1, blob);
  const bool by_channel = axis == 1 && end == 2;
  UCUDNN_ASSIGN_OR_RETURN(auto parameters, ReadParameters(*layer_, blobs, !by_channel));
  if (by_channel || end == axis) return PutUnary(Scale{scale, shift}, std::move(parameters));
  std::set<size_t> mixed;  // a part along h or w would need a part of the parameters
  for (size_t at = std::max<size_t>(axis, 2); at < end; ++at) mixed.insert(at);
  return Put(0,
             OpaqueOf(layer_->type + " by position", dims, mixed,
                      2.0 * static_cast<double>(ElementsOf(dims, 1, rank))),
             {bottom}, rank, std::move(parameters));
}

// By the second bottom, along as many axes as it has, from `axis` on.
Status CaffeImporter::AddScalingByBottom(bool multiplies, const CaffeFields& fields) {
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  const Dims dims = BottomDims(0);
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis, Axis(fields.Number("axis", 1), "axis"));
  const std::optional<Dims>& factor = Bottom(1).dims;
  const bool fits =
      factor && axis + factor->size() <= dims.size() &&
      std::equal(factor->begin(), factor->end(), dims.begin() + static_cast<ptrdiff_t>(axis));
  if (!fits) {
    return Status::Error("a second bottom of " + (factor ? DimsText(*factor) : "unknown extents") +
                         " from axis " + std::to_string(axis) + " of " + DimsText(dims) +
                         " on; expected those of the first bottom");
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId other, BottomNode(1));
  if (axis != 0) {
    return Status::Error("axis " + std::to_string(axis) +
                         ": a second bottom without the batch; expected axis 0");
  }
  const size_t rank = dims.size();
  const bool is_whole = graph_.ShapeOf(bottom) == graph_.ShapeOf(other);
  if (multiplies && (is_whole || factor->size() == 2)) {
    return Put(0, Multiply{}, {bottom, other}, rank);
  }
  if (is_whole) return Put(0, Add{}, {bottom, other}, rank);
  // One that has other axes than n and c has them elsewhere.
  const std::set<size_t> mixed =
      factor->size() == 2 ? std::set<size_t>() : std::set<size_t>{1, 2, 3, 4};
  return Put(0, OpaqueOf(layer_->type, dims, mixed, static_cast<double>(ElementsOf(dims, 1, rank))),
             {bottom, other}, rank);
}

Status CaffeImporter::AddPrelu() {
  UCUDNN_RETURN_IF_ERROR(BottomNode(0).status());
  if (BottomRank(0) < 2) return Status::Error("a bottom of one axis; expected n and c at least");
  const bool shared = Fields("prelu_param").Flag("channel_shared", false);
  const Dims blob = shared ? Dims() : Dims{BottomDims(0)[1]};
  UCUDNN_ASSIGN_OR_RETURN(auto parameters, ReadParameters(*layer_, {blob}, true));
  return PutUnary(Activation{ActivationKind::kLeakyRelu}, std::move(parameters));
}

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

// The first bottom, cut to the extents of the second from an axis on.
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
  if (axis == 0) return Drop();  // one number of the whole batch, as a loss is
  Dims dims = BottomDims(0);
  dims.resize(axis);
  Opaque op = OpaqueOf("Reduction", dims, {},
                       static_cast<double>(ElementsOf(BottomDims(0), 1, BottomRank(0))));
  if (axis == 1) op.channel_parts = 1;
  op.rows = op.columns = false;
  return Put(0, op, {bottom}, axis);
}

// The numbers of the largest along an axis; without one, of each image.
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

// SSD's: divided by the length of a pixel or of the image, times parameters.
Status CaffeImporter::AddNormalize() {
  const CaffeFields fields = Fields("norm_param");
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  const Dims& dims = BottomDims(0);
  const size_t rank = dims.size();
  if (rank < 2) return Status::Error("a bottom of one axis; expected n and c at least");
  const Dims blob = fields.Flag("channel_shared", true) ? Dims{1} : Dims{dims[1]};
  std::set<size_t> mixed = {1};
  if (fields.Flag("across_spatial", true)) mixed = {1, 2, 3, 4};
  UCUDNN_ASSIGN_OR_RETURN(auto parameters, ReadParameters(*layer_, {blob}, true));
  return Put(
      0, OpaqueOf("Normalize", dims, mixed, 4.0 * static_cast<double>(ElementsOf(dims, 1, rank))),
      {bottom}, rank, std::move(parameters));
}

// SSD's: axes in another order; those that are not named keep theirs, behind the named ones.
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

Status CaffeImporter::AddEltwise() {
  const CaffeFields fields = Fields("eltwise_param");
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<NodeId> bottoms, SameBottoms(std::nullopt));
  const std::string operation = fields.Word("operation", "SUM");
  const size_t factors = fields.Words("coeff").size();
  if (factors != 0 && (operation == "PROD" || factors != bottoms.size())) {
    return Status::Error(std::to_string(factors) + " coeff; expected none, or one for each of " +
                         std::to_string(bottoms.size()) + " bottoms of a SUM");
  }
  const size_t rank = BottomRank(0);
  if (operation == "SUM") return Put(0, Add{}, bottoms, rank);
  if (operation == "PROD" && bottoms.size() == 2) return Put(0, Multiply{}, bottoms, rank);
  const double operations = static_cast<double>(ElementsOf(BottomDims(0), 1, rank)) *
                            static_cast<double>(bottoms.size() - 1);
  return Put(0, OpaqueOf("Eltwise " + operation, BottomDims(0), {}, operations), bottoms, rank);
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

// As ReshapeLayer::Reshape counts.
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

Status CaffeImporter::AddSoftmax() { return PutSoftmax(0); }

// Its tops are the loss, which may be left out, and the softmax itself.
Status CaffeImporter::AddSoftmaxLoss() {
  UCUDNN_RETURN_IF_ERROR(BottomNode(0).status());
  const Dims& dims = BottomDims(0);
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis,
                          Axis(Fields("softmax_param").Number("axis", 1), "axis"));
  const __int128 wanted =
      __int128{ElementsOf(dims, 0, axis)} * ElementsOf(dims, axis + 1, dims.size());
  // What a layer of unknown type gives as labels has extents that nobody knows.
  const Blob& labels = Bottom(1);
  const bool is_given =
      !labels.node || std::holds_alternative<Input>(graph_.NodeOf(*labels.node).op);
  if (is_given && labels.dims && ElementsOf(*labels.dims, 0, labels.dims->size()) != wanted) {
    return Status::Error("labels of " + DimsText(*labels.dims) + " for " + DimsText(dims) +
                         "; expected one for each softmax");
  }
  if (!layer_->tops.empty()) PutLabel(0, Dims());
  return PutSoftmax(1);
}

// Into top `top` where there is such a one.
Status CaffeImporter::PutSoftmax(size_t top) {
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis,
                          Axis(Fields("softmax_param").Number("axis", 1), "axis"));
  const Dims& dims = BottomDims(0);
  if (axis == 0) {
    graph_.NoteUnsupported(layer_->type, layer_->name, "along axis 0, the batch");
    if (top < layer_->tops.size()) PutSame(top, 0);
    return Status::Ok();
  }
  Operator op = Softmax{};
  if (axis != 1) {
    op = OpaqueOf("Softmax along axis " + std::to_string(axis), dims, {axis},
                  4.0 * static_cast<double>(ElementsOf(dims, 1, dims.size())));
  }
  if (top < layer_->tops.size()) return Put(top, op, {bottom}, dims.size());
  return graph_.Add(layer_->name, "loss", op, {bottom}).status();
}

// Labels and what is compared with them are left out. A loss between outputs of two branches is a
// node, as it joins them.
Status CaffeImporter::AddLoss() {
  for (size_t top = 0; top < layer_->tops.size(); ++top) PutLabel(top, Dims());
  std::vector<NodeId> branches;
  double operations = 0;
  for (size_t i = 0; i < layer_->bottoms.size(); ++i) {
    const Blob& blob = Bottom(i);
    if (!blob.node || std::holds_alternative<Input>(graph_.NodeOf(*blob.node).op)) continue;
    branches.push_back(*blob.node);
    operations += static_cast<double>(ElementsOf(*blob.dims, 1, blob.dims->size()));
  }
  if (branches.size() < 2) return Status::Ok();
  Opaque op = OpaqueOf(layer_->type, {1, 1}, {}, operations);
  op.rows = op.columns = false;
  return graph_.Add(layer_->name, "loss", op, branches).status();
}

Status CaffeImporter::AddSplit() {
  for (size_t top = 0; top < layer_->tops.size(); ++top) PutSame(top, 0);
  return Status::Ok();
}

Status CaffeImporter::AddRelu() {
  const bool leaks = Fields("relu_param").Real("negative_slope", 0) != 0;
  return PutUnary(Activation{leaks ? ActivationKind::kLeakyRelu : ActivationKind::kRelu});
}

}  // namespace ucudnn::planner
