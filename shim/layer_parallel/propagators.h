// A program's chain and its adjoint as propagators of planner/multigrid: states are the program's
// pointers, and what is done to them are its callbacks.
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

class CallerStates : public multigrid::Propagator {
 public:
  // Destroys all states.
  ~CallerStates() override;
  CallerStates(const CallerStates&) = delete;
  CallerStates& operator=(const CallerStates&) = delete;

  Result<State> Create() override;
  Status Combine(State to, double b, double a, State x, int lane) override;
  Status SquaredDistance(State x, State y, double* result, int lane) override;
  Status Join() override { return caller_.Join(); }
  Status Wait() override { return caller_.Wait(); }
  double UnitRoundoff() const override { return setting_.unit_roundoff; }

 protected:
  CallerStates(Caller& caller, const Setting& setting) : caller_(caller), setting_(setting) {}

  Caller& caller() { return caller_; }
  const Setting& setting() const { return setting_; }

 private:
  Caller& caller_;
  const Setting& setting_;
  std::vector<State> states_;
};

class CallerChain final : public CallerStates {
 public:
  // Both outlive it.
  CallerChain(Caller& caller, const Setting& setting) : CallerStates(caller, setting) {}

  Status Step(int level, int step, State from, State to, int lane) override;
};

// The adjoint chain w[j] = lambda[N - j].
class CallerAdjoint final : public CallerStates {
 public:
  // All outlive it; `trajectory` is that of the chain's states.
  CallerAdjoint(Caller& caller, const Setting& setting, multigrid::Trajectory& trajectory)
      : CallerStates(caller, setting), trajectory_(trajectory) {}

  Status Step(int level, int step, State from, State to, int lane) override;

 private:
  multigrid::Trajectory& trajectory_;
};

}  // namespace ucudnn::layer_parallel
