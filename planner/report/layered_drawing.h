// Positions for drawing the nodes and edges of a directed acyclic graph: in rows, every edge
// downwards, around the nodes between its ends. Pure function. Source: Sugiyama, Tagawa, Toda,
// "Methods for visual understanding of hierarchical system structures" (1981).
#pragma once

#include <utility>
#include <vector>

namespace ucudnn::planner {

struct Position {
  double x = 0;  // in widths of a node; two nodes of a row are at least one apart
  int row = 0;

  bool operator==(const Position&) const = default;
};

struct LayeredDrawing {
  std::vector<Position> nodes;
  std::vector<std::vector<Position>> edges;  // from end to end, with one point per row
  double width = 0;  // of the whole drawing, from 0 to the right end of the last node
  int rows = 0;
};

// Edges lead from a smaller to a larger node number; several edges between the same nodes are drawn
// over each other. Long edges of one node share their way. If more than `most_bends` points would
// be needed between the ends, edges are drawn straight.
LayeredDrawing Arrange(int nodes, const std::vector<std::pair<int, int>>& edges,
                       int most_bends = 20'000);

}  // namespace ucudnn::planner
