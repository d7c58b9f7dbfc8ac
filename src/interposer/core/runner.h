// Runs a kernel's decision, or what Decision::otherwise names if that cannot run. No other code
// runs pieces, or chooses what replaces them.
#pragma once

#include "interposer/core/kernel_state.h"
#include "interposer/report/reporter.h"
#include "interposer/session/sessions.h"

namespace ucudnn::interposer {

// Runs one call without its pieces; each API implements it.
class OtherWays {
 public:
  virtual ~OtherWays() = default;
  // Runs Otherwise::kUndivided: the undivided engine that keeps the promise. `failed` says that the
  // schedule's undivided engine has just failed, so it is not tried again.
  virtual cudnnStatus_t Undivided(bool failed) = 0;
  // Runs Otherwise::kReal: the program's own call.
  virtual cudnnStatus_t Real() = 0;
  // Otherwise::kPieces: returns the error of a call that nothing else serves.
  virtual cudnnStatus_t Refused() = 0;
};

// One call on the session of its handle. `call` has the caller's workspace.
struct RunRequest {
  const cuda::Driver& driver;
  Reporter& reporter;
  const Sessions& sessions;
  Session& session;
  const ConvolutionProblem& problem;
  KernelState& state;  // must have a schedule
  const cudnn::ConvolutionCall& call;
};
cudnnStatus_t RunSchedule(const RunRequest& request, OtherWays& other);

// Runs what `state`'s decision names in place of pieces, or returns an error if it names nothing.
// Counts the run. REQUIRES: no piece was enqueued, or this run overwrites what pieces wrote.
cudnnStatus_t RunOtherwise(const KernelState& state, OtherWays& other,
                           bool undivided_failed = false);

}  // namespace ucudnn::interposer
