// Solves the adjoint of a chain that a HostSolve holds, and computes the gradient of its weights.
#pragma once

#include <vector>

#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

// Solves for lambda_0..lambda_N at the states of `forward`, which must not change while this object
// is used. The object must not be moved. REQUIRES: `setting` is valid for the chain of `forward`,
// since the results of making the solver's parts are not checked.
class AdjointSolve {
 public:
  // `setting` is the one that `forward` was made with, except that its storage may differ. `last`
  // is lambda_N.
  AdjointSolve(HostSolve& forward, const SolveSetting& setting, const std::vector<double>& last);

  Result<Solution> Solve(const SolveOptions& options) {
    return multigrid::Solve(*system_, forward_.mirrored(), options);
  }
  BlockSystem& system() { return *system_; }
  std::vector<double> Lambda(int number);
  // Returns d(lambda_N . u_N) / d(weights) at the current states and adjoints.
  Parameters Gradient(const WeightedChain& chain);

 private:
  HostSolve& forward_;
  double h_;
  std::optional<Trajectory> trajectory_;
  std::unique_ptr<HostChain> adjoint_;
  std::optional<BlockSystem> system_;
};

// Returns all numbers of `parameters` in one row.
std::vector<double> Flat(const Parameters& parameters);

}  // namespace ucudnn::multigrid
