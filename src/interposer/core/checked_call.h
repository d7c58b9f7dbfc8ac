// UCUDNN_CHECK=1: compares each planned call with the undivided one on the caller's own data. This
// debugging mode allocates, copies to the host and waits for the stream, and must not run inside a
// capture. Called on the thread of the call.
#pragma once

#include "convolution/numeric_class.h"
#include "convolution/problem.h"
#include "cuda/driver.h"
#include "cudnn/convolution_call.h"
#include "execution/schedule.h"
#include "tuning/verify.h"

namespace ucudnn::interposer {

struct CheckedCall {
  // True: the caller's output holds the undivided result. False: the output was not touched, and
  // the call must still be run, because there is nothing to compare with, memory is out, or the
  // undivided engine failed.
  bool done = false;
  bool piece_failed = false;  // the plan did not run completely
  // The verdict on the plan or, if nothing was compared, the reason.
  tuning::Verification verification;
};

// One call to check. `numeric` is the coarsest class of the plan and the undivided engine, `stream`
// the handle's stream, `context` the stream's (null: the current one).
struct CheckRequest {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  const execution::Schedule& schedule;
  const ConvolutionProblem& problem;
  NumericClass numeric = NumericClass::kDirect;
  const cudnn::ConvolutionCall& call;
};

// Runs the plan into scratch memory, then the undivided engine into the caller's output, and
// compares the two. A wrong plan can touch the caller's data only through the workspace, which both
// use. The scratch memory lies between guards and starts as a copy of the caller's output, so beta,
// z in place and gaps between elements mean the same there.
//
// The tolerance is tuning::DataTolerance of the undivided result. NaN and infinity equal each
// other, since the caller's data may hold them; an engine that spreads them further than the other
// (Winograd, FFT) is reported all the same.
CheckedCall RunChecked(const cuda::Driver& driver, const CheckRequest& request) noexcept;

}  // namespace ucudnn::interposer
