// Runs what was decided for a kernel, and what Decision::otherwise names where that cannot run. No
// other code runs pieces.
#pragma once

#include "interposer/core/kernel_state.h"
#include "interposer/process.h"

namespace ucudnn::interposer {

// Runs one call without its pieces; each API has its own.
class OtherWays {
 public:
  virtual ~OtherWays() = default;
  // Runs the undivided engine that keeps the promise.
  virtual cudnnStatus_t Undivided() = 0;
  // Runs the program's own call. Requires that nothing was enqueued, or that all of it is
  // overwritten.
  virtual cudnnStatus_t Real() = 0;
};

// One call on the session of its handle. `call` has the workspace that the caller passes.
struct RunRequest {
  Process& process;
  Session& session;
  const ConvolutionProblem& problem;
  KernelState& state;  // has a runnable
  const cudnn::ConvolutionCall& call;
};
cudnnStatus_t RunSchedule(const RunRequest& request, OtherWays& other);

}  // namespace ucudnn::interposer
