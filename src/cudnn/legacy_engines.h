// The legacy API's algorithms as engines: "legacy:1" is algorithm 1 with the problem's own math type,
// "legacy:1[math=1]" with math type 1 (cudnnMathType_t).
#pragma once

#include <optional>

#include "cudnn/engine.h"
#include "cudnn/functions.h"
#include "cudnn/legacy_call.h"

namespace ucudnn::cudnn {

struct LegacyEngine {
  int algorithm = 0;
  std::optional<MathType> math;  // set where it differs from the problem's
};

std::string LegacyEngineName(const LegacyEngine& engine);
std::optional<LegacyEngine> ParseLegacyEngine(const std::string& text);

// The kind of arithmetic of an algorithm number of cuDNN's.
planning::NumericClass LegacyNumericClass(Operation operation, int algorithm);

// Candidates from measurements of legacy engines; rows of other engines are left out.
std::vector<planning::Candidate> LegacyCandidates(
    Operation operation, const std::vector<MicroConfiguration>& measured);

class LegacyEngines : public Engines {
 public:
  // `handle` stays the caller's; its stream is where Run enqueues.
  LegacyEngines(const Functions& functions, cudnnHandle_t handle)
      : functions_(functions), handle_(handle) {}
  Result<std::unique_ptr<PreparedProblem>> Prepare(const ConvolutionProblem& problem) override;

 private:
  const Functions& functions_;
  cudnnHandle_t handle_;
};

}  // namespace ucudnn::cudnn
