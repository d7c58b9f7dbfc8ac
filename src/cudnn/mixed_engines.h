// The engines that can run a legacy kernel: the legacy algorithms, and engines of the graph API for
// the same convolution. The name of an engine says which API it is from.
#pragma once

#include <memory>
#include <vector>

#include "cudnn/graph_engines.h"
#include "cudnn/legacy_engines.h"

namespace ucudnn::cudnn {

class MixedEngines : public Engines {
 public:
  using Templates = std::vector<std::shared_ptr<const GraphTemplate>>;

  // The caller owns `handle` and keeps it alive.
  MixedEngines(const Functions& functions, cudnnHandle_t handle, Templates templates);

  Result<std::vector<ListedEngine>> List(const ConvolutionProblem& part) override;
  Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& part, const EngineId& engine,
                                           const PieceScales& scales,
                                           size_t workspace_bytes) override;
  Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) override {
    return legacy_.MakeSum(problem);
  }

 private:
  const Templates templates_;
  LegacyEngines legacy_;
  GraphEngines graph_;
};

}  // namespace ucudnn::cudnn
