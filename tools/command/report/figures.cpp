// The figures of a report's page.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/json.h"
#include "command/report/page.h"
#include "convolution/engine_name.h"
#include "planner/report/chart.h"
#include "planner/report/page.h"

namespace ucudnn::command {
namespace {

using namespace ucudnn::planner;

constexpr size_t kMostDrawn = 60;    // kernels or layers in one figure
constexpr int kMostPieces = 64;      // pieces of a plan that are drawn one by one
constexpr size_t kMostPoints = 200;  // points of one desirable set

// Assigns colours to names in the order of their first use.
class Colours {
 public:
  int Of(const std::string& name) {
    const auto [entry, added] = numbers_.try_emplace(name, static_cast<int>(names_.size()));
    if (added) names_.push_back(name);
    return entry->second;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::string> names_;
};

// Returns the kMostDrawn elements of `chosen` with the largest weights, in the order of `chosen`.
// If some are left out, adds a text that says so to `section`. `by` is the name of the weight.
template <typename Weight>
std::vector<size_t> Heaviest(std::vector<size_t> chosen, const Weight& weight, const char* by,
                             Element& section) {
  if (chosen.size() <= kMostDrawn) return chosen;
  section.Add(Paragraph("The " + std::to_string(kMostDrawn) + " of " +
                        std::to_string(chosen.size()) + " with the most " + by + ":"));
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](size_t a, size_t b) { return weight(a) > weight(b); });
  chosen.resize(kMostDrawn);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::string PieceTip(Operation operation, const Run& run) {
  return std::to_string(run.micro.micro_batch) + " images by " +
         EngineName(operation, run.micro.engine) + ": " + Milliseconds(run.micro.time_ms) + ", " +
         FormatByteSize(run.micro.workspace_bytes);
}

Bar PlanBar(const std::string& label, Operation operation, const Division& division, double plan_ms,
            Colours& engines) {
  const Configuration& configuration = division.configuration;
  const char* const pieces = division.tiles != nullptr ? " tiles" : " micro-batches";
  Bar bar{label, {}, Milliseconds(plan_ms)};
  if (configuration.runs.size() > kMostPieces) {
    bar.segments.push_back({plan_ms, engines.Of("more than can be drawn"), "",
                            std::to_string(configuration.Pieces()) + pieces});
    return bar;
  }
  for (const Run& run : configuration.runs) {
    const int colour = engines.Of(EngineName(operation, run.micro.engine));
    const std::string size = std::to_string(run.micro.micro_batch);
    if (configuration.Pieces() > kMostPieces) {
      bar.segments.push_back({run.micro.time_ms * run.count, colour,
                              std::to_string(run.count) + " x " + size,
                              std::to_string(run.count) + " times " + PieceTip(operation, run)});
      continue;
    }
    for (int piece = 0; piece < run.count; ++piece) {
      bar.segments.push_back({run.micro.time_ms, colour, size, PieceTip(operation, run)});
    }
  }
  return bar;
}

uint64_t Numbers(int32_t images, int32_t channels, const Spatial& extents) {
  return static_cast<uint64_t>(images) * static_cast<uint64_t>(channels) *
         static_cast<uint64_t>(extents[0]) * static_cast<uint64_t>(extents[1]) *
         static_cast<uint64_t>(extents[2]);
}

// The bytes of a layer, in the three parts of mu-cuDNN's Fig. 12.
struct LayerMemory {
  std::string label;
  double data = 0;        // input and output
  double parameters = 0;  // filter
  double workspace = 0;   // the largest workspace of its kernels
  double all() const { return data + parameters + workspace; }
};

LayerMemory MemoryOf(const ConvolutionProblem& problem) {
  const auto element = static_cast<double>(ElementBytes(problem.type));
  LayerMemory memory;
  memory.data =
      element * (static_cast<double>(Numbers(problem.n, problem.c, problem.x)) +
                 static_cast<double>(Numbers(problem.n, problem.k, OutputExtents(problem))));
  memory.parameters =
      element * static_cast<double>(Numbers(problem.k, problem.c / problem.groups, problem.w));
  return memory;
}

// Returns a key that is equal for the kernels of one layer. These differ only in the operation, the
// alignment and the math type.
std::string LayerKey(const ReportedKernel& kernel) {
  ConvolutionProblem problem = kernel.problem;
  problem.operation = Operation::kForward;
  problem.alignment = 1;
  problem.math = MathType::kDefault;
  return kernel.name + "\n" + ProblemJson(problem).dump();
}

std::vector<LayerMemory> LayersOf(const RunReport& report) {
  std::vector<LayerMemory> layers;
  std::map<std::string, size_t> positions;
  for (size_t at = 0; at < report.kernels.size(); ++at) {
    const ReportedKernel& kernel = report.kernels[at];
    const auto [entry, added] = positions.try_emplace(LayerKey(kernel), layers.size());
    if (added) {
      layers.push_back(MemoryOf(kernel.problem));
      const std::string label = KernelLabel(report, at);
      const size_t behind_number = label.find(": ") + 2;
      layers.back().label = label.substr(behind_number, label.rfind(' ') - behind_number) + ", " +
                            std::to_string(kernel.problem.n) + " images";
    }
    LayerMemory& layer = layers[entry->second];
    layer.workspace = std::max(layer.workspace, static_cast<double>(kernel.all_workspace_bytes()));
  }
  return layers;
}

std::vector<size_t> Positions(size_t count) {
  std::vector<size_t> all(count);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

// Says which kernels add workspace to a sum. With the budget's division `disjoint`, kernels can
// share a segment of the workspace, and IsNew() is true only for the first kernel of a segment.
class SeenSegments {
 public:
  explicit SeenSegments(const RunReport& report)
      : disjoint_(report.budget.division == "disjoint") {}
  bool IsNew(const ReportedKernel& kernel) {
    return !disjoint_ || !kernel.segment || segments_.insert(*kernel.segment).second;
  }

 private:
  bool disjoint_;
  std::set<int64_t> segments_;
};

void AddDesirableSet(const RunReport& report, size_t at, Element& section) {
  const ReportedKernel& kernel = report.kernels[at];
  // `chart` keeps a pointer to this text, so the text must live as long as `chart`.
  const std::string id = "desirable-" + std::to_string(at + 1);
  PointChart chart;
  chart.id = id.c_str();
  const auto tip = [](const Division& division, double ms, size_t bytes) {
    return FormatByteSize(bytes) + ", " + Milliseconds(ms) + ": " + DivisionText(division);
  };
  const size_t workspace = kernel.all_workspace_bytes();
  chart.title = KernelLabel(report, at);
  if (kernel.plan_ms) chart.title += ": " + tip(kernel.division, *kernel.plan_ms, workspace);
  bool on_it = false;
  for (const Division& one : kernel.desirable_set) {
    const size_t bytes = one.configuration.WorkspaceBytes();
    const double ms = one.configuration.TimeMs();
    const bool chosen = bytes == workspace && kernel.plan_ms == ms;
    on_it = on_it || chosen;
    if (chart.points.size() == kMostPoints && !chosen) continue;
    chart.points.push_back({static_cast<double>(bytes), ms, chosen, tip(one, ms, bytes)});
  }
  if (!on_it && kernel.plan_ms) {
    chart.apart = Point{static_cast<double>(workspace), *kernel.plan_ms, true,
                        "what runs: " + tip(kernel.division, *kernel.plan_ms, workspace)};
  }
  // A limit far beyond the points is not drawn, because it would squeeze the points together.
  const double most =
      std::max(static_cast<double>(workspace),
               static_cast<double>(kernel.desirable_set.back().configuration.WorkspaceBytes()));
  if (kernel.limit_bytes && static_cast<double>(*kernel.limit_bytes) <= 1.5 * most) {
    chart.limit_x = static_cast<double>(*kernel.limit_bytes);
  }
  section.Add(Draw(chart));
  if (kernel.desirable_set.size() > chart.points.size()) {
    section.Add(Paragraph("The " + std::to_string(chart.points.size()) + " of " +
                          std::to_string(kernel.desirable_set.size()) +
                          " that need the least workspace."));
  }
}

constexpr double kImageSide = 200;  // length in px of the longer side of a drawn image

// Returns the tile's interval along `axis`: in x for backward data, in y for other operations.
const Interval& PartOf(const Tile& tile, Operation operation, size_t axis) {
  return (operation == Operation::kBackwardData ? tile.x : tile.y)[axis];
}

// Returns the two axes of a grid's drawing, first the one down, then the one across. They are the
// first two axes that the grid cuts, in the order d, h, w, c, n. If the grid cuts fewer than two
// axes, h and w complete the pair.
std::pair<size_t, size_t> AxesToDraw(const Tiles& tiles, Operation operation) {
  std::vector<size_t> cut;
  for (const size_t axis : {kAxisD, kAxisH, kAxisW, kAxisC, kAxisN}) {
    const Interval& first = PartOf(tiles.tiles[0], operation, axis);
    const bool is_cut = std::any_of(tiles.tiles.begin(), tiles.tiles.end(), [&](const Tile& tile) {
      return PartOf(tile, operation, axis).begin != first.begin;
    });
    if (is_cut) cut.push_back(axis);
  }
  const size_t down = cut.empty() ? size_t{kAxisH} : cut[0];
  if (cut.size() > 1) return {down, cut[1]};
  return {down, down == kAxisW ? size_t{kAxisH} : size_t{kAxisW}};
}

// Draws the grid of a kernel's tiles. Of the tiles with the same place in the drawing, which differ
// along other axes, only the first is drawn.
void AddGrid(const ReportedKernel& kernel, double top, Element& svg) {
  const Tiles& tiles = *kernel.division.tiles;
  const Operation operation = kernel.problem.operation;
  const auto [down, across] = AxesToDraw(tiles, operation);
  int64_t height = 1, width = 1;
  for (const Tile& tile : tiles.tiles) {
    height = std::max(height, PartOf(tile, operation, down).end);
    width = std::max(width, PartOf(tile, operation, across).end);
  }
  const auto longer = static_cast<double>(std::max(height, width));
  const double tall = std::max(kImageSide / 8, kImageSide * static_cast<double>(height) / longer);
  const double wide = std::max(kImageSide / 8, kImageSide * static_cast<double>(width) / longer);
  svg.Add(RectangleOf(0, top, wide, tall, "edge"));
  std::set<std::pair<int64_t, int64_t>> drawn;
  for (const Tile& tile : tiles.tiles) {
    const Interval& rows = PartOf(tile, operation, down);
    const Interval& columns = PartOf(tile, operation, across);
    if (!drawn.emplace(rows.begin, columns.begin).second) continue;
    const Run& run = kernel.division.configuration.runs[tile.kind];
    const std::string border = BorderOf(tiles, tile.kind);
    const auto at = [](int64_t element, double side, int64_t all) {
      return side * static_cast<double>(element) / static_cast<double>(all);
    };
    // The rectangles are slightly smaller than their cells, so that gaps show the cuts.
    const double row = at(rows.end - rows.begin, tall, height);
    const double column = at(columns.end - columns.begin, wide, width);
    Element cell = RectangleOf(at(columns.begin, wide, width), top + at(rows.begin, tall, height),
                               column - std::min(1.0, column / 4), row - std::min(1.0, row / 4),
                               "cell " + ColourClass(border.empty() ? 0 : 1));
    cell.Add(Element("title", (border.empty() ? "inner tile: " : "edge " + border + ": ") +
                                  PieceTip(operation, run)));
    svg.Add(std::move(cell));
  }
}

}  // namespace

Element TilesSection(const RunReport& report) {
  Element section = Section("tiles", "Tiles");
  std::vector<size_t> tiled;
  for (size_t at = 0; at < report.kernels.size(); ++at) {
    if (report.kernels[at].division.tiles != nullptr) tiled.push_back(at);
  }
  if (tiled.empty()) return std::move(section.Add(Paragraph("No kernel is cut into tiles.")));
  section.Add(
      Paragraph("What each tile computes, on the image or, in volumes and where channels "
                "are cut, along the axes that are cut."));
  const auto bytes = [&](size_t at) { return report.kernels[at].all_workspace_bytes(); };
  for (const size_t at : Heaviest(std::move(tiled), bytes, "workspace", section)) {
    const std::string id = "tiles-" + std::to_string(at + 1);
    const std::string title =
        KernelLabel(report, at) + ": " + DivisionText(report.kernels[at].division);
    constexpr double kLegendHeight = 30;
    Element svg = Canvas(id.c_str(), title, kImageSide, kImageSide + kLegendHeight);
    AddGrid(report.kernels[at], AddLegend({"inner", "edges"}, 0, kImageSide, svg), svg);
    section.Add(Figure(id.c_str(), "points", title, std::move(svg)));
  }
  return section;
}

Element TimelineSection(const RunReport& report) {
  Element section = Section("timeline", "Micro-batches in time");
  std::vector<size_t> divided;
  size_t untimed = 0;
  for (size_t at = 0; at < report.kernels.size(); ++at) {
    if (!report.kernels[at].divided()) continue;
    if (report.kernels[at].plan_ms) {
      divided.push_back(at);
    } else {
      ++untimed;
    }
  }
  if (untimed > 0) {
    section.Add(Paragraph("Of " + std::to_string(untimed) +
                          " divided kernels the times are not known; they are not drawn."));
  }
  if (divided.empty()) return std::move(section.Add(Paragraph("No divided kernel to draw.")));
  const auto plan_ms = [&](size_t at) { return *report.kernels[at].plan_ms; };
  divided = Heaviest(std::move(divided), plan_ms, "time", section);
  Colours engines;
  BarChart chart;
  chart.id = "timeline-chart";
  chart.title =
      "Each divided kernel: the best undivided engine within the same limit where its time is "
      "known; below it the micro-batches with their sizes, one after the other";
  for (const size_t at : divided) {
    const ReportedKernel& kernel = report.kernels[at];
    std::string label = KernelLabel(report, at);
    const Operation operation = kernel.problem.operation;
    if (const auto best_ms = KnownTime(kernel.best_undivided)) {
      const Configuration whole{{{kernel.best_undivided, 1}}};
      chart.bars.push_back(PlanBar(label, operation, whole, *best_ms, engines));
      label = "divided";
    }
    chart.bars.push_back(PlanBar(label, operation, kernel.division, *kernel.plan_ms, engines));
  }
  chart.legend = engines.names();
  return std::move(section.Add(Draw(chart)));
}

Element DesirableSetsSection(const RunReport& report) {
  Element section = Section("desirable", "Desirable sets");
  std::vector<size_t> with_sets;
  for (size_t at = 0; at < report.kernels.size(); ++at) {
    if (!report.kernels[at].desirable_set.empty()) with_sets.push_back(at);
  }
  if (with_sets.empty()) {
    return std::move(section.Add(Paragraph(
        "Not known: a report of a run does not hold what was measured. With --db PATH they come "
        "from the store.")));
  }
  section.Add(
      Paragraph("The ways to run a kernel that no other beats in both time and workspace. The "
                "ringed one is what was chosen; a dashed red line is the kernel's limit."));
  const auto workspace = [&](size_t at) {
    return report.kernels[at].desirable_set.back().configuration.WorkspaceBytes();
  };
  for (const size_t at : Heaviest(std::move(with_sets), workspace, "workspace", section)) {
    AddDesirableSet(report, at, section);
  }
  return section;
}

Element LayerMemorySection(const RunReport& report) {
  Element section = Section("memory", "Memory of each layer");
  const std::vector<LayerMemory> layers = LayersOf(report);
  if (layers.empty()) return std::move(section.Add(Paragraph("There are no layers.")));
  section.Add(
      Paragraph("Data are a convolution's input and output, workspace the most that one of its "
                "kernels uses. What else a program keeps is not in a report."));
  const auto all = [&](size_t at) { return layers[at].all(); };
  BarChart chart;
  chart.id = "memory-chart";
  chart.title = "Bytes of each layer";
  chart.unit = Unit::kBytes;
  chart.legend = {"data", "parameters", "workspace"};
  for (const size_t at : Heaviest(Positions(layers.size()), all, "memory", section)) {
    const LayerMemory& layer = layers[at];
    chart.bars.push_back({layer.label,
                          {{layer.data, 0, "", "data: " + Bytes(layer.data)},
                           {layer.parameters, 1, "", "parameters: " + Bytes(layer.parameters)},
                           {layer.workspace, 2, "", "workspace: " + Bytes(layer.workspace)}},
                          Bytes(layer.all())});
  }
  return std::move(section.Add(Draw(chart)));
}

Element WorkspaceDivisionSection(const RunReport& report) {
  Element section = Section("division", "Workspace of each kernel");
  if (report.kernels.empty()) return std::move(section.Add(Paragraph("There are no kernels.")));
  if (report.budget.total_bytes) {
    section.Add(Paragraph(
        "One budget of " + FormatByteSize(*report.budget.total_bytes) +
        " for all kernels, division " +
        (report.budget.division.empty() ? "not known" : report.budget.division) + "; reserved: " +
        (report.budget.total_workspace_bytes ? FormatByteSize(*report.budget.total_workspace_bytes)
                                             : "not known") +
        "." + (report.budget.solver.empty() ? "" : " Solver: " + report.budget.solver + ".")));
  } else {
    section.Add(Paragraph("Each kernel has its own workspace; there is no budget for all."));
  }
  const auto bytes = [&](size_t at) { return report.kernels[at].all_workspace_bytes(); };
  Colours layers;
  BarChart chart;
  chart.id = "division-chart";
  chart.unit = Unit::kBytes;
  Bar together{"all, side by side", {}, ""};
  std::vector<size_t> rest = Positions(report.kernels.size());
  SeenSegments seen(report);
  double sum = 0;
  for (const size_t at : Heaviest(rest, bytes, "workspace", section)) {
    const ReportedKernel& kernel = report.kernels[at];
    const int colour = layers.Of(LayerKey(kernel));
    const auto length = static_cast<double>(bytes(at));
    const Segment segment{length, colour, "", KernelLabel(report, at) + ": " + Bytes(length)};
    chart.bars.push_back({KernelLabel(report, at), {segment}, Bytes(length)});
    std::erase(rest, at);
    if (!seen.IsNew(kernel)) continue;
    for (int64_t copy = 0; copy < kernel.copies; ++copy) {
      sum += length;
      if (length > 0) together.segments.push_back(segment);
    }
  }
  double others = 0;
  for (const size_t at : rest) {
    const ReportedKernel& kernel = report.kernels[at];
    if (seen.IsNew(kernel)) others += static_cast<double>(bytes(at)) * kernel.copies;
  }
  if (others > 0) {
    together.segments.push_back({others, layers.Of("others"), "others",
                                 std::to_string(rest.size()) + " others: " + Bytes(others)});
  }
  sum += others;
  together.end = Bytes(sum);
  chart.title = "Workspace of each kernel; their sum is " + Bytes(sum);
  if (report.budget.total_bytes && report.budget.division == "disjoint") {
    chart.bars.insert(chart.bars.begin(), std::move(together));
    chart.limit = static_cast<double>(*report.budget.total_bytes);
    chart.limit_label = "budget " + FormatByteSize(*report.budget.total_bytes);
  }
  return std::move(section.Add(Draw(chart)));
}

}  // namespace ucudnn::command
