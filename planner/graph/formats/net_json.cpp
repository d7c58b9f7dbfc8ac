#include "planner/graph/formats/net_json.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_value.h"
#include "base/text.h"
#include "planner/graph/formats/operator_fields.h"

namespace ucudnn::planner {
namespace {

constexpr const char* kFormat = "ucudnn-net";
constexpr int64_t kVersion = 1;

bool Fits32Bits(const JsonValue& value) {
  return value.is(JsonValue::Kind::kInteger) &&
         value.integer >= std::numeric_limits<int32_t>::min() &&
         value.integer <= std::numeric_limits<int32_t>::max();
}

// Fills an operator from the members of its node, and keeps the first fault.
class Reader {
 public:
  explicit Reader(const JsonValue& node)
      : node_(node), known_({"name", "op", "inputs", "parameters"}) {}

  void Required(const char* name, int32_t& number) {
    if (Has(name)) return Optional(name, number);
    Refuse(name, "missing; expected a whole number");
  }
  void Optional(const char* name, int32_t& number) {
    const JsonValue* value = Take(name);
    if (value == nullptr) return;
    if (!Fits32Bits(*value)) return Refuse(name, Shown(*value) + "; expected a whole number");
    number = static_cast<int32_t>(value->integer);
  }
  void Optional(const char* name, bool& flag) {
    const JsonValue* value = Take(name);
    if (value == nullptr) return;
    if (!value->is(JsonValue::Kind::kBoolean)) {
      return Refuse(name, Shown(*value) + "; expected true or false");
    }
    flag = value->boolean;
  }
  void Optional(const char* name, double& number) {
    const JsonValue* value = Take(name);
    if (value == nullptr) return;
    if (!value->is_number()) return Refuse(name, Shown(*value) + "; expected a number");
    number = value->real;
  }
  void RequiredExtents(const char* name, Spatial& extents, int32_t neutral) {
    if (Has(name)) return OptionalExtents(name, extents, neutral);
    Refuse(name, "missing; expected [h, w] or [d, h, w]");
  }
  void OptionalExtents(const char* name, Spatial& extents, int32_t neutral) {
    int32_t rank = 0;
    ReadExtents(name, extents, neutral, rank);
  }
  void ImageExtents(const char* name, Spatial& extents, int32_t& rank) {
    if (!Has(name)) return Refuse(name, "missing; expected [h, w] or [d, h, w]");
    ReadExtents(name, extents, 1, rank);
  }
  template <typename Enumeration, size_t kCount>
  void Choice(const char* name, Enumeration& choice, const std::array<const char*, kCount>& names) {
    const JsonValue* value = Take(name);
    const auto found = std::find_if(names.begin(), names.end(), [&](const char* known) {
      return value != nullptr && value->is(JsonValue::Kind::kText) && value->text == known;
    });
    if (found == names.end()) {
      return Refuse(name, (value == nullptr ? "missing" : Shown(*value)) + "; expected one of " +
                              Join({names.begin(), names.end()}, ", "));
    }
    choice = static_cast<Enumeration>(found - names.begin());
  }

  template <typename Enumeration, size_t kCount>
  void OptionalChoice(const char* name, Enumeration& choice,
                      const std::array<const char*, kCount>& names) {
    if (Has(name)) Choice(name, choice, names);
  }
  void Text(const char* name, std::string& text) {
    const JsonValue* value = Take(name);
    if (value == nullptr || !value->is(JsonValue::Kind::kText)) {
      return Refuse(name, (value == nullptr ? "missing" : Shown(*value)) + "; expected text");
    }
    text = value->text;
  }

  // Returns the first fault, or an error for a member that no call has read.
  Status Finish() {
    for (const JsonMember& member : node_.members) {
      if (std::find(known_.begin(), known_.end(), member.name) == known_.end()) {
        Refuse(member.name, "no member of this operator");
      }
    }
    return fault_;
  }

 private:
  bool Has(const char* name) const { return node_.Find(name) != nullptr; }
  const JsonValue* Take(const char* name) {
    known_.emplace_back(name);
    return node_.Find(name);
  }
  void Refuse(const std::string& member, const std::string& what) {
    if (fault_.ok()) fault_ = Status::Error(Quoted(member) + ": " + what);
  }
  void ReadExtents(const char* name, Spatial& extents, int32_t neutral, int32_t& rank) {
    const JsonValue* value = Take(name);
    if (value == nullptr) return;
    const size_t count = value->items.size();
    if (!(count == 2 || count == 3) ||
        !std::all_of(value->items.begin(), value->items.end(), Fits32Bits)) {
      return Refuse(name, Shown(*value) + "; expected [h, w] or [d, h, w], whole numbers");
    }
    extents[0] = neutral;
    for (size_t i = 0; i < count; ++i) {
      extents[3 - count + i] = static_cast<int32_t>(value->items[i].integer);
    }
    rank = static_cast<int32_t>(count);
  }

