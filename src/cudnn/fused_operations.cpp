#include "cudnn/fused_operations.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "cudnn/pointwise_modes.h"

namespace ucudnn::cudnn {
namespace {

using namespace plan_json;
using Kind = JsonValue::Kind;

// Returns the shortest decimal number that reads back as exactly this value.
std::string Exactly(double value) {
  std::array<char, 32> buffer;
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), written.ptr};
}

std::string ScalesText(double first, double second) {
  return "[" + Exactly(first) + "," + Exactly(second) + "]";
}

std::string Numbers(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) text += (text.empty() ? "" : "x") + std::to_string(value);
  return text;
}

bool IsShared(const Tensor& tensor) { return tensor.dims[0] == 1; }

Status UnlikeOutput() {
  return Status::Error("an operand varies from image to image and is laid out unlike the output");
}

}  // namespace

FusedOperand OperandOf(const Tensor& tensor, bool is_batched) {
  FusedOperand operand = {tensor.uid, tensor.type};
  int64_t last = 0;
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    const size_t axis = i < 2 ? i : operand.strides.size() - tensor.dims.size() + i;
    const bool moves = is_batched || (i > 0 && tensor.dims[i] > 1);
    if (moves) operand.strides[axis] = tensor.strides[i];
    if (i > 0) last += (tensor.dims[i] - 1) * tensor.strides[i];
  }
  operand.span_bytes = static_cast<size_t>(last + 1) * ElementBytes(tensor.type);
  return operand;
}

Result<std::string> FusedOperations::FromMemory(int index) {
  const Tensor& tensor = tensors_[index];
  const std::vector<int64_t>& whole = tensors_[results_[0]].dims;
  if (tensor.dims.size() != whole.size()) return Unfamiliar("an operand's rank");
  for (size_t i = 0; i < whole.size(); ++i) {
    if (tensor.dims[i] != whole[i] && tensor.dims[i] != 1)
      return Unfamiliar("an operand's extents");
  }
  std::vector<int64_t> channels(whole.size(), 1);
  channels[1] = whole[1];
  bool is_batched = tensor.dims == whole && (whole[0] > 1 || tensor.dims != channels);
  if (like_ != nullptr) {
    const auto same = std::find_if(like_->begin(), like_->end(),
                                   [&](const auto& other) { return other.uid == tensor.uid; });
    if (same == like_->end()) return Unfamiliar("another operand");
    is_batched = tensor.dims == whole && same->is_batched();
  }
  if (!is_batched && !IsShared(tensor)) return UnlikeOutput();
  if (is_batched) batched_ |= uint64_t{1} << index;
  const auto known = std::find(operands_.begin(), operands_.end(), index);
  if (known != operands_.end()) return "@" + std::to_string(known - operands_.begin());
  if (operands_.size() == kMostFusedOperands) return Unfamiliar("too many operands");
  operands_.push_back(index);
  const std::string type = tensor.type == type_ ? "" : std::string(":") + DataTypeName(tensor.type);
  if (is_batched) return "whole" + type;
  const bool is_dense = tensor.dims == channels && tensor.strides[1] == 1;
  if (is_dense) return "channel" + type;
  return "shared" + type + "[" + Numbers(tensor.dims) + "," + Numbers(tensor.strides) + "]";
}

Result<FusedOperations::Read> FusedOperations::Operand(const JsonValue& node, const char* role) {
  UCUDNN_ASSIGN_OR_RETURN(const int index, FindTensor(tensors_, node, role, used_));
  if (index == results_.back()) return Read{index, "this"};
  const auto written = std::find(results_.begin(), results_.end(), index);
  if (written != results_.end()) {
    return Read{index, "#" + std::to_string(written - results_.begin())};
  }
  if (tensors_[index].is_virtual) return Unfamiliar("a result that no operation before writes");
  UCUDNN_ASSIGN_OR_RETURN(std::string words, FromMemory(index));
  return Read{index, std::move(words)};
}

Status FusedOperations::Write(const JsonValue& node, const char* role) {
  const Tensor& before = tensors_[results_.back()];
  if (!before.is_virtual) return Unfamiliar("an intermediate result is kept");
  UCUDNN_ASSIGN_OR_RETURN(const int output, FindTensor(tensors_, node, role, used_));
  const bool is_known = std::find(results_.begin(), results_.end(), output) != results_.end() ||
                        std::find(operands_.begin(), operands_.end(), output) != operands_.end();
  if (is_known) return Unfamiliar("an operation writes what was read or written before");
  if (tensors_[output].dims != before.dims) return Unfamiliar("a pointwise operation's extents");
  batched_ |= uint64_t{1} << output;
  results_.push_back(output);
  return Status::Ok();
}

