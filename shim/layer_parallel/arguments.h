// Converts the structs of <ucudnn/layer_parallel.h> to the solver's own types. Pure functions. An
// error is one line that gives the wrong value and the expected values.
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
  multigrid::Hierarchy mirrored;  // the hierarchy of the adjoint
  multigrid::CoarseOperator coarse = multigrid::CoarseOperator::kInject;
  multigrid::Storage storage = multigrid::Storage::kAll;
  int lanes = 1;
  multigrid::Lanes::Threads threads = multigrid::Lanes::Threads::kOneEach;
  double unit_roundoff = 0;

  int layers() const { return hierarchy.level(0).steps; }
};

Result<ucudnnLayerParallelCallbacks_t> ReadCallbacks(
    const ucudnnLayerParallelCallbacks_t* callbacks);
// A null `options` means the defaults.
Result<Setting> ReadOptions(int layers, const ucudnnLayerParallelOptions_t* options);
Result<multigrid::SolveOptions> ReadSolveOptions(const ucudnnLayerParallelSolveOptions_t* options);

// Checks the struct's size. Null is allowed: the program then gets no result.
Status CheckResult(const ucudnnLayerParallelResult_t* result);
// Fills `result`, whose pointers point into `solution`. REQUIRES: CheckResult returned Ok.
void WriteResult(const multigrid::Solution& solution, ucudnnLayerParallelResult_t* result);

// Returns how many states the program holds for one direction: `hierarchy` is setting.hierarchy for
// the forward solve and setting.mirrored for the adjoint.
int64_t StatesOf(const Setting& setting, const multigrid::Hierarchy& hierarchy);

}  // namespace ucudnn::layer_parallel
