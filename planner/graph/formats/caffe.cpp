#include "planner/graph/formats/caffe.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/text.h"
#include "planner/graph/formats/caffe_importer.h"

namespace ucudnn::planner {
namespace {

constexpr size_t kAny = std::numeric_limits<size_t>::max();

std::string CountText(size_t least, size_t most) {
  if (least == most) return std::to_string(least);
  if (most == kAny) return "at least " + std::to_string(least);
  return std::to_string(least) + " to " + std::to_string(most);
}

Status CheckCount(const char* what, size_t count, size_t least, size_t most) {
  if (count >= least && count <= most) return Status::Ok();
  return Status::Error(std::to_string(count) + " " + what + "; expected " + CountText(least, most));
}

}  // namespace

const std::map<std::string, CaffeImporter::LayerKind>& CaffeImporter::Kinds() {
  using I = CaffeImporter;
  using K = ActivationKind;
  static const auto* const kinds = new std::map<std::string, LayerKind>{
      {"AbsVal", {&I::AddActivation<K::kOther>, 1, 1, 1, 1}},
      {"Accuracy", {&I::Drop, 2, 2, 0, 2}},
      {"AnnotatedData", {&I::AddData, 0, 0, 1, kAny}},
      {"ArgMax", {&I::AddArgMax, 1, 1, 1, 1}},
      {"BN", {&I::AddWholeNormalization, 1, 1, 1, 1, 4}},
      {"BNLL", {&I::AddActivation<K::kOther>, 1, 1, 1, 1}},
      {"BatchNorm", {&I::AddNormalization, 1, 1, 1, 1, 3}},
      {"Bias", {&I::AddBias, 1, 2, 1, 1, 1}},
      {"Clip", {&I::AddActivation<K::kOther>, 1, 1, 1, 1}},
      {"Concat", {&I::AddConcat, 1, kAny, 1, 1}},
      {"ContrastiveLoss", {&I::AddLoss, 3, 3, 0, 1}},
      {"Convolution", {&I::AddConvolution, 1, kAny, 1, kAny, 2}},
      {"ConvolutionDepthwise", {&I::AddDepthwise, 1, kAny, 1, kAny, 2}},
      {"Crop", {&I::AddCrop, 2, 2, 1, 1}},
      {"Data", {&I::AddData, 0, 0, 1, 2}},
      {"Deconvolution", {&I::AddDeconvolution, 1, kAny, 1, kAny, 2}},
      {"DepthwiseConvolution", {&I::AddDepthwise, 1, kAny, 1, kAny, 2}},
      {"DetectionEvaluate", {&I::Drop, 2, 2, 0, 1}},
      {"DetectionOutput", {&I::Drop, 3, kAny, 0, kAny}},
      {"Dropout", {&I::AddDropout, 1, 1, 1, 1}},
      {"DummyData", {&I::AddDummyData, 0, 0, 1, kAny}},
      {"ELU", {&I::AddActivation<K::kElu>, 1, 1, 1, 1}},
      {"Eltwise", {&I::AddEltwise, 2, kAny, 1, 1}},
      {"EuclideanLoss", {&I::AddLoss, 2, 2, 0, 1}},
      {"Exp", {&I::AddActivation<K::kOther>, 1, 1, 1, 1}},
      {"Flatten", {&I::AddFlatten, 1, 1, 1, 1}},
      {"HDF5Data", {&I::AddData, 0, 0, 1, kAny}},
      {"HDF5Output", {&I::Drop, 2, 2, 0, 0}},
      {"HingeLoss", {&I::AddLoss, 2, 2, 0, 1}},
      {"ImageData", {&I::AddData, 0, 0, 2, 2}},
      {"InfogainLoss", {&I::AddLoss, 2, 3, 0, 2}},
      {"InnerProduct", {&I::AddInnerProduct, 1, 1, 1, 1, 2}},
      {"Input", {&I::AddInputLayer, 0, 0, 1, kAny}},
      {"LRN", {&I::AddLrn, 1, 1, 1, 1}},
      {"Log", {&I::AddActivation<K::kOther>, 1, 1, 1, 1}},
      {"MVN", {&I::AddMvn, 1, 1, 1, 1}},
      {"MemoryData", {&I::AddMemoryData, 0, 0, 2, 2}},
      {"MultiBoxLoss", {&I::AddLoss, 4, 4, 0, 1}},
      {"MultinomialLogisticLoss", {&I::AddLoss, 2, 2, 0, 1}},
      {"Normalize", {&I::AddNormalize, 1, 1, 1, 1, 1}},
      {"PReLU", {&I::AddPrelu, 1, 1, 1, 1, 1}},
      {"Permute", {&I::AddPermute, 1, 1, 1, 1}},
      {"Pooling", {&I::AddPooling, 1, 1, 1, 2}},
      {"Power", {&I::AddActivation<K::kOther>, 1, 1, 1, 1}},
      {"PriorBox", {&I::Drop, 2, 2, 1, 1}},
      {"ReLU", {&I::AddRelu, 1, 1, 1, 1}},
      {"ReLU6", {&I::AddActivation<K::kRelu6>, 1, 1, 1, 1}},
      {"Reduction", {&I::AddReduction, 1, 1, 1, 1}},
      {"Reshape", {&I::AddReshape, 1, 1, 1, 1}},
      {"Scale", {&I::AddScale, 1, 2, 1, 1, 2}},
      {"Sigmoid", {&I::AddActivation<K::kSigmoid>, 1, 1, 1, 1}},
      {"SigmoidCrossEntropyLoss", {&I::AddLoss, 2, 2, 0, 1}},
      {"Silence", {&I::Drop, 1, kAny, 0, 0}},
      {"Slice", {&I::AddSlice, 1, 1, 1, kAny}},
      {"Softmax", {&I::AddSoftmax, 1, 1, 1, 1}},
      {"SoftmaxWithLoss", {&I::AddSoftmaxLoss, 2, 2, 0, 2}},
      {"Split", {&I::AddSplit, 1, 1, 1, kAny}},
      {"Swish", {&I::AddActivation<K::kSwish>, 1, 1, 1, 1}},
      {"TanH", {&I::AddActivation<K::kTanh>, 1, 1, 1, 1}},
      {"Threshold", {&I::AddActivation<K::kOther>, 1, 1, 1, 1}},
      {"Tile", {&I::AddTile, 1, 1, 1, 1}},
      {"WindowData", {&I::AddData, 0, 0, 2, 2}}};
  return *kinds;
}

Result<Graph> CaffeImporter::Import(TextField net, ImportedTensors* tensors) {
  net_ = ReadCaffeNet(net, [](const std::string& type) { return Kinds().contains(type); });
  blobs_.resize(net_.readers.size());
  next_tensor_ = static_cast<int>(net_.tensors.size());
  for (const CaffeLayer& layer : net_.layers) {
    if (!layer.is_known) graph_.NoteUnsupported(layer.type, layer.name, "");
  }
  if (!net_.fault.ok() && net_.fault_layer.empty()) {
    return Status::Error(file_ + ": " + net_.fault.message());
  }
  if (!net_.fault.ok()) return graph_.Fault(net_.fault_layer, net_.fault.message());
  for (const CaffeLayer& layer : net_.layers) {
    layer_ = &layer;
    if (const Status added = AddLayer(); !added.ok()) {
      return graph_.Fault(layer.name, added.message());
    }
  }
  if (!options_.input.empty() && !input_is_used_) {
    return Status::Error(file_ + ": it has no data layer whose images could be given");
  }
  const std::string name = CaffeFields(&net).Word("name", "");
  std::vector<NodeId> ids;
  Result<Graph> graph =
      graph_.Finish(name.empty() ? std::filesystem::path(file_).stem().string() : name, {}, &ids);
  if (!graph.ok() || tensors == nullptr) return graph;
  for (const CaffeLayer& layer : net_.layers) {
    for (size_t top = 0; top < layer.tops.size(); ++top) {
      const Blob& blob = blobs_[layer.tops[top]];
      const NodeId node = blob.node ? ids[static_cast<size_t>(*blob.node)] : -1;
      if (node < 0) continue;
      const NodeExtents extents = ExtentsOf(graph_.ShapeOf(*blob.node), 1);
      (*tensors)[layer.top_names[top]] = {node, PlainView(extents, blob.dims->size())};
    }
  }
  return graph;
}

Status CaffeImporter::AddLayer() {
  if (!layer_->is_known) return PassThrough();
  const LayerKind& kind = Kinds().at(layer_->type);
  UCUDNN_RETURN_IF_ERROR(
      CheckCount("bottoms", layer_->bottoms.size(), kind.least_bottoms, kind.most_bottoms));
  UCUDNN_RETURN_IF_ERROR(CheckCount("tops", layer_->tops.size(), kind.least_tops, kind.most_tops));
  UCUDNN_RETURN_IF_ERROR(CheckCount("param", layer_->params.size(), 0, kind.most_params));
  return (this->*kind.add)();
}

Status CaffeImporter::PassThrough() {
  for (size_t top = 0; top < layer_->tops.size(); ++top) {
    if (!layer_->bottoms.empty()) {
      PutSame(top, 0);
    } else if (top > 0) {
      PutLabel(top, std::nullopt);
    } else if (options_.input.empty()) {
      return Status::Error("type " + Quoted(layer_->type) +
                           " is not known, and it has no bottom to pass through; --input 3x224x224 "
                           "gives its images");
    } else {
      UCUDNN_RETURN_IF_ERROR(PutImages({1}));
    }
  }
  return Status::Ok();
}

Result<NodeId> CaffeImporter::BottomNode(size_t index) const {
  if (const Blob& blob = Bottom(index); blob.node) return *blob.node;
  return Status::Error("bottom " + Quoted(layer_->bottom_names[index]) +
                       " is a label, a loss, an index or of unknown extents; expected features");
}

Result<size_t> CaffeImporter::Axis(int32_t axis, const char* name) const {
  const auto rank = static_cast<int64_t>(BottomRank(0));
  const int64_t canonical = axis < 0 ? axis + rank : axis;
  if (canonical >= 0 && canonical < rank) return static_cast<size_t>(canonical);
  return Status::Error(std::string(name) + " " + std::to_string(axis) + " of a bottom of " +
                       std::to_string(rank) + " axes; expected " + std::to_string(-rank) + " to " +
                       std::to_string(rank - 1));
}

Status CaffeImporter::Put(size_t index, const Operator& op, const std::vector<NodeId>& inputs,
                          size_t rank, std::vector<Parameter> parameters) {
  UCUDNN_ASSIGN_OR_RETURN(const NodeId node, graph_.Add(layer_->name, layer_->top_names[index], op,
                                                        inputs, std::move(parameters)));
  const Shape& shape = graph_.ShapeOf(node);
  Dims dims = {layer_->bottoms.empty() ? 1 : BottomDims(0).front()};
  for (size_t axis = 1; axis < rank; ++axis) {
    dims.push_back(axis == 1 ? shape.c : shape.extents[axis + kMaxSpatial - rank]);
  }
  const bool in_place =
      index < layer_->bottoms.size() && layer_->top_names[index] == layer_->bottom_names[index];
  if (in_place && dims != BottomDims(index)) {
    return Status::Error("top " + Quoted(layer_->top_names[index]) +
                         " overwrites a bottom of other extents; expected another top");
  }
  blobs_[layer_->tops[index]] = {node, std::move(dims)};
  return Status::Ok();
}

Status CaffeImporter::PutUnary(const Operator& op, std::vector<Parameter> parameters) {
  UCUDNN_ASSIGN_OR_RETURN(const NodeId bottom, BottomNode(0));
  return Put(0, op, {bottom}, BottomRank(0), std::move(parameters));
}

void CaffeImporter::PutLabel(size_t index, std::optional<Dims> dims) {
  blobs_[layer_->tops[index]] = {std::nullopt, std::move(dims)};
}

void CaffeImporter::PutSame(size_t index, size_t bottom) {
  const Blob blob = Bottom(bottom);
  blobs_[layer_->tops[index]] = blob;
}

Status CaffeImporter::Drop() {
  for (size_t top = 0; top < layer_->tops.size(); ++top) PutLabel(top, std::nullopt);
  return Status::Ok();
}

Status CaffeImporter::PutInput(size_t index, const Dims& dims) {
  if (dims.empty() || dims.size() > 5) {
    return Status::Error(std::to_string(dims.size()) +
                         " extents of its input; expected n, c and up to three of an image");
  }
  for (const int64_t dim : dims) {
    if (dim >= 1) continue;
    return Status::Error("extent " + std::to_string(dim) + " of its input; expected 1 or more");
  }
  if (dims.size() == 1) {
    PutLabel(index, dims);
    return Status::Ok();
  }
  Input input{static_cast<int32_t>(dims[1]), {1, 1, 1}, dims.size() == 5 ? 3 : 2};
  for (size_t axis = 2; axis < dims.size(); ++axis) {
    input.extents[axis + kMaxSpatial - dims.size()] = static_cast<int32_t>(dims[axis]);
  }
  UCUDNN_RETURN_IF_ERROR(Put(index, input, {}, dims.size()));
  blobs_[layer_->tops[index]].dims = dims;
  return Status::Ok();
}

// Puts images into the first top; --input, if given, replaces their channels and extents. Puts
// labels into the other tops: one number per image. The extents of labels are unknown if the layer
// is an HDF5Data or its type is unknown.
Status CaffeImporter::PutImages(Dims dims) {
  const int64_t batch = dims.front();
  if (!options_.input.empty()) {
    dims.resize(1);
    dims.insert(dims.end(), options_.input.begin(), options_.input.end());
    input_is_used_ = true;
  }
  if (dims.size() == 1) {
    return Status::Error(
        "crop_size 0 of its images; expected their extents, and the file says no other: "
        "--input 3x224x224 gives them");
  }
  UCUDNN_RETURN_IF_ERROR(PutInput(0, dims));
  const bool is_label = layer_->is_known && layer_->type != "HDF5Data";
  for (size_t top = 1; top < layer_->tops.size(); ++top) {
    PutLabel(top, std::nullopt);
    if (is_label) PutLabel(top, Dims{batch});
  }
  return Status::Ok();
}

Status CaffeImporter::AddInputLayer() {
  const std::vector<CaffeFields> shapes = Fields("input_param").Messages("shape");
  const size_t tops = layer_->tops.size();
  if (shapes.empty() && !options_.input.empty()) return PutImages({1});
  if (shapes.empty()) {
    return Status::Error("no shape of its input; expected one, or --input 3x224x224");
  }
  if (shapes.size() != 1 && shapes.size() != tops) {
    return Status::Error(std::to_string(shapes.size()) + " shapes of " + std::to_string(tops) +
                         " inputs; expected one each");
  }
  for (size_t top = 0; top < tops; ++top) {
    const std::vector<int32_t> numbers = shapes[shapes.size() == 1 ? 0 : top].Numbers("dim");
    Dims dims(numbers.begin(), numbers.end());
    // A batch of 0 means that programs set the batch before they run the network.
    if (!dims.empty() && dims.front() == 0) dims.front() = 1;
    UCUDNN_RETURN_IF_ERROR(PutInput(top, dims));
  }
  return Status::Ok();
}

Status CaffeImporter::AddDummyData() {
  const CaffeFields fields = Fields("dummy_data_param");
  const size_t tops = layer_->tops.size();
  std::vector<Dims> shapes;
  for (const CaffeFields& shape : fields.Messages("shape")) {
    const std::vector<int32_t> numbers = shape.Numbers("dim");
    shapes.emplace_back(numbers.begin(), numbers.end());
  }
  const std::vector<const char*> words = {"num", "channels", "height", "width"};
  const bool is_old =
      std::any_of(words.begin(), words.end(), [&](const char* word) { return fields.Has(word); });
  if (is_old && !shapes.empty()) {
    return Status::Error("shape and num, channels, height or width; expected one of them");
  }
  for (size_t top = 0; is_old && top < tops; ++top) {
    shapes.emplace_back();
    for (const char* const word : words) {
      const std::vector<int32_t> numbers = fields.Numbers(word);
      if (numbers.size() != 1 && numbers.size() != tops) {
        return Status::Error(std::to_string(numbers.size()) + " " + word + " of " +
                             std::to_string(tops) + " tops; expected one each");
      }
      shapes.back().push_back(numbers[numbers.size() == 1 ? 0 : top]);
    }
  }
  if (shapes.size() != 1 && shapes.size() != tops) {
    return Status::Error(std::to_string(shapes.size()) + " shapes of " + std::to_string(tops) +
                         " tops; expected one each");
  }
  for (size_t top = 0; top < tops; ++top) {
    UCUDNN_RETURN_IF_ERROR(PutInput(top, shapes[shapes.size() == 1 ? 0 : top]));
  }
  return Status::Ok();
}

Status CaffeImporter::AddMemoryData() {
  const CaffeFields fields = Fields("memory_data_param");
  Dims dims;
  for (const char* const word : {"batch_size", "channels", "height", "width"}) {
    dims.push_back(fields.Number(word, 0));
  }
  UCUDNN_RETURN_IF_ERROR(PutInput(0, dims));
  PutLabel(1, Dims{dims.front()});
  return Status::Ok();
}

Status CaffeImporter::AddData() {
  const CaffeFields transform = Fields("transform_param");
  const CaffeFields image = Fields("image_data_param");
  const bool gray = transform.Flag("force_gray", false);
  if (gray && transform.Flag("force_color", false)) {
    return Status::Error("force_color and force_gray; expected one of them");
  }
  Dims dims = {1, gray || !image.Flag("is_color", true) ? 1 : 3};
  int32_t crop = transform.Number("crop_size", 0);
  for (const char* const message :
       {"data_param", "image_data_param", "window_data_param", "hdf5_data_param"}) {
    const CaffeFields fields = Fields(message);
    if (crop == 0) crop = fields.Number("crop_size", 0);
    if (fields.Number("batch_size", 0) > 0) dims.front() = fields.Number("batch_size", 0);
  }
  const CaffeFields resized = transform.Message("resize_param");
  const bool is_resized = resized.Number("height", 0) > 0 && resized.Number("width", 0) > 0;
  const bool is_read_so = image.Number("new_height", 0) > 0 && image.Number("new_width", 0) > 0;
  if (crop > 0) {
    dims.insert(dims.end(), {crop, crop});
  } else if (is_resized) {
    dims.insert(dims.end(), {resized.Number("height", 0), resized.Number("width", 0)});
  } else if (is_read_so) {
    dims.insert(dims.end(), {image.Number("new_height", 0), image.Number("new_width", 0)});
  } else {
    dims.resize(1);
  }
  return PutImages(dims);
}

Result<std::vector<Parameter>> CaffeImporter::ReadParameters(const CaffeLayer& layer,
                                                             const std::vector<Dims>& blobs,
                                                             bool always, size_t nodes) {
  if (layer.params.size() > blobs.size()) {
    return Status::Error(std::to_string(layer.params.size()) + " param; expected at most " +
                         std::to_string(blobs.size()));
  }
  std::vector<Parameter> parameters;
  bool is_special = always || nodes > 1;
  for (size_t i = 0; i < blobs.size(); ++i) {
    __int128 elements = 1;
    for (const int64_t dim : blobs[i])
      elements = std::min<__int128>(elements * dim, kMostParameters + 1);
    if (elements > kMostParameters) {
      return Status::Error("more parameters than expected of any node (2^48)");
    }
    Parameter parameter{static_cast<int64_t>(elements)};
    if (nodes > 1) parameter.tensor = next_tensor_++;
    if (i < layer.params.size()) {
      const CaffeParam& param = layer.params[i];
      parameter.trained = param.rate.value_or(1) != 0;
      if (!param.name.empty()) {
        const CaffeTensor& tensor = net_.tensors.at(param.name);
        parameter.trained = tensor.rate.value_or(1) != 0;
        if (tensor.uses > 1) parameter.tensor = tensor.number;
        const Dims& first = shared_.try_emplace(param.name, blobs[i]).first->second;
        __int128 shared = 1;
        for (const int64_t dim : first) shared *= dim;
        if (param.permissive ? shared != elements : first != blobs[i]) {
          return Status::Error("param " + Quoted(param.name) + " has other extents in a layer " +
                               "before it; expected the same ones");
        }
      }
    }
    is_special = is_special || !parameter.trained || parameter.tensor >= 0;
    parameters.push_back(parameter);
  }
  if (!is_special) parameters.clear();
  return parameters;
}

Result<Graph> ImportCaffe(std::string_view text, const std::string& file,
                          const ImportOptions& options, ImportedTensors* tensors) {
  Result<TextField> net = ParseTextFormat(text);
  if (!net.ok()) return Status::Error(file + ": " + net.message());
  return CaffeImporter(file, options).Import(std::move(*net), tensors);
}

}  // namespace ucudnn::planner