bool FusedOperations::Describe(const char* word, const Read& first, const Read* second) {
  text_ += "+";
  if (second == nullptr) {
    text_ += first.words == "this" ? word : word + ("(" + first.words + ")");
    return true;
  }
  const bool is_first = first.words == "this", is_second = second->words == "this";
  const std::string& other = is_first ? second->words : first.words;
  struct Short {
    const char *word, *operand, *name;
    bool in_either_order;
  };
  constexpr Short kShort[] = {{"add", "channel", "bias", true},
                              {"add", "whole", "residual", true},
                              {"mul", "channel", "scale", true},
                              {"drelu", "whole", "drelu", false}};
  for (const Short& one : kShort) {
    const bool operands = is_second || (one.in_either_order && is_first);
    if (std::strcmp(one.word, word) != 0 || !operands || is_first == is_second) continue;
    if (!other.starts_with(one.operand)) continue;
    text_ += one.name + other.substr(std::strlen(one.operand));
    return true;
  }
  text_ += word + ("(" + first.words + "," + second->words + ")");
  return false;
}

Status FusedOperations::Add(const JsonValue& node) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* name, Member(node, "pointwiseMode", Kind::kText));
  const PointwiseMode* const mode = FindPointwiseMode(name->text);
  if (mode == nullptr) return Unfamiliar("pointwise operation " + name->text);
  const PointwiseRoles roles = RolesOf(mode->arity);
  const char* const second_role = roles.second != nullptr ? roles.second : roles.first;
  UCUDNN_RETURN_IF_ERROR(OnlyKnown(
      node, "a pointwise operation",
      {"operation", "pointwiseMode", "mathPrec", "upperClip", "lowerClip", "lowerClipSlope",
       "alpha", "beta", "alpha1", "alpha2", roles.first, second_role, roles.output}));
  UCUDNN_ASSIGN_OR_RETURN(const DataType precision, Type(node, "mathPrec"));
  if (precision != compute_) return Unfamiliar("pointwise precision");
  UCUDNN_ASSIGN_OR_RETURN(const double alpha1, Number(node, "alpha1"));
  UCUDNN_ASSIGN_OR_RETURN(const double alpha2, Number(node, "alpha2"));
  // This operation reads the result of the previous one. The text names the type of that result
  // only if it differs from the type of the accumulation.
  const DataType intermediate = tensors_[results_.back()].type;
  if (intermediate != compute_) text_ += std::string(":") + DataTypeName(intermediate);
  UCUDNN_ASSIGN_OR_RETURN(const Read first, Operand(node, roles.first));
  if (roles.second != nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(const Read second, Operand(node, roles.second));
    // If Describe returns true, the text names only the operand other than "this", as in "+scale",
    // and the factor of "this" must come first. So the factors are swapped if "this" is the second
    // operand.
    const bool swaps = Describe(mode->word, first, &second) && first.words != "this";
    if (alpha1 != 1 || alpha2 != 1) {
      text_ += swaps ? ScalesText(alpha2, alpha1) : ScalesText(alpha1, alpha2);
    }
  } else {
    Describe(mode->word, first, nullptr);
  }
  for (const auto& [number, usual] : PointwiseNumbers()) {
    if (node.Find(number) == nullptr) continue;
    UCUDNN_ASSIGN_OR_RETURN(const double value, Number(node, number));
    if (value != usual) text_ += std::string("[") + number + "=" + Exactly(value) + "]";
  }
  if (roles.second == nullptr && alpha1 != 1) text_ += ScalesText(alpha1, alpha2);
  return Write(node, roles.output);
}

Result<std::vector<FusedOperand>> FusedOperations::Operands() const {
  const Tensor& output = tensors_[result()];
  std::vector<FusedOperand> operands;
  for (const int index : operands_) {
    const Tensor& tensor = tensors_[index];
    const bool is_batched = (batched_ >> index & 1) != 0;
    if (is_batched && tensor.strides != output.strides) return UnlikeOutput();
    operands.push_back(OperandOf(tensor, is_batched));
  }
  return operands;
}

}  // namespace ucudnn::cudnn
