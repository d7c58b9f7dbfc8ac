// Tests nets and options that are drawn at random. Each solve must reach the result of serial
// propagation. No bit of the result may depend on the number of lanes. Bits may depend on the
// storage only if the first relaxation is skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/support/cases.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/dense_chain.h"
#include "unit/planner/multigrid/drawn_net.h"

namespace ucudnn::multigrid {
namespace {

struct Draw {
  DrawnSolve solve;
  NetShape shape;
  double gain = 1;

  std::string Text() const {
    return TextOf(shape) + "; " + solve.Text() + ", " + NameOf(solve.setting.coarse) +
           ", h = " + std::to_string(solve.setting.h);
  }
};

Draw DrawOne(std::mt19937_64& random) {
  Draw draw = {.solve = DrawSolve(random, 48)};
  const int steps = draw.solve.hierarchy.level(0).steps;
  draw.shape = DrawNetShape(random, steps);
  draw.gain = 0.25 * DrawNumber(random, 2, 4);
  constexpr CoarseOperator kOperators[] = {CoarseOperator::kInject, CoarseOperator::kSum};
  // The time T = h * steps is at most 3, but in one of eight draws up to 48. Solves of such long
  // times may be given up.
  const int stretch = DrawNumber(random, 0, 7) == 0 ? 16 : 1;
  draw.solve.setting.coarse = kOperators[DrawNumber(random, 0, 1)];
  draw.solve.setting.h = 0.25 * DrawNumber(random, 1, 12) * stretch / steps;
  SolveOptions& options = draw.solve.options;
  options.tolerance = DrawNumber(random, 0, 1) == 0 ? 1e-9 : 1e-11;
  options.cycles = 30;
  if (DrawNumber(random, 0, 1) == 0) options.scale = ResidualScale::kLargestState;
  if (DrawNumber(random, 0, 1) == 0) options.start = Start::kNested;
  options.measures_start = DrawNumber(random, 0, 1) == 0;
  return draw;
}

std::vector<Vector> StatesOf(HostSolve& solve) {
  std::vector<Vector> states;
  for (int i = 0; i <= solve.stage().steps(); ++i) states.push_back(solve.State(i));
  states.push_back(solve.Last());
  return states;
}

bool AreTheSameBits(const Vector& a, const Vector& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

double ResidualOf(const Draw& draw, const Solution& solution) {
  const bool is_relative = draw.solve.options.scale == ResidualScale::kLargestState;
  return solution.residuals.back() * (is_relative ? solution.largest_state : 1);
}

// Returns a bound on the rounding error of all steps. Each step rounds at most 36 products and
// sums, and an activation.
double RoundingOf(const DenseChain& dense, const Solution& solution) {
  return 40 * 0x1p-53 * dense.steps() * solution.largest_state;
}

// Returns a bound on the error of the last state. The residuals of C-points and the rounding errors
// add up, and grow by at most dense.Growth() in the steps that follow.
double BoundOfError(const DenseChain& dense, const Draw& draw, const Solution& solution) {
  const int blocks = draw.solve.hierarchy.level(0).blocks();
  return dense.Growth() *
         (std::sqrt(blocks) * ResidualOf(draw, solution) + RoundingOf(dense, solution));
}

// Returns the largest difference between a state and the result of `dense` for the previous state.
// Uses neither the solver's code nor the host's layers.
double DenseResidual(const DenseChain& dense, const std::vector<Vector>& states, int batch) {
  double largest = 0;
  for (int step = 0; step < dense.steps(); ++step) {
    for (int image = 0; image < batch; ++image) {
      const auto begin = states[step].begin() + image * dense.size();
      const Vector next = dense.Step(step, Vector(begin, begin + dense.size()));
      for (int i = 0; i < dense.size(); ++i) {
        const double state = states[step + 1][image * dense.size() + i];
        largest = std::max(largest, std::abs(next[i] - state));
      }
    }
  }
  return largest;
}

void ExpectTheSameWithOtherLanesAndStorage(const WeightedChain& chain, const Draw& draw,
                                           const std::vector<Vector>& states,
                                           const Solution& solution) {
  SolveSetting other = draw.solve.setting;
  other.lanes = draw.solve.setting.lanes % 4 + 1;
  // If the first relaxation is skipped, both the states between C-points and the first residual
  // depend on the storage.
  if (!draw.solve.options.skips_first_down) {
    other.storage = other.storage == Storage::kAll ? Storage::kCPoints : Storage::kAll;
  }
  HostSolve solve(chain, other);
  const Solution solved = test::Must(solve.Solve(draw.solve.options));
  EXPECT_EQ(solved.outcome, solution.outcome);
  EXPECT_EQ(solved.fallback, solution.fallback);
  const Vector after(solved.residuals.begin() + 1, solved.residuals.end());
  EXPECT_EQ(after, Vector(solution.residuals.begin() + 1, solution.residuals.end()));
  const std::vector<Vector> others = StatesOf(solve);
  for (size_t i = 0; i < states.size(); ++i) {
    ASSERT_TRUE(AreTheSameBits(others[i], states[i])) << "state " << i;
  }
}

TEST(Draws, ReachWhatSerialPropagationGives) {
  std::mt19937_64 random(19);
  int given_up = 0;
  int direct = 0;
  const int draws = test::Cases(2000, 300);
  for (int number = 0; number < draws; ++number) {
    const Draw draw = DrawOne(random);
    SCOPED_TRACE("draw " + std::to_string(number) + ": " + draw.Text());
    const WeightedChain chain = DrawnNet(draw.shape, random, draw.gain);
    HostSolve solve(chain, draw.solve.setting);
    const Solution solved = test::Must(solve.Solve(draw.solve.options));
    const std::vector<Vector> states = StatesOf(solve);
    const std::vector<Vector> serial = solve.Serial();
    if (solved.fallback.empty()) {
      const double error = RelativeError(solve.Last(), serial.back());
      const double norm = std::sqrt(Dot(serial.back(), serial.back()));
      const DenseChain dense(chain, draw.solve.setting.h);
      ASSERT_LE(error * norm, BoundOfError(dense, draw, solved));
      ASSERT_LE(DenseResidual(dense, states, chain.batch),
                ResidualOf(draw, solved) + RoundingOf(dense, solved));
      // BoundOfError assumes the worst case in each step. So a fixed bound is closer if T is short.
      const bool is_short = draw.solve.setting.h * draw.solve.hierarchy.level(0).steps <= 3;
      if (is_short) {
        ASSERT_LE(error, 1e-7);
      }
      direct += solved.outcome == Outcome::kDirect;
    } else {
      ++given_up;
      for (size_t i = 0; i < serial.size(); ++i) {
        ASSERT_TRUE(AreTheSameBits(states[i], serial[i])) << "state " << i;
      }
    }
    ExpectTheSameWithOtherLanesAndStorage(chain, draw, states, solved);
    if (HasFatalFailure()) return;
  }
  // Enough of the solves must converge, enough must end directly, and some must be given up. Many
  // solves of short nets are direct, because relaxation is exact before the residual shows
  // convergence.
  EXPECT_GT(given_up, 0);
  EXPECT_LT(given_up, draws / 10);
  EXPECT_GT(direct, draws / 4);
  EXPECT_GT(draws - direct - given_up, draws / 4);
}

}  // namespace
}  // namespace ucudnn::multigrid
