// Measures the times of layers of each kind on this host, in double precision on one thread.
#pragma once

#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

struct HostMeasurement {
  std::vector<MeasuredTimes::Kind> kinds;  // in the order of NetworkLayers::kinds
  // A text about layers that were measured on a part of their outputs, such as "fully connected
  // layers timed on 64 of 11520 outputs". Empty if there are none.
  std::string notes;
  double copy_gb_per_s = 0;  // rate of copying a state, in 10^9 bytes per second
};

// Measures one layer of each kind of `network`, with drawn weights. Measures the forward pass,
// adjoint and gradient as HostStage computes them, and several layers on one input. Takes a
// fraction of a second for each kind, on the calling thread. The fastest of several runs counts.
// REQUIRES: `network` was derived from `chain`.
Result<HostMeasurement> MeasureLayers(const ResidualChain& chain, const NetworkLayers& network);

}  // namespace ucudnn::multigrid
