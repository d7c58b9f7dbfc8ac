// How execution plans follow a plan file: in its micro-batches, with their own engine and knobs;
// the first plan of a heuristics list with the engines that the file names.
#include <algorithm>

#include "convolution/partial_sums.h"
#include "cudnn/engine_name.h"
#include "interposer/graph_interposer.h"
#include "interposer/interposer.h"
#include "interposer/met_plan.h"
#include "planning/library_promise.h"

namespace ucudnn::interposer {

using planning::PinnedKernel;
using planning::Promise;

const PinnedKernel* GraphInterposer::PinnedKernelOf(const Met& met) const {
  if (i_.options_.plan.empty() || i_.options_.mode != Mode::kOn) return nullptr;
  i_.NoteUnpinned(*met.session, met.problem(), false);
  const planning::PinnedPlan* const file = i_.pinned_.For(i_.DeviceOf(*met.session).platform);
  const int position = file == nullptr ? -1 : file->Find(met.problem(), false);
  return position < 0 ? nullptr : &file->kernels[position];
}

size_t GraphInterposer::PinnedLimit(const Met& met) const {
  if (const Network* const network = met.session->network()) {
    return std::min(met.share_bytes, i_.LibraryLimit(*network));
  }
  const planning::PinnedPlan* const file = i_.pinned_.For(i_.DeviceOf(*met.session).platform);
  return std::min({met.limit_bytes, file->limit_bytes.value_or(kNoLimit), met.need_bytes});
}

GraphInterposer::Templates GraphInterposer::EnginesOfFile(const Met& met,
                                                          const Configuration& plan) const {
  Templates engines;
  for (const Run& run : plan.runs) {
    const std::string& name = run.micro.engine;
    if (name == met.own->plan.engine) {
      engines.push_back(met.own);
      continue;
    }
    if (!met.first) return {};
    Template named = Serving(met, cudnn::Unfused(name));
    if (named == nullptr || cudnn::Unfused(named->plan.engine) != cudnn::Unfused(name)) return {};
    engines.push_back(std::move(named));
  }
  return engines;
}

Result<Configuration> GraphInterposer::Confirm(const Met& met, Configuration plan,
                                               const Templates& engines, bool as_said,
                                               size_t limit_bytes) const {
  const ConvolutionProblem& problem = met.problem();
  const int step = LegalStep(problem);
  for (size_t at = 0; at < plan.runs.size(); ++at) {
    Run& run = plan.runs[at];
    MicroConfiguration& micro = run.micro;
    const cudnn::GraphTemplate& engine = *engines[at];
    const std::string piece =
        engine.plan.engine + " for " + std::to_string(micro.micro_batch) + " images";
    const bool last = at + 1 == plan.runs.size() && run.count == 1;
    if (micro.micro_batch % step != 0 && !last) {
      return Status::Error(piece + ": pieces here have a multiple of " + std::to_string(step));
    }
    ConvolutionProblem part = problem;
    part.n = micro.micro_batch;
    cudnn::GraphEngines asked(i_.functions_, {met.handle, nullptr}, {&engine});
    auto prepared = asked.Prepare(part);
    if (!prepared.ok()) return Status::Error(piece + ": " + prepared.message());
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<cudnn::EngineChoice> choices, (*prepared)->Engines());
    MicroConfiguration needed = {engine.plan.engine, micro.micro_batch,
                                 as_said ? micro.time_ms : kUnknownTime, choices[0].workspace_bytes,
                                 engine.deterministic};
    if (IsPartial(problem, micro.micro_batch)) {
      const double time_ms = needed.time_ms;
      needed = AsPartial(problem, std::move(needed), 0);
      needed.time_ms = time_ms;
    }
    const size_t most = as_said ? std::min(micro.workspace_bytes, limit_bytes) : limit_bytes;
    if (needed.workspace_bytes > most) {
      return Status::Error(piece + " needs " + std::to_string(needed.workspace_bytes) +
                           " bytes of workspace, not " + std::to_string(most));
    }
    micro = std::move(needed);
  }
  return plan;
}

