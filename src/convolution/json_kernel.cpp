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

// The names of lengths, and the members that hold them.
struct LengthName {
  const char* name;
  int32_t& (*of)(TileLengths& lengths);
};
constexpr LengthName kLengthNames[] = {
    {"groups", [](TileLengths& lengths) -> int32_t& { return lengths.groups; }},
    {"k", [](TileLengths& lengths) -> int32_t& { return lengths.k; }},
    {"d", [](TileLengths& lengths) -> int32_t& { return lengths.spatial[0]; }},
    {"h", [](TileLengths& lengths) -> int32_t& { return lengths.spatial[1]; }},
    {"w", [](TileLengths& lengths) -> int32_t& { return lengths.spatial[2]; }},
};

TileLengths ReadLengths(const JsonPlace& place) {
  TileLengths lengths;
  place.Object();
  for (const LengthName& one : kLengthNames) {
    const JsonPlace length = place.Member(one.name);
    if (length.absent()) continue;
    one.of(lengths) = static_cast<int32_t>(length.Integer(1, std::numeric_limits<int32_t>::max()));
  }
  return lengths;
}

std::string LengthsText(TileLengths lengths) {
  std::string text;
  for (const LengthName& one : kLengthNames) {
    const int32_t length = one.of(lengths);
    if (length == 0) continue;
    text += (text.empty() ? "" : ", ") + JsonScalar(one.name) + ": " + JsonScalar(length);
  }
  return "{" + text + "}";
}

// Finds the grid of the runs that were read. Refuses runs that are no grid's tiles.
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
    run.micro.engine = place.Member("engine").Text();
    run.micro.micro_batch = static_cast<int>(place.Member("micro_batch").Integer(1, problem.n));
    run.count = static_cast<int>(place.Member("count").Integer(1, tiled ? kMostTiles : problem.n));
    run.micro.workspace_bytes = place.Member("workspace_bytes").Bytes();
    if (tiled) run.micro.tile = ReadLengths(place.Member("tile"));
    const JsonPlace pack_ms = place.Member("pack_ms");
    if (!pack_ms.absent()) run.micro.pack_ms = pack_ms.Time().value_or(0);
    const std::optional<double> piece_ms = place.Member("piece_ms").Time();
    run.micro.time_ms = piece_ms.value_or(0);
    total_ms =
        total_ms && piece_ms ? std::optional(*total_ms + *piece_ms * run.count) : std::nullopt;
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

std::vector<std::pair<std::string, std::string>> RunMembers(const Division& division, size_t run) {
  const MicroConfiguration& micro = division.configuration.runs[run].micro;
  std::vector<std::pair<std::string, std::string>> members = {
      {"engine", JsonScalar(micro.engine.Text())}, {"micro_batch", JsonScalar(micro.micro_batch)}};
  if (division.tiles != nullptr) {
    members.emplace_back("tile", LengthsText(micro.tile));
    const std::string border = BorderOf(*division.tiles, run);
    if (!border.empty()) members.emplace_back("border", JsonScalar(border));
  }
  members.emplace_back("count", JsonScalar(division.configuration.runs[run].count));
  members.emplace_back("workspace_bytes", JsonScalar(micro.workspace_bytes));
  members.emplace_back("piece_ms", micro.time_ms < 0 ? "null" : JsonScalar(micro.time_ms));
  const size_t packed =
      division.tiles != nullptr ? PackedBytes(division.tiles->kinds[run]) : size_t{0};
  if (packed > 0) {
    members.emplace_back("pack_bytes", JsonScalar(packed));
    members.emplace_back("pack_ms", micro.pack_ms <= 0 ? "null" : JsonScalar(micro.pack_ms));
  }
  return members;
}

}  // namespace ucudnn
