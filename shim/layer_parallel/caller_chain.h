// Implements the interface Propagator of planner/multigrid by the program's callbacks, for the
// program's chain and for its adjoint. A State is the program's pointer.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "layer_parallel/arguments.h"
#include "layer_parallel/caller.h"
#include "planner/multigrid/propagator.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::layer_parallel {

using multigrid::State;

class CallerChain final : public multigrid::Propagator {
 public:
  // All arguments must outlive this object. If `linearised` is not null, this is the adjoint chain
  // w[j] = lambda[N - j], linearised at the states of the forward chain that `linearised` reads.
  CallerChain(Caller& caller, const Setting& setting, multigrid::StateReader* linearised)
      : caller_(caller), setting_(setting), linearised_(linearised) {}
  // Destroys all states.
  ~CallerChain() override;
  CallerChain(const CallerChain&) = delete;
  CallerChain& operator=(const CallerChain&) = delete;

  Result<State> Create() override;
  Status Step(int level, int step, State from, State to, int lane) override;
  Status Combine(State to, double b, double a, State x, int lane) override;
  Status SquaredDistance(State x, State y, double* result, int lane) override;
  Status Join() override { return caller_.Join(); }
  Status Wait() override { return caller_.Wait(); }
  double UnitRoundoff() const override { return setting_.unit_roundoff; }

 private:
  Caller& caller_;
  const Setting& setting_;
  multigrid::StateReader* const linearised_;
  std::vector<State> states_;
};

}  // namespace ucudnn::layer_parallel
