// How the ranks of a group tell each other what they must know to open a channel. Channels need no
// more of the control plane than this, so that tests can do without one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn::transport {

class Gatherer {
 public:
  virtual ~Gatherer() = default;

  // All ranks of the group call it in the same order. Returns every rank's `mine` (any bytes), by
  // group rank, when all have come; `doing` tells a person what this is about. Ends in an error
  // when a rank is gone or too late.
  virtual Result<std::vector<std::string>> Gather(std::string_view mine,
                                                  std::string_view doing) = 0;
};

// Gathers `mine` of each rank's `size` ranks; an error also where the answer has another length.
Result<std::vector<std::string>> GatherAll(Gatherer& gatherer, int size, std::string_view mine,
                                           std::string_view doing);

// Makes one outcome of all ranks': Ok where `own` is Ok on all of them, else everywhere the error
// of the first rank that has one, with its number.
Status GatherVerdict(Gatherer& gatherer, int size, const Status& own, std::string_view doing);

}  // namespace ucudnn::transport
