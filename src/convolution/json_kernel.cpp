#include "convolution/json_kernel.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/json_scalar.h"
#include "convolution/columns.h"
#include "convolution/division_text.h"

namespace ucudnn {
namespace {

// The lengths of a tile along the axes that are cut.
struct CutLengths {
  TileLengths& lengths;

  void Members(json::Object& member) {
    constexpr json::Use kIfCut = {.may_lack = true, .left_out_if_empty = true, .least = 1};
    member("groups", lengths.groups, kIfCut);
    member("k", lengths.k, kIfCut);
    member("d", lengths.spatial[0], kIfCut);
    member("h", lengths.spatial[1], kIfCut);
    member("w", lengths.spatial[2], kIfCut);
  }
};

// One run of a plan. `border` and `pack_bytes` are written, but not read: they follow from the
// tiles, and FindTiles checks them.
struct PlanRun {
  Run& run;
  int images;  // of the problem's mini-batch
  bool is_tiled;
  RunOrder order = RunOrder::kReport;
  std::string border = {};
  size_t pack_bytes = 0;

  void Members(json::Object& member) {
    MicroConfiguration& micro = run.micro;
    constexpr json::Use kIfAny = {.left_out_if_empty = true, .unread = true};
    member("engine", micro.engine);
    if (order == RunOrder::kCommand) Need(member);
    member("micro_batch", micro.micro_batch, {.least = 1, .most = images});
    const bool one_line = order == RunOrder::kReport;
    if (is_tiled) member("tile", CutLengths{micro.tile}, {.on_one_line = one_line});
    member("border", border, kIfAny);
    member("count", run.count, {.least = 1, .most = is_tiled ? kMostTiles : images});
    if (order == RunOrder::kReport) Need(member);
    member("pack_bytes", pack_bytes, kIfAny);
    std::optional<double> pack_ms;
    if (micro.pack_ms > 0) pack_ms = micro.pack_ms;
    member("pack_ms", json::Milliseconds{pack_ms}, {.may_lack = true, .left_out = pack_bytes == 0});
    micro.pack_ms = pack_ms.value_or(0);
  }

