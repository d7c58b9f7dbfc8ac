#include "planner/graph/formats/onnx.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/text.h"
#include "planner/graph/formats/onnx_attributes.h"
#include "planner/graph/formats/onnx_constants.h"

namespace ucudnn::planner {
namespace {

// A tensor that a node of the graph puts out, in the axes the file gives it.
struct Tensor {
  NodeId node = 0;
  size_t rank = 4;  // 2 (features), 4 or 5
  bool channels_last = false;
};

// What axis of the graph's own order an axis of the file is.
enum class Axis { kBatch, kChannel, kSpatial, kNone };
struct AxisPlace {
  Axis axis = Axis::kNone;
  size_t spatial = 0;  // position in a Spatial
};

AxisPlace PlaceOf(const Tensor& tensor, int64_t axis) {
  const auto rank = static_cast<int64_t>(tensor.rank);
  if (axis < -rank || axis >= rank) return {};
  if (axis < 0) axis += rank;
  if (axis == 0) return {Axis::kBatch};
  const int64_t channel = tensor.channels_last ? rank - 1 : 1;
  if (axis == channel) return {Axis::kChannel};
  const int64_t behind = tensor.channels_last ? axis - 1 : axis - 2;
  return {Axis::kSpatial, static_cast<size_t>(behind + kMaxSpatial - (rank - 2))};
}

bool IsOnePixel(const Shape& shape) { return shape.extents == Spatial{1, 1, 1}; }

Result<int32_t> Narrow(int64_t number, const std::string& what) {
  if (number < std::numeric_limits<int32_t>::min() ||
      number > std::numeric_limits<int32_t>::max()) {
    return Status::Error(what + " " + std::to_string(number) + "; expected 32 bits");
  }
  return static_cast<int32_t>(number);
}

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

class Importer {
 public:
  Importer(const std::string& file, const ImportOptions& options)
      : file_(file), graph_(file, options) {}

  Result<Graph> Import(const onnx::GraphProto& graph) {
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      constants_[tensor.name()] = ReadConstant(tensor);
    }
    for (const onnx::ValueInfoProto& input : graph.input()) inputs_[input.name()] = &input;
    FindChannelsLast(graph);
    for (const onnx::NodeProto& node : graph.node()) {
      node_ = &node;
      if (const Status added = AddNode(); !added.ok()) {
        return graph_.Fault(node.name().empty() ? FirstOutput() : node.name(), added.message());
      }
    }
    return graph_.Finish(std::filesystem::path(file_).stem().string());
  }