  const JsonValue& node_;
  std::vector<std::string> known_;
  Status fault_;
};

// Writes the fields of an operator as members of its node.
class Writer {
 public:
  explicit Writer(nlohmann::ordered_json& node) : node_(node) {}

  template <typename Number>
  void Required(const char* name, const Number& value) {
    node_[name] = value;
  }
  template <typename Value>
  void Optional(const char* name, const Value& value) {
    node_[name] = value;
  }
  void RequiredExtents(const char* name, const Spatial& extents, int32_t neutral) {
    WriteExtents(name, extents, extents[0] == neutral ? 2 : 3);
  }
  void OptionalExtents(const char* name, const Spatial& extents, int32_t neutral) {
    RequiredExtents(name, extents, neutral);
  }
  void ImageExtents(const char* name, const Spatial& extents, int32_t rank) {
    WriteExtents(name, extents, rank);
  }
  template <typename Enumeration, size_t kCount>
  void Choice(const char* name, Enumeration choice, const std::array<const char*, kCount>& names) {
    node_[name] = names[static_cast<size_t>(choice)];
  }
  template <typename Enumeration, size_t kCount>
  void OptionalChoice(const char* name, Enumeration choice,
                      const std::array<const char*, kCount>& names) {
    Choice(name, choice, names);
  }
  void Text(const char* name, const std::string& text) { node_[name] = text; }

 private:
  void WriteExtents(const char* name, const Spatial& extents, int rank) {
    auto values = nlohmann::ordered_json::array();
    for (int axis = kMaxSpatial - rank; axis < kMaxSpatial; ++axis) {
      values.push_back(extents[static_cast<size_t>(axis)]);
    }
    node_[name] = std::move(values);
  }

