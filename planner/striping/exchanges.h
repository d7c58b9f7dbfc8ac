// What ranks send each other for one operator of a network whose images are cut, in bytes of fp32.
// Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/graph/graph.h"
#include "planner/striping/judgement.h"
#include "planner/striping/placement.h"

namespace ucudnn::planner {

// The passes of a training step. kBackward is that of operators without a filter.
enum class Pass { kForward, kBackwardData, kBackwardFilter, kBackward };
const char* PassName(Pass pass);  // "forward", "backward_data", ...

struct Exchange {
  Pass pass = Pass::kForward;
  // Rows, or whole tensors where they are gathered, by rank of the group; empty where none travel.
  std::vector<int64_t> sent;
  std::vector<int64_t> received;
  int64_t summed = 0;  // of the numbers that each rank has a part of, and that are added over ranks
};

// Rows and gathered tensors, in bytes.
struct StripeTraffic {
  int64_t most_sent = 0;      // by one rank
  int64_t most_received = 0;  // likewise
  int64_t all = 0;            // by all ranks of all groups
};
// Of these exchanges together, or of those of the forward pass. `exchanges` are of the ranks of one
// group of `grid`.
StripeTraffic TrafficOf(const std::vector<Exchange>& exchanges, const SpatialGrid& grid,
                        bool forward_only);

// Those of `op`, which has `judgement` on `input`; none where it is refused. `parameters` are its
// trained numbers. `has_gradient`: a training step needs the gradient of the input, as it does not
// of the network's own.
std::vector<Exchange> ExchangesOf(const Operator& op, const Placement& input,
                                  const Judgement& judgement, const SpatialGrid& grid,
                                  int64_t parameters, bool has_gradient);

}  // namespace ucudnn::planner
