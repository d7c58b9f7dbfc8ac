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

const Candidate* Find(const Candidates& candidates, const std::string& engine) {
  for (const Candidate* candidate : candidates) {
    if (candidate->micro.engine == engine) return candidate;
  }
  return nullptr;
}

NumericClass ClassOf(const Candidates& candidates, const std::string& engine) {
  const Candidate* const candidate = Find(candidates, engine);
  return candidate != nullptr ? candidate->numeric : NumericClass::kDirect;
}

// Every piece is at least as exact and as deterministic as the largest one, whose engine is
// reported.
bool LargestIsLeast(const Configuration& plan, const Candidates& allowed) {
  const NumericClass reported = ClassOf(allowed, plan.Largest().engine);
  return std::all_of(plan.runs.begin(), plan.runs.end(), [&](const Run& run) {
    return IsExactAs(ClassOf(allowed, run.micro.engine), reported) &&
           (run.micro.deterministic || !plan.Largest().deterministic);
  });
}

// WR over direct engines and one other class at a time, so that a plan never mixes FFT with
// Winograd; over all engines and over deterministic ones, so that one non-deterministic remainder
// does not cost a deterministic plan.
std::optional<Configuration> BestDivision(const Candidates& allowed,
                                          const PromiseRequest& request) {
  std::optional<Configuration> best;
  for (const NumericClass lead :
       {NumericClass::kDirect, NumericClass::kFft, NumericClass::kWinograd}) {
    for (const bool deterministic : {false, true}) {
      std::vector<MicroConfiguration> usable;
      bool has_lead = false;
      for (const Candidate* candidate : allowed) {
        if (!IsExactAs(candidate->numeric, lead)) continue;
        if (deterministic && !candidate->micro.deterministic) continue;
        has_lead |= candidate->numeric == lead;
        usable.push_back(candidate->micro);
      }
      if (!has_lead) continue;
      std::optional<Configuration> plan =
          OptimizeWorkspaceReuse(usable, request.n, request.step, request.limit_bytes);
      if (!plan || !LargestIsLeast(*plan, allowed)) continue;
      if (!best || plan->TimeMs() < best->TimeMs()) best = std::move(plan);
    }
  }
  return best;
}

const Candidate* Fastest(const Candidates& allowed, int n, bool native) {
  const Candidate* fastest = nullptr;
  for (const Candidate* candidate : allowed) {
    if (candidate->micro.micro_batch != n || candidate->native != native) continue;
    if (fastest == nullptr || candidate->micro.time_ms < fastest->micro.time_ms) {
      fastest = candidate;
    }
  }
  return fastest;
}

// What takes the place of a plan that uses `plan_bytes`: the fastest undivided engine inside those
// bytes, else the one that needs the fewest beyond them. Null when `serves` accepts none.
template <typename Serves>
const Candidate* UndividedFor(const Candidates& allowed, int n, size_t plan_bytes, Serves serves) {
  const auto better = [&](const Candidate& a, const Candidate& b) {
    const bool a_inside = a.micro.workspace_bytes <= plan_bytes;
    const bool b_inside = b.micro.workspace_bytes <= plan_bytes;
    if (a_inside != b_inside) return a_inside;
    if (a_inside) return a.micro.time_ms < b.micro.time_ms;
    return a.micro.workspace_bytes < b.micro.workspace_bytes;
  };
  const Candidate* best = nullptr;
  for (const Candidate* candidate : allowed) {
    if (candidate->micro.micro_batch != n || !candidate->native || !serves(*candidate)) continue;
    if (best == nullptr || better(*candidate, *best)) best = candidate;
  }
  return best;
}

// The promise of `plan`: its own workspace, or a little more where only that lets an undivided
// engine keep it. A deterministic plan that only a non-deterministic engine can replace is no
// deterministic promise. None when no undivided engine within the limit is as exact as the plan.
std::optional<Promise> PromiseOf(const Configuration& plan, const Candidates& allowed,
                                 const PromiseRequest& request) {
  const MicroConfiguration& largest = plan.Largest();
  const Candidate* const lead = Find(allowed, largest.engine);
  const size_t plan_bytes = plan.WorkspaceBytes();
  bool deterministic = plan.Deterministic();
  const auto serves = [&](const Candidate& candidate) {
    if (deterministic && !candidate.micro.deterministic) return false;
    // What is reported must not be more exact than the plan.
    return lead->native ? IsExactAs(candidate.numeric, lead->numeric)
                        : candidate.numeric == lead->numeric;
  };
  const Candidate* undivided = UndividedFor(allowed, request.n, plan_bytes, serves);
  if (undivided == nullptr && deterministic) {
    deterministic = false;
    undivided = UndividedFor(allowed, request.n, plan_bytes, serves);
  }
  if (undivided == nullptr) return std::nullopt;
  Promise promise;
  promise.workspace_bytes = std::max(plan_bytes, undivided->micro.workspace_bytes);
  promise.reported = {lead->native ? largest.engine : undivided->micro.engine, request.n,
                      plan.TimeMs(), promise.workspace_bytes, deterministic};
  promise.plan = plan;
  promise.undivided = undivided->micro;
  promise.fastest_undivided = Fastest(allowed, request.n, true)->micro;
  promise.limit_bytes = request.limit_bytes;
  return promise;
}

}  // namespace

