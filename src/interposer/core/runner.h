// Runs a kernel's decision, or what Decision::fallback names if the decision cannot run. No other
// code runs the pieces of the program's calls or chooses what replaces the pieces, except
// native_graphs.cpp, which turns plans into native CUDA graphs.
#pragma once

#include "interposer/core/kernel_state.h"
#include "interposer/report/reporter.h"
#include "interposer/session/session.h"

namespace ucudnn::interposer {

// Runs one call without its pieces; each API implements it.
class CallFallbacks {
 public:
  virtual ~CallFallbacks() = default;
  // For FallbackKind::kUndivided: runs the undivided engine that keeps the promise. `failed` says
  // that the schedule's undivided engine has just failed, so it is not tried again.
  virtual cudnnStatus_t Undivided(bool failed) = 0;
  // For FallbackKind::kReal: runs the program's own call.
  virtual cudnnStatus_t Real() = 0;
  // For FallbackKind::kPieces: returns the error of a call that nothing can run.
  virtual cudnnStatus_t Refused() = 0;
};

// One call, with the session of its handle. `call` has the workspace that the caller passed.
struct RunRequest {
  Reporter& reporter;
  Session& session;
  const ConvolutionProblem& problem;
  KernelState& state;  // must have a schedule
  const cudnn::ConvolutionCall& call;
};
cudnnStatus_t RunSchedule(const RunRequest& request, CallFallbacks& other);

// Calls the function of `other` for the decision's FallbackKind, and counts the call as undivided.
// `undivided_failed` is passed to CallFallbacks::Undivided. REQUIRES: no piece was enqueued, or
// this call overwrites what the pieces wrote.
cudnnStatus_t RunFallback(const KernelState& state, CallFallbacks& other,
                          bool undivided_failed = false);

}  // namespace ucudnn::interposer
