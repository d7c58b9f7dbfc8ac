// Tests that the outcome which a solve reports is true. The outcomes are: converged to the
// tolerance or to rounding, ended early, direct, or given up and ended by serial propagation.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/must.h"
#include "unit/planner/multigrid/plain_chain.h"
#include "unit/planner/multigrid/vector_chain.h"

namespace ucudnn::multigrid {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr ResidualScale kAbsolute = ResidualScale::kAbsolute;
constexpr ResidualScale kRelative = ResidualScale::kLargestState;

// Expects that each pair of numbers is equal, or that both are NaN.
void ExpectSameStates(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << "number " << i;
  }
}

// Expects that the solve was given up, and that states 0..N equal serial propagation.
void ExpectGivenUp(HostSolve& solve, const Result<Solution>& solved, const std::string& reason) {
  ASSERT_TRUE(solved.ok()) << solved.message();
  EXPECT_EQ(solved->outcome, Outcome::kSerial);
  EXPECT_EQ(solved->fallback, reason);
  const auto serial = solve.Serial();
  for (size_t i = 0; i < serial.size(); ++i) {
    ExpectSameStates(solve.State(static_cast<int>(i)), serial[i]);
  }
  ExpectSameStates(solve.Last(), serial.back());
}

WeightedChain SmoothChain(int steps, double gain) {
  std::mt19937_64 random(5);
  return DrawnChain({.steps = steps}, random, gain, 6);
}

constexpr char kRose[] = "relative to the largest state, the residual rose twice in a row";
constexpr char kSlow[] =
    "relative to the largest state, the residual fell by less than half in three cycles";
constexpr char kNotFinite[] = "the states are not finite";

TEST(Honesty, AnUnscaledNetWhoseStatesGrowBy1e100IsSolvedSerially) {
  const WeightedChain chain = SmoothChain(1024, 0.5);
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    for (const int levels : {2, 4}) {
      for (const ResidualScale scale : {kAbsolute, kRelative}) {
        HostSolve solve(chain, {.levels = levels, .h = 1, .storage = storage});
        const Result<Solution> solved =
            solve.Solve({.tolerance = 1e-9, .scale = scale, .cycles = 30});
        ExpectGivenUp(solve, solved, kSlow);
        EXPECT_GT(solved->largest_state, 1e100);
        EXPECT_LT(solved->cycles, 10);
      }
    }
  }
  HostSolve solve(chain, {.h = 1});
  ExpectGivenUp(solve, solve.Solve({.cycles = 8}), kSlow);
}

TEST(Honesty, WhoWatchesSeesTheResidualOfEachCycle) {
  const WeightedChain chain = SmoothChain(64, 0.5);
  HostSolve solve(chain, {.h = 1.0 / 64});
  std::vector<int> cycles;
  std::vector<double> residuals;
  SolveOptions options = {.tolerance = 1e-9, .scale = kRelative, .cycles = 20};
  options.watch = [&](int cycle, double residual) {
    cycles.push_back(cycle);
    residuals.push_back(residual);
  };
  const Solution solved = test::Must(solve.Solve(options));
  ASSERT_EQ(static_cast<int>(cycles.size()), solved.cycles);
  for (int cycle = 1; cycle <= solved.cycles; ++cycle) {
    EXPECT_EQ(cycles[cycle - 1], cycle);
    EXPECT_EQ(residuals[cycle - 1], solved.residuals[cycle]);
  }
  options.tolerance.reset();
  options.cycles = 2;
  options.measures_cycles = false;
  residuals.clear();
  ASSERT_TRUE(solve.Solve(options).ok());
  ASSERT_EQ(residuals.size(), 2u);
  for (const double residual : residuals) EXPECT_TRUE(std::isnan(residual));
}

// The time h * 256 is 50. Although the first cycles hardly lower the residual, the solve must not
// be given up.
TEST(Honesty, StatesThatGrowTo1e8ConvergeInTheRelativeNorm) {
  const WeightedChain chain = SmoothChain(256, 0.5);
  for (const double tolerance : {1e-9, 1e-14}) {
    HostSolve solve(chain, {.h = 50.0 / 256});
    const Solution solved =
        test::Must(solve.Solve({.tolerance = tolerance, .scale = kRelative, .cycles = 30}));
    EXPECT_EQ(solved.outcome, Outcome::kConverged);
    EXPECT_LT(solved.cycles, 32);  // after 32 cycles the solve would be direct
    EXPECT_GT(solved.largest_state, 1e7);
    EXPECT_LE(solved.residuals.back(), tolerance);
    // The error of the last state, which is the largest, adds up from at most 64 residuals within
    // the tolerance. Early blocks, whose errors would grow most, have been made exact by
    // relaxation.
    EXPECT_LT(RelativeError(solve.Last(), solve.Serial().back()), 64 * tolerance);
  }
}

