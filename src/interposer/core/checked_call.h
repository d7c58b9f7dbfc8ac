// UCUDNN_CHECK=1: compares the result of each planned call with the undivided engine's result, on
// the caller's own data. This debugging mode allocates, copies to the host and waits for the
// stream, so it must not run inside a capture. Called on the thread of the call.
#pragma once

#include "convolution/numeric_class.h"
#include "convolution/problem.h"
#include "cuda/driver.h"
#include "cudnn/convolution_call.h"
#include "execution/schedule.h"
#include "tuning/verify.h"

namespace ucudnn::interposer {

struct CheckedCall {
  // True: the undivided engine has written its result to the caller's output. False: the output was
  // not touched, and the call must still be run. The reason is that there is nothing to compare
  // with, memory is out, or the undivided engine failed.
  bool done = false;
  bool piece_failed = false;  // the plan did not run completely
  // The result of the comparison or, if nothing was compared, why not.
  tuning::Verification verification;
};

// One call to check. `numeric` is the coarsest NumericClass of the plan and the undivided engine;
// `stream` is the handle's stream, and `context` the stream's context (null: the current one).
struct CheckRequest {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  const execution::Schedule& schedule;
  const ConvolutionProblem& problem;
  NumericClass numeric = NumericClass::kDirect;
  const cudnn::ConvolutionCall& call;
};

// Runs the plan into scratch memory, then the undivided engine into the caller's output, and
// compares the two results. A wrong plan can change the caller's data only through the workspace,
// which both runs use. The scratch memory lies between guards and begins as a copy of the caller's
// output, so that beta, a z that shares the output's memory, and gaps between elements have the
// same effect as in the caller's output.
//
// The tolerance is tuning::DataTolerance of the undivided result. Any two values that are NaN or
// infinite count as equal, because the caller's data may contain them. If one engine spreads such
// values to more elements than the other engine does (Winograd, FFT), the difference is still
// reported.
CheckedCall RunChecked(const cuda::Driver& driver, const CheckRequest& request) noexcept;

}  // namespace ucudnn::interposer
