#include "planning/library_promise.h"

#include <algorithm>
#include <cassert>

#include "planning/desirable_set.h"

namespace ucudnn::planning {
namespace {

using Candidates = std::vector<const Candidate*>;
enum class Whose { kAny, kNative };

// The fastest candidate that takes the whole mini-batch within `workspace_bytes`; null when there
// is none.
const Candidate* FastestWhole(const Candidates& allowed, int n, size_t workspace_bytes,
                              Whose whose) {
  const Candidate* fastest = nullptr;
  for (const Candidate* candidate : allowed) {
    const MicroConfiguration& micro = candidate->micro;
    if (micro.micro_batch != n || micro.workspace_bytes > workspace_bytes) continue;
    if (whose == Whose::kNative && !candidate->native) continue;
    if (fastest == nullptr || micro.time_ms < fastest->micro.time_ms) fastest = candidate;
  }
  return fastest;
}

bool Gains(double time_ms, const Candidate* over) {
  return over == nullptr || time_ms < (1 - kHysteresis) * over->micro.time_ms;
}

}  // namespace

std::vector<Configuration> LibraryChoices(std::span<const Candidate> measured,
                                          const PromiseRequest& request) {
  const Candidates allowed = AllowedCandidates(measured, request);
  const Candidate* const without = FastestWhole(allowed, request.n, 0, Whose::kNative);
  if (without == nullptr) return {};
  std::vector<MicroConfiguration> rows, wholes;
  for (const Candidate* candidate : allowed) {
    const MicroConfiguration& micro = candidate->micro;
    rows.push_back(micro);
    if (micro.micro_batch != request.n) continue;
    const bool serves = candidate->native ||
                        Gains(micro.time_ms, FastestWhole(allowed, request.n, micro.workspace_bytes,
                                                          Whose::kNative));
    if (serves) wholes.push_back(micro);
  }
  std::vector<Configuration> found =
      DesirableSet(wholes, request.n, request.step, request.limit_bytes);
  for (Configuration& one : DesirableSet(rows, request.n, request.step, request.limit_bytes)) {
    const Candidate* const whole =
        FastestWhole(allowed, request.n, one.WorkspaceBytes(), Whose::kAny);
    if (one.Pieces() > 1 && Gains(one.TimeMs(), whole)) found.push_back(std::move(one));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.WorkspaceBytes() < b.WorkspaceBytes();
  });
  std::vector<Configuration> choices = {{{{without->micro, 1}}}};
  for (Configuration& one : found) {
    if (one.TimeMs() >= choices.back().TimeMs()) continue;
    if (one.WorkspaceBytes() == choices.back().WorkspaceBytes()) choices.pop_back();
    choices.push_back(std::move(one));
  }
  assert(choices.front().WorkspaceBytes() == 0);
  return choices;
}

std::optional<Promise> MakeLibraryPromise(std::span<const Candidate> measured,
                                          const PromiseRequest& request) {
  const std::vector<Configuration> choices = LibraryChoices(measured, request);
  if (choices.empty()) return std::nullopt;
  return MakeLibraryPromiseOf(choices.back(), measured, request);
}

std::optional<Promise> MakeLibraryPromiseOf(const Configuration& plan,
                                            std::span<const Candidate> measured,
                                            const PromiseRequest& request) {
  const Candidates allowed = AllowedCandidates(measured, request);
  const Candidate* const without = FastestWhole(allowed, request.n, 0, Whose::kNative);
  if (without == nullptr || !Allows(measured, request, plan)) return std::nullopt;
  Promise promise;
  promise.undivided = without->micro;
  const auto fastest = [&](Whose whose) {
    return FastestWhole(allowed, request.n, request.limit_bytes, whose)->micro;
  };
  promise.baselines = {fastest(Whose::kNative), fastest(Whose::kAny)};
  promise.plan = plan;
  promise.reported = promise.undivided;
  promise.reported.time_ms = promise.plan.TimeMs();
  promise.limit_bytes = request.limit_bytes;
  promise.library_bytes = promise.plan.WorkspaceBytes();
  return promise;
}

Promise Whole(Promise promise) {
  promise.plan = {{{promise.undivided, 1}}};
  promise.library_bytes = 0;
  return promise;
}

Promise Alone(Promise promise) {
  assert(!promise.alone.runs.empty());
  promise.plan = promise.alone;
  promise.undivided = {};
  const size_t bytes = promise.plan.WorkspaceBytes();
  promise.library_bytes = bytes > promise.workspace_bytes ? bytes : 0;
  return promise;
}

}  // namespace ucudnn::planning
