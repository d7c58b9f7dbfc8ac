// `ucudnn spatial`: what splitting a network's images over a grid of ranks would do, without a run.
#include <memory>
#include <string>
#include <vector>

#include "base/spatial_grid.h"
#include "base/text.h"
#include "command/command.h"
#include "command/layer_list.h"
#include "command/output_file.h"
#include "command/spatial_table.h"
#include "command/whole_number.h"
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

// --multiple: 1 where it is not given.
Result<int> ParseMultiple(const std::string& text) {
  if (text.empty()) return 1;
  constexpr int kMost = 1 << 20;
  if (const auto multiple = WholeNumber<int>(text, 1, kMost)) return *multiple;
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
  const auto reading = ParseImport(words.pass_through, words.input);
  if (!reading.ok()) return Refuse(app, reading.message());
  const Result<Graph> graph = LoadNetworkOfSize(words.net, *reading, words.size);
  if (!graph.ok()) return Refuse(app, graph.message());
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
  AddSize(*app, words->size);
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