Result<GraphInterposer::Pinned> GraphInterposer::FindPinned(Met& met, const PinnedKernel& kernel) {
  const ConvolutionProblem& problem = met.problem();
  const size_t limit = PinnedLimit(met);
  const bool in_library = met.session->network() != nullptr;
  Pinned pinned;
  pinned.engines = EnginesOfFile(met, kernel.plan);
  const bool as_said = !pinned.engines.empty();
  Status why;
  if (as_said) {
    auto plan = Confirm(met, kernel.plan, pinned.engines, true, limit);
    if (plan.ok()) pinned.promise.plan = std::move(*plan);
    why = plan.status();
  }
  const bool named_own =
      std::all_of(kernel.plan.runs.begin(), kernel.plan.runs.end(),
                  [&](const Run& run) { return run.micro.engine == met.own->plan.engine; });
  if (named_own && !why.ok()) return why;
  const Configuration whole = {
      {{{met.own->plan.engine, problem.n, kUnknownTime, met.need_bytes, met.own->deterministic},
        1}}};
  if (pinned.promise.plan.runs.empty()) {
    pinned.engines.assign(kernel.plan.runs.size(), met.own);
    UCUDNN_ASSIGN_OR_RETURN(pinned.promise.plan,
                            Confirm(met, kernel.plan, pinned.engines, false, limit));
    pinned.reason = ", as the plan file says, with its own engine";
    if (pinned.promise.plan.Pieces() > 1 &&
        pinned.promise.plan.WorkspaceBytes() >= met.need_bytes) {
      pinned.promise.plan = whole;
      pinned.engines = {met.own};
      pinned.reason = ": the plan file's micro-batches need no less workspace with its own engine";
    }
  }
  Promise& promise = pinned.promise;
  promise.pinned = true;
  promise.limit_bytes = limit;
  const size_t bytes = promise.plan.WorkspaceBytes();
  if (promise.plan.Pieces() == 1 && !in_library) {
    // It runs in the plan's place, or is the plan.
    pinned.other = pinned.engines[0];
    promise.undivided = promise.plan.runs[0].micro;
    promise.workspace_bytes = bytes;
    return pinned;
  }
  // An undivided one inside the pieces' workspace keeps the promise, or in a little more.
  pinned.other = FindOther(met, nullptr, in_library ? 0 : bytes);
  if (pinned.other == nullptr && !in_library) pinned.other = FindOther(met, nullptr, limit);
  if (pinned.other == nullptr) return Status::Error("no engine as exact runs it undivided");
  promise.undivided = UndividedOf(met, pinned.other, in_library ? 0 : limit);
  if (in_library) {
    promise.library_bytes = bytes;
  } else {
    promise.workspace_bytes = std::max(bytes, promise.undivided.workspace_bytes);
  }
  return pinned;
}

bool GraphInterposer::FollowFile(Met& met, GraphDecision& decision, KernelRecord& record) {
  const PinnedKernel* const kernel = PinnedKernelOf(met);
  const bool in_library = met.session->network() != nullptr;
  // Of one budget it is known where the plan runs only when it runs.
  if (kernel == nullptr || (in_library && met.library.kernel < 0)) return false;
  const ConvolutionProblem& problem = met.problem();
  const auto fails = [&](const std::string& why) {
    i_.Fallback(problem, "the plan file does not hold for it", why);
    return false;
  };
  Result<Pinned> found = FindPinned(met, *kernel);
  if (!found.ok()) return fails(found.message());
  Promise& promise = found->promise;
  // What the application was told before holds.
  if (met.promised && promise.workspace_bytes > met.promised->workspace_bytes) {
    return fails("another workspace was promised before");
  }
  std::string why;
  const bool divides = promise.plan.Pieces() > 1;
  auto trust = tuning::Trust::Kind::kTrusted;
  if (divides || (in_library && found->engines[0] != met.own)) {
    trust = Compare(met, promise, found->Others(), why);
    if (trust == tuning::Trust::Kind::kWrong) promise = planning::Whole(std::move(promise));
  }
  // The plan itself where it keeps the promise.
  const bool substituted = in_library || found->other != met.own;
  cudnn::BackendDescriptor substitute;
  if (substituted) {
    auto built = BuildSubstitute(met, found->other, promise.workspace_bytes);
    if (!built.ok()) return fails(built.message());
    substitute = std::move(*built);
  }
  if (promise.plan.Pieces() > 1 || promise.library_bytes > 0) {
    if (const Status made = MakePieces(met, promise, found->Others(), decision); !made.ok()) {
      return fails(made.message());
    }
    decision.engines = found->engines;
  }
  if (substituted) {
    decision.promise = {problem,
                        i_.DeviceOf(*met.session).platform,
                        met.own->plan.engine,
                        met.limit_bytes,
                        promise.workspace_bytes,
                        promise.undivided.engine,
                        met.first};
    decision.substitute = std::move(substitute);
    decision.promised_bytes = promise.workspace_bytes;
    decision.network = met.session->network();
    decision.other = found->other;
    decision.library = met.library;
    decision.library.bytes = promise.library_bytes;
  }
  decision.numeric = ScopeOf(met.own, found->Others()).numeric;
  decision.barred = decision.plan != nullptr && trust == tuning::Trust::Kind::kUnknown;
  met.compared &= !decision.barred;
  record.limit_bytes = promise.limit_bytes;
  record.workspace_bytes = decision.promised_bytes;
  record.library_bytes = decision.barred ? 0 : promise.library_bytes;
  record.plan = decision.barred ? Configuration{{{promise.undivided, 1}}} : promise.plan;
  record.reason =
      decision.barred ? "undivided, because the plan was not yet compared with it: " + why
      : divides && promise.plan.Pieces() == 1
          ? "undivided, because the plan file's micro-batches were found wrong"
          : (divides ? "divided into " + std::to_string(promise.plan.Pieces()) + " micro-batches"
                     : std::string("undivided")) +
                found->reason;
  return true;
}

}  // namespace ucudnn::interposer
