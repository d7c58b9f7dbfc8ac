// The states of all levels of one solve, as the solver moves them. An implementation decides where
// states live and how the blocks of a level run at once.
//
// U_l[0..M_l] are the states of level l, Phi_l,i is its step from state i to state i + 1, and its
// equations are
//     U_l[0] = u0,   U_l[i + 1] = Phi_l,i(U_l[i]) + g_l[i + 1]
// They are equation 18 of Kirby et al. with g_0 = 0 on the finest level, and equation 24 on the
// others. A block is a C-point and the F-points behind it (figure 3). Calls come from one thread. A
// function that fails leaves the states in any condition: the solve is over.
#pragma once

#include <functional>
#include <span>

#include "base/status.h"

namespace ucudnn::multigrid {

// Selects the norm that Parts returns: one number for each block, step or state, in their order.
enum class NormParts {
  // Squares |A - U|^2, one for each C-point of the finest level behind the first: the residual of
  // equation 19 if F-points are relaxed. REQUIRES: Advance(0), just before. The result of Advance
  // is not used up.
  kResidual,
  kResidualByState,  // kResidual divided by |U|^2; 0 / 0 is 0
  // Squares |Phi(U) - U|^2, one for each step or for several steps together: the residual of
  // equation 19 at all points, relaxed or not.
  kFullResidual,
  kStates  // |U|^2 of u0, each C-point and the last state
};

class LayerSystem {
 public:
  virtual ~LayerSystem() = default;

  // Selects the right side of a level's equations.
  enum class Source {
    kNone,       // g_l = 0: the level's own chain from u0 on
    kRestricted  // the right side that Restrict made; on the finest level the same as kNone
  };

  // Copies u0 into every state of the finest level.
  virtual Status Broadcast() = 0;
  // Computes the states of `level` up to the first C-point from the first state, step by step:
  // these states are exact and no unknowns (Level::lead). The solver calls it for each level before
  // other functions of that level: once u0 is known, and after each Restrict that starts the level.
  virtual Status StepLead([[maybe_unused]] int level, [[maybe_unused]] Source source) {
    return Status::Ok();
  }
  // Computes the F-points from the C-points of their blocks, block by block (F-relaxation).
  virtual Status RelaxF(int level, Source source) = 0;
  // Computes for each C-point of `level` the value that follows from the F-points before it, and
  // keeps the value beside the C-point: A[j] = Phi(U[jc - 1]) + g[jc]. REQUIRES: F-points are
  // relaxed, unless the solve skips its first relaxation.
  virtual Status Advance(int level) = 0;
  // Replaces the C-points by A (C-relaxation). REQUIRES: Advance, just before. A is used up.
  virtual Status RelaxC(int level) = 0;
  // Starts level + 1 from the C-points of `level` (equation 23), with the right side of equation
  // 24: g[j] = A[j] - Phi_level+1(U[(j - 1)c]). REQUIRES: Advance, just before. A is used up.
  virtual Status Restrict(int level) = 0;
  // Computes the states of `level` one after the other (serial propagation).
  virtual Status SolveSerially(int level, Source source) = 0;
  // Replaces the C-points of `level` by the states of level + 1 (algorithm 1, steps 4 and 5: with
  // injection the old states cancel). The states of level + 1 are used up.
  virtual Status Correct(int level) = 0;

  // Runs `cycle`, which only calls functions above. If solves have the same options, all their
  // cycles of one `kind` (a small number) make the same calls in the same order. An implementation
  // may therefore record the work that the first one gives a device, and repeat it instead of the
  // next.
  virtual Status RunCycle([[maybe_unused]] int kind, const std::function<Status()>& cycle) {
    return cycle();
  }

  // Returns the terms of a squared norm. They are valid until the next call.
  virtual Result<std::span<const double>> Parts(NormParts parts) = 0;
  // Returns the square root of the sum of all parts (L2 norm).
  Result<double> Norm(NormParts parts);

  // L2 norms of the C-points of the finest level, and of its last state if that is no C-point.
  struct StateNorms {
    double first = 0;    // norm of u0
    double largest = 0;  // largest norm of one state; not finite if any number is not finite
    double all = 0;      // norm of all these states together
  };
  Result<StateNorms> Norms();

  // Returns half the distance between 1 and the next larger number that states can hold.
  virtual double UnitRoundoff() const = 0;
};

}  // namespace ucudnn::multigrid
