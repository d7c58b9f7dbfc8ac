// "Run this convolution with micro-batch b and workspace w": what planning and tuning know of
// cuDNN's engines. Implemented by the legacy algorithms (legacy_engines.h) and by execution plans
// of the graph API (graph_engines.h); an implementation belongs to one handle and is used by one
// thread at a time.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/engine_id.h"
#include "convolution/numeric_class.h"
#include "convolution/problem.h"
#include "cudnn/fused_operands.h"
#include "cudnn/partial_sum.h"
#include "cudnn/piece.h"

namespace ucudnn::cudnn {

struct EngineChoice {
  EngineId engine;
  NumericClass numeric = NumericClass::kDirect;
  bool deterministic = false;
  size_t workspace_bytes = 0;
  // The library says that this one computes in the same way: one measurement is of both. Empty: it
  // says so of none.
  EngineId twin;
};

// Device memory of one convolution: image, filter, output (or their gradients), workspace, and what
// is read by operations fused behind it, in the order of FusedConvolution::operands.
struct Buffers {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  bool accumulate = false;  // add to the output instead of replacing it
  std::array<void*, kMostFusedOperands> fused = {};
};

// One problem at one batch size, ready to run.
class PreparedProblem {
 public:
  virtual ~PreparedProblem() = default;
  // Every engine that serves the problem, unfiltered.
  virtual Result<std::vector<EngineChoice>> Engines() = 0;
  // Enqueues the convolution with alpha = 1, and with beta = 0 or, to accumulate, 1. Of `choice`
  // only the engine counts; the workspace is the one in `buffers`.
  virtual Status Run(const EngineChoice& choice, const Buffers& buffers) = 0;
};

class Engines {
 public:
  virtual ~Engines() = default;
  virtual Result<std::unique_ptr<PreparedProblem>> Prepare(const ConvolutionProblem& problem) = 0;
  // Makes the engine that `micro` names ready for micro.micro_batch images of `problem`, with the
  // caller's own scales and, where that is all images, the caller's own descriptors. A piece whose
  // result is a partial that is summed (convolution/partial_sums.h) runs with alpha = 1 and beta =
  // 0, and `micro.workspace_bytes` is the engine's own. The piece outlives this object.
  virtual Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& problem,
                                                   const MicroConfiguration& micro) = 0;
  // Makes what sums such partials of `problem`. It outlives this object.
  virtual Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) = 0;
};

}  // namespace ucudnn::cudnn
