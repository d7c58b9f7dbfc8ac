// Prints the table of docs/tiles.md. It counts the kernels that need more workspace than a limit,
// and those that still do in tiles. Networks have one image; a file of layers says how many images
// each layer has. Plans are made by the real cuDNN for a described H200 without a GPU. So
// workspaces are real, but nothing runs or is timed.
//
// tile_table [--kernels] [--limits 64,512] [--strict] [NETWORK[@SIZE]|LAYERS.csv...]
//
// The need of an undivided kernel is the workspace of the first configuration of cuDNN's heuristics
// (mode A) that can be built. The need of a kind of tiles is the least workspace among the first
// three configurations for these tiles, without engine 0; copies of packed tiles and sums of 16-bit
// gradients are included. The column `by engine 0` counts the kernels for which engine 0 comes
// first, or which no engine supports. The next column, `in tiles`, counts those of them that do not
// fit the last limit in the tiles of any grid without engine 0.
// --kernels also lists the kernels, and --strict fails if one needs more than a limit in tiles.
// Cells with three numbers are for forward / backward_data / backward_filter.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "convolution/division_text.h"
#include "convolution/layers_csv.h"
#include "convolution/partial_sums.h"
#include "cudnn/graph_engines.h"
#include "planner/graph/layers.h"
#include "planner/graph/network_file.h"
#include "planner/striping/exact_size.h"
#include "tests/support/deviceless_cudnn.h"
#include "tuning/fitting_grids.h"

