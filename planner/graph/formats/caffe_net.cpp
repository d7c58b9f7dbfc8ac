#include "planner/graph/formats/caffe_net.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "planner/graph/formats/caffe_fields.h"
#include "planner/graph/formats/caffe_schema.h"

namespace ucudnn::planner {
namespace {

// Maps V1's layer types to those of the current syntax.
const std::map<std::string, std::string>& V1Types() {
  static const auto* const types = new std::map<std::string, std::string>{
      {"ABSVAL", "AbsVal"},
      {"ACCURACY", "Accuracy"},
      {"ARGMAX", "ArgMax"},
      {"BNLL", "BNLL"},
      {"CONCAT", "Concat"},
      {"CONTRASTIVE_LOSS", "ContrastiveLoss"},
      {"CONVOLUTION", "Convolution"},
      {"DATA", "Data"},
      {"DECONVOLUTION", "Deconvolution"},
      {"DROPOUT", "Dropout"},
      {"DUMMY_DATA", "DummyData"},
      {"ELTWISE", "Eltwise"},
      {"EUCLIDEAN_LOSS", "EuclideanLoss"},
      {"EXP", "Exp"},
      {"FLATTEN", "Flatten"},
      {"HDF5_DATA", "HDF5Data"},
      {"HDF5_OUTPUT", "HDF5Output"},
      {"HINGE_LOSS", "HingeLoss"},
      {"IM2COL", "Im2col"},
      {"IMAGE_DATA", "ImageData"},
      {"INFOGAIN_LOSS", "InfogainLoss"},
      {"INNER_PRODUCT", "InnerProduct"},
      {"LRN", "LRN"},
      {"MEMORY_DATA", "MemoryData"},
      {"MULTINOMIAL_LOGISTIC_LOSS", "MultinomialLogisticLoss"},
      {"MVN", "MVN"},
      {"POOLING", "Pooling"},
      {"POWER", "Power"},
      {"RELU", "ReLU"},
      {"SIGMOID", "Sigmoid"},
      {"SIGMOID_CROSS_ENTROPY_LOSS", "SigmoidCrossEntropyLoss"},
      {"SILENCE", "Silence"},
      {"SLICE", "Slice"},
      {"SOFTMAX", "Softmax"},
      {"SOFTMAX_LOSS", "SoftmaxWithLoss"},
      {"SPLIT", "Split"},
      {"TANH", "TanH"},
      {"THRESHOLD", "Threshold"},
      {"WINDOW_DATA", "WindowData"}};
  return *types;
}

struct State {
  std::string phase = "TRAIN";
  int32_t level = 0;
  std::vector<std::string> stages;

