// Makes chains whose steps are functions on vectors of `Number`, float or double. VectorChain
// implements Propagator for states that do not belong to a network, as callers of the library may.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "planner/multigrid/block_system.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/propagator.h"
#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

template <typename Number>
class VectorChain : public Propagator {
 public:
  using Numbers = std::vector<Number>;
  // `to` has the size of a state and is never `from`.
  using StepFunction = std::function<void(int level, int step, const Numbers& from, Numbers& to)>;

  VectorChain(size_t size, StepFunction function) : size_(size), function_(std::move(function)) {}

  Result<State> Create() override {
    constexpr Number kUnset = std::numeric_limits<Number>::quiet_NaN();
    states_.push_back(std::make_unique<Numbers>(size_, kUnset));
    return State{states_.back().get()};
  }
  Status Step(int level, int step, State from, State to, int) override {
    function_(level, step, Of(from), Of(to));
    return Status::Ok();
  }
  Status Combine(State to, double b, double a, State x, int) override {
    for (size_t i = 0; i < size_; ++i) {
      const double added = a * Of(x)[i];
      Of(to)[i] = static_cast<Number>(b == 0 ? added : added + b * Of(to)[i]);
    }
    return Status::Ok();
  }
  Status SquaredDistance(State x, State y, double* result, int) override {
    double sum = 0;
    for (size_t i = 0; i < size_; ++i) {
      const double difference = Of(x)[i] - (y == nullptr ? 0.0 : Of(y)[i]);
      sum += difference * difference;
    }
    *result = sum;
    return Status::Ok();
  }
  double UnitRoundoff() const override { return std::numeric_limits<Number>::epsilon() / 2.0; }

  static Numbers& Of(State state) { return *static_cast<Numbers*>(state); }

 private:
  size_t size_;
  StepFunction function_;
  std::vector<std::unique_ptr<Numbers>> states_;
};

// Holds a system over a VectorChain, and everything that it needs. Must not be moved.
template <typename Number>
struct VectorSolve {
  using Numbers = std::vector<Number>;

  VectorSolve(const Hierarchy& levels, const Numbers& u0,
              typename VectorChain<Number>::StepFunction function, Storage storage = Storage::kAll)
      : hierarchy(levels),
        first(u0),
        step(function),
        chain(u0.size(), std::move(function)),
        lanes(std::move(*Lanes::Start(1))),
        system(std::move(*BlockSystem::Make(chain, hierarchy, lanes, storage, &first))) {}

  Result<Solution> Solve(const SolveOptions& options) {
    return multigrid::Solve(system, hierarchy, options);
  }
  Numbers Last() { return VectorChain<Number>::Of(system.last()); }
  // Returns u_N, computed one layer after the other.
  Numbers Serial() const {
    Numbers state = first;
    for (int i = 0; i < hierarchy.level(0).steps; ++i) {
      Numbers next(state.size());
      step(0, i, state, next);
      state = next;
    }
    return state;
  }

  Hierarchy hierarchy;
  Numbers first;
  typename VectorChain<Number>::StepFunction step;
  VectorChain<Number> chain;
  Lanes lanes;
  BlockSystem system;
};

}  // namespace ucudnn::multigrid
