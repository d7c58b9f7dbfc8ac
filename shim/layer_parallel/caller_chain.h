// A program's chain and its adjoint as propagators of planner/multigrid: states are the program's
// pointers, and its callbacks operate on them.
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
  // All arguments outlive it. If `linearised` is not null, this is the adjoint chain w[j] =
  // lambda[N - j], linearised at those states of the chain.
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
