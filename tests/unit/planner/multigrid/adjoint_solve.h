// The adjoint of a chain that a HostSolve holds, and the gradient of its weights.
#pragma once

#include <vector>

#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

// Solves for lambda_0..lambda_N behind the states of `forward` as they are when it is made; it
// stays where it is made. Ends the test where something cannot be made.
class AdjointSolve {
 public:
  // `setting` is that of `forward`, but may have another storage. `last` is lambda_N.
  AdjointSolve(HostSolve& forward, const SolveSetting& setting, const std::vector<double>& last);

  Result<Solution> Solve(const SolveOptions& options) {
    return multigrid::Solve(*system_, forward_.mirrored(), options);
  }
  BlockSystem& system() { return *system_; }
  std::vector<double> Lambda(int number);
  // d(lambda_N . u_N) / d(weights), of the states and adjoints as they are.
  Parameters Gradient(const WeightedChain& chain);

 private:
  HostSolve& forward_;
  double h_;
  std::optional<Trajectory> trajectory_;
  std::unique_ptr<HostChain> adjoint_;
  std::optional<BlockSystem> system_;
};

// All numbers of `parameters`, one behind the other.
std::vector<double> Flat(const Parameters& parameters);

}  // namespace ucudnn::multigrid
