// The layers of an ONNX model: those that compute.
#include <algorithm>

#include "planner/graph/formats/onnx_importer.h"

namespace ucudnn::planner {
namespace {

// The spatial axes of `numbers` from `offset`, which all others but `neutral` in depth.
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

Status OnnxImporter::AddActivation() {
  static const auto* const kinds = new std::map<std::string, ActivationKind>{
      {"Clip", ActivationKind::kRelu6},          {"Elu", ActivationKind::kElu},
      {"Gelu", ActivationKind::kGelu},           {"HardSigmoid", ActivationKind::kHardSigmoid},
      {"HardSwish", ActivationKind::kHardSwish}, {"LeakyRelu", ActivationKind::kLeakyRelu},
      {"Relu", ActivationKind::kRelu},           {"Sigmoid", ActivationKind::kSigmoid},
      {"Swish", ActivationKind::kSwish},         {"Tanh", ActivationKind::kTanh}};
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  return Append(Activation{kinds->at(node_->op_type())}, tensor);
}

Status OnnxImporter::AddNormalization() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  if (tensor.channels_last) return PassUnsupported("of channels in the last axis");
  return Append(BatchNormalization{}, tensor);
}

Status OnnxImporter::AddLrn() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  if (tensor.channels_last) return PassUnsupported("of channels in the last axis");
  const OnnxAttributes attributes(*node_);
  UCUDNN_ASSIGN_OR_RETURN(const int32_t size, Narrow(attributes.Number("size", 5), "size"));
  return Append(
      LocalResponseNormalization{size, attributes.Real("alpha", 1e-4),
                                 attributes.Real("beta", 0.75), attributes.Real("bias", 1)},
      tensor);
}

Status OnnxImporter::AddDropout() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const OnnxConstant* ratio = ConstantInput(1);
  const bool given = ratio != nullptr && ratio->values && ratio->values->size() == 1 &&
                     (*ratio->values)[0] >= 0 && (*ratio->values)[0] <= 1;
  return Append(Dropout{given ? (*ratio->values)[0] : OnnxAttributes(*node_).Real("ratio", 0.5)},
                tensor);
}

Status OnnxImporter::AddSoftmax() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  return Append(Softmax{}, tensor);
}

Result<OnnxImporter::Sliding> OnnxImporter::ReadSliding(const OnnxTensor& tensor,
                                                        const Spatial& extents) const {
  const OnnxAttributes attributes(*node_);
  const std::vector<int64_t> pads = attributes.Numbers("pads");
  Sliding sliding;
  UCUDNN_ASSIGN_OR_RETURN(sliding.stride,
                          ReadSpatial(attributes.Numbers("strides"), 0, tensor.rank, 1, "strides"));
  UCUDNN_ASSIGN_OR_RETURN(sliding.dilation, ReadSpatial(attributes.Numbers("dilations"), 0,
                                                        tensor.rank, 1, "dilations"));
  UCUDNN_ASSIGN_OR_RETURN(sliding.pad, ReadSpatial(pads, 0, tensor.rank, 0, "pads"));
  UCUDNN_ASSIGN_OR_RETURN(sliding.end_pad,
                          ReadSpatial(pads, tensor.rank - 2, tensor.rank, 0, "pads"));
  const std::string automatic = attributes.Text("auto_pad");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    UCUDNN_RETURN_IF_ERROR(PadToSame(tensor, extents, automatic == "SAME_LOWER", sliding));
  } else if (automatic == "VALID") {
    sliding.pad = sliding.end_pad = {0, 0, 0};
  }
  return sliding;
}