TEST(Honesty, NumbersThatAreNotFiniteAreThoseOfSerialPropagation) {
  for (const double number : {kNan, kInfinity, -kInfinity}) {
    for (const int at : {0, 6, 30}) {
      WeightedChain chain = SmoothChain(33, 0.5);
      if (at == 0) {
        chain.first[5] = number;
      } else {
        chain.step(at).weights[7] = number;
      }
      for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
        for (const Start start : {Start::kBroadcast, Start::kNested}) {
          HostSolve solve(chain, {.h = 1.0 / 33, .storage = storage});
          SolveOptions options = {.start = start, .tolerance = 1e-9, .cycles = 20};
          ExpectGivenUp(solve, solve.Solve(options), kNotFinite);
          options.tolerance.reset();
          options.cycles = 2;
          options.measures_cycles = false;
          ExpectGivenUp(solve, solve.Solve(options), kNotFinite);
        }
      }
    }
  }
}

TEST(Honesty, AStateBehindTheLastCPointThatIsNotFiniteIsSeen) {
  WeightedChain chain = SmoothChain(35, 0.5);
  chain.step(34).weights[7] = kNan;
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    HostSolve solve(chain, {.h = 1.0 / 35, .storage = storage});
    const Result<Solution> solved = solve.Solve({.tolerance = 1e-9, .cycles = 20});
    ExpectGivenUp(solve, solved, kNotFinite);
    EXPECT_FALSE(std::isfinite(solved->largest_state));
  }
}

// Returns a solve whose states are one number u. A fine step is fine * u, a coarse step coarse * u.
template <typename Number = double>
VectorSolve<Number> Scaling(const Hierarchy& hierarchy, double fine, double coarse) {
  return VectorSolve<Number>(hierarchy, {Number{1}},
                             [=](int level, int, const auto& from, auto& to) {
                               to[0] = static_cast<Number>((level == 0 ? fine : coarse) * from[0]);
                             });
}

// With coarse steps of this factor, an error grows by the factor 1.5 in each block.
constexpr double kUnstable = -1.5;

TEST(Honesty, AResidualThatRisesTwiceIsGivenUp) {
  VectorSolve<double> solve = Scaling(*Hierarchy::Make(64, {4}, 2), 1, kUnstable);
  ASSERT_TRUE(solve.system.SolveSerially(0, LayerSystem::Source::kNone).ok());
  std::vector<double> near = {1 + 1e-12};
  ASSERT_TRUE(solve.system.SetFirst(&near).ok());
  const Solution solved = test::Must(
      solve.Solve({.c_sweeps = {0}, .start = Start::kPrevious, .tolerance = 1e-14, .cycles = 30}));
  EXPECT_EQ(solved.outcome, Outcome::kSerial);
  EXPECT_EQ(solved.fallback, kRose);
  ASSERT_EQ(solved.residuals.size(), 4U);  // a solve is judged from the second cycle on
  EXPECT_GT(solved.residuals[2], solved.residuals[1]);
  EXPECT_GT(solved.residuals[3], solved.residuals[2]);
  EXPECT_EQ(solve.Last(), near);
}

// The four fine steps of a block together multiply by 0.9, a coarse step by 0.3. With F-relaxation
// only, each cycle then multiplies the error by (0.9 - 0.3) / (1 - 0.3).
TEST(Honesty, AResidualThatFallsSlowlyIsGivenUpAfterThreeJudgedCycles) {
  VectorSolve<double> solve = Scaling(*Hierarchy::Make(1024, {4}, 2), std::pow(0.9, 0.25), 0.3);
  SolveOptions options = {.c_sweeps = {0}, .tolerance = 1e-9, .cycles = 100};
  const Solution solved = test::Must(solve.Solve(options));
  EXPECT_EQ(solved.fallback, kSlow);
  EXPECT_EQ(solved.cycles, 4);
  EXPECT_EQ(solve.Last(), solve.Serial().back());
  // A solve without a tolerance is judged in the same way.
  options.tolerance.reset();
  const Solution early = test::Must(solve.Solve(options));
  EXPECT_EQ(early.outcome, Outcome::kSerial);
  EXPECT_EQ(early.fallback, kSlow);
}

