// `ucudnn spatial`: shows what splitting a network's images over a grid of ranks would do, without
// running the network.
#include <memory>
#include <string>
#include <vector>

#include "base/spatial_grid.h"
#include "base/text.h"
#include "command/command.h"
#include "command/layer_list.h"
#include "command/numbers.h"
#include "command/spatial/table.h"
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
  std::string multiple = "1";
  ImportWords reading;
  bool json = false;
};

Result<int> TellSpatial(const CLI::App& app, const SpatialWords& words) {
  UCUDNN_ASSIGN_OR_RETURN(const SpatialGrid grid, SpatialGrid::Parse(words.grid));
  UCUDNN_ASSIGN_OR_RETURN(const int batch, ParseBatch(words.batch));
  UCUDNN_ASSIGN_OR_RETURN(const int multiple,
                          ParseWhole("--multiple", words.multiple, 1, 1 << 20,
                                     "not a number of rows (accepted: 1 to 1048576)"));
  UCUDNN_ASSIGN_OR_RETURN(const auto reading, words.reading.Parse());
  UCUDNN_ASSIGN_OR_RETURN(const Graph graph, LoadNetworkOfSize(words.net, reading, words.size));
  const Result<Striping> striping = planner::StripeNetwork(graph, grid, batch, multiple);
  if (!striping.ok()) {
    return Status::Error((words.size.empty() ? "" : "--size " + Quoted(words.size) + ": ") +
                         striping.message());
  }
  NextExact next;
  if (striping->Count(planner::Verdict::kRefused) > 0) {
    next.size = planner::NextExactSize(graph, grid, multiple);
    if (multiple == 1) next.multiple = planner::NextExactMultiple(graph, grid);
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
  AddWord(*app, "GRID", words->grid,
          "into how many parts images are cut along d, h and w, and how many groups of\n"
          "ranks have images of their own: h4, h2w2, d2h2w2, n2h4");
  AddNetwork(*app, "--net", words->net, "FILE|NAME");
  AddOption(*app, "--batch", words->batch, "N", "images in a mini-batch, of all groups together")
      ->required();
  AddSize(*app, words->size);
  AddOption(
      *app, "--multiple", words->multiple, "N",
      "stripes but the last are multiples of N rows, as ucudnn.spatial.shard(..., multiple=N)\n"
      "makes them");
  words->reading.AddTo(
      *app, "operators of a file that are not known pass their input through: they get no verdict");
  AddFlag(*app, "--json", words->json, "print JSON");
  return {app, [app, words](const ProgramWords&) { return TellSpatial(*app, *words); }};
}

}  // namespace ucudnn::command
