// Adds convolutions and poolings of Caffe. Each function here checks its own fields.

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "planner/graph/formats/caffe_importer.h"

namespace ucudnn::planner {
namespace {

Spatial SpatialOf(const std::vector<int32_t>& numbers, int32_t neutral) {
  Spatial spatial = {neutral, neutral, neutral};
  const size_t first = kMaxSpatial - numbers.size();
  for (size_t i = 0; i < numbers.size(); ++i) spatial[first + i] = numbers[i];
  return spatial;
}

}  // namespace

// Reads one property of a window for `axes` spatial axes, as BaseConvolutionLayer::LayerSetUp and
// PoolingLayer::LayerSetUp do.
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

// Adds a convolution from each bottom to the top at the same position; all these convolutions share
// their filters. If `groups` is 0, each channel is a group.
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

// Adds a convolution whose channels are axis `axis`. Axes before `axis` count as images.
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

// Long because it reads one field after the other.
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
  // By spatial axis: pixels by which the last window extends beyond the padded image.
  std::vector<int32_t> overhang;
  for (size_t i = 0; i < axes; ++i) {
    if (is_padded && pad[i] >= window[i]) {
      return Status::Error("pad " + std::to_string(pad[i]) + " of a window of " +
                           std::to_string(window[i]) + "; expected a smaller one");
    }
    // Counts windows as PoolingLayer::Reshape does: a last window that begins in the pad at the end
    // is dropped, but only if the layer has a pad.
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
  // The second top holds the positions of the maxima.
  if (layer_->tops.size() > 1) PutLabel(1, dims);
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

}  // namespace ucudnn::planner
