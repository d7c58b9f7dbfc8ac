#include "planner/report/layered_drawing.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace ucudnn::planner {
namespace {

constexpr int kSweeps = 12;
constexpr double kBend = 0.3;  // width that an edge needs in a row, in widths of a node

// The items of the drawing by number: first the nodes, and then the bends of edges. `above` and
// `below` have each item's neighbours in the rows above and below.
struct Rows {
  std::vector<int> row_of;
  std::vector<bool> is_node;
  std::vector<std::vector<int>> above;
  std::vector<std::vector<int>> below;
  std::vector<std::vector<int>> rows;  // from left to right
  std::vector<double> x;               // x of each item's middle

  int Add(int row, bool node) {
    row_of.push_back(row);
    is_node.push_back(node);
    above.emplace_back();
    below.emplace_back();
    x.push_back(0);
    if (static_cast<size_t>(row) >= rows.size()) rows.resize(static_cast<size_t>(row) + 1);
    rows[static_cast<size_t>(row)].push_back(static_cast<int>(row_of.size()) - 1);
    return static_cast<int>(row_of.size()) - 1;
  }
  void Join(int upper, int lower) {
    std::vector<int>& already = below[static_cast<size_t>(upper)];
    if (std::find(already.begin(), already.end(), lower) != already.end()) return;
    already.push_back(lower);
    above[static_cast<size_t>(lower)].push_back(upper);
  }
  double HalfWidth(int item) const { return is_node[static_cast<size_t>(item)] ? 0.5 : kBend / 2; }
};

std::vector<int> LongestPaths(int nodes, const std::vector<std::pair<int, int>>& edges) {
  std::vector<std::vector<int>> next(static_cast<size_t>(nodes));
  for (const auto& [from, to] : edges) next[static_cast<size_t>(from)].push_back(to);
  std::vector<int> rows(static_cast<size_t>(nodes), 0);
  for (int from = 0; from < nodes; ++from) {
    for (const int to : next[static_cast<size_t>(from)]) {
      int& row = rows[static_cast<size_t>(to)];
      row = std::max(row, rows[static_cast<size_t>(from)] + 1);
    }
  }
  return rows;
}

// Returns for each node the bottommost row that one of its edges reaches.
std::vector<int> Reaches(const std::vector<int>& row_of,
                         const std::vector<std::pair<int, int>>& edges) {
  std::vector<int> reach = row_of;
  for (const auto& [from, to] : edges) {
    int& far = reach[static_cast<size_t>(from)];
    far = std::max(far, row_of[static_cast<size_t>(to)]);
  }
  return reach;
}

double Mean(const Rows& rows, const std::vector<int>& items, double otherwise) {
  if (items.empty()) return otherwise;
  double sum = 0;
  for (const int item : items) sum += rows.x[static_cast<size_t>(item)];
  return sum / static_cast<double>(items.size());
}

// Places the row's items, in their order, near to their wanted positions. First each item is placed
// at its wanted position or, if the previous item reaches beyond that, next to the previous item.
// Then all items are moved by one distance, so that their mean position is the mean wanted one.
void Place(const std::vector<double>& wanted, const std::vector<int>& row, Rows& rows) {
  double end = -1e18;
  double moved = 0;
  for (size_t at = 0; at < row.size(); ++at) {
    const double half = rows.HalfWidth(row[at]);
    double& x = rows.x[static_cast<size_t>(row[at])];
    x = std::max(wanted[at], end + half);
    end = x + half;
    moved += x - wanted[at];
  }
  moved /= static_cast<double>(row.size());
  for (const int item : row) rows.x[static_cast<size_t>(item)] -= moved;
}

// Orders the items of every row by the positions of their neighbours, in sweeps that alternate
// between downwards and upwards, and places them.
void Settle(Rows& rows) {
  for (std::vector<int>& row : rows.rows) {
    std::vector<double> wanted(row.size(), 0);
    Place(wanted, row, rows);
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    const bool down = sweep % 2 == 0;
    for (size_t step = 0; step < rows.rows.size(); ++step) {
      std::vector<int>& row = rows.rows[down ? step : rows.rows.size() - 1 - step];
      const auto wish = [&](int item) {
        const auto at = static_cast<size_t>(item);
        return Mean(rows, down ? rows.above[at] : rows.below[at], rows.x[at]);
      };
      std::vector<std::pair<double, int>> wishes;
      for (const int item : row) wishes.emplace_back(wish(item), item);
      std::stable_sort(wishes.begin(), wishes.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      std::vector<double> wanted;
      row.clear();
      for (const auto& [x, item] : wishes) {
        wanted.push_back(x);
        row.push_back(item);
      }
      Place(wanted, row, rows);
    }
  }
}

}  // namespace

LayeredDrawing Arrange(int nodes, const std::vector<std::pair<int, int>>& edges, int most_bends) {
  const std::vector<int> row_of = LongestPaths(nodes, edges);
  const std::vector<int> reach = Reaches(row_of, edges);
  Rows rows;
  for (int node = 0; node < nodes; ++node) rows.Add(row_of[static_cast<size_t>(node)], true);
  int64_t needed = 0;
  for (size_t node = 0; node < row_of.size(); ++node) {
    needed += std::max(0, reach[node] - row_of[node] - 1);
  }
  const bool bends = needed <= most_bends;
  // By node: its bends, one in each row down to the bottommost row that its edges reach. All edges
  // of a node share them.
  std::map<int, std::vector<int>> ways;
  std::vector<std::vector<int>> routes;
  for (const auto& [from, to] : edges) {
    const int first = row_of[static_cast<size_t>(from)];
    std::vector<int>& way = ways[from];
    std::vector<int> route = {from};
    for (int row = first + 1; bends && row < row_of[static_cast<size_t>(to)]; ++row) {
      const auto at = static_cast<size_t>(row - first - 1);
      if (at == way.size()) {
        way.push_back(rows.Add(row, false));
        rows.Join(at == 0 ? from : way[at - 1], way[at]);
      }
      route.push_back(way[at]);
    }
    rows.Join(route.back(), to);
    route.push_back(to);
    routes.push_back(std::move(route));
  }
  Settle(rows);

  LayeredDrawing drawing;
  drawing.rows = static_cast<int>(rows.rows.size());
  double left = 0;
  double right = 0;
  for (size_t item = 0; item < rows.x.size(); ++item) {
    const double half = rows.HalfWidth(static_cast<int>(item));
    if (item == 0 || rows.x[item] - half < left) left = rows.x[item] - half;
    if (item == 0 || rows.x[item] + half > right) right = rows.x[item] + half;
  }
  drawing.width = right - left;
  const auto position = [&](int item) {
    const auto at = static_cast<size_t>(item);
    return Position{rows.x[at] - left, rows.row_of[at]};
  };
  for (int node = 0; node < nodes; ++node) drawing.nodes.push_back(position(node));
  for (const std::vector<int>& route : routes) {
    std::vector<Position> points;
    for (const int item : route) points.push_back(position(item));
    drawing.edges.push_back(std::move(points));
  }
  return drawing;
}

}  // namespace ucudnn::planner