TEST(Honesty, TooFewCyclesForTheToleranceEndInSerialPropagation) {
  const WeightedChain chain = DrawCase(9, {.steps = 64}, 1, 0.5).chain;
  HostSolve solve(chain, {.h = 1.0 / 64});
  const Result<Solution> solved = solve.Solve({.tolerance = 1e-9, .cycles = 2});
  ExpectGivenUp(solve, solved, "the cycles allowed did not reach the tolerance");
  EXPECT_EQ(solved->cycles, 2);
  EXPECT_GT(solved->residuals.back(), 1e-9);
}

TEST(Honesty, EarlySaysSoAndGivesItsResiduals) {
  const WeightedChain chain = SmoothChain(64, 0.5);
  for (const bool measures : {true, false}) {
    HostSolve solve(chain, {.h = 1.0 / 64});
    const Solution solved = test::Must(solve.Solve({.measures_cycles = measures}));
    EXPECT_EQ(solved.outcome, Outcome::kEarly);
    EXPECT_EQ(solved.cycles, 2);
    EXPECT_EQ(solved.fallback, "");
    EXPECT_EQ(solved.residuals.size(), measures ? 3U : 1U);
    const double error = RelativeError(solve.Last(), solve.Serial().back());
    EXPECT_GT(error, 1e-9);
    EXPECT_LT(error, 1e-2);
  }
}

TEST(Honesty, ATailThatRelaxationMakesExactIsDirectNotConverged) {
  const WeightedChain chain = SmoothChain(64, 0.5);
  HostSolve solve(chain, {.coarsening = {16}, .h = 5.0 / 64});
  const Solution solved = test::Must(solve.Solve({.tolerance = 1e-9, .cycles = 20}));
  EXPECT_EQ(solved.outcome, Outcome::kDirect);
  EXPECT_EQ(solved.cycles, 2);
  EXPECT_EQ(test::Must(solve.Solve({})).outcome, Outcome::kDirect);
}

// Relaxation makes each block exact up to a rounding error. The coarse operator multiplies this
// error by 1.5 in each later block. Over 80 blocks this is more than 1e13.
TEST(Honesty, DirectIsNotSaidWhereTheCoarseOperatorAmplifiesRounding) {
  VectorSolve<double> solve = Scaling(*Hierarchy::Make(320, {4}, 2), 0.9, kUnstable);
  const Solution solved = test::Must(solve.Solve(
      {.cycles = CyclesOfDirectSolve(solve.hierarchy.level(0), {}), .measures_cycles = false}));
  EXPECT_GT(std::abs(solve.Last()[0] - solve.Serial().back()[0]), 1e-6);
  EXPECT_NE(solved.outcome, Outcome::kDirect);
  EXPECT_GT(solved.residuals.back(), 1e-6);
}

// Makes a chain of 256 steps of 64 floats.
VectorSolve<float> FloatChain() {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> weights(64);
  for (float& weight : weights) weight = normal(random);
  return VectorSolve<float>(*Hierarchy::Make(256, {4}, 2), weights,
                            [weights](int level, int step, const auto& from, auto& to) {
                              const float h = level == 0 ? 0.01F : 0.04F;
                              for (size_t i = 0; i < from.size(); ++i) {
                                const float weight =
                                    weights[(i * 7 + (level == 0 ? step : 4 * step)) % 64];
                                to[i] = from[i] + h * std::tanh(weight * from[(i + 1) % 64]);
                              }
                            });
}

TEST(Honesty, FloatsFloorAndAreConvergedToRounding) {
  VectorSolve<float> solve = FloatChain();
  const Solution reachable = test::Must(solve.Solve({.tolerance = 1e-5, .cycles = 30}));
  EXPECT_EQ(reachable.outcome, Outcome::kConverged);
  const Solution solved = test::Must(solve.Solve({.tolerance = 5e-7, .cycles = 30}));
  EXPECT_EQ(solved.outcome, Outcome::kRounding);
  EXPECT_EQ(solved.fallback, "");
  EXPECT_LT(solved.cycles, 12);
  // The bound is for the rounding of 65 states of norm 8: 64 C-points and the first state.
  EXPECT_LT(solved.residuals.back(), 0x1p-24 * 8.5 * std::sqrt(65));
  EXPECT_GT(solved.residuals.back(), 5e-7);
}

