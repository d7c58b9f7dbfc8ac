#include "planner/multigrid/solver.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace ucudnn::multigrid {
namespace {

using Source = LayerSystem::Source;

// Limits of a residual, in units of the unit roundoff times the norm of all C-points. Measured in
// fp32 and fp64, the residual of a chain ends at about 0.25 of this unit, because each C-point is
// rounded once.
constexpr double kReachable = 0.1;  // no solve ends below this, however many cycles it has
constexpr double kFloor = 1;        // above this, rounding is not what makes a residual stall
// A residual below kJudged times the unit roundoff times the largest state is too small to show
// divergence.
constexpr double kJudged = 200;

// If states grow, a residual within a bound that is relative to the largest state may be as large
// as an early state, and its error then grows with the states. So a solve with such a bound must
// also meet a second condition before it ends. Each residual is divided by the norm of its own
// state, and the norm of all quotients must be at most kBesideOwn times the bound. Networks need a
// factor between one and ten.
constexpr double kBesideOwn = 100;
// A solve that stops early with a residual above kFarAway times the largest state is far from the
// solution.
constexpr double kFarAway = 0.1;
constexpr int kReserved = 255;  // more cycles than this make the solve allocate memory

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

class Cycles {
 public:
  Cycles(LayerSystem& system, const Hierarchy& hierarchy, const SolveOptions& options)
      : system_(system),
        hierarchy_(hierarchy),
        options_(options),
        is_relaxed_(hierarchy.levels(), false) {}

  Status Begin();
  Status Run(int number);
  // Returns the residual. REQUIRES: the F-points of the finest level are relaxed.
  Result<double> Residual();

 private:
  Status Descend(int level, bool relaxes);
  Status Cycle(int level, bool relaxes);
  Status StartNested();

  LayerSystem& system_;
  const Hierarchy& hierarchy_;
  const SolveOptions& options_;
  // By level: whether the F-points are already relaxed.
  std::vector<bool> is_relaxed_;
  // Whether Residual has already called Advance for the finest level, so that Descend need not. One
  // flag suffices, because no other level is advanced before a cycle begins.
  bool is_advanced_ = false;
};

Status Cycles::Begin() {
  if (options_.start == Start::kNested) return StartNested();
  if (options_.start == Start::kBroadcast) UCUDNN_RETURN_IF_ERROR(system_.Broadcast());
  return system_.StepLead(0, Source::kNone);
}

Status Cycles::StartNested() {
  int level = hierarchy_.coarsest();
  for (int finer = 0; finer <= level; ++finer) {
    UCUDNN_RETURN_IF_ERROR(system_.StepLead(finer, Source::kNone));
  }
  UCUDNN_RETURN_IF_ERROR(system_.SolveSerially(level, Source::kNone));
  while (level-- > 0) {
    UCUDNN_RETURN_IF_ERROR(system_.Correct(level));
    UCUDNN_RETURN_IF_ERROR(system_.RelaxF(level, Source::kNone));
  }
  // The other levels were relaxed without right sides, so they count as not relaxed.
  is_relaxed_[0] = true;
  return Status::Ok();
}

// Relaxes `level`, and makes the equations of level + 1.
Status Cycles::Descend(int level, bool relaxes) {
  const bool is_finest = level == 0;
  if (relaxes) {
    if (!is_relaxed_[level]) {
      UCUDNN_RETURN_IF_ERROR(system_.RelaxF(level, Source::kRestricted));
      if (is_finest) is_advanced_ = false;
    }
    for (int sweep = 0; sweep < SweepsOf(options_.c_sweeps, level); ++sweep) {
      if (!(is_finest && is_advanced_)) UCUDNN_RETURN_IF_ERROR(system_.Advance(level));
      UCUDNN_RETURN_IF_ERROR(system_.RelaxC(level));
      UCUDNN_RETURN_IF_ERROR(system_.RelaxF(level, Source::kRestricted));
      if (is_finest) is_advanced_ = false;
    }
  }
  if (!(is_finest && is_advanced_)) UCUDNN_RETURN_IF_ERROR(system_.Advance(level));
  if (is_finest) is_advanced_ = false;
  is_relaxed_[level + 1] = false;
  UCUDNN_RETURN_IF_ERROR(system_.Restrict(level));
  return system_.StepLead(level + 1, Source::kRestricted);
}

// Runs a V-cycle, which visits each coarser level once.
Status Cycles::Cycle(int level, bool relaxes) {
  if (level == hierarchy_.coarsest()) return system_.SolveSerially(level, Source::kRestricted);
  UCUDNN_RETURN_IF_ERROR(Descend(level, relaxes));
  UCUDNN_RETURN_IF_ERROR(Cycle(level + 1, relaxes));
  UCUDNN_RETURN_IF_ERROR(system_.Correct(level));
  is_relaxed_[level] = true;
  return system_.RelaxF(level, Source::kRestricted);
}

Status Cycles::Run(int number) {
  const bool relaxes = !(options_.skips_first_down && number == 1);
  // These flags determine all calls of a cycle. Every cycle leaves the finest level relaxed.
  const int kind = (relaxes ? 1 : 0) + (is_relaxed_[0] ? 2 : 0) + (is_advanced_ ? 4 : 0);
  UCUDNN_RETURN_IF_ERROR(system_.RunCycle(kind, [this, relaxes] { return Cycle(0, relaxes); }));
  is_relaxed_[0] = true;
  is_advanced_ = false;
  return Status::Ok();
}

Result<double> Cycles::Residual() {
  if (!is_advanced_) UCUDNN_RETURN_IF_ERROR(system_.Advance(0));
  is_advanced_ = true;
  return system_.Norm(NormParts::kResidual);
}

// Judges residuals from the second cycle on, because the first cycle often raises the residual even
// of a solve that converges.
class Judge {
 public:
  // Returns the reason why the solve is given up after this residual; null if the solve continues.
  // Residuals up to `negligible` are not judged. A residual that is not finite is a reason in any
  // cycle.
  const char* Consider(int cycle, double residual, double negligible) {
    if (!std::isfinite(residual)) return "the states are not finite";
    const double before = last_;
    last_ = residual;
    if (cycle < 2 || residual <= negligible) return nullptr;
    rises_ = residual > before ? rises_ + 1 : 0;
    if (rises_ == kRises) return "relative to the largest state, the residual rose twice in a row";
    if (residual > kSlow * before && ++slow_ == kSlowCycles) {
      return "relative to the largest state, the residual fell by less than half in three cycles";
    }
    return nullptr;
  }
  // Returns whether the last cycle left more than half of the residual.
  static bool Stalls(double before, double residual) { return residual > kSlow * before; }

