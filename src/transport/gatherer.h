// The interface by which the ranks of a group tell each other what they must know to open a
// channel. Channels need nothing else of the control plane, so tests can do without one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn::transport {

class Gatherer {
 public:
  virtual ~Gatherer() = default;

  // Returns every rank's `mine` (any bytes), by group rank, once all have called it. All ranks of
  // the group call it in the same order; `doing` states its purpose in messages. Fails if a rank is
  // gone or too late.
  virtual Result<std::vector<std::string>> Gather(std::string_view mine,
                                                  std::string_view doing) = 0;
};

// Gathers `mine` from each of `size` ranks; fails also if another number of answers comes.
Result<std::vector<std::string>> GatherAll(Gatherer& gatherer, int size, std::string_view mine,
                                           std::string_view doing);

// Combines the status of all ranks: returns Ok if `own` is Ok on all of them, else on every rank
// the error of the first rank that has one, with its number.
Status GatherVerdict(Gatherer& gatherer, int size, const Status& own, std::string_view doing);

}  // namespace ucudnn::transport
