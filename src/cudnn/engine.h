// Engines that run a convolution with a given micro-batch and workspace. Tuning, execution and
// interposer use engines through this interface. The legacy algorithms (legacy_engines.h),
// execution plans of the graph API (graph_engines.h) and both together (mixed_engines.h) implement
// it. An object is used by one thread at a time. Everything that ucudnn plans runs as pieces; the
// program's own unchanged call does not use this interface.
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
  // The same algorithm with another math type. Set if the library says that both math types run
  // alike, so that one measurement holds for both; otherwise empty.
  EngineId twin;
};

// The scales with which a piece runs.
struct PieceScales {
  bool are_plain = false;  // alpha = 1 and beta = 0, whatever the plan's own values are
  bool may_add = false;    // Run may be called with `adds`; only for gradients of the filter
};

// An engine that can run a part, with a piece to measure it. The piece is made with plain scales
// and owns all descriptors that it needs. If the part is a gradient of the filter, the piece may
// add.
struct ListedEngine {
  EngineChoice choice;
  std::unique_ptr<Piece> piece;
};

// The interface of an API's engines. `part` is the problem of a part: its n is the part's number of
// images. Pieces may outlive this object.
class Engines {
 public:
  virtual ~Engines() = default;
  // Returns all engines that can run the part. Each needs at most the workspace that its choice
  // states.
  virtual Result<std::vector<ListedEngine>> List(const ConvolutionProblem& part) = 0;
  // Makes a piece that runs `engine` for the part in at most `workspace_bytes`. Fails if an
  // execution plan needs more; a legacy engine that needs more fails when it runs. If `scales` are
  // not plain, an execution plan runs with its own scales, and a legacy engine with the scales of
  // the call.
  virtual Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& part,
                                                   const EngineId& engine,
                                                   const PieceScales& scales,
                                                   size_t workspace_bytes) = 0;
  // Makes the object that sums partials of `problem` (convolution/partial_sums.h).
  virtual Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) = 0;
};

}  // namespace ucudnn::cudnn
