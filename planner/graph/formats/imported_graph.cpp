#include "planner/graph/formats/imported_graph.h"

#include <algorithm>

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

Status ImportedGraph::Restate(NodeId id, const Operator& op) {
  Node& node = nodes_[static_cast<size_t>(id)];
  std::vector<Shape> shapes;
  for (const NodeId input : node.inputs) shapes.push_back(ShapeOf(input));
  UCUDNN_ASSIGN_OR_RETURN(shapes_[static_cast<size_t>(id)], OutputShape(op, shapes, 1));
  node.op = op;
  return Status::Ok();
}

void ImportedGraph::AddParameters(NodeId id, const std::vector<Parameter>& parameters) {
  std::vector<Parameter>& own = nodes_[static_cast<size_t>(id)].parameters;
  own.insert(own.end(), parameters.begin(), parameters.end());
}

void ImportedGraph::DropIfUnused(NodeId id) {
  if (Uses(id) > 0 || !dropped_.insert(id).second) return;
  for (const NodeId input : NodeOf(id).inputs) --uses_[static_cast<size_t>(input)];
}

std::vector<bool> ImportedGraph::NeededFor(const std::vector<NodeId>& outputs) const {
  std::vector<bool> needed(nodes_.size(), outputs.empty());
  for (const NodeId output : outputs) needed[static_cast<size_t>(output)] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (dropped_.count(static_cast<NodeId>(i)) > 0) needed[i] = false;
    for (const NodeId input : nodes_[i].inputs) {
      if (needed[i]) needed[static_cast<size_t>(input)] = true;
    }
  }
  return needed;
}

void ImportedGraph::SplitFusedLinears(const std::vector<NodeId>& outputs) {
  std::vector<std::vector<NodeId>> readers(nodes_.size());
  std::map<int, int> times;  // by parameter tensor: number of nodes that read it
  for (size_t id = 0; id < nodes_.size(); ++id) {
    if (dropped_.count(static_cast<NodeId>(id)) > 0) continue;
    for (const NodeId input : nodes_[id].inputs) {
      readers[static_cast<size_t>(input)].push_back(static_cast<NodeId>(id));
    }
    for (const Parameter& parameter : nodes_[id].parameters) ++times[parameter.tensor];
  }
  for (const NodeId output : outputs) readers[static_cast<size_t>(output)].push_back(-1);
  const std::vector<bool> needed = NeededFor(outputs);
  for (size_t id = 0; id < nodes_.size(); ++id) {
    const Node fused = nodes_[id];
    const auto* linear = std::get_if<Linear>(&fused.op);
    if (linear == nullptr || readers[id].size() < 2) continue;
    std::vector<std::pair<int32_t, int32_t>> ranges;
    for (const NodeId reader : readers[id]) {
      const auto* cut = reader < 0 ? nullptr : std::get_if<Padding>(&NodeOf(reader).op);
      if (cut == nullptr || !needed[static_cast<size_t>(reader)] ||
          cut->before != Spatial{0, 0, 0} || cut->after != Spatial{0, 0, 0} ||
          cut->channels_before > 0 || cut->channels_after > 0) {
        break;
      }
      ranges.emplace_back(-cut->channels_before, linear->outputs + cut->channels_after);
    }
    if (ranges.size() < readers[id].size()) continue;
    bool apart = true;
    std::vector<std::pair<int32_t, int32_t>> sorted = ranges;
    std::sort(sorted.begin(), sorted.end());
    for (size_t at = 1; at < sorted.size(); ++at) {
      apart = apart && sorted[at].first >= sorted[at - 1].second;
    }
    for (const Parameter& parameter : fused.parameters) {
      apart = apart && (parameter.tensor < 0 || times[parameter.tensor] == 1) &&
              parameter.elements % linear->outputs == 0;
    }
    if (!apart) continue;
    for (size_t at = 0; at < ranges.size(); ++at) {
      Node& part = nodes_[static_cast<size_t>(readers[id][at])];
      const int32_t part_outputs = ranges[at].second - ranges[at].first;
      part.op = Linear{part_outputs, linear->bias};
      part.inputs = fused.inputs;
      part.parameters.clear();
      for (const Parameter& parameter : fused.parameters) {
        part.parameters.push_back(
            {parameter.elements / linear->outputs * part_outputs, -1, parameter.trained});
      }
      ++uses_[static_cast<size_t>(fused.inputs.front())];
    }
    uses_[id] = 0;
    DropIfUnused(static_cast<NodeId>(id));
  }
}

Result<Graph> ImportedGraph::Finish(const std::string& name, const std::vector<NodeId>& outputs,
                                    std::vector<NodeId>* positions) const {
  if (!unsupported_.empty() && !options_.pass_through) return UnsupportedFault();
  const std::vector<bool> needed = NeededFor(outputs);
  GraphBuilder builder(file_);
  std::vector<NodeId> ids(nodes_.size(), -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const bool is_output =
        std::find(outputs.begin(), outputs.end(), static_cast<NodeId>(i)) != outputs.end();
    const bool is_idle = std::holds_alternative<Input>(node.op) && uses_[i] == 0 && !is_output;
    if (!needed[i] || is_idle) continue;
    std::vector<NodeId> inputs;
    for (const NodeId input : node.inputs) inputs.push_back(ids[static_cast<size_t>(input)]);
    ids[i] = builder.Add(node.name, node.op, inputs, node.parameters);
  }
  if (positions != nullptr) *positions = ids;
  UCUDNN_ASSIGN_OR_RETURN(Graph graph, builder.Build());
  UCUDNN_RETURN_IF_ERROR(CheckConnected(graph));
  graph.name = name;
  graph.passed_through = UnsupportedTexts();
  return graph;
}

}  // namespace ucudnn::planner
