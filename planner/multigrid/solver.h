// Nonlinear multigrid over the layers of a residual network: Full Approximation Storage with F- and
// FCF-relaxation (MGRIT). The same code solves for forward states and for adjoints. Source: Kirby
// et al., algorithm 1; the options follow XBraid.
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
  kBroadcast,  // every state begins as a copy of the first state
  kPrevious,   // the states of an earlier solve of nearly the same system
  kNested      // solves the coarsest level first, and then each finer level
};

enum class ResidualScale {
  kAbsolute,
  kLargestState  // divides by the norm of the largest state, for states that grow
};

// Returns the number of `c_sweeps` (SolveOptions) that applies to `level`.
int SweepsOf(const std::vector<int>& c_sweeps, int level);

struct SolveOptions {
  // Each level but the coarsest has an F-relaxation and then, c_sweeps[level] times, a C- and an
  // F-relaxation: 0 is F, 1 is FCF, 2 is FCFCF. The last number applies to all further levels.
  std::vector<int> c_sweeps = {1};
  Start start = Start::kBroadcast;
  bool skips_first_down = false;  // whether the first cycle goes down without relaxation
  // The residual at which the solve ends. A solve without a tolerance ends after `cycles` cycles
  // (early stopping).
  std::optional<double> tolerance;
  ResidualScale scale = ResidualScale::kAbsolute;
  int cycles = 2;  // with a tolerance this is a maximum, after which the chain is solved serially
  // If set, residuals[0] is measured, which takes one step of every layer.
  bool measures_start = false;
  // If set, a solve without a tolerance measures its residuals. If not set, divergence shows only
  // by states that are not finite, and only the last residual of a direct solve is measured.
  bool measures_cycles = true;
  // Called after each cycle, on the solving thread, with the residual in the scale of `scale`, or
  // with NaN if the residual is not measured. May be null.
  std::function<void(int cycle, double residual)> watch = nullptr;
};

enum class Outcome {
  kConverged,  // the residual is at most the tolerance
  kRounding,   // the residual is as small as the precision permits, but above the tolerance
  kEarly,      // the requested cycles were made
  // The solve had enough cycles for relaxation alone to be exact. Its residual is at most the
  // tolerance or, without a tolerance, as small as rounding permits.
  kDirect,
  kSerial  // solved serially, because there is one level or because the cycles did not converge
};
const char* NameOf(Outcome outcome);  // "converged", "rounding", "early", "direct" or "serial"

struct Solution {
  Outcome outcome = Outcome::kSerial;
  int cycles = 0;
  // By cycle, in the scale of SolveOptions::scale: residuals[k] is measured after cycle k, or NaN
  // if it is not measured. Empty after a solve of one level.
  std::vector<double> residuals;
  double largest_state = 0;  // the largest L2 norm of a state
  std::string fallback;  // the reason why cycles gave way to a serial solve; empty if they did not
};

// Returns the last residual divided by the norm of the largest state; NaN if no residual was
// measured. `scale` is the scale in the options of the solve.
double RelativeResidual(const Solution& solution, ResidualScale scale);
// Returns whether a solve stopped early with a residual above a tenth of the largest state. Its
// states may differ much from serial propagation.
bool IsFarAway(const Solution& solution, ResidualScale scale);

// Fails if options are invalid, with one line that gives the value and what is expected.
Status CheckOptions(const SolveOptions& options);

// Returns the number of cycles after which relaxation on the finest level alone is exact.
int CyclesOfDirectSolve(const Level& finest, const SolveOptions& options);

// Solves the finest level of `system`. A solve that diverges or stalls ends in serial propagation,
// and the returned outcome is then kSerial. Fails if the system fails, or if the precision cannot
// reach the tolerance.
Result<Solution> Solve(LayerSystem& system, const Hierarchy& hierarchy,
                       const SolveOptions& options);

// Runs all cycles of a solve that stops early, without judging residuals, for systems that record
// the steps of a solve. Measures residuals if measures_cycles is set. REQUIRES: several levels.
Status RunCycles(LayerSystem& system, const Hierarchy& hierarchy, const SolveOptions& options);

}  // namespace ucudnn::multigrid