Status OnnxImporter::PadToSame(const OnnxTensor& tensor, const Spatial& extents, bool lower,
                               Sliding& sliding) const {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t image = ShapeOf(tensor).extents[axis];
    const int64_t stride = sliding.stride[axis];
    if (stride < 1)
      return Status::Error("stride " + std::to_string(stride) + "; expected 1 or more");
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

const OnnxConstant* OnnxImporter::Filter(const OnnxTensor& tensor) const {
  const OnnxConstant* filter = ConstantInput(1);
  const bool fits = filter != nullptr && filter->dims.size() == tensor.rank && tensor.rank > 2 &&
                    !tensor.channels_last;
  return fits ? filter : nullptr;
}

Status OnnxImporter::AddConvolution() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const OnnxConstant* filter = Filter(tensor);
  if (filter == nullptr) return PassUnsupported("of a filter whose shape is not given");
  Convolution convolution;
  UCUDNN_ASSIGN_OR_RETURN(convolution.filters, Narrow(filter->dims[0], "filters"));
  UCUDNN_ASSIGN_OR_RETURN(convolution.groups,
                          Narrow(OnnxAttributes(*node_).Number("group", 1), "group"));
  UCUDNN_ASSIGN_OR_RETURN(convolution.window,
                          ReadSpatial(filter->dims, 2, tensor.rank, 1, "filter extents"));
  UCUDNN_ASSIGN_OR_RETURN(const Sliding sliding, ReadSliding(tensor, convolution.window));
  convolution.stride = sliding.stride;
  convolution.pad = sliding.pad;
  convolution.dilation = sliding.dilation;
  UCUDNN_ASSIGN_OR_RETURN(convolution.extra_pad, Difference(sliding.end_pad, sliding.pad));
  convolution.bias = HasBias();
  const int32_t channels = ShapeOf(tensor).c;
  if (convolution.groups >= 1 && channels % convolution.groups == 0 &&
      filter->dims[1] != channels / convolution.groups) {
    return Status::Error("a filter of " + std::to_string(filter->dims[1]) + " channels in " +
                         std::to_string(convolution.groups) + " groups over " +
                         std::to_string(channels) + "; expected as many");
  }
  return Append(convolution, tensor);
}

Status OnnxImporter::AddTransposedConvolution() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const OnnxConstant* filter = Filter(tensor);
  if (filter == nullptr) return PassUnsupported("of a filter whose shape is not given");
  const OnnxAttributes attributes(*node_);
  TransposedConvolution layer;
  UCUDNN_ASSIGN_OR_RETURN(layer.groups, Narrow(attributes.Number("group", 1), "group"));
  UCUDNN_ASSIGN_OR_RETURN(const int32_t of_a_group, Narrow(filter->dims[1], "filters"));
  UCUDNN_ASSIGN_OR_RETURN(layer.filters, Narrow(int64_t{of_a_group} * layer.groups, "filters"));
  UCUDNN_ASSIGN_OR_RETURN(layer.window,
                          ReadSpatial(filter->dims, 2, tensor.rank, 1, "filter extents"));
  if (filter->dims[0] != ShapeOf(tensor).c) {
    return Status::Error("a filter of " + std::to_string(filter->dims[0]) + " channels over " +
                         std::to_string(ShapeOf(tensor).c) + "; expected as many");
  }
  layer.bias = HasBias();
  UCUDNN_RETURN_IF_ERROR(ReadTransposedExtents(tensor, layer));
  return Append(layer, tensor);
}

Status OnnxImporter::ReadTransposedExtents(const OnnxTensor& tensor,
                                           TransposedConvolution& layer) const {
  const OnnxAttributes attributes(*node_);
  UCUDNN_ASSIGN_OR_RETURN(Sliding sliding, ReadSliding(tensor, layer.window));
  layer.stride = sliding.stride;
  layer.dilation = sliding.dilation;
  std::vector<int64_t> output = attributes.Numbers("output_shape");
  const bool same = attributes.Text("auto_pad").rfind("SAME", 0) == 0;
  if (output.empty() && !same) {
    layer.pad = sliding.pad;
    UCUDNN_ASSIGN_OR_RETURN(const Spatial more, ReadSpatial(attributes.Numbers("output_padding"), 0,
                                                            tensor.rank, 0, "output_padding"));
    UCUDNN_ASSIGN_OR_RETURN(const Spatial cut, Difference(sliding.end_pad, sliding.pad));
    UCUDNN_ASSIGN_OR_RETURN(layer.extra_extent, Difference(more, cut));
    return Status::Ok();
  }
  UCUDNN_ASSIGN_OR_RETURN(const Spatial wanted,
                          ReadSpatial(output, 0, tensor.rank, 1, "output_shape"));
  for (size_t axis = kMaxSpatial - (tensor.rank - 2); axis < kMaxSpatial; ++axis) {
    const int64_t image = ShapeOf(tensor).extents[axis];
    const int64_t stride = layer.stride[axis];
    const int64_t natural =
        (image - 1) * stride + int64_t{layer.window[axis] - int64_t{1}} * layer.dilation[axis] + 1;
    const int64_t out = same && output.empty() ? image * stride : wanted[axis];
    UCUDNN_ASSIGN_OR_RETURN(layer.extra_extent[axis], Narrow(out - natural, "output_shape"));
  }
  return Status::Ok();
}

