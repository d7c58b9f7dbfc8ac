// Nonlinear multigrid over the layers of a residual net: Full Approximation Storage with F- and
// FCF-relaxation (MGRIT). The same code solves for forward states and adjoints. Source: Kirby et
// al., algorithm 1; the options follow XBraid.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/layer_system.h"

namespace ucudnn::multigrid {

enum class Start {
  kBroadcast,  // every state is a copy of the first one
  kPrevious,   // the states of an earlier solve of nearly the same system
  kNested      // solve the coarsest level first, then go up level by level
};

enum class ResidualScale {
  kAbsolute,
  kLargestState  // divided by the norm of the largest state, for states that grow
};

struct SolveOptions {
  // Each level but the coarsest has an F-relaxation, then c_sweeps[level] times a C- and an
  // F-relaxation: 0 is F, 1 FCF, 2 FCFCF. The last number holds for all further levels.
  std::vector<int> c_sweeps = {1};
  Start start = Start::kBroadcast;
  bool skips_first_down = false;  // the first cycle goes down without relaxing
  // The residual at which the solve ends. A solve without a tolerance ends after `cycles` (early
  // stopping).
  std::optional<double> tolerance;
  ResidualScale scale = ResidualScale::kAbsolute;
  int cycles = 2;  // with a tolerance: at most; then serial propagation
  // Whether residuals[0] is measured, which costs one step of every layer.
  bool measures_start = false;
  // Whether a solve without tolerance measures its residuals. If not, only states that are not
  // finite show divergence, and the only residual measured is the last one of a direct solve.
  bool measures_cycles = true;
  // Called after each cycle, on the solving thread, with the residual in the scale of `scale`, or
  // NaN if it is not measured. May be null.
  std::function<void(int cycle, double residual)> watch = nullptr;
};

enum class Outcome {
  kConverged,  // the residual is at most the tolerance
  kRounding,   // the residual is as small as the precision allows, but above the tolerance
  kEarly,      // the requested cycles are done
  // The solve had as many cycles as make relaxation alone exact. Its residual is at most the
  // tolerance or, without a tolerance, as small as rounding allows.
  kDirect,
  kSerial  // one level, or a solve that did not converge: solved serially
};
const char* NameOf(Outcome outcome);  // converged, rounding, early, direct, serial

struct Solution {
  Outcome outcome = Outcome::kSerial;
  int cycles = 0;
  // By cycle, in the scale of `scale`: residuals[k] follows cycle k and is NaN if it was not
  // measured. Empty after a solve of one level.
  std::vector<double> residuals;
  double largest_state = 0;  // L2 norm
  std::string fallback;      // why the states were solved serially instead; empty if they were not
};

// Returns the last residual divided by the largest state, or NaN if none was measured. `scale` is
// the scale in the options of the solve.
double RelativeResidual(const Solution& solution, ResidualScale scale);
// Returns whether a solve stopped early with a residual above a tenth of the largest state: its
// states then tell little about serial propagation.
bool IsFarAway(const Solution& solution, ResidualScale scale);

// Fails if options cannot be met, in one line with the value and what would be right.
Status CheckOptions(const SolveOptions& options);

// Returns how many cycles make relaxation on the finest level alone exact. A first cycle that does
// not relax is not counted.
int CyclesOfDirectSolve(const Level& finest, int c_sweeps);

// Solves the finest level of `system`. If it returns Ok, the states have the returned outcome; a
// solve that diverges or stalls ends in serial propagation. Fails if the system fails, or if the
// precision cannot reach the tolerance.
Result<Solution> Solve(LayerSystem& system, const Hierarchy& hierarchy,
                       const SolveOptions& options);

// Runs all cycles of a solve that stops early, and measures their residuals if measures_cycles is
// set, without judging them: for systems that record the steps of a solve. REQUIRES: several
// levels.
Status RunCycles(LayerSystem& system, const Hierarchy& hierarchy, const SolveOptions& options);

}  // namespace ucudnn::multigrid
