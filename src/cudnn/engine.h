// Engines that run a convolution with a given micro-batch and workspace: the view that planning and
// tuning have of cuDNN. The legacy algorithms (legacy_engines.h) and execution plans of the graph
// API (graph_engines.h) implement it; an implementation belongs to one handle and is used by one
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
  // An engine that, as the library says, computes in the same way, so that one measurement serves
  // both; empty: none.
  EngineId twin;
};

// The scales that a piece runs with.
struct PieceScales {
  bool are_plain = false;  // alpha = 1 and beta = 0, whatever the plan's own values are
  bool may_add = false;    // Run may be asked to add; only for gradients of the filter
};

// An engine that serves a part, ready to be measured: its piece has plain scales and may add, and
// owns all descriptors that it needs.
struct ListedEngine {
  EngineChoice choice;
  std::unique_ptr<Piece> piece;
};

// The problems in these calls describe a part: their n is the part's number of images. Engines and
// pieces that are made outlive this object.
class Engines {
 public:
  virtual ~Engines() = default;
  // Returns every engine that serves the part, unfiltered, each in at most its choice's workspace.
  virtual Result<std::vector<ListedEngine>> List(const ConvolutionProblem& part) = 0;
  // Makes `engine` ready for the part, in at most `workspace_bytes`. Fails if a plan needs more; a
  // legacy engine that needs more fails when it runs. Without plain scales a plan has its own
  // scales, and a legacy engine always uses the call's.
  virtual Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& part,
                                                   const EngineId& engine,
                                                   const PieceScales& scales,
                                                   size_t workspace_bytes) = 0;
  // Makes the object that sums partials of `problem` (convolution/partial_sums.h).
  virtual Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) = 0;
};

}  // namespace ucudnn::cudnn
