#include "planning/promise.h"

#include <algorithm>
#include <cmath>

#include "planning/workspace_reuse.h"

namespace ucudnn::planning {
namespace {

using Candidates = std::vector<const Candidate*>;

bool IsExactAs(NumericClass engine, NumericClass asked) {
  return engine == NumericClass::kDirect || engine == asked;
}

// Candidates the request allows at all.
Candidates Allowed(std::span<const Candidate> measured, const PromiseRequest& request) {
  Candidates allowed;
  for (const Candidate& candidate : measured) {
    // A store written by others may hold anything; such a time compares with nothing.
    if (!std::isfinite(candidate.micro.time_ms) || candidate.micro.time_ms < 0) continue;
    if (candidate.micro.workspace_bytes > request.limit_bytes) continue;
    if (request.deterministic && !candidate.micro.deterministic) continue;
    if (request.chosen && !IsExactAs(candidate.numeric, *request.chosen)) continue;
    allowed.push_back(&candidate);
  }
  return allowed;
}

NumericClass ClassOf(const Candidates& candidates, const std::string& engine) {
  for (const Candidate* candidate : candidates) {
    if (candidate->micro.engine == engine) return candidate->numeric;
  }
  return NumericClass::kDirect;
}

// Every piece is at least as exact as the largest one, whose engine is reported.
bool LargestIsLeastExact(const Configuration& plan, const Candidates& allowed) {
  const NumericClass reported = ClassOf(allowed, plan.Largest().engine);
  return std::all_of(plan.runs.begin(), plan.runs.end(), [&](const Run& run) {
    return IsExactAs(ClassOf(allowed, run.micro.engine), reported);
  });
}

// WR over direct engines and one other class at a time, so that a plan never mixes FFT with
// Winograd.
std::optional<Configuration> BestDivision(const Candidates& allowed,
                                          const PromiseRequest& request) {
  std::optional<Configuration> best;
  for (const NumericClass lead :
       {NumericClass::kDirect, NumericClass::kFft, NumericClass::kWinograd}) {
    std::vector<MicroConfiguration> usable;
    bool has_lead = false;
    for (const Candidate* candidate : allowed) {
      if (!IsExactAs(candidate->numeric, lead)) continue;
      has_lead |= candidate->numeric == lead;
      usable.push_back(candidate->micro);
    }
    if (!has_lead) continue;
    std::optional<Configuration> plan =
        OptimizeWorkspaceReuse(usable, request.n, request.step, request.limit_bytes);
    if (!plan || !LargestIsLeastExact(*plan, allowed)) continue;
    if (!best || plan->TimeMs() < best->TimeMs()) best = std::move(plan);
  }
  return best;
}

// The promise of `plan`: its own workspace, or a little more where only that lets an undivided
// engine keep it. None when no undivided engine within the limit is as deterministic and exact as
// the plan.
std::optional<Promise> PromiseOf(const Configuration& plan, const Candidates& allowed,
                                 const PromiseRequest& request) {
  const NumericClass reported_class = ClassOf(allowed, plan.Largest().engine);
  const bool deterministic = plan.Deterministic();
  const size_t plan_bytes = plan.WorkspaceBytes();
  const Candidate* undivided = nullptr;
  // Among those inside the plan's own workspace the fastest; outside it the smallest.
  const auto better = [&](const Candidate& a, const Candidate& b) {
    const bool a_inside = a.micro.workspace_bytes <= plan_bytes;
    const bool b_inside = b.micro.workspace_bytes <= plan_bytes;
    if (a_inside != b_inside) return a_inside;
    if (a_inside) return a.micro.time_ms < b.micro.time_ms;
    return a.micro.workspace_bytes < b.micro.workspace_bytes;
  };
  for (const Candidate* candidate : allowed) {
    if (candidate->micro.micro_batch != request.n) continue;
    if (deterministic && !candidate->micro.deterministic) continue;
    if (!IsExactAs(candidate->numeric, reported_class)) continue;
    if (undivided == nullptr || better(*candidate, *undivided)) undivided = candidate;
  }
  if (undivided == nullptr) return std::nullopt;
  Promise promise;
  promise.workspace_bytes = std::max(plan_bytes, undivided->micro.workspace_bytes);
  promise.reported = {plan.Largest().engine, request.n, plan.TimeMs(), promise.workspace_bytes,
                      deterministic};
  promise.plan = plan;
  promise.undivided = undivided->micro;
  return promise;
}

}  // namespace

std::optional<Promise> MakePromise(std::span<const Candidate> measured,
                                   const PromiseRequest& request) {
  const Candidates allowed = Allowed(measured, request);
  const Candidate* fastest = nullptr;
  for (const Candidate* candidate : allowed) {
    if (candidate->micro.micro_batch != request.n) continue;
    if (fastest == nullptr || candidate->micro.time_ms < fastest->micro.time_ms) {
      fastest = candidate;
    }
  }
  if (fastest == nullptr) return std::nullopt;
  if (request.may_divide) {
    const std::optional<Configuration> division = BestDivision(allowed, request);
    if (division && division->Pieces() > 1 &&
        division->TimeMs() < (1 - kHysteresis) * fastest->micro.time_ms) {
      if (std::optional<Promise> promise = PromiseOf(*division, allowed, request)) {
        promise->fastest_undivided = fastest->micro;
        return promise;
      }
    }
  }
  std::optional<Promise> promise =
      PromiseOf(Configuration{{{fastest->micro, 1}}}, allowed, request);
  promise->fastest_undivided = fastest->micro;
  return promise;
}

}  // namespace ucudnn::planning
