#include "cudnn/plan_edit.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "cudnn/fused_operations.h"
#include "cudnn/graph_parts.h"
#include "cudnn/knobs.h"
#include "cudnn/plan_json.h"

namespace ucudnn::cudnn {
namespace {

Status Unfamiliar(const char* what) {
  return Status::Error(std::string("unfamiliar plan: its JSON cannot be edited: ") + what);
}

// Returns the position after the first `mark` at or after `from`; npos if there is none.
size_t Behind(std::string_view text, std::string_view mark, size_t from) {
  const size_t at = text.find(mark, from);
  return at == std::string_view::npos ? at : at + mark.size();
}

// Returns the end of the number that begins at `from`.
size_t NumberEnd(std::string_view text, size_t from) {
  return text.find_first_not_of("+-.0123456789eE", from);
}

// Formats with a point or an exponent, because cuDNN refuses real numbers that are written as
// integers.
std::string NumberText(double value) {
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  if (error != std::errc()) return "";
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

using NumberList = std::vector<int64_t>;

std::string Text(const NumberList& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

// Replaces ranges of a text. A range is given by its positions in the original text.
class Splice {
 public:
  explicit Splice(std::string_view text) : text_(text) {}

  void Replace(size_t begin, size_t end, std::string with) {
    pieces_[begin] = {end, std::move(with)};
  }
  std::string Finish() const {
    std::string result;
    size_t copied = 0;
    for (const auto& [begin, piece] : pieces_) {
      result.append(text_.substr(copied, begin - copied)).append(piece.second);
      copied = piece.first;
    }
    return result.append(text_.substr(copied));
  }

 private:
  const std::string_view text_;
  // The end and the replacement of each range, by the beginning of the range.
  std::map<size_t, std::pair<size_t, std::string>> pieces_;
};

// An object of the JSON that contains no objects, such as a tensor or an operation. Members are
// named with all characters before the value ("\"dim\":["). A value is a number or a list of
// numbers.
class FlatObject {
 public:
  FlatObject(std::string_view text, size_t begin)
      : text_(text), begin_(begin), end_(begin < text.size() ? text.find('}', begin) : begin) {}

  bool ok() const { return end_ < text_.size(); }
  size_t end() const { return end_; }
  // Returns the position of the value; npos if there is no such member.
  size_t Find(std::string_view name) const {
    const size_t at = Behind(text_, name, begin_);
    return at < end_ ? at : std::string_view::npos;
  }
  // Returns the end of the value at `at`; the end of a list is its closing bracket.
  size_t ValueEnd(size_t at) const {
    return text_[at - 1] == '[' ? text_.find(']', at) : NumberEnd(text_, at);
  }
  // Returns the member's numbers; none if one of them is not whole.
  NumberList Read(std::string_view name) const {
    const size_t at = Find(name);
    if (at >= end_) return {};
    const char* from = text_.data() + at;
    const char* const end = text_.data() + std::min(ValueEnd(at), end_);
    NumberList numbers;
    for (numbers.reserve(kMaxSpatial + 2);;) {
      int64_t number = 0;
      const auto [stop, error] = std::from_chars(from, end, number);
      if (error != std::errc() || (stop != end && *stop != ',')) return {};
      numbers.push_back(number);
      if (stop == end) return numbers;
      from = stop + 1;
    }
  }

 private:
  const std::string_view text_;
  const size_t begin_, end_;
};

// Returns the extents and strides of the convolution's image or output, in the order of the plan's
// JSON.
plan_json::Tensor TensorOf(const ConvolutionProblem& problem, bool is_image) {
  const Strides& strides = is_image ? problem.x_strides : problem.y_strides;
  const NumberList extents = Axes(problem, is_image ? problem.x : OutputExtents(problem));
  plan_json::Tensor tensor;
  tensor.dims.reserve(kMaxSpatial + 2);
  tensor.dims = {problem.n, is_image ? problem.c : problem.k};
  tensor.dims.insert(tensor.dims.end(), extents.begin(), extents.end());
  tensor.strides = {strides[0], strides[1]};
  tensor.strides.insert(tensor.strides.end(), strides.end() - problem.spatial_rank, strides.end());
  return tensor;
}

// Returns `whole`, but with the values of `part` in all members that a part may change.
ConvolutionProblem WithPart(ConvolutionProblem whole, const ConvolutionProblem& part) {
  whole.n = part.n;
  whole.c = part.c;
  whole.k = part.k;
  whole.groups = part.groups;
  whole.x = part.x;
  whole.pad = part.pad;
  whole.extra_pad = part.extra_pad;
  whole.x_strides = part.x_strides;
  whole.y_strides = part.y_strides;
  return whole;
}

// Makes one edit of one plan, and collects the values that the edited plan must have when it is
// read back.
class PlanEditor {
 public:
  PlanEditor(std::string_view json, const FusedConvolution& convolution, const PlanEdit& edit)
      : json_(json), convolution_(convolution), edit_(edit), expected_(convolution), splice_(json) {
    const bool to_image = convolution.problem.operation == Operation::kBackwardData;
    whole_result_ = TensorOf(convolution.problem, to_image);
    result_ = TensorOf(edit.problem, to_image);
    expected_.problem = WithPart(convolution.problem, edit.problem);
    expected_.alpha = edit.alpha;
    expected_.beta = edit.beta;
  }

  Result<std::string> Edit() {
    // The plan describes this part already.
    if (expected_ == convolution_) return std::string(json_);
    UCUDNN_RETURN_IF_ERROR(EditTensors());
    UCUDNN_RETURN_IF_ERROR(EditConvolution());
    std::string edited = splice_.Finish();
    UCUDNN_ASSIGN_OR_RETURN(const FusedConvolution read, ReadFusedConvolution(edited, &expected_));
    // The engine's text contains the extents of those fused operands that all images share. The
    // edit may have changed these extents.
    if (IsSameEngine(read.engine)) expected_.engine = read.engine;
    if (read != expected_) return Unfamiliar("it does not say what was written");
    return edited;
  }

 private:
  using Tensor = plan_json::Tensor;

  Status EditTensors() {
    expected_.problem.alignment = 1;
    size_t at = Behind(json_, "\"tensors\":[", 0);
    for (int i = 0; i < convolution_.tensors; ++i) {
      const FlatObject object(json_, at);
      if (!object.ok()) return Unfamiliar("a tensor is missing");
      UCUDNN_RETURN_IF_ERROR(EditTensor(object, (convolution_.batched >> i & 1) != 0));
      at = object.end() + 1;
    }
    tensors_end_ = std::min(at, json_.size());
    return Status::Ok();
  }

  Status EditTensor(const FlatObject& object, bool is_batched) {
    const NumberList uid = object.Read("\"name\":\""), alignment = object.Read("\"ptrAlignment\":");
    Tensor tensor;
    tensor.dims = object.Read("\"dim\":[");
    tensor.strides = object.Read("\"stride\":[");
    if (uid.size() != 1 || alignment.size() != 1 || tensor.dims.size() != result_.dims.size() ||
        tensor.strides.size() != tensor.dims.size()) {
      return Unfamiliar("a tensor's members");
    }
    tensor.uid = uid[0];
    tensor.alignment = alignment[0];
    tensor.is_virtual = object.Find("\"isVirtual\":true") != std::string_view::npos;
    const NumberList whole_dims = tensor.dims;
    Shrink(tensor, is_batched);
    const auto operand =
        std::find_if(expected_.operands.begin(), expected_.operands.end(),
                     [&](const FusedOperand& one) { return one.uid == tensor.uid; });
    if (tensor.dims != whole_dims && !tensor.is_virtual) {
      tensor.alignment = std::min(tensor.alignment, int64_t{edit_.problem.alignment});
      if (operand != expected_.operands.end()) {
        tensor.alignment = OperandAlignment(tensor, operand->type, is_batched, whole_dims);
      }
    }
    if (operand != expected_.operands.end()) {
      tensor.type = operand->type;
      *operand = OperandOf(tensor, is_batched);
    }
    if (is_batched && !tensor.is_virtual) {
      expected_.problem.alignment =
          std::max(expected_.problem.alignment, static_cast<int32_t>(tensor.alignment));
    }
    if (tensor.uid == convolution_.w_uid) expected_.w_alignment = tensor.alignment;
    Set(object, "\"dim\":[", tensor.dims);
    Set(object, "\"stride\":[", tensor.strides);
    Set(object, "\"ptrAlignment\":", {tensor.alignment});
    return Status::Ok();
  }

  // Gives a tensor the extents and strides that it has in the part.
  void Shrink(Tensor& tensor, bool is_batched) const {
    if (tensor.uid == convolution_.w_uid) {
      tensor.dims[0] = edit_.problem.k;
      return;
    }
    const bool is_image = tensor.uid == convolution_.x_uid;
    if (is_image || tensor.uid == convolution_.y_uid) {
      const Tensor part = TensorOf(edit_.problem, is_image);
      tensor.dims = part.dims;
      tensor.strides = part.strides;
      return;
    }
    if (is_batched) {
      tensor.dims = result_.dims;
      if (result_.strides != whole_result_.strides) tensor.strides = result_.strides;
      return;
    }
    for (size_t axis = 1; axis < tensor.dims.size(); ++axis) {
      if (tensor.dims[axis] > 1) tensor.dims[axis] = result_.dims[axis];
    }
  }

  // Returns the alignment of a fused operand. The elements of a batched operand correspond to the
  // elements of the output, so both have the same alignment, counted in elements. An operand with a
  // value for each channel is read from the part's first channel on. If all parts have equally many
  // channels, the index of that first channel is a multiple of the part's number of channels.
  int64_t OperandAlignment(const Tensor& tensor, DataType type, bool is_batched,
                           const NumberList& whole_dims) const {
    const auto element = static_cast<int64_t>(ElementBytes(type));
    const auto result = static_cast<int64_t>(ElementBytes(edit_.problem.type));
    if (is_batched) {
      return std::min(tensor.alignment, std::max<int64_t>(1, tensor.alignment * element / result));
    }
    NumberList channels = whole_dims;
    channels[1] = tensor.dims[1];
    const bool are_even = channels == tensor.dims && whole_dims[1] % tensor.dims[1] == 0;
    const int64_t step = are_even ? tensor.dims[1] * tensor.strides[1] : 1;
    return std::gcd(tensor.alignment, step * element);
  }

  // Edits the convolution, which is the first node.
  Status EditConvolution() {
    const FlatObject node(json_, Behind(json_, "\"nodes\":[", tensors_end_));
    if (!node.ok()) return Unfamiliar("no nodes");
    UCUDNN_RETURN_IF_ERROR(SetScale(node, "\"alpha\":", convolution_.alpha, edit_.alpha));
    UCUDNN_RETURN_IF_ERROR(SetScale(node, "\"beta\":", convolution_.beta, edit_.beta));
    UCUDNN_RETURN_IF_ERROR(SetPads(node));
    return SetGroups(node);
  }

  // Replaces a scale if its value changes. An unchanged scale keeps cuDNN's text.
  Status SetScale(const FlatObject& node, const char* name, double before, double value) {
    if (value == before) return Status::Ok();
    const size_t at = node.Find(name);
    if (at >= node.end() || node.ValueEnd(at) == at) return Unfamiliar("a scale");
    splice_.Replace(at, node.ValueEnd(at), NumberText(value));
    return Status::Ok();
  }

  // Replaces the padding: by one member if the part's padding is equal on both sides, otherwise by
  // two adjacent members.
  Status SetPads(const FlatObject& node) {
    const ConvolutionProblem& whole = convolution_.problem;
    const ConvolutionProblem& part = edit_.problem;
    if (part.pad == whole.pad && part.extra_pad == whole.extra_pad) return Status::Ok();
    constexpr std::string_view kEven = "\"pad\":[", kBehind = "\"pad_upper\":[",
                               kBefore = "\"pad_lower\":[";
    const std::string_view first = whole.HasEvenPads() ? kEven : kBehind;
    size_t at = node.Find(first);
    if (at >= node.end()) return Unfamiliar("the padding");
    const size_t begin = at - first.size();
    if (!whole.HasEvenPads()) {
      at = node.ValueEnd(at) + 2;
      if (node.Find(kBefore) != at + kBefore.size()) return Unfamiliar("the padding");
      at += kBefore.size();
    }
    Spatial behind = part.pad;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) behind[axis] += part.extra_pad[axis];
    const std::string before = Text(Axes(part, part.pad));
    const auto member = [](std::string_view name, const std::string& values) {
      return std::string(name) + values + "]";
    };
    splice_.Replace(begin, node.ValueEnd(at) + 1,
                    part.HasEvenPads() ? member(kEven, before)
                                       : member(kBehind, Text(Axes(part, behind))) + "," +
                                             member(kBefore, before));
    return Status::Ok();
  }

  // Replaces the number of groups. Removes the member for a single group, because cuDNN writes no
  // such member then.
  Status SetGroups(const FlatObject& node) {
    if (edit_.problem.groups == convolution_.problem.groups) return Status::Ok();
    constexpr std::string_view kGroups = ",\"groupCount\":";
    const size_t at = node.Find(kGroups);
    if (at >= node.end()) return Unfamiliar("the groups");
    const bool stays = edit_.problem.groups > 1;
    splice_.Replace(stays ? at : at - kGroups.size(), node.ValueEnd(at),
                    stays ? std::to_string(edit_.problem.groups) : "");
    return Status::Ok();
  }

  void Set(const FlatObject& object, std::string_view name, const NumberList& numbers) {
    if (object.Read(name) == numbers) return;
    const size_t at = object.Find(name);
    splice_.Replace(at, object.ValueEnd(at), Text(numbers));
  }

  bool IsSameEngine(const EngineId& engine) const {
    const EngineId::Graph* const own = convolution_.engine.graph();
    const EngineId::Graph* const other = engine.graph();
    return own != nullptr && other != nullptr && own->index == other->index &&
           own->knobs == other->knobs;
  }

  const std::string_view json_;
  const FusedConvolution& convolution_;
  const PlanEdit& edit_;
  FusedConvolution expected_;
  Tensor whole_result_, result_;
  Splice splice_;
  size_t tensors_end_ = 0;
};

}  // namespace

Result<std::string> EditPlan(std::string_view json, const FusedConvolution& convolution,
                             const PlanEdit& edit) {
  ConvolutionProblem same = WithPart(convolution.problem, edit.problem);
  same.alignment = edit.problem.alignment;
  // Only the legacy API has a math type, so the math types may differ.
  same.math = edit.problem.math;
  if (same != edit.problem) {
    return Status::Error("a plan of another operation graph: " + Describe(edit.problem));
  }
  return PlanEditor(json, convolution, edit).Edit();
}

Result<EditedPlan> WithEngine(std::string_view json, const FusedConvolution& convolution,
                              const EngineId& engine) {
  const EngineId::Graph* const named = engine.graph();
  if (named == nullptr || !named->fusion.empty()) {
    return Status::Error("'" + engine.Text() + "' names no engine");
  }
  FusedConvolution expected = convolution;
  EngineId::Graph fused = *named;
  if (const EngineId::Graph* const own = convolution.engine.graph()) fused.fusion = own->fusion;
  expected.engine = fused;
  std::string choices;
  for (const auto& [type, value] : named->knobs) {
    const std::optional<std::string> knob = KnobName(type);
    if (!knob) return Status::Error("there is no knob " + std::to_string(type));
    choices += (choices.empty() ? "\"" : ",\"") + *knob + "\":" + std::to_string(value);
  }
  const size_t id = Behind(json, "\"engine\":{\"engineId\":", 0);
  const size_t knobs = id == std::string_view::npos ? id : Behind(json, "\"knobChoices\":{", id);
  const size_t end = knobs == std::string_view::npos ? knobs : json.find('}', knobs);
  if (end == std::string_view::npos) return Unfamiliar("the engine");
  const size_t id_end = NumberEnd(json, id);
  std::string edited(json.substr(0, id));
  edited += std::to_string(named->index);
  edited.append(json.substr(id_end, knobs - id_end)).append(choices).append(json.substr(end));
  UCUDNN_ASSIGN_OR_RETURN(const FusedConvolution read, ReadFusedConvolution(edited, &expected));
  if (read != expected) return Unfamiliar("it does not say what was written");
  return EditedPlan{std::move(edited), std::move(expected)};
}

}  // namespace ucudnn::cudnn
