// Draws the grid of ranks, and around each rank's part the halo that each kernel reads.
#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "command/report/spatial_page.h"
#include "planner/report/figure.h"
#include "planner/report/page.h"

namespace ucudnn::command {
namespace {

using planner::Element;
using planner::Paragraph;
using planner::Section;

// What one part of an axis reads from part number `part`. `positions` is the number of positions
// that it reads there. If `is_own`, `part` is the reading part itself, and `positions` stays 0.
struct HaloPiece {
  int part = 0;
  int64_t positions = 0;
  bool is_own = false;

  bool operator<(const HaloPiece& other) const {
    return std::tie(part, positions, is_own) < std::tie(other.part, other.positions, other.is_own);
  }
};

// For each part of one axis, the pieces that the part reads. An axis that is not cut has one part,
// which reads only itself.
using AxisPieces = std::vector<std::vector<HaloPiece>>;

std::vector<HaloPiece> PiecesOf(const SplitAxis& axis, size_t part) {
  std::vector<HaloPiece> pieces;
  for (size_t owner = 0; owner < axis.owned.size(); ++owner) {
    const bool is_own = owner == part;
    const int64_t positions = is_own ? 0 : Overlap(axis.needed[part], axis.owned[owner]);
    if (is_own || positions > 0) pieces.push_back({static_cast<int>(owner), positions, is_own});
  }
  return pieces;
}

// The shape of a kernel's halo. Kernels with equal shapes share a figure. The number of positions
// that a rank owns is not part of the shape.
struct HaloShape {
  bool is_gradient = false;  // whether rows of dy are exchanged instead of rows of x
  std::array<AxisPieces, 3> axes;

  bool operator<(const HaloShape& other) const {
    return std::tie(is_gradient, axes) < std::tie(other.is_gradient, other.axes);
  }
  bool HasHalo() const {
    return std::any_of(axes.begin(), axes.end(), [](const AxisPieces& axis) {
      return std::any_of(axis.begin(), axis.end(),
                         [](const auto& pieces) { return pieces.size() > 1; });
    });
  }
};

HaloShape ShapeOf(const SplitKernelEntry& kernel) {
  HaloShape shape;
  shape.is_gradient = kernel.op != "forward";
  shape.axes.fill(AxisPieces{std::vector<HaloPiece>{{0, 0, true}}});
  for (const SplitAxis& axis : kernel.axes) {
    AxisPieces& pieces = shape.axes[axis.letter == 'd' ? 0 : axis.letter == 'h' ? 1 : 2];
    pieces.clear();
    for (size_t part = 0; part < axis.owned.size(); ++part) pieces.push_back(PiecesOf(axis, part));
  }
  return shape;
}

constexpr double kOwnWidth = 84;
constexpr double kOwnHeight = 26;
constexpr double kBand = 15;  // drawn size of a halo's piece, for any number of rows or columns
constexpr double kCellGap = 12;

// The positions at which the pieces of each part are drawn along one axis.
struct DrawnAxis {
  std::vector<double> begins;  // by part: the begin of the piece with is_own
  double end = 0;
};

DrawnAxis LayOut(const AxisPieces& axis, double own, double begin) {
  DrawnAxis drawn;
  double at = begin;
  for (const std::vector<HaloPiece>& pieces : axis) {
    const auto before = std::find_if(pieces.begin(), pieces.end(),
                                     [](const HaloPiece& piece) { return piece.is_own; });
    drawn.begins.push_back(at + kBand * static_cast<double>(before - pieces.begin()));
    at += own + kBand * static_cast<double>(pieces.size() - 1) + kCellGap;
  }
  drawn.end = at - kCellGap;
  return drawn;
}

// Returns the drawn begin and length of piece `at` of a part, whose own piece begins at `own_begin`
// and has the drawn length `own`.
std::pair<double, double> PlaceOf(const std::vector<HaloPiece>& pieces, size_t at, double own_begin,
                                  double own) {
  const auto middle =
      static_cast<size_t>(std::find_if(pieces.begin(), pieces.end(),
                                       [](const HaloPiece& piece) { return piece.is_own; }) -
                          pieces.begin());
  if (at == middle) return {own_begin, own};
  if (at < middle) return {own_begin - kBand * static_cast<double>(middle - at), kBand};
  return {own_begin + own + kBand * static_cast<double>(at - middle - 1), kBand};
}

std::string PositionsText(const HaloPiece& piece, const char* one, const char* many) {
  return std::to_string(piece.positions) + " " + (piece.positions == 1 ? one : many);
}

// Draws the cell of one rank: its own part, and around it the rows and columns that it reads from
// other ranks. `own` is the position (x, y) of its own part.
void AddCell(const SpatialGrid& grid, const HaloShape& shape, const GridCell& cell,
             std::pair<double, double> own, Element& svg) {
  const std::vector<HaloPiece>& rows = shape.axes[1][static_cast<size_t>(cell.h)];
  const std::vector<HaloPiece>& columns = shape.axes[2][static_cast<size_t>(cell.w)];
  const int rank = grid.RankOf(cell);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto [y, height] = PlaceOf(rows, r, own.second, kOwnHeight);
      const auto [x, width] = PlaceOf(columns, c, own.first, kOwnWidth);
      GridCell of = cell;
      if (!rows[r].is_own) of.h = rows[r].part;
      if (!columns[c].is_own) of.w = columns[c].part;
      const int owner = grid.RankOf(of);
      const bool is_own = rows[r].is_own && columns[c].is_own;
      std::string what, label;
      if (!rows[r].is_own) what = PositionsText(rows[r], "row", "rows");
      if (!columns[c].is_own) {
        what += (what.empty() ? "" : " of ") + PositionsText(columns[c], "column", "columns");
      }
      if (is_own) label = "rank " + std::to_string(rank);
      if (!is_own && columns[c].is_own) label = what;
      if (!is_own && rows[r].is_own) label = std::to_string(columns[c].positions);
      Element group("g");
      group.Add(
          Element("title", "rank " + std::to_string(rank) +
                               (is_own ? ": its own part"
                                       : " needs " + what + " of rank " + std::to_string(owner))));
      group.Add(
          planner::RectangleOf(x, y, width, height, "box " + planner::ColourClass(owner % 10)));
      if (!label.empty()) {
        group.Add(planner::TextAt(x + width / 2, y + height / 2 + 4, label, "middle"));
      }
      svg.Add(std::move(group));
    }
  }
}

