#include "interposer/core/runner.h"

#include <cassert>

#include "interposer/budget/owned_workspace.h"
#include "interposer/core/checked_call.h"
#include "planning/decision/unplanned_call.h"

namespace ucudnn::interposer {
namespace {

using execution::Outcome;
using planning::FallbackCause;
using planning::FallbackKind;

// Returns whether neither an undivided engine nor the program's own call can replace the pieces.
bool IsAlone(const planning::Decision& decision) {
  return decision.fallback == FallbackKind::kPieces;
}

void NoteFailure(const RunRequest& request) {
  *request.state.failed = true;
  request.reporter.Fallback(request.problem, IsAlone(request.state.decision)
                                                 ? FallbackCause::kPieceFailedAlone
                                                 : FallbackCause::kPieceFailed);
}

// Runs the call under UCUDNN_CHECK. Returns false if the call must still be run.
bool RanChecked(const RunRequest& request, const cudnn::ConvolutionCall& call) {
  KernelState& state = request.state;
  const CheckedCall checked = RunChecked(request.session.driver(),
                                         {request.session.context(), request.session.stream(),
                                          *state.schedule, request.problem, *state.checked, call});
  const tuning::ComparisonResult result = checked.verification.result;
  if (result == tuning::ComparisonResult::kDifferent ||
      result == tuning::ComparisonResult::kTrespassed) {
    *state.failed = true;
    request.reporter.Fallback(request.problem, FallbackCause::kCheckFailed,
                              checked.verification.message);
  }
  if (result == tuning::ComparisonResult::kEqual) state.ran = true;
  if (checked.piece_failed) NoteFailure(request);
  if (checked.done && result != tuning::ComparisonResult::kEqual) state.CountUndivided();
  return checked.done;
}

}  // namespace

cudnnStatus_t RunFallback(const KernelState& state, CallFallbacks& other, bool undivided_failed) {
  state.CountUndivided();
  switch (state.decision.fallback) {
    case FallbackKind::kReal:
      return other.Real();
    case FallbackKind::kUndivided:
      return other.Undivided(undivided_failed);
    case FallbackKind::kPieces:
      return other.Refused();
  }
  return CUDNN_STATUS_INTERNAL_ERROR;
}

cudnnStatus_t RunSchedule(const RunRequest& request, CallFallbacks& other) {
  KernelState& state = request.state;
  assert(state.schedule != nullptr && state.failed != nullptr);
  const execution::Schedule& schedule = *state.schedule;
  if (!schedule.has_pieces()) return RunFallback(state, other);
  const bool capturing = request.session.Capturing();
  planning::Obstacles obstacles;
  obstacles.first_in_capture = capturing && !state.ran.load(std::memory_order_relaxed);
  obstacles.failed = *state.failed;
  if (!RunsPieces(state.decision, obstacles)) return RunFallback(state, other);
  const OwnedWorkspace owned(request.session, request.call.handle, state.owned, capturing);
  cudnn::ConvolutionCall call = request.call;
  if (state.owned.bytes > 0) {
    obstacles.no_workspace = owned.data() == nullptr;
    call.workspace = owned.data();
    call.workspace_bytes = state.owned.bytes;
  }
  obstacles.misaligned = !schedule.Suits(call.workspace);
  if (!RunsPieces(state.decision, obstacles)) return RunFallback(state, other);
  if (state.checked && !capturing && !*state.failed) {
    if (RanChecked(request, call)) return CUDNN_STATUS_SUCCESS;
    obstacles.failed = *state.failed;
    if (!RunsPieces(state.decision, obstacles)) return RunFallback(state, other);
  }
  Outcome outcome;
  const cudnnStatus_t status = schedule.Run(call, outcome);
  switch (outcome) {
    case Outcome::kPlanned:
      if (!capturing) state.ran.store(true, std::memory_order_relaxed);
      return status;
    case Outcome::kFailed:
      NoteFailure(request);
      return status;
    case Outcome::kUndivided:
      // Either no piece was enqueued or the undivided engine overwrites what pieces wrote. So the
      // program's own call is still a correct fallback if the undivided engine fails.
      if (status != CUDNN_STATUS_SUCCESS) return RunFallback(state, other, true);
      state.CountUndivided();
      NoteFailure(request);
      return status;
    case Outcome::kNotAttempted:
      if (IsAlone(state.decision) && status != CUDNN_STATUS_SUCCESS) {
        NoteFailure(request);
        return status;
      }
      request.reporter.Fallback(request.problem, FallbackCause::kPieceFailedAsAsked);
      return RunFallback(state, other, true);
  }
  return status;
}

}  // namespace ucudnn::interposer
