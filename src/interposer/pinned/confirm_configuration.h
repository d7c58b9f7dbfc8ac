// Checks whether the real library can run a kernel as a workspace plan divides it. Any thread may
// use it, with engines of its own.
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
  Status status;  // an error contradicts the plan; all members but `unanswered` are then void
  bool unanswered = false;  // the library gave no answer, but may do so at a later call
  // With the workspace and the determinism that the library states for its pieces.
  Configuration configuration;
  std::vector<NumericClass> numeric;  // of the pieces, by run
};

// `configuration` divides `problem`; the workspace of its runs is the most that they may need.
// `engines` has, for each run, the engines that include the one that the run names. REQUIRES:
// configuration.runs.size() == engines.size().
ConfirmedConfiguration ConfirmConfiguration(const ConvolutionProblem& problem,
                                            const Configuration& configuration,
                                            std::span<cudnn::Engines* const> engines);

// Formats "IMPLICIT_PRECOMP_GEMM (legacy:1) for 4 images".
std::string NameOfPiece(Operation operation, const MicroConfiguration& micro);

}  // namespace ucudnn::interposer
