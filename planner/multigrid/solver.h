// Nonlinear multigrid over the layers of a residual net: Full Approximation Storage with F- and
// FCF-relaxation (MGRIT). Forward states and adjoints are solved by the same code.
// Source: Kirby et al., algorithm 1; options as in XBraid.
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
  kBroadcast,  // every state is the first one
  kPrevious,   // as the states are, of an earlier solve of nearly the same system
  kNested      // the coarsest level first, then level by level upwards
};

enum class ResidualScale {
  kAbsolute,
  kLargestState  // divided by the norm of the largest state, for states that grow
};

struct SolveOptions {
  // Each level but the coarsest has F-relaxation, then c_sweeps[level] times C- and F-relaxation: 0
  // is F, 1 FCF, 2 FCFCF. The last holds for all levels that follow.
  std::vector<int> c_sweeps = {1};
  Start start = Start::kBroadcast;
  bool skips_first_down = false;  // the first cycle goes down without relaxing
  // The residual at which the solve ends; without one it ends after `cycles` (early stopping).
  std::optional<double> tolerance;
  ResidualScale scale = ResidualScale::kAbsolute;
  int cycles = 2;  // with a tolerance: at most; then the states are solved serially
  // Whether residuals[0] is measured, which costs a step of every layer.
  bool measures_start = false;
  // Whether a solve without tolerance measures its residuals. Without it divergence is seen by
  // states that are not finite alone, and one residual is measured: of a solve that is direct.
  bool measures_cycles = true;
  // Called after each cycle, on the thread that solves, with the residual in the scale asked for:
  // NaN where it is not measured. Null: nobody looks.
  std::function<void(int cycle, double residual)> watch = nullptr;
};

enum class Outcome {
  kConverged,  // the residual is at most the tolerance
  kRounding,   // the residual is as small as the precision allows, and above the tolerance
  kEarly,      // the cycles asked for are done
  // After as many cycles as make relaxation alone exact: at the tolerance, or without one exact to
  // rounding.
  kDirect,
  kSerial  // one level, or a solve that did not converge: solved serially
};
const char* NameOf(Outcome outcome);  // converged, rounding, early, direct, serial

struct Solution {
  Outcome outcome = Outcome::kSerial;
  int cycles = 0;
  // In the scale asked for; residuals[k] is the one after k cycles, NaN where it was not measured.
  // Empty behind a solve of one level.
  std::vector<double> residuals;
  double largest_state = 0;  // L2 norm
  std::string fallback;  // why the states were solved serially instead; empty where they were not
};

// The last residual in parts of the largest state; NaN where none was measured. `scale` is that of
// the solve's options.
double RelativeResidual(const Solution& solution, ResidualScale scale);
// Whether a solve stopped early with a residual of more than a tenth of the largest state: its
// states tell little of those of serial propagation.
bool IsFarAway(const Solution& solution, ResidualScale scale);

// An error for options that cannot be met, in one line with the value and what would be right.
Status CheckOptions(const SolveOptions& options);

// How many cycles make relaxation on the finest level alone exact. A first cycle that does not
// relax is not one of them.
int CyclesOfDirectSolve(const Level& finest, int c_sweeps);

// Solves the finest level of `system`. When it returns Ok, the states are those of the outcome: a
// solve that diverges or stalls ends in serial propagation. An error is the system's, or a
// tolerance that the precision cannot reach.
Result<Solution> Solve(LayerSystem& system, const Hierarchy& hierarchy,
                       const SolveOptions& options);

// Runs the cycles of a solve that stops early, each with its residual where that is measured,
// whatever it is: for systems that show what a solve does. REQUIRES: several levels.
Status RunCycles(LayerSystem& system, const Hierarchy& hierarchy, const SolveOptions& options);

}  // namespace ucudnn::multigrid
