// Where a solve starts that has an earlier one's states: of nearly the same system, with nearly the
// same first state.
#pragma once

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// What the first state of the whole chain becomes, and what it is.
struct FirstStateChange {
  State to = nullptr;
  State from = nullptr;
};

// Adds `change` to every state of the finest level that is kept, but for `change.from` itself where
// it is one of them: layers that go a small way hand a change on nearly as it is. Start::kPrevious
// then begins with what a broadcast would leave of the change alone. `hierarchy`, `propagator` and
// `lanes` are those of `states`, which some solve has computed.
Status CarryOver(BlockSystem& states, const Hierarchy& hierarchy, Propagator& propagator,
                 Lanes& lanes, const FirstStateChange& change);

}  // namespace ucudnn::multigrid
