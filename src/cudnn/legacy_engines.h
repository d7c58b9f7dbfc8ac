// The legacy API's algorithms as engines: "legacy:1" is algorithm 1 with the problem's own math
// type, "legacy:1[math=1]" with math type 1 (cudnnMathType_t).
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "cudnn/descriptors.h"
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

// Candidates of one math type: what may share a plan, because the caller sets one math type for
// all.
struct MathGroup {
  MathType math;
  std::vector<planning::Candidate> candidates;  // engines named as in a problem with this math type
};

// Measurements of `problem`'s legacy engines by math type; rows of other engines are left out.
std::vector<MathGroup> GroupByMath(const ConvolutionProblem& problem,
                                   const std::vector<MicroConfiguration>& measured);
// Those of the problem's own math type.
std::vector<planning::Candidate> OwnMathCandidates(const ConvolutionProblem& problem,
                                                   const std::vector<MicroConfiguration>& measured);

class LegacyEngines : public Engines {
 public:
  // `handle` stays the caller's; its stream is where Run enqueues.
  LegacyEngines(const Functions& functions, cudnnHandle_t handle)
      : functions_(functions), handle_(handle) {}
  Result<std::unique_ptr<PreparedProblem>> Prepare(const ConvolutionProblem& problem) override;
  // Of an engine with the problem's own math type. Needs no handle.
  Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& problem,
                                           const MicroConfiguration& micro) override;
  Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) override {
    return PartialSum::Create(functions_, problem);
  }

 private:
  const Functions& functions_;
  cudnnHandle_t handle_;
};

// What cuDNN demands of legacy engines for `problem` at other mini-batches, as execution checks it.
class LegacyNeeds {
 public:
  // `handle` stays the caller's, who needs no stream of it.
  LegacyNeeds(const Functions& functions, cudnnHandle_t handle, const ConvolutionProblem& problem)
      : functions_(functions), handle_(handle), problem_(problem) {}

  // Bytes; kNeverServes where cuDNN says that the engine does not serve; none where it says
  // nothing.
  std::optional<size_t> Of(int images, const std::string& engine);

  static constexpr size_t kNeverServes = std::numeric_limits<size_t>::max();

 private:
  const Functions& functions_;
  const cudnnHandle_t handle_;
  ConvolutionProblem problem_;
  std::optional<OwnedDescriptors> descriptors_;  // of problem_
};

}  // namespace ucudnn::cudnn
