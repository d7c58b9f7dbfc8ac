#include "planning/decision/decide.h"

#include <algorithm>

#include "planning/decision/asker.h"

namespace ucudnn::planning {

Step Decide(const Facts& facts) {
  Asker ask(facts);
  const bool call = std::holds_alternative<CallFacts>(facts.program);
  Decision decision = call ? DecideCall(facts, ask) : DecidePlan(facts, ask);
  if (ask.open()) return *ask.open();
  return decision;
}

Decision AsAsked(const Facts& facts, ReasonKind because) {
  Decision decision;
  size_t bytes = 0;
  bool deterministic = false;
  if (const auto* const call = std::get_if<CallFacts>(&facts.program)) {
    bytes = call->need_bytes.value_or(call->passed_bytes);
    decision.limit_bytes = std::min(facts.user_limit, call->passed_bytes);
  } else {
    const auto& plan = std::get<PlanFacts>(facts.program);
    bytes = plan.need_bytes;
    deterministic = plan.deterministic;
    decision.limit_bytes = facts.user_limit == kNoLimit ? plan.need_bytes : facts.user_limit;
  }
  decision.promised_bytes = bytes;
  decision.configuration = {
      {{{facts.asked, facts.problem.n, kUnknownTime, bytes, deterministic}, 1}}};
  decision.reason = {because};
  return decision;
}

bool MayTile(TileUse tiles, const std::vector<Candidate>& candidates,
             const PromiseRequest& request) {
  if (tiles != TileUse::kToFit) return tiles == TileUse::kToGain;
  std::vector<Candidate> pieces = candidates;
  std::erase_if(pieces, [&](const Candidate& piece) { return piece.micro.IsWhole(request.n); });
  return !FastestDivision(pieces, request);
}

bool MayMeasureTiles(TileUse tiles, size_t need_bytes, size_t limit_bytes) {
  return tiles == TileUse::kToGain || (limit_bytes > 0 && need_bytes > limit_bytes);
}

size_t WorkspaceOfFastest(const std::vector<Candidate>& candidates,
                          const ConvolutionProblem& problem) {
  return FindBaselines(candidates, RequestFor(problem, kNoLimit, false)).any_api.workspace_bytes;
}

std::string WhyNoTiles(const Tilings& tilings) {
  if (!tilings.measured.empty()) return Sentence(Detail::kOnlyTilesFit);
  if (!tilings.settled) return {};
  if (tilings.least_bytes == 0) return tilings.why;
  return Sentence(Detail::kTilesNeedMore, {.bytes = tilings.least_bytes});
}

}  // namespace ucudnn::planning
