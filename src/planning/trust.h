// Which comparison with the undivided convolution a plan needs before it may run, and the result of
// a comparison. Plain values.
#pragma once

#include <string>

namespace ucudnn::planning {

// The comparison that a plan must have passed before it may run, and whether a comparison may be
// made now.
enum class Proof {
  kKnown,      // an earlier comparison by any process; no new one may be made
  kKnownHere,  // an earlier comparison in this process; no new one may be made
  kOnce,       // one comparison on this platform, by any process; made now if there is none
  // A comparison in this process, so that the pieces have run here; made now if there is none.
  kHere,
};

constexpr bool IsHere(Proof proof) { return proof == Proof::kHere || proof == Proof::kKnownHere; }
constexpr bool MayCompare(Proof proof) { return proof == Proof::kOnce || proof == Proof::kHere; }
// Returns the proof to ask for instead of `proof` when no comparison may be made.
constexpr Proof WithoutComparing(Proof proof) {
  return IsHere(proof) ? Proof::kKnownHere : Proof::kKnown;
}

struct Trust {
  enum class Kind {
    kTrusted,  // the output of each of the plan's pieces matched the undivided output once
    kUnknown,  // not compared, because that is not possible now; a later call may try again
    kWrong,    // compared and found wrong: the plan's pieces are never used again
    kSlower,   // correct, but the tiles do not gain kHysteresis over Compare::faster_than
  };
  Kind kind = Kind::kTrusted;
  std::string message;  // why the plan is not trusted; empty for kTrusted

  bool operator==(const Trust&) const = default;
};

}  // namespace ucudnn::planning
