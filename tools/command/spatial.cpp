// `ucudnn spatial`: what splitting a network's images over a grid of ranks would do, without a run.
#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "base/spatial_grid.h"
#include "base/text.h"
#include "command/command.h"
#include "command/layer_list.h"
#include "command/output_file.h"
#include "command/spatial_table.h"
#include "planner/graph/network_file.h"
#include "planner/graph/networks.h"
#include "planner/report/striping_json.h"
#include "planner/striping/exact_size.h"
#include "planner/striping/striping.h"

namespace ucudnn::command {
namespace {

using planner::Graph;
using planner::NextExact;
using planner::Striping;

struct SpatialWords {
  std::string grid;
  std::string net;
  std::string batch;
  std::string size;
  std::string multiple;
  bool pass_through = false;
  std::string input;
  bool json = false;
};

// The axes of the network's images: 2 or 3.
size_t AxesOf(const Graph& graph) {
  const auto* const input = std::get_if<planner::Input>(&graph.nodes.front().op);
  return input != nullptr ? static_cast<size_t>(input->spatial_rank) : 2;
}

// --size: an extent of the images for each of their axes, or one for all.
Status ChangeSize(const std::string& text, Graph& graph) {
  if (text.empty()) return Status::Ok();
  const size_t axes = AxesOf(graph);
  const std::vector<std::string> words = Split(text, 'x');
  bool is_size = words.size() == 1 || words.size() == axes;
  Spatial extents = {0, 0, 0};
  for (size_t i = 0; is_size && i < axes; ++i) {
    const std::string& word = words[words.size() == 1 ? 0 : i];
    int32_t extent = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), extent);
    is_size = error == std::errc() && end == word.data() + word.size() && extent >= 1;
    extents[kMaxSpatial - axes + i] = extent;
  }
  if (!is_size) {
    return Status::Error("--size " + Quoted(text) + ": expected " +
                         (axes == 2 ? "rows and columns, as in 256x256"
                                    : "depth, rows and columns, as in 64x128x128") +
                         ", or one number for all of them");
  }
  const Status changed = planner::SetInputExtents(graph, extents);
  return changed.ok() ? changed : Status::Error("--size: " + changed.message());
}

// --size for a file that leaves the size of its images open, before these are known; zeros where it
// is none.
std::array<int32_t, 2> OpenSize(const std::string& text) {
  std::vector<int32_t> extents;
  for (const std::string& word : Split(text, 'x')) {
    int32_t extent = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), extent);
    if (error != std::errc() || end != word.data() + word.size() || extent < 1) return {0, 0};
    extents.push_back(extent);
  }
  if (extents.empty()) return {0, 0};
  return {extents[extents.size() < 2 ? 0 : extents.size() - 2], extents.back()};
}

// --multiple: 1 where it is not given.
Result<int> ParseMultiple(const std::string& text) {
  if (text.empty()) return 1;
  int multiple = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), multiple);
  constexpr int kMost = 1 << 20;
  if (error == std::errc() && end == text.data() + text.size() && multiple >= 1 &&
      multiple <= kMost) {
    return multiple;
  }
  return Status::Error("--multiple " + Quoted(text) + ": not a number of rows (accepted: 1 to " +
                       std::to_string(kMost) + ")");
}

int TellSpatial(const CLI::App& app, const SpatialWords& words) {
  const Result<SpatialGrid> grid = SpatialGrid::Parse(words.grid);
  if (!grid.ok()) return Refuse(app, grid.message());
  const Result<int> batch = ParseBatch(words.batch);
  if (!batch.ok()) return Refuse(app, batch.message());
  const Result<int> multiple = ParseMultiple(words.multiple);
  if (!multiple.ok()) return Refuse(app, multiple.message());
  auto reading = ParseImport(words.pass_through, words.input);
  if (!reading.ok()) return Refuse(app, reading.message());
  reading->size = OpenSize(words.size);
  Result<Graph> graph = planner::LoadNetwork(words.net, *reading);
  if (!graph.ok()) return Refuse(app, "--net " + graph.message());
  if (Status status = ChangeSize(words.size, *graph); !status.ok()) {
    return Refuse(app, status.message());
  }
  const Result<Striping> striping = planner::StripeNetwork(*graph, *grid, *batch, *multiple);
  if (!striping.ok()) {
    return Refuse(app, (words.size.empty() ? "" : "--size " + Quoted(words.size) + ": ") +
                           striping.message());
  }
  NextExact next;
  if (striping->Count(planner::Verdict::kRefused) > 0) {
    next.size = planner::NextExactSize(*graph, *grid, *multiple);
    if (*multiple == 1) next.multiple = planner::NextExactMultiple(*graph, *grid);
  }
  if (words.json) return WriteOutput(app, FormatStriping(*striping, next), "");
  PrintStriping(*striping, next);
  return 0;
}

}  // namespace

Command AddSpatial(CLI::App& ucudnn) {
  auto words = std::make_shared<SpatialWords>();
  CLI::App* app =
      AddSubcommand(ucudnn, "spatial", "spatial GRID --net FILE|NAME --batch N [OPTIONS]",
                    "say what splitting images over ranks would do, without a run");
  app->add_option("GRID", words->grid,
                  "into how many parts images are cut along d, h and w, and how many groups of\n"
                  "ranks have images of their own: h4, h2w2, d2h2w2, n2h4")
      ->required()
      ->type_name("");
  app->add_option("--net", words->net,
                  "FILE.onnx, FILE.prototxt (Caffe), FILE.json (ucudnn-net),\n"
                  "or a built-in network (any other word lists them)")
      ->required()
      ->type_name("FILE|NAME");
  app->add_option("--batch", words->batch, "images in a mini-batch, of all groups together")
      ->required()
      ->type_name("N");
  app->add_option("--size", words->size,
                  "the images' size in place of the network's: 256x256, or 256 for all axes")
      ->type_name("SIZE");
  app->add_option(
         "--multiple", words->multiple,
         "stripes but the last are multiples of N rows, as ucudnn.spatial.shard(..., multiple=N)\n"
         "makes them")
      ->type_name("N");
  app->add_flag(
         "--pass-through", words->pass_through,
         "operators of a file that are not known pass their input through: they get no verdict")
      ->disable_flag_override();
  AddInput(*app, words->input);
  app->add_flag("--json", words->json, "print JSON")->disable_flag_override();
  return {app, [app, words](const ProgramWords&) { return TellSpatial(*app, *words); }};
}

}  // namespace ucudnn::command
