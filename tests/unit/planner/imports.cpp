#include "unit/planner/imports.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/graph/formats/operator_fields.h"
#include "planner/graph/layers.h"
#include "planner/graph/network_file.h"
#include "planner/graph/shapes.h"

namespace ucudnn::planner {

std::string DataFile(const std::string& name) { return PLANNER_TEST_DATA "/" + name; }

Result<Graph> LoadData(const std::string& name) { return LoadNetwork(DataFile(name)); }

std::vector<std::string> SortedConvolutions(const Graph& graph) {
  const auto layers = ConvolutionLayers(graph, 16, {Operation::kForward});
  EXPECT_TRUE(layers.ok()) << layers.message();
  std::vector<std::string> texts;
  for (const Layer& layer : *layers) texts.push_back(Describe(layer.problem));
  std::sort(texts.begin(), texts.end());
  return texts;
}

std::vector<std::string> Listing(const Graph& graph) {
  const auto shapes = InferShapes(graph, 2);
  EXPECT_TRUE(shapes.ok()) << shapes.message();
  std::vector<std::string> lines;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    std::string line =
        node.name + ": " + kOperatorNames[node.op.index()] + " " + Describe((*shapes)[id]) + "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      line += (i > 0 ? ", " : "") + graph.nodes[static_cast<size_t>(node.inputs[i])].name;
    }
    lines.push_back(line + ")");
  }
  return lines;
}

}  // namespace ucudnn::planner
