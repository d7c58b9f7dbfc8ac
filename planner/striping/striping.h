// A whole network on stripes, without a run: the verdict on each operator, what ranks send each
// other, what each keeps in memory, and the next size of the image at which nothing is refused.
// Pure functions.
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
  const char* kind = "";  // as in FORMAT.md of planner/graph
  Judgement judgement;
  std::vector<Exchange> exchanges;
};

struct Striping {
  std::string network;
  SpatialGrid grid;
  int batch = 1;  // of all groups together
  int multiple = 1;
  Shape input;  // of one group
  std::vector<StripedOperator> operators;
  // Those of a file that nobody knows, and that were passed through: they have no verdict.
  std::vector<std::string> unknown;
  int64_t device_activation_bytes = 0;  // outputs of layers, of the whole batch on one device
  int64_t rank_activation_bytes = 0;    // of the rank that has most, with what is gathered
  int64_t largest_exchange_bytes = 0;   // that one rank receives at a time
  int64_t parameter_bytes = 0;          // on one device as on each rank

  int Count(Verdict verdict) const;
  Verdict Worst() const;
  // All exchanges of all operators.
  StripeTraffic Traffic(bool forward_only) const;
};

// Images are cut into equal stripes of multiples of `multiple` rows. An error: the grid cuts an
// axis that the network lacks, groups do not divide the batch, or shapes do not fit.
Result<Striping> StripeNetwork(const Graph& graph, const SpatialGrid& grid, int batch,
                               int multiple = 1);

}  // namespace ucudnn::planner
