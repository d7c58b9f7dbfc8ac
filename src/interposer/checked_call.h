// UCUDNN_CHECK=1: a planned call compared with the undivided one on the caller's own data, every
// time. A debugging mode: allocates, copies to the host and waits for the stream. Not during
// capture. Any thread, as the call itself.
#pragma once

#include "convolution/problem.h"
#include "cuda/driver.h"
#include "cudnn/legacy_call.h"
#include "execution/planned_convolution.h"
#include "planning/promise.h"
#include "tuning/verify.h"

namespace ucudnn::interposer {

struct CheckedCall {
  // True: the caller's output holds the undivided result, whatever the plan did. False: it is as it
  // was, and the call has yet to be run (nothing to compare with, no memory, the undivided engine
  // failed).
  bool done = false;
  bool piece_failed = false;  // the plan did not get to its end
  // Of the plan. Not compared: why.
  tuning::Verification verification;
};

// The plan runs first, into scratch memory of our own between guards that starts as a copy of the
// caller's output (beta, z in place and gaps mean the same there), then the undivided algorithm
// into the caller's output: nothing that a plan does reaches the caller's data but through the
// workspace. Both stay inside the caller's workspace. `numeric` is the coarsest class among the
// plan and the undivided engine; the tolerance is tuning::DataTolerance's, taken from the undivided
// result. NaN and infinity agree with each other: they are the caller's; an engine that spreads
// them further than the other does (Winograd, FFT) is reported all the same. `stream` is the
// handle's, `context` its own (null: the current one).
CheckedCall RunChecked(const cuda::Driver& driver, CUcontext context, CUstream stream,
                       const execution::PlannedConvolution& plan, const ConvolutionProblem& problem,
                       planning::NumericClass numeric, const cudnn::LegacyCall& call) noexcept;

}  // namespace ucudnn::interposer
