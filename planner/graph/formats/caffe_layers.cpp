// Turns layers of Caffe into operators, except data layers (caffe.cpp) and the layers of
// caffe_axes.cpp and caffe_windows.cpp. Each function here checks its own fields.

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "planner/graph/formats/caffe_importer.h"

namespace ucudnn::planner {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 62;
constexpr size_t kMostShown = 8;

}  // namespace

int64_t ElementsOf(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  __int128 count = 1;
  for (size_t axis = begin; axis < end; ++axis) {
    count = std::min<__int128>(count * dims[axis], kMostElements);
  }
  return static_cast<int64_t>(count);
}

std::string DimsText(const std::vector<int64_t>& dims) {
  std::vector<std::string> texts;
  for (const int64_t dim : dims) {
    texts.push_back(texts.size() < kMostShown ? std::to_string(dim) : "...");
    if (texts.size() > kMostShown) break;
  }
  return Join(texts, "x");
}

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
    // An extent above INT32_MAX becomes 0, which the graph refuses.
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
  // If the top has fewer axes than the bottom, its image has other rows and columns than the
  // bottom's image. So neither rows nor columns may be divided.
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

// Caffe's BatchNorm only normalises; the next layer, a Scale, scales and shifts.
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
  // Forks of Caffe store four blobs: scales, shifts, and two statistics.
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

// Scales or shifts by parameters that vary along `num_axes` axes from `axis` on.
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
  // Dividing the image along h or w would divide the parameters, so these axes count as mixed.
  std::set<size_t> mixed;
  for (size_t at = std::max<size_t>(axis, 2); at < end; ++at) mixed.insert(at);
  return Put(0,
             OpaqueOf(layer_->type + " by position", dims, mixed,
                      2.0 * static_cast<double>(ElementsOf(dims, 1, rank))),
             {bottom}, rank, std::move(parameters));
}

// Scales or shifts by the second bottom, whose axes correspond to the first bottom's axes from
// `axis` on.
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
  // A second bottom with the axes n and c applies to all positions. Any other second bottom lacks
  // the last axes of the first bottom, so its axes have other positions in the graph's shape than
  // the same axes of the first bottom. The operator then counts as mixing positions.
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

// Normalize, a layer of SSD's fork, divides by the L2 norm of each pixel or of the image and
// multiplies by parameters.
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

Status CaffeImporter::AddSoftmax() { return PutSoftmax(0); }

// The first top is the loss, and the second the softmax; both may be absent.
Status CaffeImporter::AddSoftmaxLoss() {
  UCUDNN_RETURN_IF_ERROR(BottomNode(0).status());
  const Dims& dims = BottomDims(0);
  UCUDNN_ASSIGN_OR_RETURN(const size_t axis,
                          Axis(Fields("softmax_param").Number("axis", 1), "axis"));
  const __int128 wanted =
      __int128{ElementsOf(dims, 0, axis)} * ElementsOf(dims, axis + 1, dims.size());
  // The labels' extents are unknown if a layer of unknown type gives the labels.
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

// Adds a Softmax, whose output becomes top `top` if the layer has such a top.
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

// The graph leaves out labels, and losses that compare one output with labels. A loss between the
// outputs of two branches becomes a node, because it joins the branches.
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
