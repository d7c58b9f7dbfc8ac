#include "interposer/core/measuring.h"

#include <algorithm>
#include <optional>

namespace ucudnn::interposer {

bool Tunes(Process& process, const Session& session, const ConvolutionProblem& problem, Api api) {
  if (!process.options.tuning.on) return false;
  return process.options.workspace_plan.empty() ||
         !process.followed_plan.Has(process.sessions.DeviceOf(session).platform, problem, api);
}

bool MeasuresBeforePromising(Process& process, const Session& session,
                             const ConvolutionProblem& problem, Api api) {
  return process.options.tuning.before_promising && Tunes(process, session, problem, api) &&
         !process.sessions.Capturing(session);
}

size_t UserLimit(Process& process, const Session& session) {
  // Under one budget a kernel has no workspace of the caller's: ucudnn brings it.
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
  facts.capturing = process.sessions.Capturing(session);
  return facts;
}

namespace {

// None where no kernel of the process is cut.
std::optional<planning::TileConditions> ConditionsOfTiles(Process& process, const Session& session,
                                                          size_t need_bytes) {
  const Options& options = process.options;
  // Under one budget kernels are planned together, by divisions of their mini-batches.
  if (options.total_workspace || session.budget() != nullptr) return std::nullopt;
  // Ranks plan from what they share, and what tiles take lives as long as the process.
  if (options.rank >= 0) return std::nullopt;
  return planning::TileConditions{options.tiles,
                                  options.policy,
                                  need_bytes,
                                  UserLimit(process, session),
                                  tuning::L2Bytes(process.sessions.DeviceOf(session)),
                                  process.most_span};
}

}  // namespace

planning::TileUse UseOfTiles(Process& process, const Session& session,
                             const ConvolutionProblem& problem, size_t need_bytes) {
  const auto conditions = ConditionsOfTiles(process, session, need_bytes);
  return conditions ? planning::UseOfTiles(problem, *conditions) : planning::TileUse::kNone;
}

bool MayUseTiles(Process& process, const Session& session, double span, size_t need_bytes) {
  constexpr double kMostBytes = 16;  // of an element of x and one of y
  const auto conditions = ConditionsOfTiles(process, session, need_bytes);
  if (!conditions || !conditions->allowed) return false;
  const size_t cache = conditions->l2_bytes;
  switch (conditions->policy) {
    case BatchSizePolicy::kUndivided:
      return false;
    case BatchSizePolicy::kAll:
      return true;
    case BatchSizePolicy::kAuto:
      // Copies of x and y that the cache does not hold.
      if (cache > 0 && need_bytes > cache && kMostBytes * span > static_cast<double>(cache)) {
        return true;
      }
      break;
    case BatchSizePolicy::kPowerOfTwo:
      break;
  }
  return need_bytes > conditions->user_limit || span > static_cast<double>(conditions->most_span);
}

planning::PromiseRequest RequestFor(const Process& process, const ConvolutionProblem& problem,
                                    size_t limit_bytes) {
  return planning::RequestFor(problem, limit_bytes, process.options.deterministic);
}

void NoteMissing(Process& process, const Session& session, const ConvolutionProblem& problem,
                 Api api) {
  const auto instead =
      process.followed_plan.Misses(process.sessions.DeviceOf(session).platform, problem, api);
  if (instead) {
    process.reporter.Fallback(problem, planning::Cause::kWorkspacePlanLacksIt, *instead);
  }
}

long CallsUntil(const Process& process, planning::When when, long calls, bool tunes) {
  if (when == planning::When::kNever) return KernelState::kFinal;
  if (when == planning::When::kNextCall) return calls;
  return std::max({tunes ? process.options.tuning.after_calls : 0, 2 * calls, calls + 1});
}

}  // namespace ucudnn::interposer
