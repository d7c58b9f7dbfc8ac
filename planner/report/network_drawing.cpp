#include "planner/report/network_drawing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/report/chart.h"
#include "planner/report/layered_drawing.h"
#include "planner/report/layout_colours.h"

namespace ucudnn::planner {
namespace {

constexpr double kPitchX = 138;
constexpr double kPitchY = 58;
constexpr double kBoxWidth = 126;
constexpr double kBoxHeight = 36;
constexpr double kMargin = 8;
constexpr size_t kLongestName = 19;

double XOf(const Position& position) { return kMargin + position.x * kPitchX; }
double MiddleOf(const Position& position) {
  return kMargin + kBoxHeight / 2 + position.row * kPitchY;
}

// Returns the SVG path of an edge. The edge is straight within a row, and bends between rows.
std::string Way(const std::vector<Position>& points) {
  std::string path = "M" + Coordinate(XOf(points.front())) + " " +
                     Coordinate(MiddleOf(points.front()) + kBoxHeight / 2);
  for (size_t at = 1; at < points.size(); ++at) {
    const double from = MiddleOf(points[at - 1]) + kBoxHeight / 2;
    const double to = MiddleOf(points[at]) - kBoxHeight / 2;
    const double bend = (from + to) / 2;
    path += "C" + Coordinate(XOf(points[at - 1])) + " " + Coordinate(bend) + " " +
            Coordinate(XOf(points[at])) + " " + Coordinate(bend) + " " +
            Coordinate(XOf(points[at])) + " " + Coordinate(to);
    if (at + 1 < points.size()) path += "V" + Coordinate(MiddleOf(points[at]) + kBoxHeight / 2);
  }
  return path;
}

// Returns an edge's width in px: 1 for no bytes, 1.5 up to a megabyte, and 7 from about a gigabyte
// on.
double WidthOf(int64_t bytes) {
  if (bytes == 0) return 1;
  return std::clamp(1.5 + (std::log10(static_cast<double>(bytes)) - 6) * 1.8, 1.5, 7.0);
}

Element DrawEdge(const PlanningProblem& problem, size_t edge, int64_t bytes,
                 const std::vector<Position>& points) {
  const SearchProblem::Edge& ends = problem.search.edges[edge];
  const auto name = [&](int layer) {
    return problem.graph.layers[static_cast<size_t>(layer)].name;
  };
  Element group("g");
  group.Add(Element("title", name(ends.from) + " to " + name(ends.to) + ": " +
                                 Bytes(static_cast<double>(bytes)) + " moved"));
  group.Add(Element("path")
                .Set("d", Way(points))
                .Set("class", bytes > 0 ? "edge moves" : "edge")
                .Set("stroke-width", WidthOf(bytes)));
  return group;
}

Element DrawLayer(const PlannedLayer& layer, const std::string& configuration, int colour,
                  const Position& position) {
  const double x = XOf(position);
  const double y = MiddleOf(position);
  const std::string name = layer.name.size() <= kLongestName
                               ? layer.name
                               : ".." + layer.name.substr(layer.name.size() - kLongestName + 2);
  Element group("g");
  group.Set("class", "layer").Set("data-layer", layer.name);
  group.Set("data-configuration", configuration);
  group.Add(Element("title", layer.name + ", " + Describe(layer.output) + ": " + configuration));
  group.Add(Element("rect")
                .Set("x", x - kBoxWidth / 2)
                .Set("y", y - kBoxHeight / 2)
                .Set("width", kBoxWidth)
                .Set("height", kBoxHeight)
                .Set("rx", 4)
                .Set("class", "box " + ColourClass(colour)));
  const auto line = [&](const std::string& text, double at) {
    return Element("text", text).Set("x", x).Set("y", at).Set("class", "middle");
  };
  group.Add(line(name, y - 3));
  group.Add(line(configuration, y + 12));
  return group;
}

Element Legend(const LayoutColours& colours) {
  Element list("ul");
  list.Set("class", "legend");
  for (size_t colour = 0; colour < colours.names.size(); ++colour) {
    Element swatch("svg");
    swatch.Set("width", 14).Set("height", 14).Set("aria-hidden", "true");
    swatch.Add(Element("rect")
                   .Set("x", 1)
                   .Set("y", 1)
                   .Set("width", 12)
                   .Set("height", 12)
                   .Set("class", "box " + ColourClass(static_cast<int>(colour))));
    const int layers = colours.layers[colour];
    list.Add(Element("li")
                 .Add(std::move(swatch))
                 .Text(" " + colours.names[colour] + ": " + std::to_string(layers) +
                       (layers == 1 ? " layer" : " layers")));
  }
  return list;
}

}  // namespace

Element DrawNetwork(const PlanningProblem& problem, const ParallelLayout& layout) {
  const LayoutColours colours = ColourLayers(problem, layout.assignment);
  std::vector<std::pair<int, int>> ends;
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    ends.emplace_back(problem.search.edges[at].from, problem.search.edges[at].to);
  }
  const LayeredDrawing drawing = Arrange(static_cast<int>(problem.graph.layers.size()), ends);
  const double width = drawing.width * kPitchX + 2 * kMargin;
  const double height = drawing.rows * kPitchY - (kPitchY - kBoxHeight) + 2 * kMargin;
  Element svg("svg");
  svg.Set("viewBox", "0 0 " + Coordinate(width) + " " + Coordinate(height));
  svg.Set("width", width).Set("height", height).Set("class", "natural");
  svg.Set("role", "img").Set("aria-labelledby", "network-title");
  svg.Add(Element("title", problem.graph.name + ", layers coloured by configuration")
              .Set("id", "network-title"));
  const std::vector<int64_t> bytes = TransferBytes(problem, layout.assignment);
  for (size_t at = 0; at < bytes.size(); ++at) {
    svg.Add(DrawEdge(problem, at, bytes[at], drawing.edges[at]));
  }
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    const int colour = colours.of_layer[at];
    svg.Add(DrawLayer(problem.graph.layers[at], colours.names[static_cast<size_t>(colour)], colour,
                      drawing.nodes[at]));
  }
  Element figure("figure");
  figure.Set("id", "network-drawing");
  figure.Add(Legend(colours));
  figure.Add(Element("div").Set("class", "scroll").Add(std::move(svg)));
  return figure;
}

}  // namespace ucudnn::planner