 private:
  // Inputs that are transposed to channels first before anything looks at their axes: as tf2onnx
  // leaves TensorFlow's.
  void FindChannelsLast(const onnx::GraphProto& graph) {
    static const auto* const kKeepingAxes =
        new std::set<std::string>{"Add", "Cast", "Div", "Identity", "Mul", "Pad", "Sub"};
    std::map<std::string, std::string> origins;  // of tensors with the axes of an input
    for (const auto& [name, input] : inputs_) origins[name] = name;
    std::set<std::string> decided;
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& name : node.input()) {
        const auto origin = origins.find(name);
        if (origin == origins.end() || decided.count(origin->second) > 0) continue;
        const std::string input = origin->second;
        if (kKeepingAxes->count(node.op_type()) > 0 && node.output_size() > 0) {
          origins[node.output(0)] = input;
          continue;
        }
        decided.insert(input);
        const std::vector<int64_t> permutation = OnnxAttributes(node).Numbers("perm");
        if (node.op_type() == "Transpose" && (permutation == std::vector<int64_t>{0, 3, 1, 2} ||
                                              permutation == std::vector<int64_t>{0, 4, 1, 2, 3})) {
          channels_last_.insert(input);
        }
      }
    }
  }

  std::string FirstOutput() const { return node_->output_size() > 0 ? node_->output(0) : ""; }

  Status AddNode() {
    const std::string& type = node_->op_type();
    if (node_->domain().empty() || node_->domain() == "ai.onnx") {
      if (type == "Constant") {
        constants_[FirstOutput()] = ReadConstantNode(*node_);
        return Status::Ok();
      }
      if (type == "Shape") return AddShape();
      if (Fold()) return Status::Ok();
      const auto member = Members().find(type);
      if (member != Members().end()) return (this->*member->second)();
    }
    return PassUnsupported("");
  }

  // True where all inputs are constants: the output is one, too.
  bool Fold() {
    std::vector<const OnnxConstant*> inputs;
    for (const std::string& name : node_->input()) {
      const auto found = constants_.find(name);
      if (found == constants_.end() && !name.empty()) return false;
      inputs.push_back(found == constants_.end() ? nullptr : &found->second);
    }
    OnnxConstant folded = FoldConstants(*node_, inputs);
    for (const std::string& output : node_->output()) constants_[output] = folded;
    return true;
  }

  using Member = Status (Importer::*)();
  static const std::map<std::string, Member>& Members() {
    static const auto* const members =
        new std::map<std::string, Member>{{"Add", &Importer::AddSum},
                                          {"AveragePool", &Importer::AddPooling},
                                          {"BatchNormalization", &Importer::AddNormalization},
                                          {"Cast", &Importer::AddNothing},
                                          {"Clip", &Importer::AddActivation},
                                          {"Concat", &Importer::AddConcat},
                                          {"Conv", &Importer::AddConvolution},
                                          {"ConvTranspose", &Importer::AddTransposedConvolution},
                                          {"Div", &Importer::AddProduct},
                                          {"Dropout", &Importer::AddDropout},
                                          {"Elu", &Importer::AddActivation},
                                          {"Flatten", &Importer::AddFlatten},
                                          {"Gelu", &Importer::AddActivation},
                                          {"Gemm", &Importer::AddGemm},
                                          {"GlobalAveragePool", &Importer::AddGlobalPooling},
                                          {"GlobalMaxPool", &Importer::AddGlobalPooling},
                                          {"HardSigmoid", &Importer::AddActivation},
                                          {"HardSwish", &Importer::AddActivation},
                                          {"Identity", &Importer::AddNothing},
                                          {"LRN", &Importer::AddLrn},
                                          {"LeakyRelu", &Importer::AddActivation},
                                          {"LogSoftmax", &Importer::AddSoftmax},
                                          {"MatMul", &Importer::AddMatMul},
                                          {"MaxPool", &Importer::AddPooling},
                                          {"Mul", &Importer::AddProduct},
                                          {"Pad", &Importer::AddPad},
                                          {"ReduceMax", &Importer::AddReduction},
                                          {"ReduceMean", &Importer::AddReduction},
                                          {"Relu", &Importer::AddActivation},
                                          {"Reshape", &Importer::AddReshape},
                                          {"Resize", &Importer::AddResize},
                                          {"Sigmoid", &Importer::AddActivation},
                                          {"Slice", &Importer::AddSlice},
                                          {"Softmax", &Importer::AddSoftmax},
                                          {"Squeeze", &Importer::AddSqueeze},
                                          {"Sub", &Importer::AddSum},
                                          {"Sum", &Importer::AddSum},
                                          {"Swish", &Importer::AddActivation},
                                          {"Tanh", &Importer::AddActivation},
                                          {"Transpose", &Importer::AddTranspose},
                                          {"Unsqueeze", &Importer::AddUnsqueeze},
                                          {"Upsample", &Importer::AddResize}};
    return *members;
  }

  // --- what a node takes and gives ---

  bool HasInput(int index) const {
    return index < node_->input_size() && !node_->input(index).empty();
  }
  const OnnxConstant* ConstantInput(int index) const {
    if (!HasInput(index)) return nullptr;
    const auto found = constants_.find(node_->input(index));
    return found == constants_.end() ? nullptr : &found->second;
  }
  // A list that newer operators take as an input and older ones as an attribute. None where it is
  // not there, or computed.
  std::optional<std::vector<int64_t>> List(int input, const std::string& attribute) const {
    if (const OnnxConstant* constant = ConstantInput(input)) return constant->WholeNumbers();
    if (HasInput(input)) return std::nullopt;
    if (OnnxAttributes(*node_).Find(attribute) == nullptr) return std::nullopt;
    return OnnxAttributes(*node_).Numbers(attribute);
  }

  Result<Tensor> TensorInput(int index) {
    if (!HasInput(index)) {
      return Status::Error("no input " + std::to_string(index + 1) + "; expected one");
    }
    const std::string& name = node_->input(index);
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return found->second;
    const auto input = inputs_.find(name);
    if (input != inputs_.end()) return AddInput(name, *input->second);
    return Status::Error("input " + Quoted(name) +
                         (constants_.count(name) > 0 ? " is constant" : "") +
                         "; expected what a node before it gives");
  }

  Result<Tensor> AddInput(const std::string& name, const onnx::ValueInfoProto& info) {
    const auto& shape = info.type().tensor_type().shape();
    const auto rank = static_cast<size_t>(shape.dim_size());
    if (rank != 2 && rank != 4 && rank != 5) {
      return Status::Error("input " + Quoted(name) + ": " + std::to_string(rank) +
                           " axes; expected batch, channels and those of images");
    }
    std::vector<int32_t> extents;
    for (size_t axis = 1; axis < rank; ++axis) {
      const auto& dim = shape.dim(static_cast<int>(axis));
      if (dim.dim_value() < 1 || dim.dim_value() > std::numeric_limits<int32_t>::max()) {
        return Status::Error(
            "input " + Quoted(name) + ": extent " +
            (dim.dim_param().empty() ? std::to_string(dim.dim_value()) : Quoted(dim.dim_param())) +
            " of axis " + std::to_string(axis) + "; expected a number (only the batch is dynamic)");
      }
      extents.push_back(static_cast<int32_t>(dim.dim_value()));
    }
    const bool channels_last = rank > 2 && channels_last_.count(name) > 0;
    if (channels_last) std::rotate(extents.begin(), extents.end() - 1, extents.end());
    Input input{extents[0], {1, 1, 1}, rank == 5 ? 3 : 2};
    std::copy(extents.begin() + 1, extents.end(),
              input.extents.end() - static_cast<ptrdiff_t>(extents.size() - 1));
    UCUDNN_ASSIGN_OR_RETURN(const NodeId node, graph_.Add(name, "input", input, {}));
    return tensors_[name] = {node, rank, channels_last};
  }

  Status Give(const Tensor& tensor) {
    if (FirstOutput().empty()) return Status::Error("no output; expected one");
    tensors_[FirstOutput()] = tensor;
    return Status::Ok();
  }
  // A new node behind `tensor`, whose axes stay.
  Status Append(const Operator& op, const Tensor& tensor) {
    UCUDNN_ASSIGN_OR_RETURN(const NodeId node,
                            graph_.Add(node_->name(), FirstOutput(), op, {tensor.node}));
    return Give({node, tensor.rank, tensor.channels_last});
  }
  Status AppendFeatures(const Operator& op, const Tensor& tensor) {
    return Append(op, {tensor.node, 2, false});
  }
  Status AddNothing() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    return Give(tensor);
  }
  // Lists the operator, and goes on with its first input that is no constant.
  Status PassUnsupported(const std::string& why) {
    graph_.NoteUnsupported(node_->op_type(), node_->name().empty() ? FirstOutput() : node_->name(),
                           why);
    for (int i = 0; i < node_->input_size(); ++i) {
      if (HasInput(i) && ConstantInput(i) == nullptr) {
        UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(i));
        for (const std::string& output : node_->output()) tensors_[output] = tensor;
        return Status::Ok();
      }
    }
    for (const std::string& output : node_->output()) constants_[output] = {};
    return Status::Ok();
  }
  const Shape& ShapeOf(const Tensor& tensor) const { return graph_.ShapeOf(tensor.node); }

  // The extents in the file's axes, the batch as 1.
  std::vector<int64_t> Extents(const Tensor& tensor) const {
    const Shape& shape = ShapeOf(tensor);
    std::vector<int64_t> extents;
    for (size_t axis = 0; axis < tensor.rank; ++axis) {
      const AxisPlace place = PlaceOf(tensor, static_cast<int64_t>(axis));
      extents.push_back(place.axis == Axis::kBatch ? 1
                        : place.axis == Axis::kChannel
                            ? (tensor.rank == 2 ? shape.Features() : shape.c)
                            : shape.extents[place.spatial]);
    }
    return extents;
  }

  // --- operators, by what they do ---

  Status AddShape() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    const std::vector<int64_t> extents = Extents(tensor);
    constants_[FirstOutput()] = {{static_cast<int64_t>(extents.size())},
                                 std::vector<double>(extents.begin(), extents.end())};
    return Status::Ok();
  }

  Status AddActivation() {
    static const auto* const kinds = new std::map<std::string, ActivationKind>{
        {"Clip", ActivationKind::kRelu6},          {"Elu", ActivationKind::kElu},
        {"Gelu", ActivationKind::kGelu},           {"HardSigmoid", ActivationKind::kHardSigmoid},
        {"HardSwish", ActivationKind::kHardSwish}, {"LeakyRelu", ActivationKind::kLeakyRelu},
        {"Relu", ActivationKind::kRelu},           {"Sigmoid", ActivationKind::kSigmoid},
        {"Swish", ActivationKind::kSwish},         {"Tanh", ActivationKind::kTanh}};
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    return Append(Activation{kinds->at(node_->op_type())}, tensor);
  }
  Status AddNormalization() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    if (tensor.channels_last) return PassUnsupported("of channels in the last axis");
    return Append(BatchNormalization{}, tensor);
  }
  Status AddLrn() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    if (tensor.channels_last) return PassUnsupported("of channels in the last axis");
    const OnnxAttributes attributes(*node_);
    UCUDNN_ASSIGN_OR_RETURN(const int32_t size, Narrow(attributes.Number("size", 5), "size"));
    return Append(
        LocalResponseNormalization{size, attributes.Real("alpha", 1e-4),
                                   attributes.Real("beta", 0.75), attributes.Real("bias", 1)},
        tensor);
  }
  Status AddDropout() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    const OnnxConstant* ratio = ConstantInput(1);
    const bool given = ratio != nullptr && ratio->values && ratio->values->size() == 1 &&
                       (*ratio->values)[0] >= 0 && (*ratio->values)[0] <= 1;
    return Append(Dropout{given ? (*ratio->values)[0] : OnnxAttributes(*node_).Real("ratio", 0.5)},
                  tensor);
  }
  Status AddSoftmax() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    return Append(Softmax{}, tensor);
  }

  // Stride, padding and dilation of a window of `extents` over `tensor`.
  struct Sliding {
    Spatial stride;
    Spatial pad;
    Spatial end_pad;
    Spatial dilation;
  };
  Result<Sliding> ReadSliding(const Tensor& tensor, const Spatial& extents) const {
    const OnnxAttributes attributes(*node_);
    const std::vector<int64_t> pads = attributes.Numbers("pads");
    Sliding sliding;
    UCUDNN_ASSIGN_OR_RETURN(
        sliding.stride, ReadSpatial(attributes.Numbers("strides"), 0, tensor.rank, 1, "strides"));
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
  // As much as makes the output the input divided by the stride; an odd pixel goes to the end, or
  // to the beginning.
  Status PadToSame(const Tensor& tensor, const Spatial& extents, bool lower,
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
  static Result<Spatial> Difference(const Spatial& a, const Spatial& b) {
    Spatial difference;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      UCUDNN_ASSIGN_OR_RETURN(difference[axis], Narrow(int64_t{a[axis]} - b[axis], "pads"));
    }
    return difference;
  }

  // The filter of a convolution of `tensor`, or null where it is none of ours.
  const OnnxConstant* Filter(const Tensor& tensor) const {
    const OnnxConstant* filter = ConstantInput(1);
    const bool fits = filter != nullptr && filter->dims.size() == tensor.rank && tensor.rank > 2 &&
                      !tensor.channels_last;
    return fits ? filter : nullptr;
  }
  Status AddConvolution() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
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
    convolution.bias = HasInput(2);
    const int32_t channels = ShapeOf(tensor).c;
    if (convolution.groups >= 1 && channels % convolution.groups == 0 &&
        filter->dims[1] != channels / convolution.groups) {
      return Status::Error("a filter of " + std::to_string(filter->dims[1]) + " channels in " +
                           std::to_string(convolution.groups) + " groups over " +
                           std::to_string(channels) + "; expected as many");
    }
    return Append(convolution, tensor);
  }
  Status AddTransposedConvolution() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
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
    layer.bias = HasInput(2);
    UCUDNN_RETURN_IF_ERROR(ReadTransposedExtents(tensor, layer));
    return Append(layer, tensor);
  }
  // The output is as large as output_shape says, or as the input times the stride, or as strides,
  // padding and output_padding make it.
  Status ReadTransposedExtents(const Tensor& tensor, TransposedConvolution& layer) const {
    const OnnxAttributes attributes(*node_);
    UCUDNN_ASSIGN_OR_RETURN(Sliding sliding, ReadSliding(tensor, layer.window));
    layer.stride = sliding.stride;
    layer.dilation = sliding.dilation;
    std::vector<int64_t> output = attributes.Numbers("output_shape");
    const bool same = attributes.Text("auto_pad").rfind("SAME", 0) == 0;
    if (output.empty() && !same) {
      layer.pad = sliding.pad;
      UCUDNN_ASSIGN_OR_RETURN(const Spatial more, ReadSpatial(attributes.Numbers("output_padding"),
                                                              0, tensor.rank, 0, "output_padding"));
      UCUDNN_ASSIGN_OR_RETURN(const Spatial cut, Difference(sliding.end_pad, sliding.pad));
      UCUDNN_ASSIGN_OR_RETURN(layer.extra_extent, Difference(more, cut));
      return Status::Ok();
    }
    UCUDNN_ASSIGN_OR_RETURN(const Spatial wanted,
                            ReadSpatial(output, 0, tensor.rank, 1, "output_shape"));
    for (size_t axis = kMaxSpatial - (tensor.rank - 2); axis < kMaxSpatial; ++axis) {
      const int64_t image = ShapeOf(tensor).extents[axis];
      const int64_t stride = layer.stride[axis];
      const int64_t natural = (image - 1) * stride +
                              int64_t{layer.window[axis] - int64_t{1}} * layer.dilation[axis] + 1;
      const int64_t out = same && output.empty() ? image * stride : wanted[axis];
      UCUDNN_ASSIGN_OR_RETURN(layer.extra_extent[axis], Narrow(out - natural, "output_shape"));
    }
    return Status::Ok();
  }

  Status AddPooling() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
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
  Status AddGlobalPooling() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    if (tensor.channels_last) return PassUnsupported("of channels in the last axis");
    return Append(GlobalPooling{node_->op_type() == "GlobalMaxPool" ? PoolingKind::kMaximum
                                                                    : PoolingKind::kAverage},
                  tensor);
  }
  // Over all axes of the image: global pooling.
  Status AddReduction() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
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

  Status AddGemm() {
    const OnnxAttributes attributes(*node_);
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    if (attributes.Number("transA", 0) != 0) return PassUnsupported("of a transposed input");
    return AddFullyConnected(tensor, attributes.Number("transB", 0) != 0, HasInput(2));
  }
  Status AddMatMul() {
    if (ConstantInput(0) != nullptr) {
      return PassUnsupported("of two computed matrices, or of a constant first");
    }
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    return AddFullyConnected(tensor, false, false);
  }
  Status AddFullyConnected(const Tensor& tensor, bool transposed, bool bias) {
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

  // A sum of tensors, or a constant added: a bias where one belongs, else a shift.
  Status AddSum() {
    for (int i = 0; i < node_->input_size() && node_->input_size() == 2; ++i) {
      if (ConstantInput(1 - i) != nullptr && ConstantInput(i) == nullptr) {
        UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(i));
        return AddConstant(tensor, *ConstantInput(1 - i));
      }
    }
    if (node_->op_type() == "Sub") return PassUnsupported("of two computed tensors");
    return Combine(planner::Add{});
  }
  // Nodes of several inputs with equal axes.
  Status Combine(const Operator& op) {
    std::vector<NodeId> inputs;
    Tensor first;
    for (int i = 0; i < node_->input_size(); ++i) {
      if (ConstantInput(i) != nullptr) return PassUnsupported("of constants among its inputs");
      UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(i));
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
    UCUDNN_ASSIGN_OR_RETURN(const NodeId node,
                            graph_.Add(node_->name(), FirstOutput(), op, inputs));
    return Give({node, first.rank, first.channels_last});
  }
  Status AddConstant(const Tensor& tensor, const OnnxConstant& constant) {
    if (constant.Elements() == 1) return Give(tensor);
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

  // A product of two tensors, or with a constant.
  Status AddProduct() {
    if (node_->input_size() != 2) {
      return Status::Error(std::to_string(node_->input_size()) + " inputs; expected two");
    }
    for (int i = 0; i < 2; ++i) {
      const OnnxConstant* constant = ConstantInput(1 - i);
      if (constant == nullptr || ConstantInput(i) != nullptr) continue;
      UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(i));
      if (constant->Elements() == 1) return Give(tensor);
      if (constant->Elements() != ShapeOf(tensor).c) {
        return PassUnsupported("of a constant that has not one number a channel");
      }
      return Append(Scale{true, false}, tensor);
    }
    if (node_->op_type() == "Div") return PassUnsupported("of two computed tensors");
    UCUDNN_ASSIGN_OR_RETURN(const Tensor a, TensorInput(0));
    UCUDNN_ASSIGN_OR_RETURN(const Tensor b, TensorInput(1));
    if (IsGateOf(b.node, a.node)) return Give(b);
    if (IsGateOf(a.node, b.node)) return Give(a);
    const bool a_is_gate = a.rank == 2 || IsOnePixel(ShapeOf(a));
    UCUDNN_RETURN_IF_ERROR(Combine(Multiply{}));
    if (a_is_gate) {  // the other says which axes the product has
      Tensor& product = tensors_[FirstOutput()];
      product.rank = b.rank;
      product.channels_last = b.channels_last;
    }
    return Status::Ok();
  }
  // x sigmoid(x) is one activation, swish, which exporters write as two nodes; so is the hard one.
  bool IsGateOf(NodeId gate, NodeId input) {
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

  Status AddConcat() {
    const int64_t axis = OnnxAttributes(*node_).Number("axis", 1);
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    if (PlaceOf(tensor, axis).axis != Axis::kChannel) {
      return PassUnsupported("along axis " + std::to_string(axis));
    }
    return Combine(Concat{});
  }

  // --- operators that only move axes and edges ---

  Status AddTranspose() {
    UCUDNN_ASSIGN_OR_RETURN(Tensor tensor, TensorInput(0));
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
  Status AddFlatten() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    const int64_t axis = OnnxAttributes(*node_).Number("axis", 1);
    if (axis != 1 && axis != 1 - static_cast<int64_t>(tensor.rank)) {
      return PassUnsupported("at axis " + std::to_string(axis));
    }
    return AppendFeatures(Flatten{}, tensor);
  }
  Status AddReshape() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
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
    return PassUnsupported("to " + std::to_string(shape->size()) + " other axes");
  }
  Status AddSqueeze() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
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
  Status AddUnsqueeze() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
    const auto axes = List(1, "axes");
    if (tensor.rank != 2 || !axes || axes->size() != 2) return PassUnsupported("of an image");
    const std::set<int64_t> wanted(axes->begin(), axes->end());
    if (wanted == std::set<int64_t>{2, 3} || wanted == std::set<int64_t>{-1, -2}) {
      return Give({tensor.node, 4, false});
    }
    if (wanted == std::set<int64_t>{1, 2}) return Give({tensor.node, 4, true});
    return PassUnsupported("to other axes");
  }

  // Padding by so many pixels at each end; nothing where there are none.
  Status AddPadding(const Tensor& tensor, const Padding& padding) {
    if (padding.before == Spatial{0, 0, 0} && padding.after == Spatial{0, 0, 0}) {
      return Give(tensor);
    }
    return Append(padding, tensor);
  }
  Status AddPad() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
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
  Status AddSlice() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
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
  Status AddResize() {
    UCUDNN_ASSIGN_OR_RETURN(const Tensor tensor, TensorInput(0));
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

  const std::string file_;
  ImportedGraph graph_;
  std::map<std::string, const onnx::ValueInfoProto*> inputs_;
  std::set<std::string> channels_last_;  // of inputs_
  std::map<std::string, OnnxConstant> constants_;
  std::map<std::string, Tensor> tensors_;
  const onnx::NodeProto* node_ = nullptr;  // being added
};

}  // namespace

Result<Graph> ImportOnnx(const std::string& model, const std::string& file,
                         const ImportOptions& options) {
  onnx::ModelProto proto;
  // Protocol buffers end at 2 GiB; larger models keep their weights in files of their own.
  if (model.size() > std::numeric_limits<int32_t>::max() || !proto.ParseFromString(model)) {
    return Status::Error(file + ": no ONNX model; expected protocol buffers of at most 2 GiB");
  }
  return Importer(file, options).Import(proto.graph());
}

}  // namespace ucudnn::planner
