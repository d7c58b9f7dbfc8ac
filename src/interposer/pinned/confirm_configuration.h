// Whether the real library can run a kernel as a workspace plan divides it. Any thread, with
// engines of its own.
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
  Status status;  // an error says what contradicts the plan; then the rest but the next is void
  bool unanswered = false;  // the library did not say: it may at a later call
  Configuration
      configuration;  // with the workspace and the determinism that the library says of its pieces
  std::vector<NumericClass> numeric;  // of the pieces, by run
};

// `configuration` divides `problem`; the workspace of its runs is the most that they may need.
// `engines` has for each run where the library is asked about the engine that it names. REQUIRES:
// configuration.runs.size() == engines.size().
ConfirmedConfiguration ConfirmConfiguration(const ConvolutionProblem& problem,
                                            const Configuration& configuration,
                                            std::span<cudnn::Engines* const> engines);

// "IMPLICIT_PRECOMP_GEMM (legacy:1) for 4 images"
std::string NameOfPiece(Operation operation, const MicroConfiguration& micro);

}  // namespace ucudnn::interposer