TEST(Honesty, AToleranceBelowThePrecisionIsRefusedAtTheStart) {
  VectorSolve<float> solve = FloatChain();
  for (const Start start : {Start::kBroadcast, Start::kNested}) {
    SolveOptions options = {.start = start, .tolerance = 1e-9, .cycles = 30};
    EXPECT_EQ(solve.Solve(options).message(),
              "tolerance 1e-09 is below what states of this precision can reach, about 3.97e-07: a "
              "larger one, or a wider type");
    options.scale = kRelative;
    EXPECT_EQ(solve.Solve(options).message(),
              "tolerance 1e-09 is below what states of this precision can reach, about 4.81e-08: a "
              "larger one, or a wider type");
  }
}

// A tolerance is refused if the solution's states are too large for it. The states at the start do
// not show this: they may come from a diverging coarse operator (kNested) or from an earlier solve
// with another first state (kPrevious).
TEST(Honesty, AStartWithHugeStatesIsNoReasonToRefuseATolerance) {
  VectorSolve<double> nested = Scaling(*Hierarchy::Make(1024, {16}, 2), 0.5, -7);
  SolveOptions options = {.start = Start::kNested, .tolerance = 1e-9, .cycles = 30};
  const Solution given_up = test::Must(nested.Solve(options));
  EXPECT_EQ(given_up.outcome, Outcome::kSerial);
  EXPECT_NE(given_up.fallback, "");
  EXPECT_EQ(nested.Last(), nested.Serial().back());

  VectorSolve<double> previous = Scaling(*Hierarchy::Make(64, {4}, 2), 1, 1);
  std::vector<double> first = {1e30};
  ASSERT_TRUE(previous.system.SetFirst(&first).ok());
  ASSERT_TRUE(previous.system.SolveSerially(0, LayerSystem::Source::kNone).ok());
  ASSERT_TRUE(previous.system.SetFirst(&previous.first).ok());
  options.start = Start::kPrevious;
  const Solution solved = test::Must(previous.Solve(options));
  EXPECT_EQ(previous.Last(), previous.Serial().back());
}

// Element 0 of a state grows beyond 1e22. Element 1 decays and is added to element 0. The coarse
// level computes element 0 exactly but element 1 wrongly, so the solve converges slowly. Residuals
// of element 1 are negligible relative to the last state, but not relative to the first states.
TEST(Honesty, AStateThatGrowsDoesNotHideTheResidualsOfEarlyOnes) {
  const auto step = [](int level, int, const auto& from, auto& to) {
    to = from;
    for (int i = 0; i < (level == 0 ? 1 : 4); ++i) {
      to[0] = 1.05 * to[0] + to[1];
      to[1] *= 0.97;
    }
    if (level > 0) to[1] = 0.6 * from[1];
  };
  for (const ResidualScale scale : {kAbsolute, kRelative}) {
    VectorSolve<double> solve(*Hierarchy::Make(1024, {4}, 2), {0, 1}, step);
    const Solution solved = test::Must(
        solve.Solve({.c_sweeps = {0}, .tolerance = 1e-9, .scale = scale, .cycles = 100}));
    EXPECT_GT(solved.largest_state, 1e22);
    EXPECT_EQ(solved.fallback, "");
    // Allows an error of 1e-9 at each of 256 C-points. The factor 100 is there because errors at
    // early C-points grow in later steps.
    const double serial = solve.Serial().back()[0];
    EXPECT_LT(std::abs(solve.Last()[0] - serial), 256 * 100 * 1e-9 * serial);
  }
}

TEST(Honesty, AChainOfZerosConverges) {
  VectorSolve<double> solve(*Hierarchy::Make(16, {4}, 2), {0, 0},
                            [](int, int, const auto& from, auto& to) { to = from; });
  for (const ResidualScale scale : {kAbsolute, kRelative}) {
    const Solution solved =
        test::Must(solve.Solve({.tolerance = 1e-9, .scale = scale, .cycles = 5}));
    EXPECT_EQ(solved.outcome, Outcome::kConverged);
    EXPECT_EQ(solved.residuals.back(), 0);
    EXPECT_EQ(solved.largest_state, 0);
  }
}

// The first cycle often raises the residual. This must not count as a failure to converge.
TEST(Honesty, AFirstCycleThatRaisesTheResidualIsNotHeldAgainstASolve) {
  const WeightedChain chain = SmoothChain(256, 0.5);
  HostSolve solve(chain, {.coarsening = {16}, .h = 10.0 / 256});
  const Solution solved = test::Must(
      solve.Solve({.c_sweeps = {0}, .tolerance = 1e-9, .cycles = 30, .measures_start = true}));
  EXPECT_GT(solved.residuals[1], solved.residuals[0]);
  EXPECT_EQ(solved.fallback, "");
}

}  // namespace
}  // namespace ucudnn::multigrid
