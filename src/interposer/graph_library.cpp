// Execution plans under one workspace budget for all kernels: each is a kernel of its own in the
// network. It answers 0, and its pieces run in the library's workspace.
#include <algorithm>

#include "cuda/resources.h"
#include "interposer/graph_interposer.h"
#include "interposer/interposer.h"
#include "interposer/met_plan.h"
#include "planning/library_promise.h"

namespace ucudnn::interposer {

using planning::Candidate;
using planning::Promise;

void GraphInterposer::Learn(cudnnHandle_t handle, const GraphDecision& decision) {
  const bool learning = decision.network->learning();
  if (!learning && !decision.network->waiting()) return;
  try {
    Session* const session = i_.SessionOf(handle);
    if (session == nullptr || session->network() != decision.network) return;
    if (decision.network->waiting()) i_.SettleNow(*session);
    if (learning) i_.Learn({decision.own->plan.problem, 0, decision.first}, *session, handle);
  } catch (...) {
    // Out of memory where a handle is met for the first time.
  }
}

void GraphInterposer::FindShare(Met& met, const GraphDecision& decision) const {
  const cuda::ContextScope scope(*i_.driver_, met.session->context());
  const auto owner = OwnerOf(*i_.driver_, *met.session, met.handle);
  if (!owner) return;
  const Network::Share share =
      decision.network->ShareOf({met.problem(), 0, decision.first}, *owner);
  met.library.kernel = share.kernel;
  met.share_bytes = share.bytes;
}

std::vector<Candidate> GraphInterposer::LibraryCandidates(Met& met, const Template& other) {
  const planning::PromiseRequest request =
      i_.RequestFor(met.problem(), i_.LibraryLimit(*met.session->network()));
  const auto is_whole = [&](const Candidate& candidate) {
    return candidate.micro.micro_batch == met.problem().n;
  };
  std::vector<Candidate> found = Candidates(met, met.own, request);
  // The plan's own engine cannot do without, whatever a store says.
  std::erase_if(found, [&](const Candidate& candidate) {
    return is_whole(candidate) && candidate.micro.workspace_bytes < met.need_bytes;
  });
  for (Candidate& candidate : Candidates(met, other, request)) {
    if (!is_whole(candidate)) continue;
    candidate.micro.workspace_bytes = 0;
    found.push_back(std::move(candidate));
  }
  return found;
}

std::vector<Configuration> GraphInterposer::LibraryChoices(const GraphDecision& decision,
                                                           Session& session, cudnnHandle_t handle,
                                                           bool may_measure) {
  // Another thread may capture, in a mode that forbids us to build plans.
  const cuda::RelaxedCaptureScope relaxed(*i_.driver_);
  Met met;
  met.handle = handle;
  met.session = &session;
  met.own = decision.own;
  met.need_bytes = decision.need_bytes;
  met.may_measure = may_measure;
  met.again = true;
  return planning::LibraryChoices(
      LibraryCandidates(met, decision.other),
      i_.RequestFor(met.problem(), i_.LibraryLimit(*met.session->network())));
}

Promise GraphInterposer::PromiseInLibrary(Met& met, const Template& other) {
  const size_t limit = std::min(met.share_bytes, i_.LibraryLimit(*met.session->network()));
  std::optional<Promise> promise = planning::MakeLibraryPromise(
      LibraryCandidates(met, other), i_.RequestFor(met.problem(), limit));
  if (promise) return std::move(*promise);
  // Unmeasured, it still runs.
  promise.emplace();
  promise->undivided = {other->plan.engine, met.problem().n, kUnknownTime, 0, other->deterministic};
  promise->plan = {{{promise->undivided, 1}}};
  promise->limit_bytes = limit;
  return std::move(*promise);
}

}  // namespace ucudnn::interposer
