#include "planner/graph/formats/caffe.h"

#include <filesystem>
#include <map>
#include <vector>

#include "base/text.h"
#include "planner/graph/formats/caffe_fields.h"
#include "planner/graph/formats/text_format.h"

namespace ucudnn::planner {
namespace {

// The layer types that V1 writes otherwise than in capitals of the current name.
const std::map<std::string, std::string>& V1Types() {
  static const auto* const types = new std::map<std::string, std::string>{
      {"ACCURACY", "Accuracy"},
      {"BNLL", "BNLL"},
      {"CONCAT", "Concat"},
      {"CONVOLUTION", "Convolution"},
      {"DATA", "Data"},
      {"DECONVOLUTION", "Deconvolution"},
      {"DROPOUT", "Dropout"},
      {"DUMMY_DATA", "DummyData"},
      {"ELTWISE", "Eltwise"},
      {"EUCLIDEAN_LOSS", "EuclideanLoss"},
      {"FLATTEN", "Flatten"},
      {"HDF5_DATA", "HDF5Data"},
      {"HINGE_LOSS", "HingeLoss"},
      {"IMAGE_DATA", "ImageData"},
      {"INFOGAIN_LOSS", "InfogainLoss"},
      {"INNER_PRODUCT", "InnerProduct"},
      {"LRN", "LRN"},
      {"MEMORY_DATA", "MemoryData"},
      {"MULTINOMIAL_LOGISTIC_LOSS", "MultinomialLogisticLoss"},
      {"POOLING", "Pooling"},
      {"POWER", "Power"},
      {"RELU", "ReLU"},
      {"SIGMOID", "Sigmoid"},
      {"SIGMOID_CROSS_ENTROPY_LOSS", "SigmoidCrossEntropyLoss"},
      {"SILENCE", "Silence"},
      {"SOFTMAX", "Softmax"},
      {"SOFTMAX_LOSS", "SoftmaxWithLoss"},
      {"SPLIT", "Split"},
      {"TANH", "TanH"},
      {"WINDOW_DATA", "WindowData"}};
  return *types;
}

// What a window is called in convolution_param and pooling_param: for both axes, one by one, or
// each under its own name. Neutral in depth.
Spatial Extents(CaffeFields& fields, const char* both, const char* height, const char* width,
                int32_t standard, int32_t depth) {
  const std::vector<int32_t> numbers = fields.Numbers(both);
  const int32_t h = numbers.empty() ? standard : numbers[0];
  const int32_t w = numbers.size() < 2 ? h : numbers[1];
  return {depth, fields.Number(height, h), fields.Number(width, w)};
}

std::vector<std::string> Values(const TextField& message, const char* name) {
  std::vector<std::string> values;
  for (const TextField* field : message.FindAll(name)) values.push_back(field->value);
  return values;
}

// Whether a rule (NetStateRule) holds for training, without stages, at level 0.
bool HoldsInTraining(const TextField& rule) {
  const TextField* phase = rule.Find("phase");
  const bool training = phase == nullptr || phase->value == "TRAIN" || phase->value == "0";
  return training && rule.Find("stage") == nullptr;
}

bool RunsInTraining(const TextField& layer) {
  const std::vector<const TextField*> includes = layer.FindAll("include");
  bool runs = includes.empty();
  for (const TextField* rule : includes) runs = runs || HoldsInTraining(*rule);
  for (const TextField* rule : layer.FindAll("exclude")) runs = runs && !HoldsInTraining(*rule);
  return runs;
}

class Importer {
 public:
  Importer(const std::string& file, const ImportOptions& options)
      : file_(file), input_(options.input), graph_(file, options) {}

  Result<Graph> Import(const TextField& net) {
    UCUDNN_RETURN_IF_ERROR(AddNetInputs(net));
    for (const TextField& field : net.fields) {
      if (field.name != "layer" && field.name != "layers") continue;
      layer_ = &field;
      const TextField* name = field.Find("name");
      name_ = name == nullptr ? "" : name->value;
      if (field.Find("layer") != nullptr) {
        return graph_.Fault(name_,
                            "the syntax before V1; expected layers that Caffe's "
                            "upgrade_net_proto_text has upgraded");
      }
      if (!RunsInTraining(field)) continue;
      if (const Status added = AddLayer(); !added.ok()) {
        return graph_.Fault(name_, added.message());
      }
    }
    if (!input_.empty() && !input_is_used_) {
      return Status::Error(file_ + ": it has no data layer whose images could be given");
    }
    const TextField* name = net.Find("name");
    return graph_.Finish(name != nullptr && !name->value.empty()
                             ? name->value
                             : std::filesystem::path(file_).stem().string());
  }

