// "Run this convolution with micro-batch b and workspace w": what planning and tuning know of
// cuDNN's engines. Implemented by the legacy algorithms (legacy_engines.h) and by execution plans
// of the graph API (graph_engines.h); an implementation belongs to one handle and is used by one
// thread at a time. Pieces are the only way to run a convolution.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "convolution/engine_id.h"
#include "convolution/numeric_class.h"
#include "convolution/problem.h"
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

// With which scales a piece runs.
struct PieceScales {
  bool are_plain = false;  // alpha = 1 and beta = 0, whatever the plan's own are
  bool may_add = false;    // and Run may be asked to add: only for gradients of the filter
};

// An engine that serves a part, ready to be measured: its piece has plain scales and may add, and
// owns all descriptors that it needs.
struct ListedEngine {
  EngineChoice choice;
  std::unique_ptr<Piece> piece;
};

// Problems here are those of a part: their n is its number of images. What is made outlives this
// object.
class Engines {
 public:
  virtual ~Engines() = default;
  // Every engine that serves the part, unfiltered, each in at most its choice's workspace.
  virtual Result<std::vector<ListedEngine>> List(const ConvolutionProblem& part) = 0;
  // Makes `engine` ready for the part, in at most `workspace_bytes`: an error where a plan needs
  // more; of a legacy engine cuDNN says so when it runs. Plans without plain scales have their own,
  // legacy engines always the call's.
  virtual Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& part,
                                                   const EngineId& engine,
                                                   const PieceScales& scales,
                                                   size_t workspace_bytes) = 0;
  // Makes what sums partials of `problem` (convolution/partial_sums.h).
  virtual Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) = 0;
};

}  // namespace ucudnn::cudnn
