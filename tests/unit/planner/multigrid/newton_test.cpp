// The solver's states against equation 18 solved for all states at once by Newton's method with
// dense matrices (dense_chain.h).
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/must.h"
#include "unit/planner/multigrid/dense_chain.h"
#include "unit/planner/multigrid/drawn_net.h"
#include "unit/planner/multigrid/drawn_options.h"

namespace ucudnn::multigrid {
namespace {

// u_1..u_N of image `image` of the batch.
Vector StatesOfImage(HostSolve& solve, int image, int size) {
  Vector all;
  for (int number = 1; number <= solve.stage().steps(); ++number) {
    const Vector state = solve.State(number);
    all.insert(all.end(), state.begin() + image * size, state.begin() + (image + 1) * size);
  }
  return all;
}

// The mean value theorem: states with residuals `a` and `b` differ by the inverse Jacobian of their
// difference. Twice that for a Jacobian that is another between them.
double BoundOfDifference(const DenseChain& dense, const Vector& first, const Vector& a,
                         const Vector& b) {
  const Matrix jacobian = dense.ResidualJacobian(first, a);
  const Matrix inverse = Solved(jacobian, Identity(jacobian.rows));
  const double residuals =
      LargestMagnitude(dense.Residual(first, a)) + LargestMagnitude(dense.Residual(first, b));
  return 2 * RowNorm(inverse) * residuals + 4 * 0x1p-53 * LargestMagnitude(a);
}

TEST(Newton, SolvesWhatTheSolverSolves) {
  std::mt19937_64 random(11);
  int converged = 0;
  for (int draw = 0; draw < 100; ++draw) {
    const DrawnSolve drawn = DrawSolve(random, 12);
    const int steps = drawn.hierarchy.level(0).steps;
    const NetShape shape = DrawNetShape(random, steps);
    SCOPED_TRACE("draw " + std::to_string(draw) + ": " + TextOf(shape) + "; " + drawn.Text());
    const WeightedChain chain = DrawnNet(shape, random, 1);
    const double h = 1.0 / steps;
    HostSolve solve(chain, {.coarsening = drawn.coarsening,
                            .levels = drawn.hierarchy.levels(),
                            .h = h,
                            .storage = drawn.storage,
                            .lanes = drawn.lanes});
    SolveOptions options = drawn.options;
    options.tolerance = 1e-12;
    options.cycles = 12;
    const Solution solved = test::Must(solve.Solve(options));
    converged += solved.fallback.empty();
    const DenseChain dense(chain, h);
    for (int image = 0; image < chain.batch; ++image) {
      const auto begin = chain.first.begin() + image * dense.size();
      const Vector first(begin, begin + dense.size());
      const Vector newton = dense.NewtonSolution(first);
      const Vector states = StatesOfImage(solve, image, dense.size());
      ASSERT_LT(LargestMagnitude(dense.Residual(first, newton)), 1e-14);
      ASSERT_LT(LargestMagnitude(dense.Residual(first, states)), 1e-12 + 1e-14);
      Vector difference = newton;
      for (size_t i = 0; i < newton.size(); ++i) difference[i] -= states[i];
      ASSERT_LE(LargestMagnitude(difference), BoundOfDifference(dense, first, states, newton));
    }
  }
  EXPECT_GT(converged, 90);
}

}  // namespace
}  // namespace ucudnn::multigrid
