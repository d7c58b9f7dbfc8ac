// The interface by which the ranks of a group exchange texts: to open a channel, and to reserve
// memory for it. Channels use nothing else of the control plane, so tests can replace it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn::transport {

class Gatherer {
 public:
  virtual ~Gatherer() = default;

  // Waits until all ranks of the group have called Gather. Returns the `mine` (any bytes) of every
  // rank, by group rank. All ranks of the group must make their calls in the same order. `doing` is
  // the purpose of the call, for messages. Fails if a rank is gone or does not come in time.
  virtual Result<std::vector<std::string>> Gather(std::string_view mine,
                                                  std::string_view doing) = 0;
};

// Gathers `mine` from each of `size` ranks. Fails, too, if the number of answers is not `size`.
Result<std::vector<std::string>> GatherAll(Gatherer& gatherer, int size, std::string_view mine,
                                           std::string_view doing);

// Returns Ok if `own` is Ok on all ranks. Otherwise every rank returns the error of the first rank
// that has one, with that rank's number.
Status GatherVerdict(Gatherer& gatherer, int size, const Status& own, std::string_view doing);

}  // namespace ucudnn::transport
