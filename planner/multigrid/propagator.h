// Applies the layers of a chain to states of any kind, for BlockSystem. Propagators exist for
// residual networks on the host and on devices, for their adjoints and for a caller's own vectors
// (ucudnn/layer_parallel.h).
#pragma once

#include <chrono>
#include <functional>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "planner/multigrid/lanes.h"

namespace ucudnn::multigrid {

using State = void*;  // never null; its propagator owns it

// The place of a state in a system.
struct StatePlace {
  enum class Role {
    kState,   // state `number` of the level
    kSource,  // the right side of the equation for state `number`
    kScratch  // temporary storage for the result of step `number`
  };
  int level = 0;
  Role role = Role::kState;
  int number = 0;
};

// Names a run of chains that a system repeats, always on the same states.
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

  // Creates a state of unspecified value, which exists as long as the propagator.
  virtual Result<State> Create() = 0;
  // Creates the state of a system at `place`, in memory near states that are used together with it.
  // Called once for each place, and again if making the system failed.
  virtual Result<State> CreateAt([[maybe_unused]] const StatePlace& place) { return Create(); }
  // Returns true if the k-th operations of all chains run as one. Each chain then needs its own
  // scratch, and each level its own first state. Returns false if each lane runs whole chains.
  virtual bool RunsSideBySide() const { return false; }
  // If chains run side by side, records the operations of the chains that phases() runs, without
  // running them.
  virtual Status Prepare([[maybe_unused]] const std::function<Status()>& phases) {
    return Status::Ok();
  }
  // Runs `count` chains: chain(number, lane) makes the Step, Combine and Take calls of one chain,
  // in their order. No chain reads what another one writes. All later work of lanes follows the
  // whole run. If chains run side by side, Prepare or the first run with a `key` records the
  // chains' operations, and later runs with this key repeat them.
  virtual Status Run([[maybe_unused]] const RunKey& key, int count, LaneWork chain, Lanes& lanes) {
    UCUDNN_RETURN_IF_ERROR(lanes.ForEach(count, chain));
    return Join();
  }

  // Several threads may call the other functions at once, each with its own `lane` and with states
  // that no other thread writes.

  // Computes to = Phi_level,step(from). REQUIRES: `to` and `from` are different states.
  virtual Status Step(int level, int step, State from, State to, int lane) = 0;
  // Computes to = a * x + b * to. An operand whose factor is 0 is not read.
  virtual Status Combine(State to, double b, double a, State x, int lane) = 0;
  // Computes *result = |x - y|^2, or |x|^2 if `y` is null. *result is valid after the next Wait;
  // until then both states must keep their values.
  virtual Status SquaredDistance(State x, State y, double* result, int lane) = 0;

  // Sets *ms to the time at which `lane` finishes its work so far, counted from any fixed moment.
  // *ms is valid after the next Wait.
  virtual Status Mark([[maybe_unused]] int lane, double* ms) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    *ms = std::chrono::duration<double, std::milli>(now).count();
    return Status::Ok();
  }

  // Moves the value of `from`, which becomes invalid, into `to`. The two may be swapped instead.
  virtual Status Take(State& to, State& from, [[maybe_unused]] int lane) {
    std::swap(to, from);
    return Status::Ok();
  }

  // Runs a cycle of a solve (LayerSystem::RunCycle).
  virtual Status RunCycle([[maybe_unused]] int kind, const std::function<Status()>& cycle) {
    return cycle();
  }

  // If lanes are streams, makes all later work of all lanes wait for all earlier work of any lane.
  // REQUIRES: no other thread calls the propagator meanwhile.
  virtual Status Join() { return Status::Ok(); }
  // Waits for all work of all lanes. REQUIRES: no other thread calls the propagator meanwhile.
  virtual Status Wait() { return Status::Ok(); }

  virtual double UnitRoundoff() const = 0;  // of the numbers in a state
};

}  // namespace ucudnn::multigrid
