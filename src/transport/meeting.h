// What a rank must know to meet the others: plain values, which the caller has read from the
// environment or been given by a launcher.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/rendezvous_address.h"

namespace ucudnn::transport {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// A rank's place in the job, and in its group: the ranks that gather and post among each other.
struct Membership {
  int rank = 0, size = 1;
  int group = 0;
  int group_rank = 0, group_size = 1;
};

struct Times {
  Milliseconds heartbeat{1000};     // from one to the next
  Milliseconds silence{10000};      // without any, after which a rank counts as dead
  Milliseconds warning{60000};      // after which a rank that lives and does not come is told of
  Milliseconds timeout{600000};     // and after which it is an error on all
  Milliseconds unreachable{10000};  // for which a place may not be reached, or not answer
  Milliseconds handshake{5000};     // from a connection to the end of its greeting
  Milliseconds refusing{10000};     // for which a failed meeting waits to tell those who come late
  Milliseconds leaving{2000};       // that Leave takes at most
};

// A value that must be the same on all ranks, as UCUDNN_SPATIAL and its grid.
struct Term {
  std::string name, value;
};

struct Meeting {
  Membership membership;
  RendezvousAddress place;
  // The job's secret, printable, at most kLongestToken bytes; empty: none. It crosses the network
  // as it is: it keeps strangers out, not those who read the network's traffic.
  std::string token;
  int local_size = 0;       // ranks on this host; 0: unknown
  std::string version;      // of ucudnn
  std::vector<Term> terms;  // in the same order on all ranks
  Times times;
};

inline constexpr size_t kLongestToken = 256;
inline constexpr size_t kLongestDoing = 200;

// Whether `meeting` makes sense at all, in words that name the rank and the value.
Status CheckMeeting(const Meeting& meeting);

}  // namespace ucudnn::transport
