// How calls follow a plan file.
#include <algorithm>
#include <utility>

#include "cudnn/legacy_engines.h"
#include "interposer/interposer.h"
#include "planning/library_promise.h"

namespace ucudnn::interposer {

using planning::Candidate;
using planning::Promise;

namespace {

// What the file has no time of was measured by nobody.
void ForgetOrder(const Configuration& plan, MicroConfiguration& micro) {
  const auto same = [&](const Run& run) { return run.micro == micro; };
  if (std::none_of(plan.runs.begin(), plan.runs.end(), same)) micro.time_ms = kUnknownTime;
}

}  // namespace

void Interposer::NoteUnpinned(const Session& session, const ConvolutionProblem& problem,
                              bool legacy) {
  const auto instead = pinned_.Misses(DeviceOf(session).platform, problem, legacy);
  if (instead) Fallback(problem, "the plan file does not have it", *instead);
}

const PinnedKernels::Pinned* Interposer::FindPinned(const Kernel& kernel) {
  if (options_.plan.empty()) return nullptr;
  NoteUnpinned(*kernel.session, kernel.problem);
  // The library is asked outside captures only.
  const cudnnHandle_t handle = Capturing(*kernel.session) ? nullptr : kernel.handle;
  const PinnedKernels::Found found = pinned_.Find(
      DeviceOf(*kernel.session).platform, kernel.session->platform(), kernel.problem, handle);
  if (found.why) {
    Fallback(kernel.problem,
             found.unanswered ? "the plan file cannot be followed yet"
                              : "the plan file does not hold for it",
             *found.why);
    Network* const network = kernel.session->network();
    if (network != nullptr && !found.unanswered) network->Drop(kernel.problem);
  }
  return found.pinned;
}

std::optional<Promise> Interposer::PinnedPromise(const Kernel& kernel, std::optional<int> algorithm,
                                                 size_t limit_bytes,
                                                 const std::optional<Promise>& told) {
  if (options_.mode != Mode::kOn) return std::nullopt;
  const ConvolutionProblem& problem = kernel.problem;
  const PinnedKernels::Pinned* const pinned = FindPinned(kernel);
  if (pinned == nullptr) return std::nullopt;
  const std::vector<Candidate>& candidates = pinned->candidates;
  limit_bytes = std::min(limit_bytes, pinned->limit_bytes);
  planning::PromiseRequest request =
      algorithm ? LibraryRequest(problem, candidates, *algorithm, limit_bytes)
                : RequestFor(problem, limit_bytes);
  const bool library = kernel.session->network() != nullptr;
  // An algorithm that was told to be less deterministic than it is may run pieces that are.
  if (told && !told->reported.deterministic) request.deterministic = options_.deterministic;
  if (!algorithm) request.chosen = pinned->lead;
  if (!algorithm && library) request.deterministic |= pinned->plan.Deterministic();
  std::optional<Promise> promise =
      library ? planning::MakeLibraryPromiseOf(pinned->plan, candidates, request)
              : planning::MakePromiseOf(pinned->plan, candidates, request);
  if (!promise) return std::nullopt;
  promise->pinned = true;
  if (library) {
    const MicroConfiguration& largest = pinned->plan.Largest();
    if (!algorithm) promise->reported.engine = largest.engine;
    promise->reported.deterministic &= pinned->plan.Deterministic();
  }
  ForgetOrder(pinned->plan, promise->undivided);
  ForgetOrder(pinned->plan, promise->fastest_undivided);
  return promise;
}

bool Interposer::PromisePinned(const Kernel& kernel, int algorithm, Promise& promise) {
  const PinnedKernels::Pinned& pinned = *FindPinned(kernel);
  planning::PromiseRequest request = RequestFor(kernel.problem, promise.limit_bytes);
  // What the library brings is for plans only.
  if (kernel.session->network() != nullptr) request.limit_bytes = 0;
  if (!MakeKeepableAlone(kernel.problem.operation, algorithm, pinned.candidates, request,
                         promise)) {
    return false;
  }
  for (Run& run : promise.alone.runs) ForgetOrder(pinned.plan, run.micro);
  if (promise.limit_bytes == kNoLimit) promise.limit_bytes = promise.workspace_bytes;
  const bool brought = promise.library_bytes > 0;
  promises_.Add({kernel.session->platform(), algorithm, kernel.problem},
                brought ? planning::Whole(promise) : promise);
  return true;
}

std::optional<Interposer::Answer> Interposer::PinnedAnswer(const Kernel& kernel,
                                                           size_t limit_bytes) {
  std::optional<Promise> promise =
      PinnedPromise(kernel, std::nullopt, MeasuredLimit(kernel, limit_bytes));
  if (!promise) return std::nullopt;
  const auto number = [](const std::string& engine) {
    return cudnn::ParseLegacyEngine(engine)->algorithm;
  };
  if (!PromisePinned(kernel, number(promise->reported.engine), *promise)) {
    // No less exact than the plan is what takes its place; what is told must not be more exact.
    const int whole = number(promise->undivided.engine);
    const bool same =
        cudnn::LegacyNumericClass(kernel.problem.operation, whole) == FindPinned(kernel)->lead;
    promise->reported.engine = promise->undivided.engine;
    if (!same || !PromisePinned(kernel, whole, *promise)) return std::nullopt;
  }
  const MathType math = kernel.problem.math;
  Answer answer = {PerformanceOf(promise->reported, math)};
  for (const Candidate& candidate : FindPinned(kernel)->candidates) {
    MicroConfiguration micro = candidate.micro;
    const bool serves = micro.micro_batch == kernel.problem.n &&
                        micro.workspace_bytes <= limit_bytes &&
                        (micro.deterministic || !options_.deterministic);
    if (!serves || micro.engine == promise->reported.engine) continue;
    micro.time_ms = kUnknownTime;
    answer.push_back(PerformanceOf(micro, math));
  }
  return answer;
}

}  // namespace ucudnn::interposer
