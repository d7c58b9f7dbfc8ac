// What a call runs if the schedule of its decision cannot run, or if there is no decision. Pure
// functions that allocate nothing, for every call.
#pragma once

#include <cstddef>
#include <optional>

#include "planning/decision/decide.h"

namespace ucudnn::planning {

// The obstacles that may keep a schedule's pieces from running at one call.
struct Obstacles {
  // The stream is captured, and the pieces never ran outside a capture. Their first run may load
  // modules or allocate, which breaks the capture.
  bool first_in_capture = false;
  bool no_workspace = false;  // ucudnn's own workspace cannot be had
  bool failed = false;        // a piece failed, or the plan was found wrong
  bool misaligned = false;    // the pieces cannot use the workspace at its address
};

// Returns whether the pieces of `decision` run. If they do not, Decision::otherwise runs. Pieces
// that nothing replaces are tried again after a failure.
bool RunsPieces(const Decision& decision, const Obstacles& obstacles);

// A call of the legacy API that nothing can be remembered about, because memory is out or there are
// too many kernels, or one that only pieces may serve, which cannot run.
struct UnplannedCall {
  CallKind kind = CallKind::kPlain;
  int algorithm = 0;                 // the algorithm that the program names
  std::optional<int> told;           // the undivided algorithm of the promise that holds
  std::optional<size_t> need_bytes;  // of `algorithm`; read only under a strict limit
  size_t user_limit = kNoLimit;      // of the caller's workspace, in bytes
  bool strict_limit = false;
  bool varies = false;    // determinism is demanded, and `algorithm` may give other bits each time
  bool observes = false;  // UCUDNN_MODE=observe: nothing may change
};
struct Unplanned {
  Course course = Course::kReal;  // kReal or kRefusal
  int algorithm = 0;              // runs undivided in the workspace that the caller passes
  bool operator==(const Unplanned&) const = default;
};
// Decides an unplanned call. A promise may be smaller than the need of the caller's algorithm; then
// the undivided algorithm that keeps the promise runs.
Unplanned DecideUnplanned(const UnplannedCall& call);

}  // namespace ucudnn::planning
