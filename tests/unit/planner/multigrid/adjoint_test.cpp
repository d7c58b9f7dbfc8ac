// Compares adjoints of chains, and gradients of the chains' weights, with dense Jacobians, central
// differences and serial backpropagation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "tests/support/must.h"
#include "unit/planner/multigrid/dense_chain.h"
#include "unit/planner/multigrid/drawn_net.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {
namespace {

using Source = LayerSystem::Source;
using ::testing::DoubleNear;
using ::testing::Pointwise;

Vector ImageOf(const Vector& state, int image, int size) {
  return {state.begin() + image * size, state.begin() + (image + 1) * size};
}

// Returns the shapes of nets with `steps` steps: one for each kind of step, and one with all kinds.
std::vector<NetShape> Shapes(int steps, planner::ActivationKind activation) {
  std::vector<NetShape> shapes;
  for (int kind = 0; kind <= kStepKinds; ++kind) {
    NetShape shape = {.channels = 4, .activation = activation, .batch = 2};
    for (int i = 0; i < steps; ++i) {
      shape.kinds.push_back(static_cast<StepKind>(kind == kStepKinds ? i % kStepKinds : kind));
    }
    const bool is_connected = kind >= static_cast<int>(StepKind::kFullyConnected);
    shape.extent = is_connected ? 1 : 3;
    shapes.push_back(shape);
  }
  return shapes;
}

constexpr planner::ActivationKind kActivations[] = {planner::ActivationKind::kTanh,
                                                    planner::ActivationKind::kRelu};

// Returns lambda_0 of one image, given lambda_N. Applies the transposed Jacobians of all steps,
// beginning with the last step.
Vector DenseAdjoint(const DenseChain& dense, const Vector& first, Vector lambda) {
  std::vector<Vector> states = {first};
  for (int step = 0; step + 1 < dense.steps(); ++step) {
    states.push_back(dense.Step(step, states.back()));
  }
  for (int step = dense.steps(); step-- > 0;) {
    lambda = Product(Transposed(dense.Jacobian(step, states[step])), lambda);
  }
  return lambda;
}

// Returns a bound on the rounding error: each step rounds sums of 40 terms. The factor 4 is a
// margin.
double RoundingOf(const Vector& numbers, int steps) {
  return 40 * 0x1p-53 * steps * std::max(1.0, LargestMagnitude(numbers)) * 4;
}

// The expected results come from calling the stage directly, one layer after the other. The test
// also compares these results with dense Jacobians.
TEST(Adjoint, OfOneLevelIsSerialBackpropagationBitForBit) {
  std::mt19937_64 random(22);
  for (const auto activation : kActivations) {
    for (const NetShape& shape : Shapes(9, activation)) {
      SCOPED_TRACE(TextOf(shape));
      const WeightedChain chain = DrawnNet(shape, random, 1);
      const SolveSetting setting = {.levels = 1, .h = 0.2};
      HostSolve forward(chain, setting);
      ASSERT_TRUE(forward.Solve({}).ok());
      const Vector last = DrawnNumbers(forward.stage().state_size(), 1, random);
      AdjointSolve adjoint(forward, setting, last);
      const Solution solved = test::Must(adjoint.Solve({}));
      EXPECT_EQ(solved.outcome, Outcome::kSerial);
      const std::vector<Vector> states = forward.Serial();
      Vector lambda = last;
      for (int step = forward.stage().steps(); step-- > 0;) {
        forward.stage().AddTransposed({step, step + 1, setting.h}, states[step].data(),
                                      lambda.data(), lambda.data(), 0);
        ASSERT_EQ(adjoint.Lambda(step), lambda);
      }
      const DenseChain dense(chain, setting.h);
      for (int image = 0; image < chain.batch; ++image) {
        const Vector expected = DenseAdjoint(dense, ImageOf(chain.first, image, dense.size()),
                                             ImageOf(last, image, dense.size()));
        EXPECT_THAT(ImageOf(lambda, image, dense.size()),
                    Pointwise(DoubleNear(RoundingOf(expected, dense.steps())), expected));
      }
    }
  }
}

SolveOptions ToTolerance(SolveOptions options, double tolerance) {
  options.tolerance = tolerance;
  options.cycles = 30;
  return options;
}

// The expected value is lambda_0 = J^T lambda_N, computed by dense matrices.
TEST(Adjoint, OfAnyNetAndOptionsIsTheTransposedChain) {
  std::mt19937_64 random(23);
  constexpr CoarseOperator kOperators[] = {CoarseOperator::kInject, CoarseOperator::kSum};
  int given_up = 0;
  for (int draw = 0; draw < 300; ++draw) {
    const DrawnSolve drawn = DrawSolve(random, 30);
    const int steps = drawn.hierarchy.level(0).steps;
    const NetShape shape = DrawNetShape(random, steps);
    SolveSetting setting = drawn.setting;
    setting.coarse = kOperators[draw % 2];
    setting.h = 1.5 / steps;
    SCOPED_TRACE("draw " + std::to_string(draw) + ": " + TextOf(shape) + "; " + drawn.Text() +
                 ", " + NameOf(setting.coarse));
    const WeightedChain chain = DrawnNet(shape, random, 1);
    HostSolve forward(chain, setting);
    ASSERT_TRUE(forward.system().SolveSerially(0, Source::kNone).ok());
    const Vector last = DrawnNumbers(forward.stage().state_size(), 1, random);
    SolveSetting of_adjoint = setting;
    if (DrawNumber(random, 0, 1) == 0) of_adjoint.storage = Storage::kAll;
    AdjointSolve adjoint(forward, of_adjoint, last);
    const Solution solved = test::Must(adjoint.Solve(ToTolerance(drawn.options, 1e-11)));
    given_up += solved.fallback.empty() ? 0 : 1;
    const DenseChain dense(chain, setting.h);
    const Vector lambda = adjoint.Lambda(0);
    const double growth = dense.Growth();
    for (int image = 0; image < chain.batch; ++image) {
      const Vector expected = DenseAdjoint(dense, ImageOf(chain.first, image, dense.size()),
                                           ImageOf(last, image, dense.size()));
      const double error = RelativeError(ImageOf(lambda, image, dense.size()), expected);
      ASSERT_LT(error, 1e-9);
      ASSERT_LT(error * std::sqrt(Dot(expected, expected)),
                growth * (std::sqrt(steps) * 1e-11 + RoundingOf(lambda, steps)));
    }
  }
  EXPECT_LT(given_up, 15);
}

// Returns the gradient after solves with `options`, forward and backward.
Vector GradientAfter(const WeightedChain& chain, const SolveSetting& setting, const Vector& last,
                     const SolveOptions& options) {
  HostSolve forward(chain, setting);
  EXPECT_TRUE(forward.Solve(options).ok());
  AdjointSolve adjoint(forward, setting, last);
  EXPECT_TRUE(adjoint.Solve(options).ok());
  return Flat(adjoint.Gradient(chain));
}

TEST(Adjoint, LanesAndStorageChangeNothing) {
  std::mt19937_64 random(24);
  for (int draw = 0; draw < 100; ++draw) {
    const DrawnSolve drawn = DrawSolve(random, 40);
    const int steps = drawn.hierarchy.level(0).steps;
    const NetShape shape = DrawNetShape(random, steps);
    SCOPED_TRACE("draw " + std::to_string(draw) + ": " + TextOf(shape) + "; " + drawn.Text());
    const WeightedChain chain = DrawnNet(shape, random, 1);
    SolveOptions options = drawn.options;
    options.skips_first_down = false;
    options.cycles = 2;
    const Vector last = DrawnNumbers(chain.stage().shape.Features() * chain.batch, 1, random);
    Vector expected;
    for (int lanes = 1; lanes <= 4; lanes += draw % 3 + 1) {
      for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
        SolveSetting setting = drawn.setting;
        setting.coarse = CoarseOperator::kSum;
        setting.h = 1.0 / steps;
        setting.lanes = lanes;
        setting.storage = storage;
        const Vector gradient = GradientAfter(chain, setting, last, options);
        if (expected.empty()) expected = gradient;
        ASSERT_EQ(gradient.size(), expected.size());
        ASSERT_EQ(std::memcmp(gradient.data(), expected.data(), gradient.size() * sizeof(double)),
                  0);
      }
    }
  }
}