 private:
  void Need(json::Object& member) {
    std::optional<double> piece_ms;
    if (run.micro.time_ms >= 0) piece_ms = run.micro.time_ms;
    member("workspace_bytes", run.micro.workspace_bytes);
    member("piece_ms", json::Milliseconds{piece_ms});
    run.micro.time_ms = piece_ms.value_or(-1);
  }
};

// Each run of `division` must be one kind of tile of a common grid. Finds this grid, and sets the
// tiles of `division`. Refuses runs that are not exactly the tiles of a grid. places[i] is the
// place of run i in the file, and `list` is the place of the list of runs.
void FindTiles(const JsonPlace& list, const std::vector<JsonPlace>& places,
               const ConvolutionProblem& problem, Division& division) {
  const Result<TileGrid> grid = GridOfRuns(problem, division.configuration.runs);
  if (!grid.ok()) return list.Fault("has " + grid.message());
  Result<Tiles> tiles = CutIntoTiles(problem, *grid);
  if (!tiles.ok()) return list.Fault("has tiles that do not exist: " + tiles.message());
  division =
      Division(std::move(division.configuration), std::make_shared<const Tiles>(std::move(*tiles)));
  const Status covers = division.CheckCovers(problem);
  if (!covers.ok()) return list.Fault("is no plan of its problem: " + covers.message());
  for (size_t run = 0; run < places.size(); ++run) {
    const JsonPlace border = places[run].Member("border");
    const std::string own = BorderOf(*division.tiles, run);
    if (border.TextIfThere() != own) {
      border.Refuse(own.empty() ? "none: its tiles lie at no border" : JsonScalar(own));
    }
    const size_t packed = PackedBytes(division.tiles->kinds[run]);
    const JsonPlace pack = places[run].Member("pack_bytes");
    if ((pack.absent() ? 0 : pack.Bytes()) != packed) {
      pack.Refuse(packed == 0 ? "none: its tiles are not packed" : JsonScalar(packed));
    }
  }
}

}  // namespace

ConvolutionProblem ReadProblem(const JsonPlace& kernel) {
  const JsonPlace place = kernel.Member("problem");
  place.Object();
  std::map<std::string, std::string> fields = {{"op", kernel.Member("op").Text()}};
  if (!place.ok()) return {};
  place.Member("n").Integer(1, std::numeric_limits<int32_t>::max());
  for (const JsonMember& column : place.value()->members) {
    const JsonValue& value = column.value;
    fields[column.name] = value.is(JsonValue::Kind::kText) ? value.text : Shown(value);
  }
  const Result<ConvolutionProblem> problem =
      FromColumns([&](const std::string& column) -> const std::string* {
        const auto found = fields.find(column);
        return found == fields.end() || found->second.empty() ? nullptr : &found->second;
      });
  if (problem.ok()) return *problem;
  place.Fault("makes no convolution: " + problem.message());
  return {};
}

std::optional<double> ReadPlan(const JsonPlace& list, const ConvolutionProblem& problem,
                               Division& division) {
  const std::vector<JsonPlace> places = list.Items();
  const bool tiled = std::any_of(places.begin(), places.end(), [](const JsonPlace& place) {
    return !place.Member("tile").absent();
  });
  std::vector<Run>& runs = division.configuration.runs;
  int64_t images = 0;
  std::optional<double> total_ms = 0;
  for (const JsonPlace& place : places) {
    if (!place.ok()) return std::nullopt;
    Run run;
    run.micro.time_ms = -1;
    json::Object object(place);
    PlanRun{run, problem.n, tiled}.Members(object);
    const bool is_known = run.micro.time_ms >= 0;
    if (!is_known) run.micro.time_ms = 0;
    total_ms = total_ms && is_known ? std::optional(*total_ms + run.micro.time_ms * run.count)
                                    : std::nullopt;
    images += int64_t{run.micro.micro_batch} * run.count;
    runs.push_back(std::move(run));
    if (!tiled && images > problem.n) break;
  }
  if (runs.empty() || !list.ok()) return std::nullopt;
  if (tiled) {
    FindTiles(list, places, problem, division);
  } else if (images != problem.n) {
    list.Fault("has " + std::string(images > problem.n ? "more" : "fewer") + " images than the " +
               std::to_string(problem.n) + " of its problem");
  }
  return total_ms;
}

json::Fields ProblemMembers(const ConvolutionProblem& problem) {
  json::Fields fields;
  for (const auto& [column, text] : ToColumns(problem)) {
    if (text.empty()) continue;
    const bool is_number = text.find_first_not_of("-0123456789") == std::string::npos;
    fields.emplace_back(column, is_number ? text : json::FormatText(text));
  }
  return fields;
}

std::string ProblemColumns::Write(int depth) const {
  return json::FormatObject(ProblemMembers(problem), depth);
}

void PossibleProblem::Read(const JsonPlace&) const {
  Status fault;
  const ConvolutionProblem read = ReadProblem(JsonPlace(kernel.value(), "", fault));
  if (fault.ok()) problem = read;
}

std::string PlanRuns::Write(int depth) const {
  std::vector<std::string> texts;
  for (size_t at = 0; at < division.configuration.runs.size(); ++at) {
    Run run = division.configuration.runs[at];
    PlanRun written{run, run.micro.micro_batch, division.tiles != nullptr, order};
    if (written.is_tiled) written.border = BorderOf(*division.tiles, at);
    if (written.is_tiled) written.pack_bytes = PackedBytes(division.tiles->kinds[at]);
    texts.push_back(json::Write(written, json::Inside(depth)));
  }
  return json::FormatList(texts, depth);
}

}  // namespace ucudnn