std::vector<const Candidate*> AllowedCandidates(std::span<const Candidate> measured,
                                                const PromiseRequest& request) {
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

PromiseRequest RequestFor(const ConvolutionProblem& problem, size_t limit_bytes,
                          bool deterministic) {
  PromiseRequest request;
  request.n = problem.n;
  request.step = LegalStep(problem);
  request.limit_bytes = limit_bytes;
  request.deterministic = deterministic;
  return request;
}

std::optional<Promise> MakePromise(std::span<const Candidate> measured,
                                   const PromiseRequest& request) {
  Candidates allowed = AllowedCandidates(measured, request);
  const Candidate* const native = Fastest(allowed, request.n, true);
  if (native == nullptr) return std::nullopt;
  // First with all engines, then, should nothing of the caller's API keep such a promise, with its
  // own.
  for (;;) {
    // A division must be worth its while against the best undivided engine, and that, where the
    // caller's API does not have it, against the best that it has.
    const Candidate* fastest = native;
    if (const Candidate* const foreign = Fastest(allowed, request.n, false);
        foreign != nullptr && foreign->micro.time_ms < (1 - kHysteresis) * native->micro.time_ms) {
      fastest = foreign;
    }
    const std::optional<Configuration> division = BestDivision(allowed, request);
    if (division && division->Pieces() > 1 &&
        division->TimeMs() < (1 - kHysteresis) * fastest->micro.time_ms) {
      if (std::optional<Promise> promise = PromiseOf(*division, allowed, request)) return promise;
    }
    const Configuration whole = {{{fastest->micro, 1}}};
    if (std::optional<Promise> promise = PromiseOf(whole, allowed, request)) return promise;
    std::erase_if(allowed, [](const Candidate* candidate) { return !candidate->native; });
  }
}

bool Allows(std::span<const Candidate> measured, const PromiseRequest& request,
            const Configuration& plan) {
  const Candidates allowed = AllowedCandidates(measured, request);
  return std::all_of(plan.runs.begin(), plan.runs.end(), [&](const Run& run) {
    return std::any_of(allowed.begin(), allowed.end(), [&](const Candidate* candidate) {
      return candidate->micro.engine == run.micro.engine &&
             candidate->micro.micro_batch == run.micro.micro_batch;
    });
  });
}

std::optional<Promise> MakePromiseOf(const Configuration& plan, std::span<const Candidate> measured,
                                     const PromiseRequest& request) {
  const Candidates allowed = AllowedCandidates(measured, request);
  if (!Allows(measured, request, plan) || !LargestIsLeast(plan, allowed)) return std::nullopt;
  return PromiseOf(plan, allowed, request);
}

std::optional<Configuration> FastestDivision(std::span<const Candidate> measured,
                                             const PromiseRequest& request) {
  return BestDivision(AllowedCandidates(measured, request), request);
}

std::optional<MicroConfiguration> FastestUndivided(std::span<const Candidate> measured,
                                                   const PromiseRequest& request) {
  const Candidate* const fastest = Fastest(AllowedCandidates(measured, request), request.n, true);
  if (fastest == nullptr) return std::nullopt;
  return fastest->micro;
}

std::optional<Promise> PiecesOf(const std::string& engine, std::span<const Candidate> measured,
                                const PromiseRequest& request) {
  std::vector<MicroConfiguration> usable;
  for (const Candidate* candidate : AllowedCandidates(measured, request)) {
    if (candidate->micro.engine == engine) usable.push_back(candidate->micro);
  }
  std::optional<Configuration> plan =
      OptimizeWorkspaceReuse(usable, request.n, request.step, request.limit_bytes);
  if (!plan) return std::nullopt;
  Promise promise;
  promise.workspace_bytes = plan->WorkspaceBytes();
  promise.reported = {engine, request.n, plan->TimeMs(), promise.workspace_bytes,
                      plan->Deterministic()};
  promise.plan = std::move(*plan);
  promise.limit_bytes = request.limit_bytes;
  return promise;
}

}  // namespace ucudnn::planning