Status OnnxImporter::AddPooling() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  if (tensor.channels_last || tensor.rank == 2) {
    return PassUnsupported("of channels in the last axis, or of features");
  }
  const OnnxAttributes attributes(*node_);
  Pooling pooling;
  pooling.kind = node_->op_type() == "MaxPool" ? PoolingKind::kMaximum : PoolingKind::kAverage;
  UCUDNN_ASSIGN_OR_RETURN(pooling.window, ReadSpatial(attributes.Numbers("kernel_shape"), 0,
                                                      tensor.rank, 1, "kernel_shape"));
  UCUDNN_ASSIGN_OR_RETURN(const Sliding sliding, ReadSliding(tensor, pooling.window));
  if (sliding.dilation != Spatial{1, 1, 1}) return PassUnsupported("of a dilated window");
  pooling.stride = sliding.stride;
  pooling.pad = sliding.pad;
  UCUDNN_ASSIGN_OR_RETURN(pooling.extra_pad, Difference(sliding.end_pad, sliding.pad));
  pooling.round_up = attributes.Number("ceil_mode", 0) != 0;
  return Append(pooling, tensor);
}

Status OnnxImporter::AddGlobalPooling() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  if (tensor.channels_last) return PassUnsupported("of channels in the last axis");
  return Append(GlobalPooling{node_->op_type() == "GlobalMaxPool" ? PoolingKind::kMaximum
                                                                  : PoolingKind::kAverage},
                tensor);
}

Status OnnxImporter::AddReduction() {
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  const auto axes = List(1, "axes");
  std::set<size_t> spatial;
  bool only_spatial = axes.has_value();
  for (const int64_t axis : axes.value_or(std::vector<int64_t>())) {
    const AxisPlace place = PlaceOf(tensor, axis);
    only_spatial = only_spatial && place.axis == Axis::kSpatial;
    spatial.insert(place.spatial);
  }
  if (!only_spatial || spatial.size() != tensor.rank - 2) {
    return PassUnsupported("over other axes than those of the image");
  }
  const GlobalPooling pooling{node_->op_type() == "ReduceMax" ? PoolingKind::kMaximum
                                                              : PoolingKind::kAverage};
  const bool keeps = OnnxAttributes(*node_).Number("keepdims", 1) != 0;
  return keeps ? Append(pooling, tensor) : AppendFeatures(pooling, tensor);
}

Status OnnxImporter::AddGemm() {
  const OnnxAttributes attributes(*node_);
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  if (attributes.Number("transA", 0) != 0) return PassUnsupported("of a transposed input");
  return AddFullyConnected(tensor, attributes.Number("transB", 0) != 0, HasBias());
}

Status OnnxImporter::AddMatMul() {
  if (ConstantInput(0) != nullptr) {
    return PassUnsupported("of two computed matrices, or of a constant first");
  }
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  return AddFullyConnected(tensor, false, false);
}

Status OnnxImporter::AddFullyConnected(const OnnxTensor& tensor, bool transposed, bool bias) {
  const OnnxConstant* weights = ConstantInput(1);
  if (weights == nullptr || weights->dims.size() != 2 ||
      (tensor.rank != 2 && !IsOnePixel(ShapeOf(tensor)))) {
    return PassUnsupported("of more than features and a constant matrix");
  }
  const int64_t inputs = weights->dims[transposed ? 1 : 0];
  if (inputs != ShapeOf(tensor).Features()) {
    return Status::Error("a matrix for " + std::to_string(inputs) + " features over " +
                         std::to_string(ShapeOf(tensor).Features()) + "; expected as many");
  }
  FullyConnected layer;
  UCUDNN_ASSIGN_OR_RETURN(layer.outputs, Narrow(weights->dims[transposed ? 0 : 1], "outputs"));
  layer.bias = bias;
  return AppendFeatures(layer, tensor);
}

Status OnnxImporter::AddSum() {
  for (int i = 0; i < node_->input_size() && node_->input_size() == 2; ++i) {
    if (ConstantInput(1 - i) != nullptr && ConstantInput(i) == nullptr) {
      UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(i));
      return AddConstant(tensor, *ConstantInput(1 - i));
    }
  }
  if (node_->op_type() == "Sub") return PassUnsupported("of two computed tensors");
  return Combine(planner::Add{});
}

