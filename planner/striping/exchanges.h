// The data that ranks send each other for one operator of a network whose images are cut, in bytes
// of fp32. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/graph/graph.h"
#include "planner/striping/judgement.h"
#include "planner/striping/placement.h"

namespace ucudnn::planner {

// The passes of a training step. kBackward is the backward pass of operators without a filter.
enum class Pass { kForward, kBackwardData, kBackwardFilter, kBackward };
const char* PassName(Pass pass);  // "forward", "backward_data", ...

struct Exchange {
  Pass pass = Pass::kForward;
  // By rank of the group: bytes of rows, or of whole tensors that are gathered. Empty if nothing is
  // sent.
  std::vector<int64_t> sent;
  std::vector<int64_t> received;
  int64_t summed = 0;  // bytes of the numbers that are added up over ranks
};

// Bytes of rows and gathered tensors.
struct StripeTraffic {
  int64_t most_sent = 0;      // by one rank
  int64_t most_received = 0;  // by one rank
  int64_t all = 0;            // by all ranks of all groups
};
// Adds up `exchanges`, which are the exchanges of one group of `grid`. With `forward_only`, adds up
// only the exchanges of the forward pass.
StripeTraffic TrafficOf(const std::vector<Exchange>& exchanges, const SpatialGrid& grid,
                        bool forward_only);

// Returns the exchanges of `op`, for which Judge() gave `judgement` on `input`; none if `op` is
// refused. `parameters` is the number of the operator's trained parameters. `has_gradient` says
// whether a training step needs the gradient of the input (false for the network's own input).
std::vector<Exchange> ExchangesOf(const Operator& op, const Placement& input,
                                  const Judgement& judgement, const SpatialGrid& grid,
                                  int64_t parameters, bool has_gradient);

}  // namespace ucudnn::planner
