#include "interposer/core/runner.h"

#include <cassert>

#include "interposer/budget/owned_workspace.h"
#include "interposer/core/checked_call.h"

namespace ucudnn::interposer {
namespace {

using execution::Outcome;
using planning::Cause;

void NoteFailure(const RunRequest& request) {
  *request.state.failed = true;
  const bool pieces_only = request.state.decision.otherwise == planning::Otherwise::kPieces;
  request.process.reporter.Fallback(request.problem,
                                    pieces_only ? Cause::kPieceFailedAlone : Cause::kPieceFailed);
}

// Runs the call under UCUDNN_CHECK. Returns false where it has yet to be run.
bool RanChecked(const RunRequest& request, const cudnn::ConvolutionCall& call) {
  KernelState& state = request.state;
  const CheckedCall checked =
      RunChecked(*request.process.driver, {request.session.context(), request.session.stream(),
                                           *state.runnable, request.problem, *state.checked, call});
  const tuning::Verdict verdict = checked.verification.verdict;
  if (verdict == tuning::Verdict::kDifferent || verdict == tuning::Verdict::kTrespassed) {
    *state.failed = true;
    request.process.reporter.Fallback(request.problem, Cause::kCheckFailed,
                                      checked.verification.message);
  }
  if (verdict == tuning::Verdict::kEqual) state.ran = true;
  if (checked.piece_failed) NoteFailure(request);
  if (checked.done && verdict != tuning::Verdict::kEqual) state.CountUndivided();
  return checked.done;
}

}  // namespace

cudnnStatus_t RunSchedule(const RunRequest& request, OtherWays& other) {
  KernelState& state = request.state;
  assert(state.runnable != nullptr && state.failed != nullptr);
  const execution::Runnable& runnable = *state.runnable;
  if (!runnable.has_pieces()) return other.Undivided();
  const auto undivided = [&] {
    state.CountUndivided();
    return other.Undivided();
  };
  const bool capturing = request.process.sessions.Capturing(request.session);
  const bool pieces_only = state.decision.otherwise == planning::Otherwise::kPieces;
  // What never ran outside a capture may load modules or allocate, which breaks the capture.
  if (capturing && !state.ran.load(std::memory_order_relaxed)) return undivided();
  if (*state.failed && !pieces_only) return undivided();
  const OwnedWorkspace owned(*request.process.driver, request.session, request.call.handle,
                             state.owned, capturing);
  cudnn::ConvolutionCall call = request.call;
  if (state.owned.bytes > 0) {
    if (owned.data() == nullptr) return undivided();
    call.workspace = owned.data();
    call.workspace_bytes = state.owned.bytes;
  }
  if (!runnable.Suits(call.workspace) && !pieces_only) return undivided();
  if (state.checked && !capturing && !*state.failed) {
    if (RanChecked(request, call)) return CUDNN_STATUS_SUCCESS;
    if (*state.failed && !pieces_only) return undivided();
  }
  Outcome outcome;
  const cudnnStatus_t status = runnable.Run(call, outcome);
  switch (outcome) {
    case Outcome::kPlanned:
      if (!capturing) state.ran.store(true, std::memory_order_relaxed);
      return status;
    case Outcome::kFailed:
      NoteFailure(request);
      return status;
    case Outcome::kUndivided:
      state.CountUndivided();
      // No piece was enqueued, or the undivided engine overwrites what pieces wrote, so the
      // program's own call is still a correct fallback.
      if (status != CUDNN_STATUS_SUCCESS) return other.Real();
      NoteFailure(request);
      return status;
    case Outcome::kNotAttempted:
      if (pieces_only && status != CUDNN_STATUS_SUCCESS) {
        NoteFailure(request);
        return status;
      }
      request.process.reporter.Fallback(request.problem, Cause::kPieceFailedAsAsked);
      state.CountUndivided();
      return other.Real();
  }
  return status;
}

}  // namespace ucudnn::interposer
