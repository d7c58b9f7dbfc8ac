#include "interposer/core/kernel_rules.h"

namespace ucudnn::interposer {

bool KernelRules::Tunes(const Session& session, const ConvolutionProblem& problem, Api api) const {
  if (!options_.tuning.on) return false;
  return options_.workspace_plan.empty() ||
         !followed_plan_.Has(session.device().platform, problem, api);
}

bool KernelRules::MeasuresBeforePromising(const Session& session, const ConvolutionProblem& problem,
                                          Api api) const {
  return Tunes(session, problem, api) && MayProve(session);
}

size_t KernelRules::UserLimit(const Session& session) const {
  // Under one budget, ucudnn provides the workspace, so kernels use none of the caller's workspace.
  const bool budget = options_.total_workspace && options_.mode == Mode::kOn;
  if (budget || session.budget() != nullptr) return 0;
  const size_t limit = limit_.Of(session.context());
  return limit == kNoLimit ? limit : KernelPart(limit);
}

planning::Facts KernelRules::FactsOf(const Session& session, const ConvolutionProblem& problem,
                                     Api api) const {
  planning::Facts facts;
  facts.problem = problem;
  facts.user_limit = UserLimit(session);
  facts.observes = options_.mode != Mode::kOn;
  facts.deterministic = options_.deterministic;
  facts.strict_limit = options_.strict_limit;
  facts.tunes = Tunes(session, problem, api);
  facts.capturing = session.Capturing();
  return facts;
}

planning::TileConditions KernelRules::ConditionsOfTiles(const Session& session,
                                                        size_t need_bytes) const {
  return {options_.tiles,
          options_.policy,
          need_bytes,
          UserLimit(session),
          tuning::L2Bytes(session.device()),
          most_span_};
}

planning::TileUse KernelRules::UseOfTiles(const Session& session, const ConvolutionProblem& problem,
                                          size_t need_bytes) const {
  planning::TileConditions conditions = ConditionsOfTiles(session, need_bytes);
  if (LacksWorkspace(session)) return planning::TileUse::kNone;
  if (session.budget() == nullptr) return planning::UseOfTiles(problem, conditions);
  conditions.user_limit = planning::kNoLimit;
  const planning::TileUse without_limit = planning::UseOfTiles(problem, conditions);
  if (without_limit != planning::TileUse::kNone) return without_limit;
  conditions.user_limit = 0;
  conditions.need_bytes = planning::kNoLimit;
  return planning::UseOfTiles(problem, conditions);
}

bool KernelRules::MayUseTiles(const Session& session, double span, size_t need_bytes) const {
  // The most bytes of an element of x and an element of y together: 8 each for fp64.
  constexpr double kMostBytes = 16;
  const planning::TileConditions conditions = ConditionsOfTiles(session, need_bytes);
  if (!conditions.allowed || LacksWorkspace(session)) return false;
  const size_t cache = conditions.l2_bytes;
  switch (conditions.policy) {
    case BatchSizePolicy::kUndivided:
      return false;
    case BatchSizePolicy::kAll:
      return true;
    case BatchSizePolicy::kAuto:
      // Tiles may gain time if the engine's workspace and the image exceed the cache.
      if (cache > 0 && need_bytes > cache && kMostBytes * span > static_cast<double>(cache)) {
        return true;
      }
      break;
    case BatchSizePolicy::kPowerOfTwo:
      break;
  }
  return need_bytes > conditions.user_limit || span > static_cast<double>(conditions.most_span);
}

FollowedPlan* KernelRules::PlanFor(const Session& session, const ConvolutionProblem& problem,
                                   Api api) const {
  if (!Follows()) return nullptr;
  const auto instead = followed_plan_.Misses(session.device().platform, problem, api);
  if (instead) {
    reporter_.Fallback(problem, planning::FallbackCause::kWorkspacePlanLacksIt, *instead);
  }
  return &followed_plan_;
}

long KernelRules::CallsUntil(planning::When when, long calls, bool tunes) const {
  if (when == planning::When::kNever) return KernelState::kFinal;
  if (when == planning::When::kNextCall) return calls;
  return std::max({tunes ? options_.tuning.after_calls : 0, 2 * calls, calls + 1});
}

}  // namespace ucudnn::interposer
