// Positions for drawing the nodes and edges of a directed acyclic graph. Nodes stand in rows and
// every edge leads downwards. Edges avoid the nodes in the rows between their ends, unless that
// needs too many bends. Pure function. Source: Sugiyama, Tagawa, Toda, "Methods for visual
// understanding of hierarchical system structures" (1981).
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
  // By edge: one point for each row, from the row of its first node to the row of its last node.
  std::vector<std::vector<Position>> edges;
  double width = 0;  // width of the drawing, in widths of a node
  int rows = 0;
};

// Edges lead from a smaller to a larger node number; several edges between the same nodes are drawn
// over each other. The long edges of one node share their bends. If more than `most_bends` bends
// would be needed, edges are drawn straight.
LayeredDrawing Arrange(int nodes, const std::vector<std::pair<int, int>>& edges,
                       int most_bends = 20'000);

}  // namespace ucudnn::planner
