// An execution plan of the application's while it is decided about.
#pragma once

#include <memory>
#include <optional>

#include "cudnn/graph_engines.h"
#include "interposer/graph_interposer.h"
#include "interposer/session.h"
#include "planning/measurement_store.h"

namespace ucudnn::interposer {

struct GraphInterposer::Met {
  cudnnHandle_t handle = nullptr;
  Session* session = nullptr;
  Template own;
  size_t need_bytes = 0;                             // of the plan as it is
  size_t limit_bytes = 0;                            // the user's, when it was finalized
  bool first = false;                                // of a list of the heuristics
  std::shared_ptr<const ListedConfigurations> list;  // that it is of; null: of none
  bool may_measure = false;
  bool again = false;  // decided before: the store may hold more by now
  // Set where less was promised before: what is decided now stays inside.
  std::optional<planning::EnginePromise> promised;
  // Under one budget for all kernels: the kernel and the division, and what that gives it.
  LibraryPart library;
  size_t share_bytes = 0;
  // What was found out of it: a later call may know more where one is false.
  bool settled = true;   // all was measured that the policy wants
  bool measured = true;  // something of its own engine was
  bool compared = true;  // the plan that divides it, and made ready

  const ConvolutionProblem& problem() const { return own->plan.problem; }
};

}  // namespace ucudnn::interposer
