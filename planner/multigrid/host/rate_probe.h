// Estimates how fast the solves of a network's longest stage converge: runs two cycles of a
// stand-in with the network's weights on the host. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/convergence.h"
#include "planner/multigrid/analysis/network_model.h"
#include "planner/multigrid/analysis/stand_in.h"
#include "planner/multigrid/host/network.h"

namespace ucudnn::multigrid {

struct ProbeSettings {
  double h = 1;               // the step h of the stage
  double operations = 1.7e8;  // of a forward pass, at most, if stand-ins can be so small
  uint64_t seed = 0;          // of the first state and of drawn weights
  int lanes = 1;
  ResidualScale scale = ResidualScale::kAbsolute;
};

class RateProbe {
 public:
  // `parameters` belong to `chain`; null if weights are drawn. `chain` is not kept.
  static Result<std::unique_ptr<RateProbe>> Make(const ResidualChain& chain, const Stage& stage,
                                                 const Parameters* parameters,
                                                 const ProbeSettings& settings);

  // Runs two cycles, and returns residuals as the stage itself would have them: an absolute
  // residual is scaled with the square root of the ratio of the state sizes.
  Result<ConvergenceEstimate> Estimate(const MultigridSetting& setting);

  // Returns how the stand-in differs from the stage, in words, or an empty text if it does not.
  const std::string& differences() const { return stand_in_.differences; }

 private:
  RateProbe(StandIn stand_in, const ProbeSettings& settings)
      : stand_in_(std::move(stand_in)), settings_(settings) {}

  StandIn stand_in_;
  ProbeSettings settings_;
  Parameters parameters_;
  std::vector<double> state_;
};

}  // namespace ucudnn::multigrid
