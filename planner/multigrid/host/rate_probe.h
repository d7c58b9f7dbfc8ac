// How fast the solves of a network's longest stage converge, from two cycles of a stand-in with the
// network's weights on the host. Thread-compatible.
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
  double h = 1;               // of the stage's step
  double operations = 1.7e8;  // of one forward pass at most, where a stand-in can be so small
  uint64_t seed = 0;          // of the state that goes in, and of drawn weights
  int lanes = 1;
  ResidualScale scale = ResidualScale::kAbsolute;
};

class RateProbe {
 public:
  // `parameters` are those of `chain`; null where they are drawn. `chain` is not kept.
  static Result<std::unique_ptr<RateProbe>> Make(const ResidualChain& chain, const Stage& stage,
                                                 const Parameters* parameters,
                                                 const ProbeSettings& settings);

  // Runs two cycles. Residuals are as the stage itself would have them: those of an absolute norm
  // grow with the root of how many numbers a state has.
  Result<ConvergenceEstimate> Estimate(const MultigridSetting& setting);

  // How the stand-in differs from the stage, in words; empty where it does not.
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