 private:
  static constexpr int kRises = 2;
  static constexpr double kSlow = 0.5;
  static constexpr int kSlowCycles = 3;

  double last_ = std::numeric_limits<double>::infinity();
  int rises_ = 0;
  int slow_ = 0;
};

Result<Solution> SolveOneLevel(LayerSystem& system) {
  Solution solution;
  UCUDNN_RETURN_IF_ERROR(
      system.RunCycle(0, [&system] { return system.SolveSerially(0, Source::kNone); }));
  UCUDNN_ASSIGN_OR_RETURN(const LayerSystem::StateNorms norms, system.Norms());
  solution.largest_state = norms.largest;
  return solution;
}

// One solve of several levels.
class Run {
 public:
  Run(LayerSystem& system, const Hierarchy& hierarchy, const SolveOptions& options)
      : system_(system),
        hierarchy_(hierarchy),
        options_(options),
        cycles_(system, hierarchy, options) {}

  Result<Solution> Solve();

 private:
  bool IsDirect() const {
    return solution_.cycles >= CyclesOfDirectSolve(hierarchy_.level(0), options_);
  }
  // Records the residual of the last cycle, and decides whether the solve ends and with which
  // outcome. If judge_ gives the cycles up, solves serially. Returns whether the solve has ended.
  Result<bool> IsOver();
  void Tell(double residual) const {
    if (options_.watch) options_.watch(solution_.cycles, residual);
  }
  // Returns whether the norm of all residuals, each divided by the norm of its own state, is at
  // most kBesideOwn * `bound`.
  Result<bool> IsSmallByState(double bound);
  Status FallBack(const char* reason);
  Status CheckReachable(double first) const;

