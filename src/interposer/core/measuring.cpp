#include "interposer/core/measuring.h"

#include <algorithm>

namespace ucudnn::interposer {

bool Tunes(Process& process, const Session& session, const ConvolutionProblem& problem, Api api) {
  if (!process.options.tuning.on) return false;
  return process.options.workspace_plan.empty() ||
         !process.followed_plan.Has(session.device().platform, problem, api);
}

bool MeasuresBeforePromising(Process& process, const Session& session,
                             const ConvolutionProblem& problem, Api api) {
  return process.options.tuning.before_promising && Tunes(process, session, problem, api) &&
         !session.Capturing();
}

size_t UserLimit(Process& process, const Session& session) {
  // Under one budget, ucudnn provides the workspace, so kernels use nothing of the caller's.
  const bool budget = process.options.total_workspace && process.options.mode == Mode::kOn;
  if (budget || session.budget() != nullptr) return 0;
  const size_t limit = process.limit.Of(session.context());
  return limit == kNoLimit ? limit : limit - process.splitter.ShareOf(limit);
}

planning::Facts FactsOfKernel(Process& process, const Session& session,
                              const ConvolutionProblem& problem, Api api) {
  const Options& options = process.options;
  planning::Facts facts;
  facts.problem = problem;
  facts.user_limit = UserLimit(process, session);
  facts.observes = options.mode != Mode::kOn;
  facts.deterministic = options.deterministic;
  facts.strict_limit = options.strict_limit;
  facts.tunes = Tunes(process, session, problem, api);
  facts.capturing = session.Capturing();
  return facts;
}

namespace {

planning::TileConditions ConditionsOfTiles(Process& process, const Session& session,
                                           size_t need_bytes) {
  const Options& options = process.options;
  return {options.tiles,
          options.policy,
          need_bytes,
          UserLimit(process, session),
          tuning::L2Bytes(session.device()),
          process.most_span};
}

// Returns whether ucudnn has no workspace for the kernel, because its device has no part in the
// total workspace.
bool LacksWorkspace(const Process& process, const Session& session) {
  return process.options.total_workspace && session.budget() == nullptr;
}

}  // namespace

planning::TileUse UseOfTiles(Process& process, const Session& session,
                             const ConvolutionProblem& problem, size_t need_bytes) {
  planning::TileConditions conditions = ConditionsOfTiles(process, session, need_bytes);
  if (LacksWorkspace(process, session)) return planning::TileUse::kNone;
  if (session.budget() == nullptr) return planning::UseOfTiles(problem, conditions);
  conditions.user_limit = planning::kNoLimit;
  const planning::TileUse without_limit = planning::UseOfTiles(problem, conditions);
  if (without_limit != planning::TileUse::kNone) return without_limit;
  conditions.user_limit = 0;
  conditions.need_bytes = planning::kNoLimit;
  return planning::UseOfTiles(problem, conditions);
}

bool MayUseTiles(Process& process, const Session& session, double span, size_t need_bytes) {
  // The most bytes of an element of x and an element of y together: 8 each for fp64.
  constexpr double kMostBytes = 16;
  const planning::TileConditions conditions = ConditionsOfTiles(process, session, need_bytes);
  if (!conditions.allowed || LacksWorkspace(process, session)) return false;
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

planning::PromiseRequest RequestFor(const Process& process, const ConvolutionProblem& problem,
                                    size_t limit_bytes) {
  return planning::RequestFor(problem, limit_bytes, process.options.deterministic);
}

void NoteMissing(Process& process, const Session& session, const ConvolutionProblem& problem,
                 Api api) {
  const auto instead = process.followed_plan.Misses(session.device().platform, problem, api);
  if (instead) {
    process.reporter.Fallback(problem, planning::FallbackCause::kWorkspacePlanLacksIt, *instead);
  }
}

long CallsUntil(const Process& process, planning::When when, long calls, bool tunes) {
  if (when == planning::When::kNever) return KernelState::kFinal;
  if (when == planning::When::kNextCall) return calls;
  return std::max({tunes ? process.options.tuning.after_calls : 0, 2 * calls, calls + 1});
}

}  // namespace ucudnn::interposer