namespace ucudnn {
namespace {

constexpr double kMiB = 1 << 20;
constexpr int kLookedAt = 16;   // the number of configurations that the heuristics are asked for
constexpr int kAlignment = 16;  // the alignment of tensors in bytes
constexpr size_t kFirstChoices = 3;
constexpr Layout kLayouts[] = {Layout::kNchw, Layout::kNhwc};
constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                     Operation::kBackwardFilter};

struct Arithmetic {
  const char* name;
  DataType type;
  bool tensor_cores;  // whether engines may use tensor cores, which compute fp32 in TF32
};
constexpr Arithmetic kArithmetics[] = {{"bf16", DataType::kBfloat16, true},
                                       {"fp32, TF32", DataType::kFloat, true},
                                       {"fp32", DataType::kFloat, false}};

// Returns the first `most` plans of the heuristics that can be read. If `arithmetic` forbids tensor
// cores, plans that use them are left out.
std::vector<cudnn::GraphTemplate> FirstPlans(const ConvolutionProblem& problem, bool whole_filter,
                                             const Arithmetic& arithmetic, size_t most) {
  test::GraphOptions options;
  options.x_alignment = options.y_alignment = problem.alignment;
  if (!whole_filter) options.w_alignment = problem.alignment;
  std::vector<cudnn::GraphTemplate> first;
  const test::Graph graph(problem, options);
  if (!graph.ok()) return first;
  for (const auto& plan : graph.HeuristicPlans(CUDNN_HEUR_MODE_A, kLookedAt)) {
    auto read = cudnn::ReadTemplate(test::RealCudnn(), plan.get());
    if (!read.ok()) continue;
    const bool in_tensor_cores = read->notes.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    if (in_tensor_cores && !arithmetic.tensor_cores) continue;
    first.push_back(std::move(*read));
    if (first.size() == most) break;
  }
  return first;
}

bool IsLastResort(const EngineId& engine) {
  return engine.graph() != nullptr && engine.graph()->index == 0;
}

// The engine of an undivided kernel and its workspace.
struct Whole {
  EngineId engine;  // empty if no plan can run the kernel
  size_t bytes = 0;
};

Whole NeedOf(const ConvolutionProblem& problem, const Arithmetic& arithmetic) {
  const auto plans = FirstPlans(problem, true, arithmetic, 1);
  if (plans.empty()) return {};
  cudnn::GraphEngines engines(test::RealCudnn(), test::DescribedDevice(), {&plans[0]});
  const EngineId& engine = plans[0].convolution.engine;
  const auto piece =
      engines.MakePiece(plans[0].convolution.problem, engine, {.are_plain = true}, SIZE_MAX);
  if (!piece.ok()) return {};
  return {engine, (*piece)->workspace_bytes()};
}

// Divides the kernel by one grid. Each kind of tiles gets the engine with the least workspace among
// its first configurations. Returns none if a kind needs more than `limit_bytes`. Kinds with many
// tiles are tried first.
std::optional<Division> DivideByOwnEngines(const ConvolutionProblem& problem, const TileGrid& grid,
                                           const Arithmetic& arithmetic, size_t limit_bytes) {
  auto cut = CutIntoTiles(problem, grid);
  if (!cut.ok()) return std::nullopt;
  Division division({}, std::make_shared<const Tiles>(std::move(*cut)));
  const Tiles& tiles = *division.tiles;
  const bool sums = SumsPartials(problem) && tiles.AddUp();
  const cudnn::PieceScales scales = {.are_plain = true, .may_add = !sums && tiles.AddUp()};
  std::vector<size_t> order(tiles.kinds.size());
  for (size_t kind = 0; kind < order.size(); ++kind) order[kind] = kind;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tiles.CountOf(a) > tiles.CountOf(b); });
  division.configuration.runs.resize(order.size());
  for (const size_t kind : order) {
    const TileKind& of = tiles.kinds[kind];
    const size_t beside = PackedBytes(of) + (sums ? PartialSumBytes(problem) : 0);
    std::optional<MicroConfiguration> least;
    for (const cudnn::GraphTemplate& plan :
         FirstPlans(of.problem, of.problem.k == problem.k, arithmetic, kFirstChoices)) {
      const EngineId& engine = plan.convolution.engine;
      if (IsLastResort(engine)) continue;
      cudnn::GraphEngines engines(test::RealCudnn(), test::DescribedDevice(), {&plan});
      const auto piece = engines.MakePiece(of.problem, engine, scales, SIZE_MAX);
      if (!piece.ok()) continue;
      const size_t bytes = (*piece)->workspace_bytes() + beside;
      if (least && least->workspace_bytes <= bytes) continue;
      least = {engine, of.problem.n, 0, bytes};
      least->tile = of.lengths;
    }
    if (!least || least->workspace_bytes > limit_bytes) return std::nullopt;
    division.configuration.runs[kind] = {*least, tiles.CountOf(kind)};
  }
  const Status covers = division.CheckCovers(problem);
  if (!covers.ok()) {
    std::fprintf(stderr, "%s\n", covers.message().c_str());
    std::exit(1);
  }
  return division;
}

std::optional<Division> FittingTiles(const ConvolutionProblem& problem,
                                     const Arithmetic& arithmetic, size_t limit_bytes) {
  std::vector<TileGrid> grids;
  for (int parts = 2; parts <= std::min(problem.n, kMostTiles); parts *= 2) {
    grids.push_back({.n = parts});
  }
  const std::vector<TileGrid> of_images = tuning::GridsOf(problem);
  grids.insert(grids.end(), of_images.begin(), of_images.end());
  for (const TileGrid& grid : grids) {
    auto division = DivideByOwnEngines(problem, grid, arithmetic, limit_bytes);
    if (division) return division;
  }
  return std::nullopt;
}

// Returns the kernels of `layers`, each once.
std::vector<ConvolutionProblem> KernelsOf(const Result<std::vector<Layer>>& layers, Layout layout) {
  if (!layers.ok()) {
    std::fprintf(stderr, "%s\n", layers.message().c_str());
    std::exit(2);
  }
  std::vector<ConvolutionProblem> kernels;
  for (const Layer& layer : *layers) {
    ConvolutionProblem problem = layer.problem;
    problem.layout = layout;
    problem.alignment = kAlignment;
    SetPackedStrides(problem);
    if (std::find(kernels.begin(), kernels.end(), problem) == kernels.end()) {
      kernels.push_back(problem);
    }
  }
  return kernels;
}

