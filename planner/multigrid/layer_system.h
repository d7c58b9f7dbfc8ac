// The states of all levels of one solve, as the solver moves them: whoever implements this decides
// where states live and how the blocks of a level run at once.
//
// U_l[0..M_l] are the states of level l, Phi_l,i its step from state i to state i + 1, and
//     U_l[0] = u0,   U_l[i + 1] = Phi_l,i(U_l[i]) + g_l[i + 1]
// its equations: equation 18 of Kirby et al. with g_0 = 0 on the finest level, equation 24 on the
// others. A block is a C-point and the F-points behind it (figure 3).
// Calls come from one thread. A function that fails leaves the states as they may be: the solve is
// over.
#pragma once

#include <functional>
#include <span>

#include "base/status.h"

namespace ucudnn::multigrid {

// What norms are made of: one number for each block, step or state, in their order.
enum class NormParts {
  // |A - U|^2 of each C-point of the finest level behind the first: the residual of equation 19
  // where F-points are relaxed. REQUIRES: Advance(0), just before; it is not used up.
  kResidual,
  kResidualByState,  // the same divided by |U|^2; 0 / 0 is 0
  // |Phi(U) - U|^2 of each step, or of several together: of equation 19 over all points, whatever
  // they are.
  kFullResidual,
  kStates  // |U|^2 of u0, each C-point and the last state
};

class LayerSystem {
 public:
  virtual ~LayerSystem() = default;

  // Which right side a level's equations have.
  enum class Source {
    kNone,       // g_l = 0: the level's own chain from u0 on
    kRestricted  // as Restrict made it; on the finest level the same as kNone
  };

  // Every state of the finest level becomes u0.
  virtual Status Broadcast() = 0;
  // The states up to the first C-point of `level` follow from its first one, step by step: they are
  // what they must be, and no unknowns (Level::lead). The solver calls it for each level before
  // what else it does there: once u0 is known, and whenever Restrict has started the level.
  virtual Status StepLead([[maybe_unused]] int level, [[maybe_unused]] Source source) {
    return Status::Ok();
  }
  // F-points follow from the C-points of their blocks, block by block (F-relaxation).
  virtual Status RelaxF(int level, Source source) = 0;
  // Computes what the C-points of `level` would be by the F-points before them, and keeps it beside
  // them: A[j] = Phi(U[jc - 1]) + g[jc]. REQUIRES: F-points are relaxed, unless the solve skips its
  // first relaxation.
  virtual Status Advance(int level) = 0;
  // C-points become A (C-relaxation). REQUIRES: Advance, just before; what it computed is used up.
  virtual Status RelaxC(int level) = 0;
  // Starts level + 1 from the C-points of `level` (equation 23), with the right side of equation
  // 24: g[j] = A[j] - Phi_level+1(U[(j - 1)c]). REQUIRES: Advance, just before; it is used up.
  virtual Status Restrict(int level) = 0;
  // The states of `level` one after the other: serial propagation.
  virtual Status SolveSerially(int level, Source source) = 0;
  // C-points of `level` become the states of level + 1 (algorithm 1, steps 4 and 5: with injection
  // the old states cancel). Level + 1 is used up.
  virtual Status Correct(int level) = 0;

  // Runs `cycle`, which calls functions above and nothing else. Cycles of one `kind`, a small
  // number, of solves with the same options call the same in the same order: so what the first gave
  // a device may be kept, and given again instead of the next.
  virtual Status RunCycle([[maybe_unused]] int kind, const std::function<Status()>& cycle) {
    return cycle();
  }

  // What norms are summed from. It holds until the next call.
  virtual Result<std::span<const double>> Parts(NormParts parts) = 0;
  // The L2 norm of all together.
  Result<double> Norm(NormParts parts);

  // L2 norms of the finest level's C-points, and of its last state where that is none.
  struct StateNorms {
    double first = 0;    // of u0
    double largest = 0;  // of one state; not finite where any number is not
    double all = 0;      // of all together
  };
  Result<StateNorms> Norms();

  // The distance between 1 and the next number that states can hold, halved.
  virtual double UnitRoundoff() const = 0;
};

}  // namespace ucudnn::multigrid
