// The legacy API's algorithms as engines (EngineId::Legacy).
#pragma once

#include <limits>
#include <optional>

#include "convolution/configuration.h"
#include "cudnn/convolution_call.h"
#include "cudnn/descriptors.h"
#include "cudnn/engine.h"
#include "cudnn/functions.h"

namespace ucudnn::cudnn {

// Converts `micro`, an undivided legacy engine, to the entry with which cuDNN's queries report an
// engine.
AlgorithmPerformance PerformanceOf(const MicroConfiguration& micro, MathType math);

class LegacyEngines : public Engines {
 public:
  // The caller owns `handle` and keeps it alive. MakePiece and MakeSum do not use it.
  LegacyEngines(const Functions& functions, cudnnHandle_t handle)
      : functions_(functions), handle_(handle) {}
  Result<std::vector<ListedEngine>> List(const ConvolutionProblem& part) override;
  // REQUIRES: `engine` has the problem's own math type, because a call runs with the math type of
  // its convolution descriptor.
  Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& part, const EngineId& engine,
                                           const PieceScales& scales,
                                           size_t workspace_bytes) override;
  Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) override {
    return PartialSum::Create(functions_, problem);
  }

 private:
  const Functions& functions_;
  cudnnHandle_t handle_;
};

// Finds the workspace that cuDNN requires when legacy engines run `problem`, at any mini-batch.
class LegacyNeeds {
 public:
  // The caller owns `handle` and keeps it alive; its stream is not used.
  LegacyNeeds(const Functions& functions, cudnnHandle_t handle, const ConvolutionProblem& problem)
      : functions_(functions), handle_(handle), problem_(problem) {}

  // Returns the bytes of workspace that the engine needs for `images` images. Returns kNeverServes
  // if cuDNN says that the engine does not support the problem, and none if cuDNN gives no answer.
  std::optional<size_t> Of(int images, const EngineId& engine);

  static constexpr size_t kNeverServes = std::numeric_limits<size_t>::max();

 private:
  const Functions& functions_;
  const cudnnHandle_t handle_;
  ConvolutionProblem problem_;
  std::optional<OwnedDescriptors> descriptors_;  // of problem_
};

}  // namespace ucudnn::cudnn
