#include "unit/planner/multigrid/adjoint_solve.h"

#include <algorithm>
#include <cstdlib>

namespace ucudnn::multigrid {

AdjointSolve::AdjointSolve(HostSolve& forward, const SolveSetting& setting,
                           const std::vector<double>& last)
    : forward_(forward), h_(setting.h) {
  trajectory_.emplace(std::move(*Trajectory::Make(forward.system(), forward.hierarchy(),
                                                  forward.propagator(), forward.lanes().count())));
  adjoint_ =
      std::make_unique<HostChain>(forward.stage(), forward.mirrored(), setting.coarse, setting.h);
  adjoint_->LineariseAt(*trajectory_);
  const State first = *adjoint_->Create();
  std::copy(last.begin(), last.end(), HostChain::Numbers(first));
  system_.emplace(std::move(
      *BlockSystem::Make(*adjoint_, forward.mirrored(), forward.lanes(), setting.storage, first)));
}

std::vector<double> AdjointSolve::Lambda(int number) {
  Trajectory adjoints = std::move(*Trajectory::Make(*system_, forward_.mirrored(), *adjoint_, 1));
  const double* const numbers =
      HostChain::Numbers(*adjoints.At(forward_.stage().steps() - number, 0));
  return {numbers, numbers + forward_.stage().state_size()};
}

Parameters AdjointSolve::Gradient(const WeightedChain& chain) {
  Parameters gradient = ZerosLike(chain.parameters);
  for (int step = 0; step < forward_.stage().steps(); ++step) {
    const std::vector<double> u = forward_.State(step);
    const std::vector<double> lambda = Lambda(step + 1);
    forward_.stage().AddStepGradient(step, h_, u.data(), lambda.data(), gradient, 0);
  }
  return gradient;
}

std::vector<double> Flat(const Parameters& parameters) {
  std::vector<double> all;
  for (const auto& [weights, bias] : parameters) {
    all.insert(all.end(), weights.begin(), weights.end());
    all.insert(all.end(), bias.begin(), bias.end());
  }
  return all;
}

}  // namespace ucudnn::multigrid
