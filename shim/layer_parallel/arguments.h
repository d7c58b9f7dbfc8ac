// Translates the structs of <ucudnn/layer_parallel.h> into the solver's own values. Pure functions.
// An error is one line with the value and what would be right.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/solver.h"
#include "ucudnn/layer_parallel.h"

namespace ucudnn::layer_parallel {

struct Setting {
  multigrid::Hierarchy hierarchy;
  multigrid::Hierarchy mirrored;  // for the adjoint
  multigrid::CoarseOperator coarse = multigrid::CoarseOperator::kInject;
  multigrid::Storage storage = multigrid::Storage::kAll;
  int lanes = 1;
  multigrid::Lanes::Threads threads = multigrid::Lanes::Threads::kOneEach;
  double unit_roundoff = 0;

  int layers() const { return hierarchy.level(0).steps; }
};

Result<ucudnnLayerParallelCallbacks_t> ReadCallbacks(
    const ucudnnLayerParallelCallbacks_t* callbacks);
// `options` may be null, for defaults.
Result<Setting> ReadOptions(int layers, const ucudnnLayerParallelOptions_t* options);
Result<multigrid::SolveOptions> ReadSolveOptions(const ucudnnLayerParallelSolveOptions_t* options);

// Returns Ok for null: the program reads no result.
Status CheckResult(const ucudnnLayerParallelResult_t* result);
// `result` gets pointers into `solution`. REQUIRES: CheckResult returned ok.
void WriteResult(const multigrid::Solution& solution, ucudnnLayerParallelResult_t* result);

// Returns the number of states that a direction needs; `hierarchy` is the hierarchy of the
// direction.
int64_t StatesOf(const Setting& setting, const multigrid::Hierarchy& hierarchy);

}  // namespace ucudnn::layer_parallel
