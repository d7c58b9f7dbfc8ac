// "Run this convolution with micro-batch b and workspace w": what planning and tuning know of
// cuDNN's engines. Implemented by the legacy algorithms (legacy_engines.h) and by execution plans
// of the graph API (graph_engines.h); an implementation belongs to one handle and is used by one
// thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/partial_sum.h"
#include "cudnn/piece.h"
#include "planning/promise.h"

namespace ucudnn::cudnn {

struct EngineChoice {
  std::string engine;  // text that says all that selects it
  planning::NumericClass numeric = planning::NumericClass::kDirect;
  bool deterministic = false;
  size_t workspace_bytes = 0;
};

// Device memory of one convolution: image, filter, output (or their gradients), and workspace; what
// is fused behind it also takes a residual (of the output's shape) and a bias.
struct Buffers {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  bool accumulate = false;  // add to the output instead of replacing it
  void* residual = nullptr;
  void* bias = nullptr;
};

// One problem at one batch size, ready to run.
class PreparedProblem {
 public:
  virtual ~PreparedProblem() = default;
  // Every engine that serves the problem, unfiltered.
  virtual Result<std::vector<EngineChoice>> Engines() = 0;
  // Enqueues the convolution with alpha = 1 and beta = 0, or 1 to accumulate. Of `choice` only the
  // engine counts; the workspace is what `buffers` says.
  virtual Status Run(const EngineChoice& choice, const Buffers& buffers) = 0;
};

class Engines {
 public:
  virtual ~Engines() = default;
  virtual Result<std::unique_ptr<PreparedProblem>> Prepare(const ConvolutionProblem& problem) = 0;
  // The engine that `micro` names, for micro.micro_batch images of `problem`; the caller's own
  // scales and, where it is all images, the caller's own descriptors. One whose result is a partial
  // that is summed (convolution/partial_sums.h) is run with alpha = 1 and beta = 0, and
  // `micro.workspace_bytes` is the engine's own. Outlives this object.
  virtual Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& problem,
                                                   const MicroConfiguration& micro) = 0;
  // What sums such partials of `problem`. Outlives this object.
  virtual Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) = 0;
};

}  // namespace ucudnn::cudnn
