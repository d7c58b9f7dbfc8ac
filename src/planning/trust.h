// Says whether a plan may run, and on which proof. Plain values.
#pragma once

#include <string>

namespace ucudnn::planning {

// The comparisons that count as proof.
enum class Proof {
  kKnown,      // an earlier comparison by any process; none may be made now
  kKnownHere,  // an earlier comparison in this process; none may be made now
  kOnce,       // one comparison on this platform, by any process
  kHere,       // a comparison in this process, so that its pieces have run here
};

constexpr bool IsHere(Proof proof) { return proof == Proof::kHere || proof == Proof::kKnownHere; }
constexpr bool MayCompare(Proof proof) { return proof == Proof::kOnce || proof == Proof::kHere; }
// Returns the proof that counts instead of `proof` while no comparison may be made.
constexpr Proof WithoutComparing(Proof proof) {
  return IsHere(proof) ? Proof::kKnownHere : Proof::kKnown;
}

struct Trust {
  enum class Kind {
    kTrusted,  // each of its pieces was compared once with the undivided output
    kUnknown,  // not compared, and not now: a later call may try again
    kWrong,    // compared and found wrong: its pieces are never planned with again
    kSlower,   // equal, but not faster than Compare::faster_than where both were timed in place
  };
  Kind kind = Kind::kTrusted;
  std::string message;  // why not

  bool operator==(const Trust&) const = default;
};

}  // namespace ucudnn::planning
