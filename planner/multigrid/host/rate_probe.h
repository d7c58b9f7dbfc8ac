// Estimates the convergence of solves of a stage by two cycles of a reduced network
// (reduced_network.h) on the host, with the network's weights or with drawn ones.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/convergence.h"
#include "planner/multigrid/analysis/network_model.h"
#include "planner/multigrid/analysis/reduced_network.h"
#include "planner/multigrid/host/network.h"

namespace ucudnn::multigrid {

struct ProbeSettings {
  double h = 1;               // the step h of the stage
  double operations = 1.7e8;  // maximum number of operations of the reduced network's forward pass
  uint64_t seed = 0;          // seed of the first state and of drawn weights
  int lanes = 1;
  ResidualScale scale = ResidualScale::kAbsolute;
};

class RateProbe {
 public:
  // `parameters` belong to `chain`; if null, weights are drawn. `chain` need not outlive the call.
  static Result<std::unique_ptr<RateProbe>> Make(const ResidualChain& chain, const Stage& stage,
                                                 const Parameters* parameters,
                                                 const ProbeSettings& settings);

  // Runs two cycles, and returns the residuals that the stage itself would have: absolute residuals
  // are multiplied by the square root of the ratio of the state sizes.
  Result<ConvergenceEstimate> Estimate(const MultigridSetting& setting);

  // Returns a text that names the differences between the reduced network and the stage; empty if
  // there are none.
  const std::string& differences() const { return reduced_.differences; }

 private:
  RateProbe(ReducedNetwork reduced, const ProbeSettings& settings)
      : reduced_(std::move(reduced)), settings_(settings) {}

  ReducedNetwork reduced_;
  ProbeSettings settings_;
  Parameters parameters_;
  std::vector<double> state_;
};

}  // namespace ucudnn::multigrid
