#include "planner/graph/formats/imported_graph.h"

#include "base/text.h"
#include "planner/graph/connected.h"

namespace ucudnn::planner {

Result<NodeId> ImportedGraph::Add(const std::string& name, const std::string& fallback,
                                  const Operator& op, const std::vector<NodeId>& inputs,
                                  std::vector<Parameter> parameters) {
  std::vector<Shape> shapes;
  for (const NodeId input : inputs) shapes.push_back(ShapeOf(input));
  UCUDNN_ASSIGN_OR_RETURN(const Shape shape, OutputShape(op, shapes, 1));
  const std::string wanted = name.empty() ? fallback : name;
  std::string unique = wanted;
  for (int& number = numbers_[wanted]; !names_.insert(unique).second;) {
    unique = wanted + "_" + std::to_string(++number);
  }
  for (const NodeId input : inputs) ++uses_[static_cast<size_t>(input)];
  nodes_.push_back({unique, op, inputs, std::move(parameters)});
  shapes_.push_back(shape);
  uses_.push_back(0);
  return static_cast<NodeId>(nodes_.size()) - 1;
}

void ImportedGraph::NoteUnsupported(const std::string& type, const std::string& node,
                                    const std::string& why) {
  unsupported_[Quoted(type)].push_back(Quoted(node) + (why.empty() ? "" : ": " + why));
}

std::vector<std::string> ImportedGraph::UnsupportedTexts() const {
  std::vector<std::string> texts;
  for (const auto& [type, nodes] : unsupported_) {
    texts.push_back(type + " (node " + nodes.front());
    if (nodes.size() > 1) texts.back() += " and " + std::to_string(nodes.size() - 1) + " more";
    texts.back() += ")";
  }
  return texts;
}

Status ImportedGraph::UnsupportedFault() const {
  return Status::Error(file_ + ": unsupported operators: " + Join(UnsupportedTexts(), "; "));
}

Status ImportedGraph::Fault(const std::string& node, const std::string& what) const {
  if (!unsupported_.empty() && !options_.pass_through) return UnsupportedFault();
  return Status::Error(file_ + ": node " + Quoted(node) + ": " + what);
}

Result<Graph> ImportedGraph::Finish(const std::string& name) const {
  if (!unsupported_.empty() && !options_.pass_through) return UnsupportedFault();
  GraphBuilder builder(file_);
  std::vector<NodeId> ids(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (std::holds_alternative<Input>(node.op) && uses_[i] == 0) continue;
    std::vector<NodeId> inputs;
    for (const NodeId input : node.inputs) inputs.push_back(ids[static_cast<size_t>(input)]);
    ids[i] = builder.Add(node.name, node.op, inputs, node.parameters);
  }
  UCUDNN_ASSIGN_OR_RETURN(Graph graph, builder.Build());
  UCUDNN_RETURN_IF_ERROR(CheckConnected(graph));
  graph.name = name;
  graph.passed_through = UnsupportedTexts();
  return graph;
}

}  // namespace ucudnn::planner