std::string Rounded(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", static_cast<double>(bytes) / kMiB);
  return text;
}

class Table {
 public:
  Table(std::vector<size_t> limits_mib, bool lists_kernels)
      : limits_mib_(std::move(limits_mib)), lists_kernels_(lists_kernels) {}

  void Begin() const {
    std::string head = "| network | layout | arithmetic | kernels | by engine 0 | in tiles |";
    std::string line = "|---|---|---|---|---|---|";
    for (const size_t limit : limits_mib_) {
      head += " over " + std::to_string(limit) + " MiB | in tiles |";
      line += "---|---|";
    }
    std::printf("%s largest need, MiB |\n%s---|\n", head.c_str(), line.c_str());
  }

  // Adds a row with numbers of all three operations. `layers_of` returns the layers of an
  // operation.
  template <typename LayersOf>
  void Add(const std::string& network, const LayersOf& layers_of, Layout layout,
           const Arithmetic& arithmetic) {
    std::vector<std::string> cells(3 + 2 * limits_mib_.size() + 1);
    const auto add = [](std::string& cell, const std::string& text) {
      cell += (cell.empty() ? "" : " / ") + text;
    };
    for (const Operation operation : kOperations) {
      const std::vector<ConvolutionProblem> kernels = KernelsOf(layers_of(operation), layout);
      const Numbers numbers = Count(network, kernels, arithmetic);
      cells[0] = std::to_string(kernels.size());
      add(cells[1], std::to_string(numbers.last_resort));
      add(cells[2], std::to_string(numbers.last_in_tiles));
      for (size_t i = 0; i < limits_mib_.size(); ++i) {
        add(cells[3 + 2 * i], std::to_string(numbers.over[i]));
        add(cells[4 + 2 * i], std::to_string(numbers.over_in_tiles[i]));
      }
      add(cells.back(), Rounded(numbers.most_bytes));
    }
    std::printf("| %s | %s | %s | %s |\n", network.c_str(),
                layout == Layout::kNchw ? "NCHW" : "NHWC", arithmetic.name,
                Join(cells, " | ").c_str());
    std::fflush(stdout);
  }

  bool has_exceptions() const { return !exceptions_.empty(); }

  void PrintRest() const {
    if (!exceptions_.empty()) std::printf("\nWhat no grid brings under a limit:\n");
    for (const std::string& line : exceptions_) std::printf("- %s\n", line.c_str());
    if (lists_kernels_)
      std::printf(
          "\n| kernel | engine | MiB | limit, MiB | tiles | MiB |\n|---|---|---|---|---|---|\n");
    for (const std::string& line : listed_) std::printf("%s\n", line.c_str());
  }

 private:
  // Numbers of kernels of one operation. `last_resort` counts the kernels that run by engine 0 or
  // by no engine, and `last_in_tiles` those of them that no tiles bring under the last limit. For
  // each limit, `over` counts the kernels that need more workspace, and `over_in_tiles` those of
  // them that no tiles bring under the limit. `most_bytes` is the largest need.
  struct Numbers {
    int last_resort = 0, last_in_tiles = 0;
    std::vector<int> over, over_in_tiles;
    size_t most_bytes = 0;
  };

