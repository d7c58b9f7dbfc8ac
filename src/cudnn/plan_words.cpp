#include "cudnn/plan_words.h"

#include <algorithm>
#include <cctype>

#include "base/json_value.h"

namespace ucudnn::cudnn {
namespace {

using Kind = JsonValue::Kind;

// Longer lists of operations are cut off, because a message is one line.
constexpr size_t kMostOperations = 12;

const JsonValue* Text(const JsonValue& object, const char* name) {
  const JsonValue* const member = object.Find(name);
  return member != nullptr && member->is(Kind::kText) ? member : nullptr;
}

// Returns `name` in lower case, without `prefix` and `suffix` if it has them.
std::string Word(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  std::string word(name);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return word;
}

// Returns the tensor that `node` names as one of `roles`, which are tried in order; null if there
// is none.
const JsonValue* TensorOf(const JsonValue& tensors, const JsonValue& node,
                          std::initializer_list<const char*> roles) {
  for (const char* role : roles) {
    const JsonValue* const name = Text(node, role);
    if (name == nullptr) continue;
    for (const JsonValue& tensor : tensors.items) {
      const JsonValue* const own = tensor.is(Kind::kObject) ? Text(tensor, "name") : nullptr;
      if (own != nullptr && own->text == name->text) return &tensor;
    }
  }
  return nullptr;
}

std::string Extents(const JsonValue& tensor) {
  std::string text;
  const JsonValue* const dims = tensor.Find("dim");
  if (dims == nullptr || !dims->is(Kind::kArray)) return text;
  for (const JsonValue& extent : dims->items) {
    if (!extent.is(Kind::kInteger)) return "";
    text += (text.empty() ? "" : "x") + std::to_string(extent.integer);
  }
  return text;
}

std::string OperationWords(const JsonValue& tensors, const JsonValue& node) {
  if (!node.is(Kind::kObject)) return "";
  if (const JsonValue* mode = Text(node, "pointwiseMode")) {
    return Word(mode->text, "CUDNN_POINTWISE_", "");
  }
  const JsonValue* const name = Text(node, "operation");
  if (name == nullptr) return "";
  std::string words = Word(name->text, "CUDNN_BACKEND_OPERATION_", "_DESCRIPTOR");
  if (!words.starts_with("convolution")) return words;
  const JsonValue* const image = TensorOf(tensors, node, {"X", "dX"});
  const JsonValue* const filter = TensorOf(tensors, node, {"W", "dW"});
  if (image == nullptr || filter == nullptr) return words;
  words += " " + Extents(*image) + " by " + Extents(*filter);
  if (const JsonValue* type = Text(*filter, "dataType")) {
    words += " " + Word(type->text, "CUDNN_DATA_", "");
  }
  return words;
}

}  // namespace

std::string PlanWords(std::string_view json) {
  constexpr char kUnknown[] = "a plan of the graph API";
  const auto root = ParseJson(json);
  if (!root.ok() || !root->is(Kind::kObject)) return kUnknown;
  const JsonValue* const graph = root->Find("operationGraph");
  if (graph == nullptr || !graph->is(Kind::kObject)) return kUnknown;
  const JsonValue* const tensors = graph->Find("tensors");
  const JsonValue* const nodes = graph->Find("nodes");
  if (tensors == nullptr || !tensors->is(Kind::kArray) || nodes == nullptr ||
      !nodes->is(Kind::kArray)) {
    return kUnknown;
  }
  std::string words;
  for (size_t i = 0; i < nodes->items.size() && i < kMostOperations; ++i) {
    const std::string operation = OperationWords(*tensors, nodes->items[i]);
    if (operation.empty()) return kUnknown;
    words += (words.empty() ? "" : " + ") + operation;
  }
  if (nodes->items.size() > kMostOperations) words += " + ...";
  return words.empty() ? kUnknown : words;
}

}  // namespace ucudnn::cudnn