double LossOf(const WeightedChain& chain, double h, const Vector& last) {
  HostSolve solve(chain, {.levels = 1, .h = h});
  return Dot(last, solve.Serial().back());
}

// Returns the central difference of the loss with respect to `number`, with the step `distance`.
double Slope(WeightedChain& chain, double& number, double h, const Vector& last, double distance) {
  const double before = number;
  number = before + distance;
  const double above = LossOf(chain, h, last);
  number = before - distance;
  const double below = LossOf(chain, h, last);
  number = before;
  return (above - below) / (2 * distance);
}

TEST(Adjoint, GradientsAreCentralDifferences) {
  std::mt19937_64 random(26);
  for (const auto activation : kActivations) {
    // A step with relu is linear except at points where relu's slope jumps. A small distance
    // seldom crosses such a point.
    const double distance = activation == planner::ActivationKind::kRelu ? 1e-6 : 1e-4;
    for (const NetShape& shape : Shapes(8, activation)) {
      SCOPED_TRACE(TextOf(shape));
      WeightedChain chain = DrawnNet(shape, random, 1);
      const SolveSetting setting = {.coarsening = {2}, .h = 0.2};
      HostSolve forward(chain, setting);
      ASSERT_TRUE(forward.Solve(ToTolerance({}, 1e-13)).ok());
      const Vector last = DrawnNumbers(forward.stage().state_size(), 1, random);
      AdjointSolve adjoint(forward, setting, last);
      ASSERT_TRUE(adjoint.Solve(ToTolerance({}, 1e-13)).ok());
      const Parameters gradient = adjoint.Gradient(chain);
      for (size_t node = 0; node < chain.parameters.size(); ++node) {
        for (const bool is_bias : {false, true}) {
          NodeWeights& of_node = chain.parameters[node];
          Vector& numbers = is_bias ? of_node.bias : of_node.weights;
          if (numbers.empty()) continue;
          const size_t i = random() % numbers.size();
          const double near = Slope(chain, numbers[i], setting.h, last, distance);
          const double far = Slope(chain, numbers[i], setting.h, last, 2 * distance);
          // `near` has half the distance of `far`, and so a quarter of its error. |far - near| is
          // then three times the error of `near`. The second term is for rounding: the rounding
          // error of a loss of 100 is divided by the distance.
          const double tolerance = std::abs(far - near) + 100 * 0x1p-50 / distance;
          EXPECT_LT(tolerance, 1e-5);
          EXPECT_NEAR((is_bias ? gradient[node].bias : gradient[node].weights)[i], near, tolerance)
              << "node " << node << (is_bias ? " bias " : " weight ") << i;
        }
      }
    }
  }
}

