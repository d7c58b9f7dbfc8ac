#include "planner/graph/graph.h"

#include <algorithm>

#include "base/text.h"
#include "planner/graph/shapes.h"

namespace ucudnn::planner {
namespace {

// Returns a text that says how many inputs an operator needs; empty if `count` inputs are right.
std::string WrongInputCount(const Operator& op, size_t count) {
  if (std::holds_alternative<Input>(op)) return count == 0 ? "" : "no input";
  if (std::holds_alternative<struct Add>(op)) return count >= 2 ? "" : "two or more inputs";
  if (std::holds_alternative<Multiply>(op)) return count == 2 ? "" : "two inputs";
  if (std::holds_alternative<Concat>(op) || std::holds_alternative<Opaque>(op)) {
    return count >= 1 ? "" : "one or more inputs";
  }
  if (std::holds_alternative<Attention>(op)) return count == 3 ? "" : "three inputs";
  return count == 1 ? "" : "one input";
}

}  // namespace

const Node* Graph::Find(const std::string& node_name) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const Node& node) { return node.name == node_name; });
  return found == nodes.end() ? nullptr : &*found;
}

NodeId GraphBuilder::Add(const std::string& name, Operator op, const std::vector<NodeId>& inputs,
                         std::vector<Parameter> parameters) {
  const auto id = static_cast<NodeId>(graph_.nodes.size());
  const auto refuse = [&](const std::string& what) {
    if (fault_.ok()) fault_ = Status::Error(graph_.name + ": node " + Quoted(name) + ": " + what);
    return id;
  };
  if (name.empty()) return refuse("no name; expected one");
  if (!names_.insert(name).second) return refuse("occurs twice; expected a name of its own");
  if (const std::string expected = WrongInputCount(op, inputs.size()); !expected.empty()) {
    return refuse(std::to_string(inputs.size()) + " inputs; expected " + expected);
  }
  for (const NodeId input : inputs) {
    if (input < 0 || input >= id) {
      return refuse("input " + std::to_string(input) + "; expected an earlier node");
    }
  }
  for (const Parameter& parameter : parameters) {
    if (parameter.elements < 0 || parameter.elements > kMostParameters) {
      return refuse(std::to_string(parameter.elements) +
                    " elements of a parameter; expected 0 to 2^48");
    }
  }
  graph_.nodes.push_back({name, op, inputs, std::move(parameters)});
  return id;
}

Result<Graph> GraphBuilder::Build() const {
  UCUDNN_RETURN_IF_ERROR(fault_);
  UCUDNN_RETURN_IF_ERROR(InferShapes(graph_, 1).status());
  return graph_;
}

}  // namespace ucudnn::planner
