// Decides what a call runs if the schedule of its decision cannot run, or if there is no decision.
// Pure functions that allocate nothing: every call that has a schedule uses RunsPieces, and
// DecideUnplanned must work when memory has run out.
#pragma once

#include <cstddef>
#include <optional>

#include "planning/decision/decide.h"

namespace ucudnn::planning {

// The obstacles that may keep a schedule's pieces from running at one call.
struct Obstacles {
  // The stream is captured, and the pieces have not run outside a capture. Their first run may load
  // modules or allocate, which would break the capture.
  bool first_in_capture = false;
  bool no_workspace = false;  // ucudnn's own workspace is not available
  bool failed = false;        // a piece failed, or the plan was found wrong
  bool misaligned = false;    // the pieces cannot use the workspace at this address
};

// Returns whether the pieces of `decision` run. If they do not, Decision::fallback says what runs.
// Pieces that nothing can replace also run after a failure.
bool RunsPieces(const Decision& decision, const Obstacles& obstacles);

// A call of the legacy API without a decision that can run. There are two causes. Nothing can be
// remembered about the call, because memory has run out or there are too many kernels. Or only
// pieces may serve the call, and the pieces cannot run.
struct UnplannedCall {
  CallKind kind = CallKind::kPlain;
  int algorithm = 0;  // the algorithm that the program names
  // The undivided algorithm of the promise that holds for the call; none if no promise holds.
  std::optional<int> told;
  std::optional<size_t> need_bytes;  // need of `algorithm`; read only under a strict limit
  size_t user_limit = kNoLimit;      // ceiling of the caller's workspace, in bytes
  bool strict_limit = false;
  bool varies = false;    // determinism is demanded, and `algorithm` is not deterministic
  bool observes = false;  // UCUDNN_MODE=observe: calls must not change
};
struct Unplanned {
  CallAction action = CallAction::kReal;  // kReal or kRefusal
  int algorithm = 0;  // the algorithm that runs, in the workspace that the caller passes
  bool operator==(const Unplanned&) const = default;
};
// Decides an unplanned call. If a promise was given, runs the undivided algorithm that keeps the
// promise, because the promise may be smaller than the need of the named algorithm. A call with an
// identity activation always runs the named algorithm, or is refused.
Unplanned DecideUnplanned(const UnplannedCall& call);

}  // namespace ucudnn::planning