  bool HasStage(const std::string& stage) const {
    return std::find(stages.begin(), stages.end(), stage) != stages.end();
  }
  bool Meets(const CaffeFields& rule) const {
    const auto is_set = [this](const std::string& stage) { return HasStage(stage); };
    const std::vector<std::string> wanted = rule.Words("stage");
    const std::vector<std::string> unwanted = rule.Words("not_stage");
    return rule.Word("phase", phase.c_str()) == phase && rule.Number("min_level", level) <= level &&
           rule.Number("max_level", level) >= level &&
           std::all_of(wanted.begin(), wanted.end(), is_set) &&
           std::none_of(unwanted.begin(), unwanted.end(), is_set);
  }
  // Returns whether a layer runs in this state, as Caffe's Net::FilterNet decides.
  Result<bool> Runs(const CaffeFields& layer) const {
    const std::vector<CaffeFields> includes = layer.Messages("include");
    const std::vector<CaffeFields> excludes = layer.Messages("exclude");
    if (!includes.empty() && !excludes.empty()) {
      return Status::Error("include and exclude; expected one of them");
    }
    const auto meets = [this](const CaffeFields& rule) { return Meets(rule); };
    return includes.empty() ? std::none_of(excludes.begin(), excludes.end(), meets)
                            : std::any_of(includes.begin(), includes.end(), meets);
  }
};

TextField Scalar(const char* name, std::string value) {
  TextField field;
  field.name = name;
  field.value = std::move(value);
  return field;
}

// Replaces the network's own inputs by an Input layer. Each of these inputs is an `input` with an
// input_shape or with four input_dim.
Status AddInputLayer(TextField& net) {
  const CaffeFields fields(&net);
  const std::vector<std::string> names = fields.Words("input");
  const std::vector<const TextField*> shapes = net.FindAll("input_shape");
  const std::vector<std::string> flat = fields.Words("input_dim");
  if (names.empty()) return Status::Ok();
  if (!shapes.empty() && (shapes.size() != names.size() || !flat.empty())) {
    return Status::Error(std::to_string(shapes.size()) + " input_shape and " +
                         std::to_string(flat.size()) + " input_dim for " +
                         std::to_string(names.size()) + " inputs; expected one shape each");
  }
  if (!flat.empty() && flat.size() != 4 * names.size()) {
    return Status::Error(std::to_string(flat.size()) + " input_dim for " +
                         std::to_string(names.size()) + " inputs; expected four each");
  }
  TextField layer;
  layer.name = "layer";
  layer.is_message = true;
  layer.fields.push_back(Scalar("type", "Input"));
  TextField input;
  input.name = "input_param";
  input.is_message = true;
  for (size_t i = 0; i < names.size(); ++i) {
    layer.fields.push_back(Scalar("top", names[i]));
    if (shapes.empty() && flat.empty()) continue;
    TextField shape;
    if (!shapes.empty()) shape = *shapes[i];
    shape.name = "shape";
    shape.is_message = true;
    for (size_t at = 4 * i; at < 4 * i + 4 && !flat.empty(); ++at) {
      shape.fields.push_back(Scalar("dim", flat[at]));
    }
    input.fields.push_back(std::move(shape));
  }
  layer.fields.push_back(std::move(input));
  net.fields.insert(net.fields.begin(), std::move(layer));
  return Status::Ok();
}

std::vector<CaffeParam> ParamsOf(const CaffeFields& layer, bool is_v1) {
  std::vector<CaffeParam> params;
  if (!is_v1) {
    for (const CaffeFields& spec : layer.Messages("param")) {
      params.push_back({spec.Word("name", ""), spec.Word("share_mode", "STRICT") == "PERMISSIVE",
                        std::nullopt, std::nullopt});
      if (spec.Has("lr_mult")) params.back().rate = spec.Real("lr_mult", 1);
      if (spec.Has("decay_mult")) params.back().decay = spec.Real("decay_mult", 1);
    }
    return params;
  }
  const auto each = [&](const char* list, auto&& set) {
    const std::vector<std::string> words = layer.Words(list);
    if (params.size() < words.size()) params.resize(words.size());
    for (size_t i = 0; i < words.size(); ++i) set(params[i], words[i]);
  };
  each("param", [](CaffeParam& param, const std::string& word) { param.name = word; });
  each("blob_share_mode",
       [](CaffeParam& param, const std::string& word) { param.permissive = word == "PERMISSIVE"; });
  each("blobs_lr", [](CaffeParam& param, const std::string& word) { param.rate = RealOf(word); });
  each("weight_decay",
       [](CaffeParam& param, const std::string& word) { param.decay = RealOf(word); });
  return params;
}

class Reader {
 public:
  Reader(TextField& net, const std::function<bool(const std::string&)>& is_known)
      : net_(net), is_known_(is_known) {}

  CaffeNet Read() {
    Note("", CheckCaffeMessage("NetParameter", net_));
    if (net_.Find("layer") != nullptr && net_.Find("layers") != nullptr) {
      Note("", Status::Error("layer and layers; expected one syntax"));
    }
    if (result_.fault.ok()) Note("", AddInputLayer(net_));
    if (result_.fault.ok()) {
      const CaffeFields state = CaffeFields(&net_).Message("state");
      state_ = {state.Word("phase", "TRAIN"), state.Number("level", 0), state.Words("stage")};
    }
    for (TextField& field : net_.fields) {
      if (field.name == "layer" || field.name == "layers") Note(NameOf(field), AddLayer(field));
    }
    for (size_t layer = 0; layer < result_.layers.size(); ++layer) {
      if (!result_.fault.ok()) break;
      Note(result_.layers[layer].name, Connect(layer));
      Note(result_.layers[layer].name, NoteParams(result_.layers[layer]));
    }
    return std::move(result_);
  }

 private:
  static std::string NameOf(const TextField& layer) {
    const CaffeFields fields(&layer);
    return fields.Word("name", fields.Word("top", "").c_str());
  }

  void Note(const std::string& layer, const Status& fault) {
    if (fault.ok() || !result_.fault.ok()) return;
    result_.fault = fault;
    result_.fault_layer = layer;
  }

