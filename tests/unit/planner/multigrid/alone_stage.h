// Holds one stage of a chain on one rank. ToSolve() returns the StageToSolve that a network would
// give to its solvers. Must not be moved.
#pragma once

#include <optional>

#include "planner/multigrid/distributed/stage_solver.h"
#include "planner/multigrid/distributed/thread_ranks.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

class AloneStage {
 public:
  // `chain` must outlive this object. If `distributed` is unset, all levels are distributed.
  AloneStage(const WeightedChain& chain, const SolveSetting& setting,
             std::optional<int> distributed = std::nullopt)
      : chain_(chain),
        setting_(setting),
        hierarchy_(*Hierarchy::Make(static_cast<int>(chain.stage().steps.size()),
                                    setting.coarsening, setting.levels)),
        partition_{.begins = {0, hierarchy_.level(0).steps},
                   .distributed = distributed.value_or(hierarchy_.levels())} {}

  StageToSolve ToSolve() {
    return {{.chain = chain_.chain,
             .stage = chain_.stage(),
             .parameters = chain_.parameters,
             .hierarchy = hierarchy_,
             .coarse = setting_.coarse,
             .batch = chain_.batch,
             .h = setting_.h,
             .storage = setting_.storage},
            partition_,
            ranks_.At(0)};
  }

 private:
  const WeightedChain& chain_;
  SolveSetting setting_;
  Hierarchy hierarchy_;
  Partition partition_;
  ThreadRanks ranks_{1};
};

}  // namespace ucudnn::multigrid
