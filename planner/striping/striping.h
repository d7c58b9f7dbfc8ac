// Judges a network whose images are cut into stripes, without running it: the verdict on each
// operator, the data that ranks send each other, and the memory that each rank keeps. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/striping/exchanges.h"
#include "planner/striping/judgement.h"

namespace ucudnn::planner {

struct StripedOperator {
  std::string name;
  const char* kind = "";  // the operator's name in planner/graph/FORMAT.md
  Judgement judgement;
  std::vector<Exchange> exchanges;
};

struct Striping {
  std::string network;
  SpatialGrid grid;
  int batch = 1;  // images of all groups together
  int multiple = 1;
  Shape input;  // the images of one group
  std::vector<StripedOperator> operators;
  // Unknown operators of a file that the importer passed through. They have no verdict.
  std::vector<std::string> unknown;
  int64_t device_activation_bytes = 0;  // outputs of all layers for the whole batch on one device
  int64_t rank_activation_bytes = 0;    // outputs and gathered tensors on the rank that has most
  int64_t largest_exchange_bytes = 0;   // most that one rank receives in one exchange
  int64_t parameter_bytes = 0;          // the same on one device and on each rank

  int Count(Verdict verdict) const;
  Verdict Worst() const;
  // Adds up all exchanges of all operators.
  StripeTraffic Traffic(bool forward_only) const;
};

// Judges each operator of `graph` if images are cut into nearly equal stripes, each of which has a
// multiple of `multiple` rows. Fails if the grid cuts an axis that the network lacks, if the groups
// do not divide the batch, or if shapes do not fit.
Result<Striping> StripeNetwork(const Graph& graph, const SpatialGrid& grid, int batch,
                               int multiple = 1);

}  // namespace ucudnn::planner
