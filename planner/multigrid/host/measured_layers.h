// Measures how long a layer of each kind takes on this host, in double precision on one thread.
#pragma once

#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

struct HostMeasurement {
  std::vector<MeasuredTimes::Kind> kinds;  // in the order of NetworkLayers::kinds
  // Tells which layers were timed on a part of their outputs: "fully connected layers timed on 64
  // of 11520 outputs". Empty if there were none.
  std::string notes;
  double copy_gb_per_s = 0;  // 10^9 bytes a second, for a copy of a state
};

// Times one layer of each kind of `network`, which is `chain`, with drawn weights: forward, adjoint
// and gradient as HostStage runs them, and several layers on one input. Takes a fraction of a
// second for each kind, on the calling thread. The fastest of several runs counts.
Result<HostMeasurement> MeasureLayers(const ResidualChain& chain, const NetworkLayers& network);

}  // namespace ucudnn::multigrid
