#include "decision_world.h"

#include <algorithm>
#include <utility>

namespace ucudnn::planning {
namespace {

constexpr size_t kMostSubstitutes = 3;  // at most this many engines are timed against each other

bool IsAmong(const std::vector<PieceName>& pieces, const EngineId& engine, int number) {
  return std::find(pieces.begin(), pieces.end(), PieceName(engine, number)) != pieces.end();
}

bool HasAny(const Configuration& configuration, const std::vector<PieceName>& pieces) {
  return std::any_of(configuration.runs.begin(), configuration.runs.end(), [&](const Run& run) {
    const bool tiled = configuration.IsTiled();
    return IsAmong(pieces, run.micro.engine,
                   tiled ? -configuration.Pieces() : run.micro.micro_batch);
  });
}

bool Fits(const Tiling& tiling, size_t limit_bytes) {
  return std::all_of(tiling.kinds.begin(), tiling.kinds.end(), [&](const Tiling::Kind& kind) {
    return std::any_of(kind.candidates.begin(), kind.candidates.end(), [&](const Candidate& one) {
      return one.micro.workspace_bytes <= limit_bytes;
    });
  });
}

// Removes the engines of `configuration` from the tiling of its grid.
void Drop(const Configuration& configuration, std::vector<Tiling>& tilings) {
  for (Tiling& tiling : tilings) {
    if (tiling.grid != configuration.grid) continue;
    for (size_t kind = 0; kind < tiling.kinds.size(); ++kind) {
      std::erase_if(tiling.kinds[kind].candidates, [&](const Candidate& one) {
        return one.micro.engine == configuration.runs[kind].micro.engine;
      });
    }
  }
}

// Answers each question of Decide by adding the answer to the world's facts.
struct Answerer {
  World& world;

  void operator()(const Measure& question) {
    const auto* const call = std::get_if<CallFacts>(&world.facts.program);
    const bool own = question.engine.empty() || question.engine == world.facts.asked;
    Rows rows;
    rows.settled = world.settled;
    rows.late = world.late;
    for (const Candidate& row : world.rows) {
      if (call != nullptr && !row.native && !call->graph_engines) continue;
      if (!question.engine.empty() && row.micro.engine != question.engine) continue;
      // Engines that may replace a plan are measured on the whole mini-batch only.
      if (!own && row.micro.micro_batch != world.facts.problem.n) continue;
      rows.candidates.push_back(row);
    }
    world.facts.measured.Add(question, std::move(rows));
  }

  void operator()(const FindTilings& question) {
    Tilings tilings = world.tilings;
    for (Tiling& tiling : tilings.measured) {
      for (Tiling::Kind& kind : tiling.kinds) {
        std::erase_if(kind.candidates, [&](const Candidate& one) {
          return !question.engine.empty() && one.micro.engine != question.engine;
        });
      }
    }
    std::erase_if(tilings.measured, [&](const Tiling& tiling) {
      return !Fits(tiling, question.request.limit_bytes);
    });
    world.facts.tilings.Add(question, std::move(tilings));
  }

  void operator()(const FindSubstitutes& question) {
    const auto& plan = std::get<PlanFacts>(world.facts.program);
    std::vector<MicroConfiguration> found;
    if (plan.need_bytes <= question.limit_bytes) {
      found.push_back({world.facts.asked, world.facts.problem.n, kUnknownTime, plan.need_bytes,
                       plan.deterministic});
    } else {
      for (const MicroConfiguration& other : world.others) {
        if (other.workspace_bytes > question.limit_bytes) continue;
        if (other.engine == question.promised) {
          found = {other};
          break;
        }
        found.push_back(other);
      }
      if (found.size() > kMostSubstitutes) found.resize(kMostSubstitutes);
    }
    world.facts.substitutes.Add(question, std::move(found));
  }

  void operator()(const Compare& question) {
    Trust trust;
    const bool too_large =
        world.is_too_large && question.configuration.IsTiled() && question.need_whole;
    if (question.proof == Proof::kKnown || too_large ||
        HasAny(question.configuration, world.uncompared)) {
      trust = {Trust::Kind::kUnknown, "not now"};
    } else if (HasAny(question.configuration, world.wrong)) {
      trust = {Trust::Kind::kWrong, "wrong"};
      const bool divides = question.configuration.Pieces() > 1;
      world.fallbacks.push_back(
          {divides ? FallbackCause::kDivisionWrong : FallbackCause::kGraphEngineWrong, {}});
      std::erase_if(world.rows, [&](const Candidate& row) {
        return IsAmong(world.wrong, row.micro.engine, row.micro.micro_batch) &&
               HasAny(question.configuration, {{row.micro.engine, row.micro.micro_batch}});
      });
      if (question.configuration.IsTiled()) Drop(question.configuration, world.tilings.measured);
      // The facts still hold the wrong pieces, so Decide must ask for measurements and tilings
      // again.
      world.facts.measured.Clear();
      world.facts.tilings.Clear();
    } else if (!question.faster_than.engine.empty() &&
               HasAny(question.configuration, world.slower)) {
      trust = {Trust::Kind::kSlower, "slower"};
    }
    world.facts.compared.Add(question, std::move(trust));
  }

  void operator()(const Build& question) {
    BuildOutcome outcome;
    const bool legacy = std::holds_alternative<CallFacts>(world.facts.program);
    const bool whole = legacy ? question.configuration.runs.empty() : question.in_place;
    if (whole && world.breaks_whole) {
      outcome = {BuildOutcome::Kind::kNoUndivided, "no whole"};
    } else if (!question.configuration.runs.empty() && world.breaks_pieces) {
      outcome = {BuildOutcome::Kind::kNoPieces, "no pieces"};
    }
    world.facts.built.Add(question, std::move(outcome));
  }

  void operator()(const Decision&) {}
};

// If another process promised something else first, adds that promise to the facts and returns
// false. Otherwise returns true.
bool IsKept(const Decision& decision, World& world) {
  if (!decision.gives_promise || decision.replaces_promise || !world.rival) return true;
  const KeptPromise rival = *std::exchange(world.rival, std::nullopt);
  if (rival == *decision.promise) return true;
  std::get<PlanFacts>(world.facts.program).told = rival;
  world.facts.built.Clear();
  return false;
}

}  // namespace

std::optional<Decision> DecideIn(World& world) {
  for (world.steps = 1; world.steps <= kMostSteps; ++world.steps) {
    Step step = Decide(world.facts);
    auto* const decision = std::get_if<Decision>(&step);
    if (decision == nullptr) {
      std::visit(Answerer{world}, step);
    } else if (IsKept(*decision, world)) {
      world.fallbacks.insert(world.fallbacks.end(), decision->notes.begin(), decision->notes.end());
      return std::move(*decision);
    }
  }
  return std::nullopt;
}

}  // namespace ucudnn::planning