// Counts the steps that a chain computes on level 0. If only C-points are kept, the chain computes
// steps again to give the adjoint their states.
class CountingChain : public HostChain {
 public:
  using HostChain::HostChain;
  Status Step(int level, int step, State from, State to, int lane) override {
    if (level == 0) ++steps;
    return HostChain::Step(level, step, from, to, lane);
  }

  std::atomic<int64_t> steps = 0;
};

// The adjoint's F-relaxation reads all states of a block, so it recomputes the F-points of the
// forward solve. The adjoint's coarse steps and steps into C-points read only states that are kept.
TEST(Adjoint, RecomputesStatesForRelaxationAlone) {
  constexpr int kBlocks = 8;
  constexpr int kCoarsening = 4;
  const WeightedChain chain =
      DrawCase(28, {.steps = kBlocks * kCoarsening, .extent = 4}, 1, 0.5).chain;
  for (const CoarseOperator coarse : {CoarseOperator::kInject, CoarseOperator::kSum}) {
    for (const int lanes : {1, 2}) {
      HostSolve host(chain, {.coarse = coarse, .h = 0.03, .lanes = lanes});
      ASSERT_TRUE(host.system().Broadcast().ok());
      CountingChain counting(host.stage(), host.hierarchy(), coarse, 0.03);
      BlockSystem forward = std::move(*BlockSystem::Make(counting, host.hierarchy(), host.lanes(),
                                                         Storage::kCPoints, host.system().last()));
      ASSERT_TRUE(forward.SolveSerially(0, Source::kNone).ok());
      Trajectory trajectory =
          std::move(*Trajectory::Make(forward, host.hierarchy(), host.propagator(), lanes));
      HostChain adjoint(host.stage(), host.mirrored(), coarse, 0.03);
      adjoint.LineariseAt(trajectory);
      BlockSystem system = std::move(*BlockSystem::Make(adjoint, host.mirrored(), host.lanes(),
                                                        Storage::kAll, forward.last()));
      counting.steps = 0;
      ASSERT_TRUE(Solve(system, host.mirrored(), {.measures_cycles = false}).ok());
      // Two cycles of FCF relax F-points five times: twice in each, and once before the first.
      constexpr int kRelaxations = 5;
      EXPECT_EQ(counting.steps, kRelaxations * kBlocks * (kCoarsening - 1));
    }
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