 private:
  // What a blob is: nothing is known of labels, whose extents no layer needs.
  struct Blob {
    bool is_label = false;
    NodeId node = 0;
  };

  // `input` with input_shape or four input_dim each, as nets without an Input layer have.
  Status AddNetInputs(const TextField& net) {
    const std::vector<std::string> names = Values(net, "input");
    const std::vector<const TextField*> shapes = net.FindAll("input_shape");
    CaffeFields fields(&net);
    const std::vector<int32_t> flat = fields.Numbers("input_dim");
    if (!fields.fault().ok()) return Status::Error(file_ + ": " + fields.fault().message());
    for (size_t i = 0; i < names.size(); ++i) {
      std::vector<int32_t> extents;
      if (i < shapes.size()) {
        CaffeFields shape(shapes[i]);
        extents = shape.Numbers("dim");
        if (!shape.fault().ok()) return Status::Error(file_ + ": " + shape.fault().message());
      } else if (flat.size() >= 4 * (i + 1)) {
        extents.assign(flat.begin() + static_cast<ptrdiff_t>(4 * i),
                       flat.begin() + static_cast<ptrdiff_t>(4 * i + 4));
      }
      const Status added = AddInput(names[i], extents);
      if (!added.ok()) return graph_.Fault(names[i], added.message());
    }
    return Status::Ok();
  }

  Status AddInput(const std::string& blob, const std::vector<int32_t>& extents) {
    if (extents.size() == 2 && extents[1] >= 1) {  // features
      return Bind(blob, Input{extents[1], {1, 1, 1}, 2}, {});
    }
    if (extents.size() == 1) {
      blobs_[blob].is_label = true;
      return Status::Ok();
    }
    if (extents.size() != 4 && extents.size() != 5) {
      return Status::Error(std::to_string(extents.size()) +
                           " extents of its input; expected n, c, h and w");
    }
    const bool deep = extents.size() == 5;
    return Bind(blob,
                Input{extents[1],
                      {deep ? extents[2] : 1, extents[deep ? 3 : 2], extents[deep ? 4 : 3]},
                      deep ? 3 : 2},
                {});
  }

  Status AddLayer() {
    bottoms_ = Values(*layer_, "bottom");
    tops_ = Values(*layer_, "top");
    const TextField* type = layer_->Find("type");
    std::string kind = type == nullptr ? "" : type->value;
    if (layer_->name == "layers") {
      const auto found = V1Types().find(kind);
      if (found != V1Types().end()) kind = found->second;
    }
    using Member = Status (Importer::*)();
    static const auto* const members =
        new std::map<std::string, Member>{{"AbsVal", &Importer::AddNothing},
                                          {"Accuracy", &Importer::Drop},
                                          {"AnnotatedData", &Importer::AddData},
                                          {"BN", &Importer::AddWholeNormalization},
                                          {"BNLL", &Importer::AddNothing},
                                          {"BatchNorm", &Importer::AddNormalization},
                                          {"Bias", &Importer::AddBias},
                                          {"Concat", &Importer::AddConcat},
                                          {"ContrastiveLoss", &Importer::Drop},
                                          {"Convolution", &Importer::AddConvolution},
                                          {"ConvolutionDepthwise", &Importer::AddDepthwise},
                                          {"Crop", &Importer::AddCrop},
                                          {"Data", &Importer::AddData},
                                          {"Deconvolution", &Importer::AddDeconvolution},
                                          {"DepthwiseConvolution", &Importer::AddDepthwise},
                                          {"Dropout", &Importer::AddDropout},
                                          {"DummyData", &Importer::AddDummyData},
                                          {"ELU", &Importer::AddElu},
                                          {"Eltwise", &Importer::AddEltwise},
                                          {"EuclideanLoss", &Importer::Drop},
                                          {"Flatten", &Importer::AddFlatten},
                                          {"HDF5Data", &Importer::AddData},
                                          {"HingeLoss", &Importer::Drop},
                                          {"ImageData", &Importer::AddData},
                                          {"InfogainLoss", &Importer::Drop},
                                          {"InnerProduct", &Importer::AddInnerProduct},
                                          {"Input", &Importer::AddInputLayer},
                                          {"LRN", &Importer::AddLrn},
                                          {"MemoryData", &Importer::AddMemoryData},
                                          {"MultinomialLogisticLoss", &Importer::Drop},
                                          {"Pooling", &Importer::AddPooling},
                                          {"Power", &Importer::AddNothing},
                                          {"ReLU", &Importer::AddRelu},
                                          {"ReLU6", &Importer::AddRelu6},
                                          {"Scale", &Importer::AddScale},
                                          {"Sigmoid", &Importer::AddSigmoid},
                                          {"SigmoidCrossEntropyLoss", &Importer::Drop},
                                          {"Silence", &Importer::Drop},
                                          {"Softmax", &Importer::AddSoftmax},
                                          {"SoftmaxWithLoss", &Importer::AddSoftmax},
                                          {"Split", &Importer::AddNothing},
                                          {"Swish", &Importer::AddSwish},
                                          {"TanH", &Importer::AddTanh},
                                          {"WindowData", &Importer::AddData}};
    const auto found = members->find(kind);
    if (found != members->end()) return (this->*found->second)();
    graph_.NoteUnsupported(kind, name_, "");
    return AddNothing();
  }

