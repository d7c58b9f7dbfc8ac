// The states of all levels of one solve, on which the solver operates. An implementation decides
// where states are stored and how the blocks of a level run at once.
//
// U_l[0..M_l] are the states of level l, Phi_l,i is its step from state i to state i + 1, and its
// equations are
//     U_l[0] = u0,   U_l[i + 1] = Phi_l,i(U_l[i]) + g_l[i + 1]
// On the finest level g_0 = 0, which gives equation 18 of Kirby et al.; on the other levels these
// are equation 24. A block is a C-point and the F-points after it (figure 3). All calls come from
// one thread. A function that fails leaves the states undefined, which ends the solve.
#pragma once

#include <cmath>
#include <functional>
#include <span>

#include "base/status.h"

namespace ucudnn::multigrid {

// Selects a squared norm. Parts returns its terms in the order of the blocks, steps or states.
enum class NormParts {
  // The squares |A - U|^2 with A from Advance, one for each C-point of the finest level but the
  // first. If F-points are relaxed, this is the residual of equation 19. REQUIRES: Advance(0) was
  // the last call. The result of Advance stays valid.
  kResidual,
  kResidualByState,  // kResidual divided by |U|^2, where 0 / 0 is 0
  // The squares |Phi(U) - U|^2, one for each step or for several steps together. This is the
  // residual of equation 19 at all points, whether relaxed or not.
  kFullResidual,
  kStates  // |U|^2 of u0, of each C-point and of the last state
};

class LayerSystem {
 public:
  virtual ~LayerSystem() = default;

  // Selects the right side of a level's equations.
  enum class Source {
    kNone,       // g_l = 0: the equations of the level's own chain from u0 on
    kRestricted  // the right sides that Restrict has made; on the finest level the same as kNone
  };

  // Copies u0 into every state of the finest level.
  virtual Status Broadcast() = 0;
  // Computes the states of `level` from the first state up to the first C-point, step by step;
  // these states are exact, not unknowns (Level::lead). The solver calls it for each level before
  // other functions of that level: once u0 is known, and after each Restrict to the level.
  virtual Status StepLead([[maybe_unused]] int level, [[maybe_unused]] Source source) {
    return Status::Ok();
  }
  // Computes the F-points of each block from the block's C-point (F-relaxation).
  virtual Status RelaxF(int level, Source source) = 0;
  // Computes for each C-point of `level` the value that follows from the F-points before it, A[j] =
  // Phi(U[jc - 1]) + g[jc], and keeps this value without changing the C-point. REQUIRES: F-points
  // are relaxed, unless the solve skips its first relaxation.
  virtual Status Advance(int level) = 0;
  // Replaces the C-points by the values A of Advance (C-relaxation). A becomes invalid. REQUIRES:
  // Advance was the last call.
  virtual Status RelaxC(int level) = 0;
  // Initialises level + 1 with the C-points of `level` (equation 23) and, from the values A of
  // Advance, with the right sides of equation 24: g[j] = A[j] - Phi_level+1(U[(j - 1)c]). A becomes
  // invalid. REQUIRES: Advance was the last call.
  virtual Status Restrict(int level) = 0;
  // Computes the states of `level` one after the other (serial propagation).
  virtual Status SolveSerially(int level, Source source) = 0;
  // Replaces the C-points of `level` by the states of level + 1, which become invalid (algorithm 1,
  // steps 4 and 5: with injection the old states cancel).
  virtual Status Correct(int level) = 0;

  // Calls cycle(), which may call only the functions above. Among solves with the same options, all
  // cycles of one `kind` (a small number) make the same calls in the same order. An implementation
  // may therefore record the work that the first such cycle gives to a device, and repeat this work
  // in place of later cycles.
  virtual Status RunCycle([[maybe_unused]] int kind, const std::function<Status()>& cycle) {
    return cycle();
  }

  // Returns the terms of a squared norm. They are valid until the next call.
  virtual Result<std::span<const double>> Parts(NormParts parts) = 0;
  // Returns an L2 norm: the square root of the sum of all parts.
  Result<double> Norm(NormParts parts) {
    UCUDNN_ASSIGN_OR_RETURN(const auto squares, Parts(parts));
    return RootOfSum(squares);
  }

  // L2 norms of the C-points of the finest level, and of its last state if that is no C-point.
  struct StateNorms {
    double first = 0;    // norm of u0
    double largest = 0;  // largest norm of a single state; not finite if any number is not finite
    double all = 0;      // norm of all these states together
  };
  Result<StateNorms> Norms() {
    UCUDNN_ASSIGN_OR_RETURN(const auto squares, Parts(NormParts::kStates));
    double largest = 0;
    for (const double square : squares) {
      // Unlike std::max, this comparison keeps a NaN.
      if (!(square <= largest)) largest = square;
      if (std::isnan(largest)) break;
    }
    return StateNorms{std::sqrt(squares.front()), std::sqrt(largest), RootOfSum(squares)};
  }

  // Returns half of the distance between 1 and the next larger number that states can hold.
  virtual double UnitRoundoff() const = 0;

 private:
  static double RootOfSum(std::span<const double> parts) {
    double sum = 0;
    for (const double part : parts) sum += part;
    return std::sqrt(sum);
  }
};

}  // namespace ucudnn::multigrid
