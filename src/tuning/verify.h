// Verifies plans (docs/design.md, invariant 9). A plan is trusted after its output matched the
// output of the undivided engine once, in device memory of ucudnn's own. The caller's buffers are
// neither read nor written.
#pragma once

#include <string>

#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"
#include "tuning/comparison.h"
#include "tuning/engine_scope.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

enum class ComparisonResult {
  kEqual,       // within the tolerance of tolerance.h; only output and workspace were written
  kDifferent,   // the results differ by more than the tolerance, or one is NaN or infinite
  kTrespassed,  // memory outside of the output and the workspace was written
  // Nothing was compared: memory or time is short, an engine could not be launched, or the
  // tolerance would hide wrong results.
  kNotCompared,
};

struct Verification {
  ComparisonResult result = ComparisonResult::kNotCompared;
  std::string message;  // empty if equal; otherwise what happened, with values
  // True if the plan was not compared because that would take more than
  // MeasureLimits::memory_bytes.
  bool lacks_memory = false;
};

// Compares the results of `undivided` and `division`. Both run on integer operands, with alpha = 1
// and beta = 0, in the steps of a Schedule. Each piece gets exactly the workspace that it was
// promised. Both use engines of `scope`; legacy engines have the problem's own math type.
//
// The pieces of a gradient of the filter may add up: the first piece replaces the output, and the
// others add to it. Such a division is computed once for each of its runs, each time with a piece
// of another run first. So the engine of each run is compared both when it replaces and when it
// adds. If such a division is one undivided engine, both `undivided` and the division compute the
// gradient twice, first replacing and then adding.
//
// Allocates device memory for the image, the filter, the output, a second output and the workspace,
// and frees all of it. May be called from any thread, even while other threads capture. The
// deadline is checked between pieces and between compared chunks.
Verification VerifyPlan(const Device& device, const ConvolutionProblem& problem,
                        const Division& division, const MicroConfiguration& undivided,
                        const MeasureLimits& budget, const EngineScope& scope);

}  // namespace ucudnn::tuning
