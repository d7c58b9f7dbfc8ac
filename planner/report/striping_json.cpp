#include "planner/report/striping_json.h"

#include "base/ordered_json.h"

namespace ucudnn::planner {
namespace {

void AddTraffic(Json& json, const StripeTraffic& traffic) {
  json["most_sent_bytes"] = traffic.most_sent;
  json["most_received_bytes"] = traffic.most_received;
  json["all_bytes"] = traffic.all;
}

// Returns the extents of an image along its spatial axes.
Json SizeJson(const Spatial& extents, int spatial_rank) {
  Json json;
  for (size_t axis = kMaxSpatial - static_cast<size_t>(spatial_rank); axis < kMaxSpatial; ++axis) {
    json[std::string(1, kAxisLetters[axis])] = extents[axis];
  }
  return json;
}

Json StripesJson(const Placement& placement) {
  Json json = Json::object();
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const AxisPlacement& placed = placement.axes[axis];
    if (placed.IsCut()) json[std::string(1, kAxisLetters[axis])] = placed.extents;
  }
  return json;
}

Json OperatorJson(const StripedOperator& made, const SpatialGrid& grid) {
  const Judgement& judgement = made.judgement;
  Json json = {{"name", made.name},
               {"op", made.kind},
               {"output", Describe(judgement.output.shape)},
               {"stripes", StripesJson(judgement.output)},
               {"verdict", VerdictName(judgement.verdict)}};
  if (!judgement.why.empty()) json["why"] = judgement.why;
  if (judgement.ones != OnesAre::kEither) {
    json["spatial_one"] = judgement.ones == OnesAre::kSplit ? "split" : "replicated";
  }
  json["exchanges"] = JsonList(made.exchanges, [&](const Exchange& exchange) {
    Json entry = {{"pass", PassName(exchange.pass)}};
    AddTraffic(entry, TrafficOf({exchange}, grid, false));
    entry["summed_bytes"] = exchange.summed;
    return entry;
  });
  return json;
}

Json NextJson(const ExactSize& next, int spatial_rank) {
  return {{"size", SizeJson(next.extents, spatial_rank)},
          {"through", next.as_it_is ? "own_calls" : "convert"},
          {"other_weights", next.other_weights}};
}

}  // namespace

std::string FormatStriping(const Striping& striping, const NextExact& next) {
  const int rank = striping.input.spatial_rank;
  Json json = {{"format", "ucudnn-spatial"},
               {"version", 1},
               {"network", striping.network},
               {"batch", striping.batch},
               {"grid", striping.grid.Text()},
               {"ranks", striping.grid.Ranks()},
               {"multiple", striping.multiple},
               {"size", SizeJson(striping.input.extents, rank)},
               {"verdict", VerdictName(striping.Worst())}};
  const bool refused = striping.Count(Verdict::kRefused) > 0;
  if (refused) {
    json["next"] = next.size ? NextJson(*next.size, rank) : Json();
    json["next_multiple"] = OrNull(next.multiple);
  }
  AddTraffic(json["forward"], striping.Traffic(true));
  AddTraffic(json["step"], striping.Traffic(false));
  json["device_activation_bytes"] = striping.device_activation_bytes;
  json["rank_activation_bytes"] = striping.rank_activation_bytes;
  json["largest_exchange_bytes"] = striping.largest_exchange_bytes;
  json["parameter_bytes"] = striping.parameter_bytes;
  json["unknown"] = striping.unknown;
  json["operators"] = JsonList(striping.operators, [&](const StripedOperator& made) {
    return OperatorJson(made, striping.grid);
  });
  return JsonText(json);
}

}  // namespace ucudnn::planner
