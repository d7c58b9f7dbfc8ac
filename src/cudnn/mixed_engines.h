// The engines of a legacy kernel that graph engines may serve, too: legacy algorithms and the graph
// API's engines for the same convolution, told apart by their names.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "cudnn/graph_engines.h"
#include "cudnn/legacy_engines.h"

namespace ucudnn::cudnn {

inline bool IsGraphEngine(std::string_view engine) { return engine.starts_with("graph:"); }

class MixedEngines : public Engines {
 public:
  using Templates = std::vector<std::shared_ptr<const GraphTemplate>>;

  // `handle` stays the caller's; its stream is where PreparedProblem::Run enqueues.
  MixedEngines(const Functions& functions, cudnnHandle_t handle, Templates templates);

  Result<std::unique_ptr<PreparedProblem>> Prepare(const ConvolutionProblem& problem) override;
  Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& problem,
                                           const MicroConfiguration& micro) override;
  Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) override {
    return legacy_.MakeSum(problem);
  }

 private:
  const Templates templates_;
  LegacyEngines legacy_;
  GraphEngines graph_;
};

}  // namespace ucudnn::cudnn
