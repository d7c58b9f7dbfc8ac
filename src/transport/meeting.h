// The values that a rank needs to meet the other ranks. Plain values; the caller has read them from
// the environment or got them from a launcher.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "options/rendezvous_address.h"

namespace ucudnn::transport {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// A rank's place in the job and in its group. The ranks of a group gather with each other and post
// to each other.
struct Membership {
  int rank = 0, size = 1;
  int group = 0;
  int group_rank = 0, group_size = 1;
};

struct Times {
  Milliseconds heartbeat{1000};  // time between two heartbeats
  Milliseconds silence{10000};   // a rank without a heartbeat for this long counts as dead
  // After this time the user is warned of a rank that is alive but does not come.
  Milliseconds warning{60000};
  // If a rank does not come for this long, all ranks get an error.
  Milliseconds timeout{600000};
  Milliseconds unreachable{10000};  // how long a place may be unreachable or give no answer
  Milliseconds handshake{5000};     // the longest that a connection may take to greet
  Milliseconds refusing{10000};     // how long a failed meeting stays open to refuse late ranks
  Milliseconds leaving{2000};       // the longest that Leave waits
};

// A value that must be equal on all ranks, such as UCUDNN_SPATIAL with its grid.
struct Term {
  std::string name, value;
};

struct Meeting {
  Membership membership;
  RendezvousAddress place;
  // The job's secret: printable, at most kLongestToken bytes; empty: none. The token is sent
  // unencrypted, so it keeps strangers out, but not those who can read the network's traffic.
  std::string token;
  int local_size = 0;       // ranks on this host; 0: unknown
  std::string version;      // ucudnn's version
  std::vector<Term> terms;  // the same names in the same order on all ranks
  Times times;
};

inline constexpr size_t kLongestToken = 256;
inline constexpr size_t kLongestDoing = 200;

// Fails if the values of `meeting` contradict each other or exceed limits. The error names the rank
// and the value.
Status CheckMeeting(const Meeting& meeting);

}  // namespace ucudnn::transport
