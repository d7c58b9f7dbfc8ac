#include "planner/report/layout_dot.h"

#include <iterator>

#include "base/byte_size.h"
#include "planner/report/layout_colours.h"

namespace ucudnn::planner {
namespace {

constexpr const char* kColours[] = {"#a6cee3", "#fdbf6f", "#b2df8a", "#cab2d6", "#fb9a99",
                                    "#f2e394", "#8dd3c7", "#d9b38c", "#c4c9cf", "#eeb0d8"};

// Escapes text for a string in double quotes. Line ends and unprintable bytes become spaces.
std::string DotText(const std::string& text) {
  std::string quoted;
  for (const char character : text) {
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(character) < 0x20 || character == 0x7F ? ' ' : character;
  }
  return quoted;
}

}  // namespace

std::string FormatDot(const PlanningProblem& problem, const ParallelLayout& layout) {
  const LayoutColours colours = ColourLayers(problem, layout.assignment);
  std::string dot = "digraph \"" + DotText(problem.graph.name) + "\" {\n";
  dot += "  node [shape=box, style=filled, fontname=\"sans-serif\"];\n";
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    const PlannedLayer& layer = problem.graph.layers[at];
    const auto colour = static_cast<size_t>(colours.of_layer[at]);
    dot += "  l" + std::to_string(at) + " [label=\"" + DotText(layer.name) + "\\n" +
           Describe(layer.output) + "\\n" + colours.names[colour] + "\", fillcolor=\"" +
           kColours[colour % std::size(kColours)] + "\"];\n";
  }
  const std::vector<int64_t> bytes = TransferBytes(problem, layout.assignment);
  for (size_t at = 0; at < bytes.size(); ++at) {
    const SearchProblem::Edge& edge = problem.search.edges[at];
    dot += "  l" + std::to_string(edge.from) + " -> l" + std::to_string(edge.to);
    if (bytes[at] > 0) {
      dot += " [label=\"" + FormatByteSize(static_cast<size_t>(bytes[at])) + "\"]";
    }
    dot += ";\n";
  }
  return dot + "}\n";
}

}  // namespace ucudnn::planner
