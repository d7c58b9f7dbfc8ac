#include "cudnn/plan_edit.h"

#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "cudnn/knobs.h"

namespace ucudnn::cudnn {
namespace {

Status Unfamiliar(const char* what) {
  return Status::Error(std::string("unfamiliar plan: its JSON cannot be edited: ") + what);
}

// The position behind the first `mark` at or after `from`; npos when there is none.
size_t Behind(std::string_view text, std::string_view mark, size_t from) {
  const size_t at = text.find(mark, from);
  return at == std::string_view::npos ? at : at + mark.size();
}

// The end of the number that begins at `from`.
size_t NumberEnd(std::string_view text, size_t from) {
  return text.find_first_not_of("+-.0123456789eE", from);
}

// With a point or an exponent: cuDNN refuses integers where it writes reals.
std::string NumberText(double value) {
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  if (error != std::errc()) return "";
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// Copies of a text with some numbers replaced, from front to back.
class Splice {
 public:
  explicit Splice(std::string_view text) : text_(text) {}

  // Replaces the number that begins at `from`.
  bool Replace(size_t from, std::string_view number) {
    if (from == std::string_view::npos || from < copied_) return false;
    const size_t end = NumberEnd(text_, from);
    if (end == std::string_view::npos || end == from) return false;
    result_.append(text_.substr(copied_, from - copied_)).append(number);
    copied_ = end;
    return true;
  }
  // Replaces the numbers of the list whose first one begins at `from`.
  bool ReplaceAll(size_t from, const std::vector<int64_t>& numbers) {
    const size_t end = from == std::string_view::npos ? from : text_.find(']', from);
    if (end == std::string_view::npos || from < copied_) return false;
    result_.append(text_.substr(copied_, from - copied_));
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (i > 0) result_ += ',';
      result_ += std::to_string(numbers[i]);
    }
    copied_ = end;
    return true;
  }
  std::string Finish() { return std::move(result_.append(text_.substr(copied_))); }

 private:
  std::string_view text_;
  std::string result_;
  size_t copied_ = 0;
};

// The extents and strides of a tensor of the convolution, as its JSON lists them.
struct Shape {
  std::vector<int64_t> dims, strides;
};

template <typename Values>
void AppendAxes(const ConvolutionProblem& problem, const Values& values, std::vector<int64_t>& to) {
  to.insert(to.end(), values.end() - problem.spatial_rank, values.end());
}

Shape ShapeOf(const ConvolutionProblem& problem, bool is_image) {
  const Strides& strides = is_image ? problem.x_strides : problem.y_strides;
  Shape shape{{problem.n, is_image ? problem.c : problem.k}, {strides[0], strides[1]}};
  AppendAxes(problem, is_image ? problem.x : OutputExtents(problem), shape.dims);
  AppendAxes(problem, strides, shape.strides);
  return shape;
}

// What reading the edited plan must give.
FusedConvolution AtExtents(const FusedConvolution& convolution, const ConvolutionProblem& problem) {
  FusedConvolution expected = convolution;
  ConvolutionProblem& at = expected.problem;
  at.n = problem.n;
  at.x = problem.x;
  at.pad = problem.pad;
  at.x_strides = problem.x_strides;
  at.y_strides = problem.y_strides;
  const Shape result = ShapeOf(at, at.operation == Operation::kBackwardData);
  for (FusedOperand& operand : expected.operands) {
    if (operand.image_bytes == 0) continue;
    const size_t element = ElementBytes(operand.type);
    int64_t last = 0;
    for (size_t i = 1; i < result.dims.size(); ++i) {
      last += (result.dims[i] - 1) * result.strides[i];
    }
    operand.image_bytes = static_cast<size_t>(result.strides[0]) * element;
    operand.span_bytes = static_cast<size_t>(last + 1) * element;
  }
  return expected;
}

Status Check(std::string_view json, const FusedConvolution& expected) {
  UCUDNN_ASSIGN_OR_RETURN(const FusedConvolution edited, ReadFusedConvolution(json, &expected));
  return edited == expected ? Status::Ok() : Unfamiliar("it does not say what was written");
}

}  // namespace

Result<std::string> EditPlan(std::string_view json, const FusedConvolution& convolution,
                             const PlanEdit& edit) {
  FusedConvolution expected = convolution;
  expected.problem.n = edit.n;
  expected.alpha = edit.alpha;
  expected.beta = edit.beta;
  if (expected == convolution) return std::string(json);  // which says so already
  Splice splice(json);
  // Numbers are replaced from front to back only, so the text must have its members in cuDNN's
  // order: tensors, then nodes.
  size_t at = Behind(json, "\"tensors\":[", 0);
  const std::string batch = std::to_string(edit.n);
  for (int tensor = 0; tensor < convolution.tensors; ++tensor) {
    if (at == std::string_view::npos) return Unfamiliar("a tensor is missing");
    at = Behind(json, "\"dim\":[", at);
    if ((convolution.batched >> tensor & 1) != 0 && !splice.Replace(at, batch)) {
      return Unfamiliar("a tensor's extents");
    }
  }
  at = Behind(json, "\"nodes\":[", at == std::string_view::npos ? json.size() : at);
  if (at == std::string_view::npos) return Unfamiliar("no nodes");
  // The convolution is the first node. Scales that do not change keep cuDNN's text.
  const bool scaled = edit.alpha == convolution.alpha ||
                      splice.Replace(Behind(json, "\"alpha\":", at), NumberText(edit.alpha));
  if (!scaled || (edit.beta != convolution.beta &&
                  !splice.Replace(Behind(json, "\"beta\":", at), NumberText(edit.beta)))) {
    return Unfamiliar("a scale");
  }
  std::string edited = splice.Finish();
  UCUDNN_RETURN_IF_ERROR(Check(edited, expected));
  return edited;
}

Result<std::string> WithExtents(std::string_view json, const FusedConvolution& convolution,
                                const ConvolutionProblem& problem) {
  const FusedConvolution expected = AtExtents(convolution, problem);
  const bool forward = problem.operation == Operation::kForward;
  // The convolution reads one tensor of its own extents; all others of the batch are its result's.
  const std::string read =
      "\"name\":\"" + std::to_string(forward ? convolution.x_uid : convolution.y_uid) + "\"";
  const Shape exchanged = ShapeOf(expected.problem, forward);
  const Shape result = ShapeOf(expected.problem, !forward);
  Splice splice(json);
  size_t at = Behind(json, "\"tensors\":[", 0);
  for (int tensor = 0; tensor < convolution.tensors; ++tensor) {
    if (at == std::string_view::npos) return Unfamiliar("a tensor is missing");
    const size_t end = json.find('}', at);
    const bool is_read = end != std::string_view::npos &&
                         json.substr(at, end - at).find(read) != std::string_view::npos;
    const Shape& shape = is_read ? exchanged : result;
    const size_t dims = Behind(json, "\"dim\":[", at);
    const size_t strides = Behind(json, "\"stride\":[", dims);
    const bool changes = (convolution.batched >> tensor & 1) != 0;
    if (changes &&
        !(splice.ReplaceAll(dims, shape.dims) && splice.ReplaceAll(strides, shape.strides))) {
      return Unfamiliar("a tensor's extents");
    }
    at = end == std::string_view::npos ? end : end + 1;
  }
  at = Behind(json, "\"nodes\":[", at == std::string_view::npos ? json.size() : at);
  std::vector<int64_t> pad;
  AppendAxes(problem, problem.pad, pad);
  if (at == std::string_view::npos || !splice.ReplaceAll(Behind(json, "\"pad\":[", at), pad)) {
    return Unfamiliar("the padding");
  }
  std::string edited = splice.Finish();
  UCUDNN_RETURN_IF_ERROR(Check(edited, expected));
  return edited;
}

Result<std::string> WithEngine(std::string_view json, const FusedConvolution& convolution,
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
  UCUDNN_RETURN_IF_ERROR(Check(edited, expected));
  return edited;
}

}  // namespace ucudnn::cudnn