  Status AddLayer(TextField& field) {
    if (!field.is_message) return Status::Error(field.name + " without fields; expected a message");
    if (field.Find("layer") != nullptr) {
      return Status::Error(
          "the syntax before V1; expected layers that Caffe's upgrade_net_proto_text has upgraded");
    }
    CaffeLayer layer;
    layer.text = &field;
    const CaffeFields fields(&field);
    layer.name = NameOf(field);
    layer.type = fields.Word("type", "");
    const bool is_v1 = field.name == "layers";
    if (is_v1) {
      const auto found = V1Types().find(layer.type);
      if (found != V1Types().end()) layer.type = found->second;
    }
    layer.is_known = is_known_(layer.type);
    Status fault;
    if (layer.is_known) {
      fault = CheckCaffeMessage(is_v1 ? "V1LayerParameter" : "LayerParameter", field);
    }
    const Result<bool> runs = state_.Runs(fields);
    if (fault.ok()) fault = runs.status();
    layer.bottom_names = fields.Words("bottom");
    layer.top_names = fields.Words("top");
    if (!runs.ok() || *runs) {
      layer.is_testing = fields.Word("phase", state_.phase.c_str()) == "TEST";
      layer.params = ParamsOf(fields, is_v1);
      if (layer.type == "BatchNorm" && layer.params.size() == 3) {  // as UpgradeNetBatchNorm does
        for (CaffeParam& param : layer.params) param.rate = param.decay = 0;
      }
      result_.layers.push_back(std::move(layer));
    } else {
      for (const std::string& top : layer.top_names) elsewhere_.emplace(top, layer.name);
    }
    return fault;
  }

  // Connects a layer's bottoms and tops to blobs, as Net::AppendBottom and Net::AppendTop do.
  Status Connect(size_t position) {
    CaffeLayer& layer = result_.layers[position];
    for (const std::string& bottom : layer.bottom_names) {
      const auto found = blobs_.find(bottom);
      if (found == blobs_.end()) return RefuseBottom(bottom);
      layer.bottoms.push_back(found->second);
      result_.readers[found->second].push_back(position);
    }
    for (size_t i = 0; i < layer.top_names.size(); ++i) {
      const std::string& top = layer.top_names[i];
      const bool in_place = i < layer.bottom_names.size() && layer.bottom_names[i] == top;
      if (!in_place && blobs_.contains(top)) {
        return Status::Error("top " + Quoted(top) +
                             " is the top of a layer before it, too; expected one layer");
      }
      blobs_[top] = result_.readers.size();
      layer.tops.push_back(result_.readers.size());
      result_.readers.emplace_back();
    }
    const CaffeFields fields(layer.text);
    const size_t propagated = fields.Words("propagate_down").size();
    if (propagated != 0 && propagated != layer.bottoms.size()) {
      return Status::Error(std::to_string(propagated) + " propagate_down for " +
                           std::to_string(layer.bottoms.size()) + " bottoms; expected one each");
    }
    const size_t weights = fields.Words("loss_weight").size();
    if (weights != 0 && weights != std::max<size_t>(layer.tops.size(), 1)) {
      return Status::Error(std::to_string(weights) + " loss_weight for " +
                           std::to_string(layer.tops.size()) + " tops; expected one each");
    }
    return Status::Ok();
  }

  Status RefuseBottom(const std::string& bottom) const {
    std::string why;
    const auto elsewhere = elsewhere_.find(bottom);
    if (elsewhere != elsewhere_.end()) {
      why = ": layer " + Quoted(elsewhere->second) + " has it, and does not run in phase " +
            state_.phase;
      if (state_.level != 0) why += " at level " + std::to_string(state_.level);
      why += state_.stages.empty() ? " without stages"
                                   : " with stages " + Quoted(Join(state_.stages, ", "));
    }
    return Status::Error("bottom " + Quoted(bottom) + "; expected the top of a layer before it" +
                         why);
  }

  // Records a layer's named parameters, as Net::AppendParam does.
  Status NoteParams(const CaffeLayer& layer) {
    for (const CaffeParam& param : layer.params) {
      if (param.name.empty()) continue;
      const int number = static_cast<int>(result_.tensors.size());
      CaffeTensor& tensor =
          result_.tensors.try_emplace(param.name, CaffeTensor{number}).first->second;
      tensor.uses += static_cast<int>(std::max<size_t>(layer.tops.size(), 1));
      const std::pair<const std::optional<double>*, std::optional<double>*> pairs[] = {
          {&param.rate, &tensor.rate}, {&param.decay, &tensor.decay}};
      for (const auto& [said, kept] : pairs) {
        if (said->has_value() && kept->has_value() && **said != **kept) {
          return Status::Error("param " + Quoted(param.name) + " has another " +
                               (said == &param.rate ? "lr_mult" : "decay_mult") +
                               " in a layer before it; expected one of each blob");
        }
        if (said->has_value()) *kept = *said;
      }
    }
    return Status::Ok();
  }

  TextField& net_;
  const std::function<bool(const std::string&)>& is_known_;
  State state_;
  std::map<std::string, size_t> blobs_;  // the newest blob of each name
  // By top: the name of a layer that writes this top but does not run in this phase.
  std::map<std::string, std::string> elsewhere_;
  CaffeNet result_;
};

}  // namespace

CaffeNet ReadCaffeNet(TextField& net, const std::function<bool(const std::string&)>& is_known) {
  return Reader(net, is_known).Read();
}

}  // namespace ucudnn::planner
