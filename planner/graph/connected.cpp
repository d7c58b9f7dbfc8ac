#include "planner/graph/connected.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/text.h"

namespace ucudnn::planner {

Status CheckConnected(const Graph& graph) {
  if (graph.nodes.empty()) return Status::Error(graph.name + ": no layers; expected a network");
  // Disjoint sets of connected nodes. The earliest node of a set represents the set.
  std::vector<size_t> parent(graph.nodes.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto representative = [&](size_t node) {
    while (parent[node] != node) node = parent[node] = parent[parent[node]];
    return node;
  };
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    for (const NodeId input : graph.nodes[id].inputs) {
      const size_t a = representative(id);
      const size_t b = representative(static_cast<size_t>(input));
      parent[std::max(a, b)] = std::min(a, b);
    }
  }
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    if (representative(id) != 0) {
      return Status::Error(graph.name + ": nodes " + Quoted(graph.nodes[0].name) + " and " +
                           Quoted(graph.nodes[id].name) +
                           " are not connected; expected one network");
    }
  }
  return Status::Ok();
}

}  // namespace ucudnn::planner