  // The message a layer keeps its own parameters in.
  CaffeFields Parameters(const char* name) const { return CaffeFields(layer_->Find(name)); }

  // `blob` becomes what a new node puts out.
  Status Bind(const std::string& blob, const Operator& op, const std::vector<NodeId>& inputs) {
    const Result<NodeId> node = graph_.Add(name_, blob, op, inputs);
    if (!node.ok()) return node.status();
    blobs_[blob] = {false, *node};
    return Status::Ok();
  }
  Result<NodeId> Bottom(size_t index) const {
    if (index >= bottoms_.size()) {
      return Status::Error(std::to_string(bottoms_.size()) + " bottoms; expected more");
    }
    const auto found = blobs_.find(bottoms_[index]);
    if (found == blobs_.end() || found->second.is_label) {
      return Status::Error("bottom " + Quoted(bottoms_[index]) +
                           "; expected the top of a layer before it");
    }
    return found->second.node;
  }
  Result<std::string> Top() const {
    if (tops_.empty()) return Status::Error("no top; expected one");
    return tops_.front();
  }
  // A node behind the layer's only bottom, unless reading its parameters went wrong.
  Status AddUnary(const Operator& op, const Status& fault = Status::Ok()) {
    UCUDNN_RETURN_IF_ERROR(fault);
    UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, Bottom(0));
    UCUDNN_ASSIGN_OR_RETURN(const std::string top, Top());
    return Bind(top, op, {bottom});
  }
  Status AddMany(const Operator& op, size_t least, size_t most) {
    if (bottoms_.size() < least || bottoms_.size() > most) {
      return Status::Error(std::to_string(bottoms_.size()) + " bottoms; expected " +
                           (most == least ? "" : "at least ") + std::to_string(least));
    }
    std::vector<NodeId> inputs;
    for (size_t i = 0; i < bottoms_.size(); ++i) {
      UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, Bottom(i));
      inputs.push_back(bottom);
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::string top, Top());
    return Bind(top, op, inputs);
  }

