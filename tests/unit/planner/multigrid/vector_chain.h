// Chains whose steps are functions on vectors of `Number`: float, double, or a type that overloads
// Combined and SquaredDifference. VectorChain implements Propagator for states that do not belong
// to a network, as users of the library may do, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "planner/multigrid/block_system.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/propagator.h"
#include "planner/multigrid/solver.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

// Returns a * x + b * to. `to` is not read if b is 0.
template <typename Number>
Number Combined(double b, Number to, double a, Number x) {
  const double added = a * x;
  return static_cast<Number>(b == 0 ? added : added + b * to);
}
template <typename Number>
double SquaredDifference(double x, Number y) {
  return (x - y) * (x - y);
}

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
    ++stepped_[level];
    if (from == to) return Status::Error("a step into the state that it reads");
    function_(level, step, Of(from), Of(to));
    return Status::Ok();
  }
  Status Combine(State to, double b, double a, State x, int) override {
    for (size_t i = 0; i < size_; ++i) Of(to)[i] = Combined(b, Of(to)[i], a, Of(x)[i]);
    return Status::Ok();
  }
  Status SquaredDistance(State x, State y, double* result, int) override {
    double sum = 0;
    for (size_t i = 0; i < size_; ++i) {
      sum += SquaredDifference(Of(x)[i], y == nullptr ? Number{0} : Of(y)[i]);
    }
    *result = sum;
    return Status::Ok();
  }
  double UnitRoundoff() const override {
    using Rounded = std::conditional_t<std::is_floating_point_v<Number>, Number, double>;
    return std::numeric_limits<Rounded>::epsilon() / 2.0;
  }

  static Numbers& Of(State state) { return *static_cast<Numbers*>(state); }

  int64_t created() const { return static_cast<int64_t>(states_.size()); }
  int64_t stepped(int level) const { return stepped_[level]; }
  void ForgetSteps() {
    for (auto& count : stepped_) count = 0;
  }

 private:
  static constexpr int kMostLevels = 8;

  size_t size_;
  StepFunction function_;
  std::vector<std::unique_ptr<Numbers>> states_;
  std::atomic<int64_t> stepped_[kMostLevels] = {};
};

// A solve of a VectorChain, with all objects that it needs. Must not be moved.
template <typename Number>
struct VectorSolve {
  using Numbers = std::vector<Number>;

  VectorSolve(const Hierarchy& levels, const Numbers& u0,
              typename VectorChain<Number>::StepFunction function, Storage storage = Storage::kAll,
              int lane_count = 1)
      : hierarchy(levels),
        first(u0),
        step(function),
        chain(u0.size(), std::move(function)),
        lanes(std::move(*Lanes::Start(lane_count))),
        system(std::move(*BlockSystem::Make(chain, hierarchy, lanes, storage, &first))) {}

  Result<Solution> Solve(const SolveOptions& options) {
    return multigrid::Solve(system, hierarchy, options);
  }
  Numbers Last() { return VectorChain<Number>::Of(system.last()); }
  // Returns the states of the finest level.
  std::vector<Numbers> States() {
    Trajectory states = std::move(*Trajectory::Make(system, hierarchy, chain, 1));
    std::vector<Numbers> all;
    for (int number = 0; number <= hierarchy.level(0).steps; ++number) {
      all.push_back(VectorChain<Number>::Of(*states.At(number, 0)));
    }
    return all;
  }
  // Returns u_0..u_N, computed one layer after the other.
  std::vector<Numbers> Serial() const {
    std::vector<Numbers> states = {first};
    for (int i = 0; i < hierarchy.level(0).steps; ++i) {
      Numbers next(first.size());
      step(0, i, states.back(), next);
      states.push_back(std::move(next));
    }
    return states;
  }

  Hierarchy hierarchy;
  Numbers first;
  typename VectorChain<Number>::StepFunction step;
  VectorChain<Number> chain;
  Lanes lanes;
  BlockSystem system;
};

}  // namespace ucudnn::multigrid
