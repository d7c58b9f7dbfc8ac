// How long one layer of each kind takes this machine's host, in double precision on one thread.
#pragma once

#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

struct HostMeasurement {
  std::vector<MeasuredTimes::Kind> kinds;  // as those of the network's layers
  // What was not measured as it is: "fully connected layers on 64 of 11520 outputs". Empty:
  // nothing.
  std::string notes;
  double copy_gb_per_s = 0;  // 10^9 bytes a second, of a state copied to another
};

// Times one layer of each kind of `network`, of `chain`, with weights of no meaning: forward,
// adjoint and gradient as HostStage runs them, and several of one input. Takes a fraction of a
// second for each kind, on the calling thread. The least of several runs counts.
Result<HostMeasurement> MeasureLayers(const ResidualChain& chain, const NetworkLayers& network);

}  // namespace ucudnn::multigrid
