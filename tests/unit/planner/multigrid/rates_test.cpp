// Compares the rates at which residuals of linear chains fall with the bound of two-level MGRIT.
//
// A step multiplies a state by lambda, the c steps of a block multiply it by lambda^c, and a coarse
// step multiplies it by mu. There are M C-points without u0, and S shifts a vector of them by one.
// The C-points solve A u = f with A = 1 - lambda^c S, and a coarse solve inverts B = 1 - mu S. A
// cycle of F-relaxation multiplies the error of the C-points by
//     E = 1 - B^-1 A = B^-1 (B - A) = (lambda^c - mu) sum_k mu^k S^(k + 1),
// and each C-relaxation before it multiplies the error by lambda^c S. All these factors are
// polynomials in S, so they commute, and the residual A e changes by the same factor as the error
// e. From |S| = 1 and S^M = 0 follows
//     |E| <= |lambda^c - mu| (1 - |mu|^(M - 1)) / (1 - |mu|),
// the bound of Dobrev, Kolev, Petersson, Schroder, "Two-level convergence theory for multigrid
// reduction in time (MGRIT)", SIAM J. Sci. Comput. 39 (2017).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>

#include "tests/support/must.h"
#include "unit/planner/multigrid/vector_chain.h"

namespace ucudnn::multigrid {
namespace {

using Complex = std::complex<double>;

struct Setting {
  int blocks = 64;
  int coarsening = 4;
  int c_sweeps = 0;
};

// The factors by which a step (lambda) and a coarse step (mu) multiply a state.
struct Mode {
  Complex lambda;
  Complex mu;
};

double BoundOf(const Mode& mode, const Setting& setting) {
  const double block = std::abs(std::pow(mode.lambda, setting.coarsening));
  const double mu = std::abs(mode.mu);
  double sum = 0;
  for (int k = 0; k + 1 < setting.blocks; ++k) sum += std::pow(mu, k);
  return std::abs(std::pow(mode.lambda, setting.coarsening) - mode.mu) * sum *
         std::pow(block, setting.c_sweeps);
}

// Solves a chain whose states have a component for each of `modes`, from a broadcast. Returns the
// residuals that are far above rounding errors.
std::vector<double> ResidualsOf(const std::vector<Mode>& modes, const Setting& setting) {
  std::vector<double> first;
  for (size_t i = 0; i < modes.size(); ++i) {
    first.push_back(std::cos(static_cast<double>(i)));
    first.push_back(std::sin(static_cast<double>(i)));
  }
  VectorSolve<double> solve(
      *Hierarchy::Make(setting.blocks * setting.coarsening, {setting.coarsening}, 2), first,
      [&](int level, int, const auto& from, auto& to) {
        for (size_t i = 0; i < modes.size(); ++i) {
          const Complex next =
              (level == 0 ? modes[i].lambda : modes[i].mu) * Complex(from[2 * i], from[2 * i + 1]);
          to[2 * i] = next.real();
          to[2 * i + 1] = next.imag();
        }
      });
  const Solution solved = test::Must(solve.Solve({.c_sweeps = {setting.c_sweeps}, .cycles = 12}));
  std::vector<double> residuals;
  for (const double residual : solved.residuals) {
    if (residual > 1e-10) residuals.push_back(residual);  // false for NaN
  }
  return residuals;
}

double LargestRate(const std::vector<double>& residuals) {
  double largest = 0;
  for (size_t i = 1; i < residuals.size(); ++i) {
    largest = std::max(largest, residuals[i] / residuals[i - 1]);
  }
  return largest;
}

// Eigenvalues `a` of F in u + h F(u). All modes decay, because |1 + h a| and |1 + c h a| are at
// most 1. Modes of complex eigenvalues also rotate.
const std::vector<Complex> kEigenvalues = {{-0.1, 0}, {-0.5, 0}, {-1, 0},    {-2, 0},
                                           {-4, 0},   {-1, 1},   {-2, -1.5}, {-0.3, 0.4}};

Mode Injected(const Complex& eigenvalue, double h, int coarsening) {
  return {1.0 + h * eigenvalue, 1.0 + h * coarsening * eigenvalue};
}
// A coarse step consists of two steps, each for half of a block.
Mode Halved(const Complex& eigenvalue, double h, int coarsening) {
  return {1.0 + h * eigenvalue, std::pow(1.0 + h * coarsening / 2 * eigenvalue, 2)};
}

// A bound on the rounding error of a ratio of residuals: each residual has an error of 1e-15 and is
// above 1e-10.
constexpr double kRounding = 2e-5;

TEST(Rates, OfEachModeAreBounded) {
  for (const int coarsening : {2, 4, 8}) {
    for (const int c_sweeps : {0, 1, 2}) {
      const Setting setting = {.coarsening = coarsening, .c_sweeps = c_sweeps};
      for (const Complex& eigenvalue : kEigenvalues) {
        for (const auto& coarse : {Injected, Halved}) {
          const Mode mode = coarse(eigenvalue, 0.05, coarsening);
          EXPECT_LE(LargestRate(ResidualsOf({mode}, setting)), BoundOf(mode, setting) + kRounding)
              << "c = " << coarsening << ", " << c_sweeps << " sweeps, eigenvalue " << eigenvalue;
        }
      }
    }
  }
}

// With many blocks, the residual of a decaying mode is nearly the same in each block, and the sum
// over mu^k is complete in all but the first blocks. So the rate comes close to the bound.
TEST(Rates, ReachTheirBound) {
  for (const Complex eigenvalue : {-0.5, -1.0, -2.0, -4.0}) {
    const Mode mode = Injected(eigenvalue, 0.05, 4);
    const Setting f = {.c_sweeps = 0};
    const Setting fcf = {.c_sweeps = 1};
    const double rate = LargestRate(ResidualsOf({mode}, f));
    EXPECT_GT(rate, 0.85 * BoundOf(mode, f));
    EXPECT_GT(LargestRate(ResidualsOf({mode}, fcf)), 0.85 * BoundOf(mode, fcf));
    // F without C-relaxation must be slower than the bound of FCF, so that the bounds differ.
    if (eigenvalue.real() <= -1) {
      EXPECT_GT(rate, BoundOf(mode, fcf));
    }
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
