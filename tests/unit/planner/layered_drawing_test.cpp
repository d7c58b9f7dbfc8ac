// Tests drawings of graphs: edges lead downwards, nodes do not overlap, and edges pass around
// nodes. Pages and DOT files show every layer by its name.
#include "planner/report/layered_drawing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "planner/cost/deepa_paper.h"
#include "planner/graph/networks.h"
#include "planner/report/layout_dot.h"
#include "planner/report/layout_page.h"

namespace ucudnn::planner {
namespace {

using Edges = std::vector<std::pair<int, int>>;

void ExpectSound(const LayeredDrawing& drawing, int nodes, const Edges& edges) {
  ASSERT_EQ(drawing.nodes.size(), static_cast<size_t>(nodes));
  ASSERT_EQ(drawing.edges.size(), edges.size());
  for (const auto& [from, to] : edges) {
    EXPECT_LT(drawing.nodes[static_cast<size_t>(from)].row,
              drawing.nodes[static_cast<size_t>(to)].row);
  }
  for (size_t a = 0; a < drawing.nodes.size(); ++a) {
    EXPECT_GE(drawing.nodes[a].x, 0.5 - 1e-9);
    EXPECT_LE(drawing.nodes[a].x, drawing.width - 0.5 + 1e-9);
    EXPECT_LT(drawing.nodes[a].row, drawing.rows);
    for (size_t b = 0; b < a; ++b) {
      if (drawing.nodes[a].row != drawing.nodes[b].row) continue;
      EXPECT_GE(std::abs(drawing.nodes[a].x - drawing.nodes[b].x), 1 - 1e-9) << a << " on " << b;
    }
  }
  for (size_t at = 0; at < edges.size(); ++at) {
    const std::vector<Position>& way = drawing.edges[at];
    EXPECT_EQ(way.front(), drawing.nodes[static_cast<size_t>(edges[at].first)]);
    EXPECT_EQ(way.back(), drawing.nodes[static_cast<size_t>(edges[at].second)]);
  }
}

// Expects that each edge has a point in every row between its ends, and no such point on a node.
void ExpectWaysAroundNodes(const LayeredDrawing& drawing) {
  for (const std::vector<Position>& way : drawing.edges) {
    for (size_t at = 1; at < way.size(); ++at) EXPECT_EQ(way[at].row, way[at - 1].row + 1);
    for (size_t at = 1; at + 1 < way.size(); ++at) {
      for (const Position& node : drawing.nodes) {
        if (node.row == way[at].row) {
          EXPECT_GT(std::abs(node.x - way[at].x), 0.5);
        }
      }
    }
  }
}

TEST(LayeredDrawing, AChainIsAStraightLine) {
  const LayeredDrawing drawing = Arrange(4, {{0, 1}, {1, 2}, {2, 3}});
  for (int node = 0; node < 4; ++node) {
    EXPECT_EQ(drawing.nodes[static_cast<size_t>(node)], (Position{0.5, node}));
  }
  EXPECT_EQ(drawing.rows, 4);
  EXPECT_DOUBLE_EQ(drawing.width, 1);
}

TEST(LayeredDrawing, RandomGraphsAreDrawnSoundly) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    const int nodes = 1 + static_cast<int>(random() % 25);
    Edges edges;
    for (int to = 1; to < nodes; ++to) {
      for (unsigned i = 0; i < random() % 4; ++i) edges.emplace_back(random() % to, to);
    }
    const LayeredDrawing drawing = Arrange(nodes, edges);
    ExpectSound(drawing, nodes, edges);
    ExpectWaysAroundNodes(drawing);
    ExpectSound(Arrange(nodes, edges, 0), nodes, edges);  // without bends, edges are straight
  }
  EXPECT_EQ(Arrange(0, {}).rows, 0);
}

// Returns all parts of `text` that are between `before` and `after`.
std::set<std::string> Between(const std::string& text, const std::string& before,
                              const std::string& after) {
  std::set<std::string> found;
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at)) {
    at += before.size();
    const size_t end = text.find(after, at);
    if (end == std::string::npos) break;
    found.insert(text.substr(at, end - at));
  }
  return found;
}

TEST(LayoutPages, EveryBuiltInNetworkIsDrawnWhole) {
  for (const std::string& name : NetworkNames()) {
    const Result<LayerGraph> graph = BuildLayerGraph(*BuildNetwork(name), 16);
    ASSERT_TRUE(graph.ok()) << graph.message();
    PlanningOptions options;
    for (const PlannedLayer& layer : graph->layers) {
      options.configurations.pins.push_back({layer.name, {2}});  // keeps the search small
    }
    const Result<PlanningProblem> problem =
        BuildPlanningProblem(*graph, 2, DeePaPaperModel(), options);
    ASSERT_TRUE(problem.ok()) << problem.message();
    const auto layouts = CompareLayouts(*problem, 2);
    ASSERT_TRUE(layouts.ok()) << layouts.message();
    const std::string page =
        FormatLayoutPage(*problem, {"pair", 2, "deepa-paper", "parameter-server", "", {}, false},
                         *layouts, layouts->back(), 0);
    const std::string dot = FormatDot(*problem, layouts->back());
    const std::set<std::string> drawn = Between(page, "data-layer=\"", "\"");
    const std::set<std::string> written = Between(dot, "\n  l", "\\n");
    for (size_t at = 0; at < graph->layers.size(); ++at) {
      const std::string& layer = graph->layers[at].name;
      EXPECT_EQ(drawn.count(layer), 1u) << name << " " << layer;
      EXPECT_EQ(written.count(std::to_string(at) + " [label=\"" + layer), 1u)
          << name << " " << layer;
    }
    size_t edges = 0;
    for (size_t at = dot.find(" -> "); at != std::string::npos; at = dot.find(" -> ", at + 1))
      ++edges;
    EXPECT_EQ(edges, problem->search.edges.size());
  }
}

TEST(LayoutPages, NamesStayNames) {
  GraphBuilder builder("net\"<script>");
  const NodeId data = builder.Add("data", Input{4, {1, 8, 8}}, {});
  builder.Add("a\"];</title>\n<b>", Convolution{8, {1, 3, 3}}, {data});
  const PlanningProblem problem =
      *BuildPlanningProblem(*BuildLayerGraph(*builder.Build(), 4), 2, DeePaPaperModel());
  const auto layouts = CompareLayouts(problem, 2);
  ASSERT_TRUE(layouts.ok());
  const std::string page = FormatLayoutPage(problem, {"<m>", 2, "<c>", "<u>", "", {}, false},
                                            *layouts, layouts->back(), -1);
  for (const char* markup : {"<b>", "<m>", "<c>", "<u>", "net\"<"}) {
    EXPECT_EQ(page.find(markup), std::string::npos) << markup;
  }
  const std::string dot = FormatDot(problem, layouts->back());
  EXPECT_NE(dot.find("label=\"a\\\"];</title> <b>\\n4x8x6x6\\n"), std::string::npos) << dot;
}

}  // namespace
}  // namespace ucudnn::planner
