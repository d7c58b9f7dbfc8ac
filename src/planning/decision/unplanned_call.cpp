#include "planning/decision/unplanned_call.h"

namespace ucudnn::planning {

bool RunsPieces(const Decision& decision, const Obstacles& obstacles) {
  if (obstacles.first_in_capture || obstacles.no_workspace) return false;
  switch (decision.fallback) {
    case FallbackKind::kReal:
    case FallbackKind::kUndivided:
      return !obstacles.failed && !obstacles.misaligned;
    case FallbackKind::kPieces:
      return true;
  }
  return false;
}

Unplanned DecideUnplanned(const UnplannedCall& call) {
  // The undivided algorithm of a promise does not support an identity activation. Only the named
  // algorithm does.
  const bool kept = call.told && call.kind != CallKind::kIdentity;
  if (kept) return {CallAction::kReal, *call.told};
  const bool over_limit =
      call.strict_limit && call.need_bytes && *call.need_bytes > call.user_limit;
  const bool refused = !call.observes && (over_limit || call.varies);
  return {refused ? CallAction::kRefusal : CallAction::kReal, call.algorithm};
}

}  // namespace ucudnn::planning