  Numbers Count(const std::string& network, const std::vector<ConvolutionProblem>& kernels,
                const Arithmetic& arithmetic) {
    Numbers numbers;
    numbers.over.resize(limits_mib_.size());
    numbers.over_in_tiles.resize(limits_mib_.size());
    for (const ConvolutionProblem& problem : kernels) {
      const Whole whole = NeedOf(problem, arithmetic);
      numbers.most_bytes = std::max(numbers.most_bytes, whole.bytes);
      const std::string name = network + ", " + arithmetic.name + ": " + Describe(problem);
      if (whole.engine.empty() || IsLastResort(whole.engine)) {
        ++numbers.last_resort;
        const auto tiles = FittingTiles(problem, arithmetic, limits_mib_.back() << 20);
        numbers.last_in_tiles += tiles ? 0 : 1;
        if (lists_kernels_) List(name, whole, limits_mib_.back(), tiles);
      }
      for (size_t i = 0; i < limits_mib_.size(); ++i) {
        if (whole.bytes <= limits_mib_[i] << 20) continue;
        const auto tiles = FittingTiles(problem, arithmetic, limits_mib_[i] << 20);
        ++numbers.over[i];
        if (lists_kernels_) List(name, whole, limits_mib_[i], tiles);
        if (tiles) continue;
        ++numbers.over_in_tiles[i];
        exceptions_.push_back(std::to_string(limits_mib_[i]) + " MiB: " + name + ", whole " +
                              Rounded(whole.bytes) + " MiB");
      }
    }
    return numbers;
  }

  void List(const std::string& name, const Whole& whole, size_t limit_mib,
            const std::optional<Division>& tiles) {
    std::string answer = "none |";
    if (tiles) {
      answer = DivisionText(*tiles) + " by " + tiles->configuration.runs[0].micro.engine.Text() +
               " | " + Rounded(tiles->configuration.WorkspaceBytes());
    }
    listed_.push_back("| " + name + " | " + whole.engine.Text() + " | " + Rounded(whole.bytes) +
                      " | " + std::to_string(limit_mib) + " | " + answer + " |");
  }

  const std::vector<size_t> limits_mib_;
  const bool lists_kernels_;
  std::vector<std::string> exceptions_, listed_;
};

int Main(int argc, char** argv) {
  std::vector<std::string> networks;
  std::vector<size_t> limits = {64, 512};
  bool lists_kernels = false, is_strict = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--kernels") == 0) {
      lists_kernels = true;
    } else if (std::strcmp(argv[i], "--strict") == 0) {
      is_strict = true;
    } else if (std::strcmp(argv[i], "--limits") == 0 && i + 1 < argc) {
      limits.clear();
      for (const std::string& limit : Split(argv[++i], ',')) limits.push_back(std::stoul(limit));
    } else {
      networks.emplace_back(argv[i]);
    }
  }
  if (networks.empty()) {
    networks = {"vae-decoder@1024", "vae-decoder@2048", "unet-3d", "video-vae"};
  }
  Table table(limits, lists_kernels);
  table.Begin();
  for (const std::string& network : networks) {
    if (network.ends_with(".csv")) {
      table.Add(std::filesystem::path(network).stem(),
                [&](Operation operation) { return ReadLayersCsv(network, {operation}); },
                Layout::kNchw, {"as reported", {}, true});
      continue;
    }
    const size_t at = network.find('@');
    auto graph = planner::LoadNetwork(network.substr(0, at));
    if (graph.ok() && at != std::string::npos) {
      // For a volume, SIZE is the extent along all axes. For the decoder, SIZE is the extent of its
      // picture, which is 8 times as large as its input.
      const int size = std::stoi(network.substr(at + 1));
      const bool is_volume = std::get<planner::Input>(graph->nodes[0].op).spatial_rank == 3;
      const Status sized = planner::SetInputExtents(
          *graph, is_volume ? Spatial{size, size, size} : Spatial{0, size / 8, size / 8});
      if (!sized.ok()) graph = sized;
    }
    if (!graph.ok()) {
      std::fprintf(stderr, "%s: %s\n", network.c_str(), graph.message().c_str());
      return 2;
    }
    for (const Layout layout : kLayouts) {
      for (const Arithmetic& arithmetic : kArithmetics) {
        table.Add(
            network,
            [&](Operation operation) {
              return planner::ConvolutionLayers(*graph, 1, {operation}, arithmetic.type, layout);
            },
            layout, arithmetic);
      }
    }
  }
  table.PrintRest();
  return is_strict && table.has_exceptions() ? 1 : 0;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
