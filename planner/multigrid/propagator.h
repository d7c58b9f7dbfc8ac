// One layer of a chain after the other, on states of any kind: what BlockSystem moves. Residual
// networks on the host, their adjoints and a caller's own vectors (ucudnn/layer_parallel.h) are
// propagators.
#pragma once

#include <chrono>
#include <functional>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "planner/multigrid/lanes.h"

namespace ucudnn::multigrid {

using State = void*;  // its propagator's; never null

// Which state of a system is created.
struct StatePlace {
  enum class Role {
    kState,   // state `number` of the level
    kSource,  // the right side of the equation of state `number`
    kScratch  // what step `number` gives for the time being
  };
  int level = 0;
  Role role = Role::kState;
  int number = 0;
};

// Names chains that a system runs again and again, always on the same states.
struct RunKey {
  int phase = 0;
  int level = 0;
  int variant = 0;

  bool operator<(const RunKey& other) const {
    return std::tie(phase, level, variant) < std::tie(other.phase, other.level, other.variant);
  }
};

class Propagator {
 public:
  virtual ~Propagator() = default;

  // A state of unspecified value. It is the propagator's and lives as long.
  virtual Result<State> Create() = 0;
  // The state of a system at `place`, each asked for once: near others where that is of use.
  virtual Result<State> CreateAt([[maybe_unused]] const StatePlace& place) { return Create(); }
  // Whether the k-th operations of all chains run as one, so that each chain needs scratch of its
  // own, and each level its own first state; else lanes run whole chains.
  virtual bool RunsSideBySide() const { return false; }
  // Reads the chains that phases() runs, where they run side by side: it runs none of them.
  virtual Status Prepare([[maybe_unused]] const std::function<Status()>& phases) {
    return Status::Ok();
  }
  // Runs `count` chains: chain(number, lane) makes the Step, Combine and Take calls of one, in
  // their order. No chain reads what another one writes. What lanes are given afterwards is behind
  // all of it. Where chains run side by side, those of a `key` are read at its first run, if
  // Prepare has not read them, and kept.
  virtual Status Run([[maybe_unused]] const RunKey& key, int count, LaneWork chain, Lanes& lanes) {
    UCUDNN_RETURN_IF_ERROR(lanes.ForEach(count, chain));
    return Join();
  }

  // The other functions are called by several threads at once, each with a `lane` of its own, and
  // with states that no two of them write.

  // to = Phi_level,step(from); `to` is another state than `from`.
  virtual Status Step(int level, int step, State from, State to, int lane) = 0;
  // to = a * x + b * to; what is multiplied by 0 is not read.
  virtual Status Combine(State to, double b, double a, State x, int lane) = 0;
  // *result = |x - y|^2, or |x|^2 where `y` is null; behind the next Wait at the latest, until
  // which both states keep their values.
  virtual Status SquaredDistance(State x, State y, double* result, int lane) = 0;

  // *ms, counted from any epoch, is when `lane` has done what it was given up to now; behind the
  // next Wait at the latest.
  virtual Status Mark([[maybe_unused]] int lane, double* ms) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    *ms = std::chrono::duration<double, std::milli>(now).count();
    return Status::Ok();
  }

  // `to` gets the value of `from`, which is used up: so they may change places instead.
  virtual Status Take(State& to, State& from, [[maybe_unused]] int lane) {
    std::swap(to, from);
    return Status::Ok();
  }

  // Runs `cycle` of a solve, as LayerSystem::RunCycle has it.
  virtual Status RunCycle([[maybe_unused]] int kind, const std::function<Status()>& cycle) {
    return cycle();
  }

  // What lanes were given from now on happens after all that any of them was given before: of lanes
  // that are streams. Called by one thread, between the others' calls.
  virtual Status Join() { return Status::Ok(); }
  // Waits for all that lanes were given. Called as Join is.
  virtual Status Wait() { return Status::Ok(); }

  virtual double UnitRoundoff() const = 0;  // of a state's numbers
};

}  // namespace ucudnn::multigrid
