// Verifying plans (DESIGN's invariant 9): a plan is trusted after its output was compared once with
// the undivided engine's, in device memory of our own. The caller's buffers are neither read nor
// written.
#pragma once

#include <string>

#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "tuning/comparison.h"
#include "tuning/engine_scope.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

enum class Verdict {
  kEqual,        // within the tolerance of tolerance.h; nothing but the output was written
  kDifferent,    // another result, or NaN or infinity
  kTrespassed,   // something beyond the output and the workspace was written
  kNotCompared,  // no verdict: memory or time is short, an engine could not be launched, the
                 // tolerance would hide wrong results
};

struct Verification {
  Verdict verdict = Verdict::kNotCompared;
  std::string message;  // empty when equal: who did what, with values
};

// Runs `undivided` and then `plan`, as execution does, on integer operands with alpha = 1 and beta
// = 0, each in exactly the workspace it was promised. Gradients of a filter that pieces add up are
// computed once for each run of the plan, whose piece then replaces the output; a whole one is
// added to itself: adding is compared as well as replacing. Both hold engines of `scope`, legacy
// ones with the problem's own math type. Takes what both tensors, the filter, one more output and
// the workspace need; all is given back. May be called from any thread, also while others capture.
// Between pieces, and between chunks of what is compared, the deadline is looked at.
Verification VerifyPlan(const Device& device, const ConvolutionProblem& problem,
                        const Configuration& plan, const MicroConfiguration& undivided,
                        const MeasureLimits& budget, const EngineScope& scope);

}  // namespace ucudnn::tuning