Status OnnxImporter::Combine(const Operator& op) {
  std::vector<NodeId> inputs;
  OnnxTensor first;
  for (int i = 0; i < node_->input_size(); ++i) {
    if (ConstantInput(i) != nullptr) return PassUnsupported("of constants among its inputs");
    UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(i));
    if (i == 0) first = tensor;
    const bool both_images = tensor.rank > 2 && first.rank > 2;
    if (both_images && tensor.channels_last != first.channels_last) {
      return PassUnsupported("of inputs with different axes");
    }
    inputs.push_back(tensor.node);
  }
  const size_t least = std::holds_alternative<Concat>(op) ? 1 : 2;
  if (inputs.size() < least) {
    return Status::Error(std::to_string(inputs.size()) + " inputs; expected more");
  }
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, graph_.Add(node_->name(), FirstOutput(), op, inputs));
  return Give({node, first.rank, first.channels_last});
}

Status OnnxImporter::AddConstant(const OnnxTensor& tensor, const OnnxConstant& constant) {
  if (constant.Elements() == 1 || constant.repeated) return Give(tensor);
  if (constant.Elements() != ShapeOf(tensor).c) {
    return PassUnsupported("of a constant that has not one number a channel");
  }
  const bool fresh = graph_.Uses(tensor.node) == 0;
  Operator& op = graph_.OperatorOf(tensor.node);
  const auto completes = [&](auto* layer) {
    if (layer == nullptr || layer->bias || !fresh) return false;
    layer->bias = true;
    return true;
  };
  if (completes(std::get_if<Convolution>(&op)) || completes(std::get_if<FullyConnected>(&op)) ||
      completes(std::get_if<TransposedConvolution>(&op))) {
    return Give(tensor);
  }
  if (auto* scale = std::get_if<Scale>(&op); scale != nullptr && fresh && !scale->shift) {
    scale->shift = true;
    return Give(tensor);
  }
  return Append(Scale{false, true}, tensor);
}

Status OnnxImporter::AddProduct() {
  if (node_->input_size() != 2) {
    return Status::Error(std::to_string(node_->input_size()) + " inputs; expected two");
  }
  for (int i = 0; i < 2; ++i) {
    const OnnxConstant* constant = ConstantInput(1 - i);
    if (constant == nullptr || ConstantInput(i) != nullptr) continue;
    UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(i));
    if (constant->Elements() == 1) return Give(tensor);
    if (constant->Elements() != ShapeOf(tensor).c) {
      return PassUnsupported("of a constant that has not one number a channel");
    }
    return Append(Scale{true, false}, tensor);
  }
  if (node_->op_type() == "Div") return PassUnsupported("of two computed tensors");
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor a, TensorInput(0));
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor b, TensorInput(1));
  if (IsGateOf(b.node, a.node)) return Give(b);
  if (IsGateOf(a.node, b.node)) return Give(a);
  const bool a_is_gate = a.rank == 2 || IsOnePixel(ShapeOf(a));
  UCUDNN_RETURN_IF_ERROR(Combine(Multiply{}));
  if (a_is_gate) {  // the other says which axes the product has
    OnnxTensor& product = tensors_[FirstOutput()];
    product.rank = b.rank;
    product.channels_last = b.channels_last;
  }
  return Status::Ok();
}

bool OnnxImporter::IsGateOf(NodeId gate, NodeId input) {
  auto* activation = std::get_if<Activation>(&graph_.OperatorOf(gate));
  if (activation == nullptr || graph_.NodeOf(gate).inputs.front() != input ||
      graph_.Uses(gate) > 0) {
    return false;
  }
  switch (activation->kind) {
    case ActivationKind::kSigmoid:
      activation->kind = ActivationKind::kSwish;
      return true;
    case ActivationKind::kHardSigmoid:
    case ActivationKind::kRelu6:
      activation->kind = ActivationKind::kHardSwish;
      return true;
    default:
      return false;
  }
}

Status OnnxImporter::AddConcat() {
  const int64_t axis = OnnxAttributes(*node_).Number("axis", 1);
  UCUDNN_ASSIGN_OR_RETURN(const OnnxTensor tensor, TensorInput(0));
  if (PlaceOf(tensor, axis).axis != Axis::kChannel) {
    return PassUnsupported("along axis " + std::to_string(axis));
  }
  return Combine(Concat{});
}

}  // namespace ucudnn::planner
