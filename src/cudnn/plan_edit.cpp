#include "cudnn/plan_edit.h"

#include <array>
#include <charconv>
#include <optional>

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
  std::string Finish() { return std::move(result_.append(text_.substr(copied_))); }

 private:
  std::string_view text_;
  std::string result_;
  size_t copied_ = 0;
};

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