// Returns the text above the cells of depth part `part`: the planes that its ranks read from other
// parts.
std::string DepthText(const std::vector<HaloPiece>& pieces, size_t part) {
  std::string text = "d part " + std::to_string(part + 1);
  for (const HaloPiece& piece : pieces) {
    if (piece.is_own) continue;
    text += ", " + PositionsText(piece, "plane", "planes") + " of part " +
            std::to_string(piece.part + 1);
  }
  return text;
}

Element DrawShape(const SplitJob& job, const HaloShape& shape, const std::string& title,
                  const std::string& id) {
  constexpr double kEdge = 2, kHeading = 18;
  const bool has_depth = shape.axes[0].size() > 1;
  double y = kEdge, right = 0;
  Element marks("g");
  for (size_t d = 0; d < shape.axes[0].size(); ++d) {
    if (has_depth) {
      const std::string text = DepthText(shape.axes[0][d], d);
      marks.Add(planner::TextAt(kEdge, y + 12, text, "faint"));
      right = std::max(right, planner::TextWidth(text));
      y += kHeading;
    }
    const DrawnAxis rows = LayOut(shape.axes[1], kOwnHeight, y);
    const DrawnAxis columns = LayOut(shape.axes[2], kOwnWidth, kEdge);
    for (size_t h = 0; h < rows.begins.size(); ++h) {
      for (size_t w = 0; w < columns.begins.size(); ++w) {
        const GridCell cell = {0, static_cast<int>(d), static_cast<int>(h), static_cast<int>(w)};
        AddCell(job.grid, shape, cell, {columns.begins[w], rows.begins[h]}, marks);
      }
    }
    right = std::max(right, columns.end);
    y = rows.end + kCellGap;
  }
  Element svg = planner::Canvas(id.c_str(), title, right + kEdge, y);
  svg.Add(std::move(marks));
  return planner::Figure(id.c_str(), "points", title, std::move(svg));
}

}  // namespace

Element HalosSection(const SplitJob& job) {
  Element section = Section("halos", "The grid and each kernel's halo");
  const std::vector<JobKernel> kernels = KernelsOf(job);
  std::map<HaloShape, std::vector<size_t>> shapes;
  std::vector<size_t> without;
  for (size_t at = 0; at < kernels.size(); ++at) {
    const JobKernel::OfRank& first = kernels[at].ranks.front();
    const SplitKernelEntry& kernel = job.ranks[first.rank].kernels[first.kernel];
    if (kernel.verdict != "transparent") continue;
    const HaloShape shape = ShapeOf(kernel);
    (shape.HasHalo() ? shapes[shape] : without).push_back(at + 1);
  }
  if (shapes.empty()) {
    return std::move(section.Add(Paragraph("No kernel reads what another rank has.")));
  }
  section.Add(
      Paragraph("Each rank's part, and around it, in the colour of the rank that has it, what it "
                "reads beside it, from the first row to the last. Not to scale." +
                std::string(job.grid.n > 1 ? " Each group is like the first." : "")));
  // Sorts the shapes by the first kernel of each shape.
  std::vector<std::pair<std::vector<size_t>, const HaloShape*>> ordered;
  for (const auto& [shape, numbers] : shapes) ordered.emplace_back(numbers, &shape);
  std::sort(ordered.begin(), ordered.end());
  int figures = 0;
  constexpr int kMostFigures = 40;
  for (const auto& [numbers, shape] : ordered) {
    if (++figures > kMostFigures) {
      section.Add(Paragraph("Further shapes are left out."));
      break;
    }
    const std::string title = std::string(shape->is_gradient ? "dy" : "x") + " of " +
                              (numbers.size() == 1 ? "kernel " : "kernels ") + NumbersText(numbers);
    section.Add(DrawShape(job, *shape, title, "halo-" + std::to_string(figures)));
  }
  if (!without.empty()) {
    section.Add(
        Paragraph("Without a halo: " + std::string(without.size() == 1 ? "kernel " : "kernels ") +
                  NumbersText(without) + "."));
  }
  return section;
}

}  // namespace ucudnn::command