  Status Drop() {
    for (const std::string& top : tops_) blobs_[top].is_label = true;
    return Status::Ok();
  }
  // Also of element-wise functions without parameters, which no plan tells apart.
  Status AddNothing() {
    UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, Bottom(0));
    for (const std::string& top : tops_) blobs_[top] = {false, bottom};
    return Status::Ok();
  }

  // Images in the first top, labels in the others.
  Status AddImages(const std::vector<int32_t>& extents) {
    UCUDNN_ASSIGN_OR_RETURN(const std::string top, Top());
    for (const std::string& label : tops_) blobs_[label].is_label = true;
    return AddInput(top, extents);
  }
  Status AddInputLayer() {
    const TextField* parameters = layer_->Find("input_param");
    CaffeFields shape(parameters == nullptr ? nullptr : parameters->Find("shape"));
    const std::vector<int32_t> extents = shape.Numbers("dim");
    UCUDNN_RETURN_IF_ERROR(shape.fault());
    return AddImages(extents);
  }
  Status AddDummyData() {
    const TextField* parameters = layer_->Find("dummy_data_param");
    CaffeFields fields(parameters);
    CaffeFields shape(parameters == nullptr ? nullptr : parameters->Find("shape"));
    std::vector<int32_t> extents = shape.Numbers("dim");
    if (extents.empty()) {
      extents = {1, fields.Number("channels", 0), fields.Number("height", 0),
                 fields.Number("width", 0)};
    }
    UCUDNN_RETURN_IF_ERROR(fields.fault());
    UCUDNN_RETURN_IF_ERROR(shape.fault());
    return AddImages(extents);
  }
  Status AddMemoryData() {
    CaffeFields fields = Parameters("memory_data_param");
    const std::vector<int32_t> extents = {1, fields.Number("channels", 0),
                                          fields.Number("height", 0), fields.Number("width", 0)};
    UCUDNN_RETURN_IF_ERROR(fields.fault());
    return AddImages(extents);
  }
  Status AddData() {
    int32_t crop = 0;
    for (const char* parameters :
         {"transform_param", "data_param", "image_data_param", "window_data_param"}) {
      CaffeFields fields = Parameters(parameters);
      if (crop == 0) crop = fields.Number("crop_size", 0);
      UCUDNN_RETURN_IF_ERROR(fields.fault());
    }
    if (!input_.empty()) {
      std::vector<int32_t> extents = {1};
      extents.insert(extents.end(), input_.begin(), input_.end());
      input_is_used_ = true;
      return AddImages(extents);
    }
    if (crop < 1) {
      return Status::Error("crop_size " + std::to_string(crop) +
                           " of its images; expected their extents, and the file says no other: "
                           "--input 3x224x224 gives them");
    }
    return AddImages({1, 3, crop, crop});
  }

  template <typename AnyConvolution>
  AnyConvolution ReadConvolution(CaffeFields& fields, int32_t groups) {
    AnyConvolution convolution;
    convolution.filters = fields.Number("num_output", 0);
    convolution.window = Extents(fields, "kernel_size", "kernel_h", "kernel_w", 0, 1);
    convolution.stride = Extents(fields, "stride", "stride_h", "stride_w", 1, 1);
    convolution.pad = Extents(fields, "pad", "pad_h", "pad_w", 0, 0);
    convolution.dilation = Extents(fields, "dilation", "dilation_h", "dilation_w", 1, 1);
    convolution.groups = fields.Number("group", groups);
    convolution.bias = fields.Flag("bias_term", true);
    return convolution;
  }
  Status AddConvolution() {
    CaffeFields fields = Parameters("convolution_param");
    return AddUnary(ReadConvolution<Convolution>(fields, 1), fields.fault());
  }
  Status AddDepthwise() {
    UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, Bottom(0));
    CaffeFields fields = Parameters("convolution_param");
    return AddUnary(ReadConvolution<Convolution>(fields, graph_.ShapeOf(bottom).c), fields.fault());
  }
  Status AddDeconvolution() {
    CaffeFields fields = Parameters("convolution_param");
    return AddUnary(ReadConvolution<TransposedConvolution>(fields, 1), fields.fault());
  }
  Status AddPooling() {
    CaffeFields fields = Parameters("pooling_param");
    const int kind = fields.Choice("pool", 0, {"MAX", "AVE", "STOCHASTIC"});
    const PoolingKind pooling = kind == 1 ? PoolingKind::kAverage : PoolingKind::kMaximum;
    if (fields.Flag("global_pooling", false)) {
      return AddUnary(GlobalPooling{pooling}, fields.fault());
    }
    Pooling window;
    window.kind = pooling;
    window.window = Extents(fields, "kernel_size", "kernel_h", "kernel_w", 0, 1);
    window.stride = Extents(fields, "stride", "stride_h", "stride_w", 1, 1);
    window.pad = Extents(fields, "pad", "pad_h", "pad_w", 0, 0);
    window.round_up = fields.Choice("round_mode", 0, {"CEIL", "FLOOR"}) == 0;
    return AddUnary(window, fields.fault());
  }
  Status AddInnerProduct() {
    CaffeFields fields = Parameters("inner_product_param");
    const FullyConnected layer{fields.Number("num_output", 0), fields.Flag("bias_term", true)};
    return AddUnary(layer, fields.fault());
  }
  Status AddLrn() {
    CaffeFields fields = Parameters("lrn_param");
    const LocalResponseNormalization lrn{fields.Number("local_size", 5), fields.Real("alpha", 1),
                                         fields.Real("beta", 0.75), fields.Real("k", 1)};
    return AddUnary(lrn, fields.fault());
  }
  Status AddDropout() {
    CaffeFields fields = Parameters("dropout_param");
    const Dropout dropout{fields.Real("dropout_ratio", 0.5)};
    return AddUnary(dropout, fields.fault());
  }
  Status AddNormalization() { return AddUnary(BatchNormalization{false}); }
  Status AddWholeNormalization() { return AddUnary(BatchNormalization{true}); }
  // Caffe normalises in one layer, and scales and shifts in the next.
  Status AddScale() {
    CaffeFields fields = Parameters("scale_param");
    const Scale scale{true, fields.Flag("bias_term", false)};
    UCUDNN_RETURN_IF_ERROR(fields.fault());
    if (bottoms_.size() == 2) return AddMany(Multiply{}, 2, 2);
    UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, Bottom(0));
    auto* normalization = std::get_if<BatchNormalization>(&graph_.OperatorOf(bottom));
    const bool completes = normalization != nullptr && !normalization->scale_and_shift &&
                           graph_.Uses(bottom) == 0 && scale.shift;
    if (!completes) return AddUnary(scale);
    normalization->scale_and_shift = true;
    return AddNothing();
  }
  Status AddBias() { return AddUnary(Scale{false, true}); }
  Status AddConcat() {
    CaffeFields fields = Parameters("concat_param");
    const int32_t axis = fields.Number("axis", fields.Number("concat_dim", 1));
    UCUDNN_RETURN_IF_ERROR(fields.fault());
    if (axis != 1 && axis != -3) {
      graph_.NoteUnsupported("Concat", name_, "along axis " + std::to_string(axis));
      return AddNothing();
    }
    return AddMany(Concat{}, 1, bottoms_.size());
  }
  Status AddEltwise() {
    CaffeFields fields = Parameters("eltwise_param");
    const int operation = fields.Choice("operation", 1, {"PROD", "SUM", "MAX"});
    UCUDNN_RETURN_IF_ERROR(fields.fault());
    if (operation == 0) return AddMany(Multiply{}, 2, 2);
    if (operation == 1) return AddMany(Add{}, 2, bottoms_.size());
    graph_.NoteUnsupported("Eltwise", name_, "of operation MAX");
    return AddNothing();
  }
  // The first bottom, cut to the extents of the second.
  Status AddCrop() {
    CaffeFields fields = Parameters("crop_param");
    const std::vector<int32_t> offsets = fields.Numbers("offset");
    const int32_t axis = fields.Number("axis", 2);
    UCUDNN_RETURN_IF_ERROR(fields.fault());
    UCUDNN_ASSIGN_OR_RETURN(const NodeId image, Bottom(0));
    UCUDNN_ASSIGN_OR_RETURN(const NodeId reference, Bottom(1));
    if ((axis != 2 && axis != 3 && axis != -2 && axis != -1) || offsets.size() > 2) {
      graph_.NoteUnsupported("Crop", name_, "along axis " + std::to_string(axis));
      return AddNothing();
    }
    Padding padding;
    const size_t first = axis == 2 || axis == -2 ? 1 : 2;
    for (size_t at = first; at < kMaxSpatial; ++at) {
      const size_t own = offsets.size() == 1 ? 0 : at - first;
      const int64_t offset = own < offsets.size() ? offsets[own] : 0;
      const int64_t rest = int64_t{graph_.ShapeOf(image).extents[at]} -
                           graph_.ShapeOf(reference).extents[at] - offset;
      if (offset < 0 || rest < 0) {
        return Status::Error("an offset of " + std::to_string(offset) + " in " +
                             Describe(graph_.ShapeOf(image)) + " for " +
                             Describe(graph_.ShapeOf(reference)) + "; expected one that fits");
      }
      padding.before[at] = static_cast<int32_t>(-offset);
      padding.after[at] = static_cast<int32_t>(-rest);
    }
    return AddUnary(padding);
  }
  Status AddFlatten() { return AddUnary(Flatten{}); }
  Status AddSoftmax() { return AddUnary(Softmax{}); }
  Status AddRelu() {
    CaffeFields fields = Parameters("relu_param");
    const bool leaks = fields.Real("negative_slope", 0) != 0;
    return AddUnary(Activation{leaks ? ActivationKind::kLeakyRelu : ActivationKind::kRelu},
                    fields.fault());
  }
  Status AddRelu6() { return AddUnary(Activation{ActivationKind::kRelu6}); }
  Status AddElu() { return AddUnary(Activation{ActivationKind::kElu}); }
  Status AddSigmoid() { return AddUnary(Activation{ActivationKind::kSigmoid}); }
  Status AddSwish() { return AddUnary(Activation{ActivationKind::kSwish}); }
  Status AddTanh() { return AddUnary(Activation{ActivationKind::kTanh}); }

  const std::string file_;
  const std::vector<int32_t> input_;  // of data layers: ImportOptions::input
  bool input_is_used_ = false;
  ImportedGraph graph_;
  std::map<std::string, Blob> blobs_;
  // These four describe the layer that is being added.
  const TextField* layer_ = nullptr;
  std::string name_;
  std::vector<std::string> bottoms_;
  std::vector<std::string> tops_;
};

}  // namespace

Result<Graph> ImportCaffe(std::string_view text, const std::string& file,
                          const ImportOptions& options) {
  const Result<TextField> net = ParseTextFormat(text);
  if (!net.ok()) return Status::Error(file + ": " + net.message());
  return Importer(file, options).Import(*net);
}

}  // namespace ucudnn::planner