  LayerSystem& system_;
  const Hierarchy& hierarchy_;
  const SolveOptions& options_;
  Cycles cycles_;
  Judge judge_;
  Solution solution_;
  bool is_negligible_ = false;  // whether the last residual is negligible, in a direct solve
};

Result<bool> Run::IsSmallByState(double bound) {
  UCUDNN_ASSIGN_OR_RETURN(const double by_state, system_.Norm(NormParts::kResidualByState));
  return by_state <= kBesideOwn * bound;
}

Status Run::FallBack(const char* reason) {
  solution_.outcome = Outcome::kSerial;
  solution_.fallback = reason;
  UCUDNN_RETURN_IF_ERROR(system_.SolveSerially(0, Source::kNone));
  UCUDNN_ASSIGN_OR_RETURN(const LayerSystem::StateNorms norms, system_.Norms());
  solution_.largest_state = norms.largest;
  return Status::Ok();
}

// Fails if rounding makes the tolerance unreachable. Assumes that the states of the solution are as
// large as u0, whose norm is `first`. The states of the start are no measure, because they come
// from an earlier solve or from a coarse operator that may diverge.
Status Run::CheckReachable(double first) const {
  if (!options_.tolerance || !std::isfinite(first) || first == 0) return Status::Ok();
  const double scale = options_.scale == ResidualScale::kAbsolute ? 1 : first;
  const double norm_of_all = std::sqrt(hierarchy_.level(0).blocks() + 1.0) * first;
  const double floor = kReachable * system_.UnitRoundoff() * norm_of_all / scale;
  if (*options_.tolerance >= floor) return Status::Ok();
  return Status::Error("tolerance " + Number(*options_.tolerance) +
                       " is below what states of this precision can reach, about " + Number(floor) +
                       ": a larger one, or a wider type");
}

Result<bool> Run::IsOver() {
  UCUDNN_ASSIGN_OR_RETURN(const LayerSystem::StateNorms norms, system_.Norms());
  double residual = std::numeric_limits<double>::quiet_NaN();
  if (std::isfinite(norms.largest)) {
    UCUDNN_ASSIGN_OR_RETURN(residual, cycles_.Residual());
  }
  solution_.largest_state = norms.largest;
  const double before = solution_.residuals.back();
  solution_.residuals.resize(solution_.cycles, std::numeric_limits<double>::quiet_NaN());
  const double scale = options_.scale == ResidualScale::kAbsolute ? 1 : norms.largest;
  const double scaled = scale > 0 ? residual / scale : residual;
  solution_.residuals.push_back(scaled);
  const double rounding = kFloor * system_.UnitRoundoff();
  // The judge gets the residual relative to the largest state, whatever options_.scale is, because
  // states that grow raise their residual, too.
  const double relative = norms.largest > 0 ? residual / norms.largest : residual;
  const double negligible = kJudged * system_.UnitRoundoff();
  is_negligible_ = false;
  if (relative <= negligible && IsDirect()) {
    UCUDNN_ASSIGN_OR_RETURN(is_negligible_, IsSmallByState(negligible));
  }
  if (const char* reason = judge_.Consider(solution_.cycles, relative, negligible)) {
    UCUDNN_RETURN_IF_ERROR(FallBack(reason));
    return true;
  }
  if (!options_.tolerance) return false;
  if (scaled <= *options_.tolerance) {
    if (options_.scale == ResidualScale::kLargestState) {
      UCUDNN_ASSIGN_OR_RETURN(const bool is_small, IsSmallByState(*options_.tolerance));
      if (!is_small) return false;
    }
    solution_.outcome = IsDirect() ? Outcome::kDirect : Outcome::kConverged;
    return true;
  }
  if (residual <= rounding * norms.all && Judge::Stalls(before, scaled)) {
    const double of_all = rounding * std::sqrt(hierarchy_.level(0).blocks() + 1.0);
    UCUDNN_ASSIGN_OR_RETURN(const bool is_small, IsSmallByState(of_all));
    if (!is_small) return false;
    solution_.outcome = Outcome::kRounding;
    return true;
  }
  return false;
}

Result<Solution> Run::Solve() {
  solution_.residuals.reserve(static_cast<size_t>(std::min(options_.cycles, kReserved)) + 1);
  UCUDNN_RETURN_IF_ERROR(cycles_.Begin());
  UCUDNN_ASSIGN_OR_RETURN(const LayerSystem::StateNorms start, system_.Norms());
  UCUDNN_RETURN_IF_ERROR(CheckReachable(start.first));
  solution_.residuals.push_back(std::numeric_limits<double>::quiet_NaN());
  if (options_.measures_start) {
    UCUDNN_ASSIGN_OR_RETURN(solution_.residuals.back(), system_.Norm(NormParts::kFullResidual));
    if (options_.scale == ResidualScale::kLargestState && start.largest > 0) {
      solution_.residuals.back() /= start.largest;
    }
  }
  const bool looks = options_.tolerance || options_.measures_cycles;
  while (solution_.cycles < options_.cycles) {
    UCUDNN_RETURN_IF_ERROR(cycles_.Run(++solution_.cycles));
    // A coarse operator that amplifies rounding errors can undo the exactness of relaxation, so the
    // residual of a direct solve must be measured.
    const bool must_look = solution_.cycles == options_.cycles && IsDirect();
    if (!looks && !must_look) {
      Tell(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(const bool is_over, IsOver());
    Tell(solution_.residuals.back());
    if (is_over) return solution_;
  }
  if (options_.tolerance) {
    UCUDNN_RETURN_IF_ERROR(FallBack("the cycles allowed did not reach the tolerance"));
    return solution_;
  }
  UCUDNN_ASSIGN_OR_RETURN(const LayerSystem::StateNorms norms, system_.Norms());
  solution_.largest_state = norms.largest;
  if (!std::isfinite(norms.largest)) {
    UCUDNN_RETURN_IF_ERROR(FallBack("the states are not finite"));
    return solution_;
  }
  solution_.outcome = IsDirect() && is_negligible_ ? Outcome::kDirect : Outcome::kEarly;
  return solution_;
}

}  // namespace

const char* NameOf(Outcome outcome) {
  constexpr const char* kNames[] = {"converged", "rounding", "early", "direct", "serial"};
  return kNames[static_cast<size_t>(outcome)];
}

Status CheckOptions(const SolveOptions& options) {
  if (options.c_sweeps.empty()) return Status::Error("no relaxation; F or FCF is expected");
  for (const int sweeps : options.c_sweeps) {
    if (sweeps >= 0) continue;
    return Status::Error(std::to_string(sweeps) +
                         " sweeps of C-relaxation; 0 (F), 1 (FCF) and more are expected");
  }
  if (options.cycles < 1) {
    return Status::Error(std::to_string(options.cycles) + " cycles; 1 and more are expected");
  }
  if (options.tolerance && !(*options.tolerance > 0 && std::isfinite(*options.tolerance))) {
    return Status::Error("tolerance " + Number(*options.tolerance) +
                         "; a number above 0 is expected");
  }
  return Status::Ok();
}

double RelativeResidual(const Solution& solution, ResidualScale scale) {
  if (solution.residuals.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double residual = solution.residuals.back();
  const bool is_absolute = scale == ResidualScale::kAbsolute;
  return is_absolute && solution.largest_state > 0 ? residual / solution.largest_state : residual;
}

bool IsFarAway(const Solution& solution, ResidualScale scale) {
  return solution.outcome == Outcome::kEarly && RelativeResidual(solution, scale) > kFarAway;
}

int SweepsOf(const std::vector<int>& c_sweeps, int level) {
  return c_sweeps[std::min<size_t>(level, c_sweeps.size() - 1)];
}

int CyclesOfDirectSolve(const Level& finest, const SolveOptions& options) {
  // Each F-relaxation makes one more block exact, together with the C-relaxation or the correction
  // before it.
  const int blocks_a_cycle = SweepsOf(options.c_sweeps, 0) + 1;
  const int relaxing_cycles = (finest.blocks() + blocks_a_cycle - 1) / blocks_a_cycle;
  return relaxing_cycles + (options.skips_first_down ? 1 : 0);
}

Result<Solution> Solve(LayerSystem& system, const Hierarchy& hierarchy,
                       const SolveOptions& options) {
  UCUDNN_RETURN_IF_ERROR(CheckOptions(options));
  if (hierarchy.levels() == 1) return SolveOneLevel(system);
  return Run(system, hierarchy, options).Solve();
}

Status RunCycles(LayerSystem& system, const Hierarchy& hierarchy, const SolveOptions& options) {
  Cycles cycles(system, hierarchy, options);
  UCUDNN_RETURN_IF_ERROR(cycles.Begin());
  for (int number = 1; number <= options.cycles; ++number) {
    UCUDNN_RETURN_IF_ERROR(cycles.Run(number));
    if (options.measures_cycles) UCUDNN_RETURN_IF_ERROR(cycles.Residual().status());
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
