// Checks whether the real library can run a kernel as a workspace plan divides it. Any thread may
// call ConfirmConfiguration with engines of its own.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/numeric_class.h"
#include "convolution/problem.h"
#include "cudnn/engine.h"

namespace ucudnn::interposer {

struct ConfirmedConfiguration {
  // Ok if the library confirms the plan. Otherwise the error says what contradicts the plan, and
  // only `unanswered` has a meaning among the other members.
  Status status;
  bool unanswered = false;  // the library gave no answer, but may do so at a later call
  // Has the workspace and the determinism that the library states for the pieces.
  Configuration configuration;
  std::vector<NumericClass> numeric;  // numeric class of the pieces of each run
};

// Asks `engines` about each run of `configuration`, which divides `problem`. The workspace of a run
// is the most that its pieces may need. engines[i] must have the engine that run i names. REQUIRES:
// configuration.runs.size() == engines.size().
ConfirmedConfiguration ConfirmConfiguration(const ConvolutionProblem& problem,
                                            const Configuration& configuration,
                                            std::span<cudnn::Engines* const> engines);

// Formats the engine and the images of a piece: "IMPLICIT_PRECOMP_GEMM (legacy:1) for 4 images".
std::string NameOfPiece(Operation operation, const MicroConfiguration& micro);

}  // namespace ucudnn::interposer