  nlohmann::ordered_json& node_;
};

template <size_t... kIndex>
Operator DefaultOperator(size_t index, std::index_sequence<kIndex...>) {
  Operator op;
  ((kIndex == index ? void(op.emplace<kIndex>()) : void()), ...);
  return op;
}
Operator DefaultOperator(size_t index) {
  return DefaultOperator(index, std::make_index_sequence<std::variant_size_v<Operator>>());
}

Result<Operator> ParseOperator(const JsonValue& node) {
  const JsonValue* kind = node.Find("op");
  const std::string name =
      kind != nullptr && kind->is(JsonValue::Kind::kText) ? kind->text : std::string();
  const auto found = std::find(kOperatorNames.begin(), kOperatorNames.end(), name);
  if (found == kOperatorNames.end()) {
    return Status::Error("'op': " + (kind == nullptr ? "missing" : Shown(*kind)) +
                         "; expected one of " +
                         Join({kOperatorNames.begin(), kOperatorNames.end()}, ", "));
  }
  Operator op = DefaultOperator(static_cast<size_t>(found - kOperatorNames.begin()));
  Reader reader(node);
  std::visit([&](auto& alternative) { VisitFields(alternative, reader); }, op);
  UCUDNN_RETURN_IF_ERROR(reader.Finish());
  return op;
}

Result<std::vector<NodeId>> ParseInputs(const JsonValue& node,
                                        const std::map<std::string, NodeId>& ids) {
  std::vector<NodeId> inputs;
  const JsonValue* names = node.Find("inputs");
  if (names == nullptr) return inputs;
  if (!names->is(JsonValue::Kind::kArray)) {
    return Status::Error("'inputs': " + Shown(*names) + "; expected an array of names");
  }
  for (const JsonValue& name : names->items) {
    const auto found = name.is(JsonValue::Kind::kText) ? ids.find(name.text) : ids.end();
    if (found == ids.end()) {
      return Status::Error("input " + Shown(name) +
                           "; expected a node before it (a graph has no cycles)");
    }
    inputs.push_back(found->second);
  }
  return inputs;
}

Result<std::vector<Parameter>> ParseParameters(const JsonValue& node) {
  std::vector<Parameter> parameters;
  const JsonValue* list = node.Find("parameters");
  if (list == nullptr) return parameters;
  const Status fault = Status::Error("'parameters': " + Shown(*list) +
                                     "; expected objects of 'elements', 'tensor' and 'trained'");
  if (!list->is(JsonValue::Kind::kArray)) return fault;
  for (const JsonValue& item : list->items) {
    const JsonValue* elements = item.Find("elements");
    const JsonValue* tensor = item.Find("tensor");
    const JsonValue* trained = item.Find("trained");
    const size_t known = (tensor != nullptr ? 1 : 0) + (trained != nullptr ? 1 : 0) + 1;
    if (elements == nullptr || !elements->is(JsonValue::Kind::kInteger) ||
        item.members.size() != known || (tensor != nullptr && !Fits32Bits(*tensor)) ||
        (trained != nullptr && !trained->is(JsonValue::Kind::kBoolean))) {
      return fault;
    }
    parameters.push_back({elements->integer,
                          tensor == nullptr ? -1 : static_cast<int>(tensor->integer),
                          trained == nullptr || trained->boolean});
  }
  return parameters;
}

}  // namespace

Result<Graph> ParseNetJson(std::string_view text, const std::string& file) {
  const auto refuse = [&](const std::string& what) { return Status::Error(file + ": " + what); };
  const Result<JsonValue> root = ParseJson(text);
  if (!root.ok()) return refuse(root.message());
  const JsonValue* format = root->Find("format");
  if (format == nullptr || format->text != kFormat) {
    return refuse("'format': " + (format == nullptr ? "missing" : Shown(*format)) + "; expected '" +
                  kFormat + "'");
  }
  const JsonValue* version = root->Find("version");
  if (version == nullptr || version->integer != kVersion) {
    return refuse("'version': " + (version == nullptr ? "missing" : Shown(*version)) +
                  "; expected " + std::to_string(kVersion));
  }
  const JsonValue* nodes = root->Find("nodes");
  if (nodes == nullptr || nodes->items.empty()) return refuse("'nodes': expected one or more");
  GraphBuilder builder(file);
  std::map<std::string, NodeId> ids;
  for (const JsonValue& node : nodes->items) {
    const JsonValue* name = node.Find("name");
    if (name == nullptr || !name->is(JsonValue::Kind::kText)) {
      return refuse("node " + std::to_string(ids.size() + 1) + ": 'name': " +
                    (name == nullptr ? "missing" : Shown(*name)) + "; expected text");
    }
    const Result<Operator> op = ParseOperator(node);
    if (!op.ok()) return refuse("node " + Quoted(name->text) + ": " + op.message());
    const Result<std::vector<NodeId>> inputs = ParseInputs(node, ids);
    if (!inputs.ok()) return refuse("node " + Quoted(name->text) + ": " + inputs.message());
    const Result<std::vector<Parameter>> parameters = ParseParameters(node);
    if (!parameters.ok()) return refuse("node " + Quoted(name->text) + ": " + parameters.message());
    ids[name->text] = builder.Add(name->text, *op, *inputs, *parameters);
  }
  UCUDNN_ASSIGN_OR_RETURN(Graph graph, builder.Build());
  const JsonValue* name = root->Find("name");
  if (name != nullptr && name->is(JsonValue::Kind::kText)) graph.name = name->text;
  return graph;
}

std::string WriteNetJson(const Graph& graph) {
  const auto dump = [](const nlohmann::ordered_json& value) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::string text = "{\"format\": " + dump(kFormat) + ", \"version\": " + dump(kVersion) +
                     ", \"name\": " + dump(graph.name) + ", \"nodes\": [";
  const char* separator = "\n  ";
  for (const Node& node : graph.nodes) {
    nlohmann::ordered_json written = {{"name", node.name}, {"op", kOperatorNames[node.op.index()]}};
    if (!node.inputs.empty()) {
      auto& inputs = written["inputs"] = nlohmann::ordered_json::array();
      for (const NodeId input : node.inputs) {
        inputs.push_back(graph.nodes[static_cast<size_t>(input)].name);
      }
    }
    for (const Parameter& parameter : node.parameters) {
      nlohmann::ordered_json item = {{"elements", parameter.elements}};
      if (parameter.tensor >= 0) item["tensor"] = parameter.tensor;
      if (!parameter.trained) item["trained"] = false;
      written["parameters"].push_back(std::move(item));
    }
    Writer writer(written);
    std::visit([&](auto op) { VisitFields(op, writer); }, node.op);
    text += separator + dump(written);
    separator = ",\n  ";
  }
  return text + "\n]}\n";
}

}  // namespace ucudnn::planner
