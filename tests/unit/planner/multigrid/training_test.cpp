// Tests training on the host: the results of solves, and the states from which solves start. Also
// tests that training has the results of serial propagation if solves are given up.
#include "planner/multigrid/host/training.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/must.h"
#include "unit/planner/multigrid/digit_net.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {
namespace {

constexpr int kSteps = 48;
constexpr int kExamples = 18;
// With h = 1, states and adjoints grow to 1e15 over kUnscaledSteps steps. A training step changes a
// logit by about the learning rate times the square of the last state, so the rate must be tiny.
constexpr int kUnscaledSteps = 96;
constexpr double kUnscaledRate = 1e-17;

TrainingSettings Settings(double h, int cycles) {
  TrainingSettings settings;
  settings.network.batch = 6;
  settings.network.step = h;
  settings.network.forward.cycles = settings.network.backward.cycles = cycles;
  settings.learning_rate = 0.01;
  return settings;
}

// A trainer of a drawn net, which has run `epochs` epochs.
struct Trained {
  Trained(const TrainingSettings& settings, int epochs, int steps = kSteps)
      : chain(DigitNet({.steps = steps})), examples(DigitExamples({}, kExamples, 7)) {
    trainer = std::move(*Trainer::Make(chain, DrawParameters(chain, 3), settings));
    for (int epoch = 0; epoch < epochs; ++epoch) {
      results.push_back(test::Must(trainer->RunEpoch(examples, [](int) {})));
    }
  }

  std::vector<double> Parameters() const { return Flat(**trainer->ReadParameters()); }

  ResidualChain chain;
  Examples examples;
  std::unique_ptr<Trainer> trainer;
  std::vector<EpochResult> results;
};

// States grow so fast that the eight cycles of a solve do not converge. Twelve cycles
// would be exact.
TEST(Training, SolvesThatAreGivenUpTrainAsSerialPropagationBitForBit) {
  TrainingSettings settings = Settings(1, 8);
  settings.learning_rate = kUnscaledRate;
  const Trained given_up(settings, 2, kUnscaledSteps);
  settings.network.levels = 1;
  const Trained serial(settings, 2, kUnscaledSteps);
  for (size_t epoch = 0; epoch < serial.results.size(); ++epoch) {
    const EpochResult& result = given_up.results[epoch];
    EXPECT_EQ(result.solves, 2 * kExamples / 6);
    EXPECT_EQ(result.serial_solves, result.solves);
    EXPECT_EQ(result.far_solves, 0);
    EXPECT_FALSE(result.fallback.empty());
    EXPECT_TRUE(std::isnan(result.forward_residual.value()));
    EXPECT_TRUE(std::isfinite(result.loss));
    EXPECT_EQ(result.loss, serial.results[epoch].loss);
    EXPECT_EQ(serial.results[epoch].serial_solves, 0);
  }
  EXPECT_LT(serial.results[1].loss, serial.results[0].loss);
  EXPECT_EQ(given_up.Parameters(), serial.Parameters());
  EXPECT_GT(given_up.trainer->network().forward_solutions().front().solution.largest_state, 1e14);
}

TEST(Training, SolvesThatStopFarFromSerialPropagationAreCounted) {
  TrainingSettings settings = Settings(1, 2);
  settings.learning_rate = kUnscaledRate;
  const Trained far(settings, 1, kUnscaledSteps);
  EXPECT_EQ(far.results[0].far_solves, far.results[0].solves);
  EXPECT_EQ(far.results[0].serial_solves, 0);
  const Trained near(Settings(1.0 / kSteps, 2), 1);
  EXPECT_EQ(near.results[0].far_solves, 0);
  EXPECT_GT(near.results[0].forward_residual.value(), 0);
  EXPECT_GT(near.results[0].backward_residual.value(), 0);
}

// Returns the residual of the last step of an epoch.
double LastResidual(const std::vector<StageSolution>& solutions) {
  return solutions.front().solution.residuals.back();
}

TEST(Training, ARepeatedMiniBatchStartsFromItsLastStates) {
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    for (const int cycles : {1, 2}) {
      TrainingSettings settings = Settings(1.0 / kSteps, cycles);
      settings.network.storage = storage;
      settings.repeats = 3;
      const Trained broadcast(settings, 1);
      settings.network.forward.start = settings.network.backward.start = Start::kPrevious;
      const Trained previous(settings, 1);
      // The bound for adjoints is looser, because a training step changes them more than states.
      EXPECT_LT(LastResidual(previous.trainer->network().forward_solutions()),
                0.1 * LastResidual(broadcast.trainer->network().forward_solutions()));
      EXPECT_LT(LastResidual(previous.trainer->network().backward_solutions()),
                0.5 * LastResidual(broadcast.trainer->network().backward_solutions()));
      EXPECT_LT(previous.results[0].forward_residual.value(),
                broadcast.results[0].forward_residual.value());
    }
  }
}

TEST(Training, WhatIsKeptChangesNoBitOfARepeatedMiniBatch) {
  TrainingSettings settings = Settings(1.0 / kSteps, 1);
  settings.repeats = 2;
  settings.network.forward.start = settings.network.backward.start = Start::kPrevious;
  const Trained all(settings, 1);
  settings.network.storage = Storage::kCPoints;
  settings.network.lanes = 3;
  const Trained c_points(settings, 1);
  EXPECT_EQ(c_points.Parameters(), all.Parameters());
}

TEST(Training, AnotherMiniBatchDoesNotStartFromTheLastOnesStates) {
  TrainingSettings settings = Settings(1.0 / kSteps, 1);
  const Trained broadcast(settings, 2);
  settings.network.forward.start = settings.network.backward.start = Start::kPrevious;
  const Trained previous(settings, 2);
  EXPECT_EQ(previous.Parameters(), broadcast.Parameters());
  EXPECT_EQ(*previous.trainer->Evaluate(previous.examples),
            *broadcast.trainer->Evaluate(broadcast.examples));
}

TEST(Training, AMiniBatchIsRepeatedBeforeTheNext) {
  TrainingSettings settings = Settings(1.0 / kSteps, 2);
  settings.network.levels = 1;
  settings.repeats = 4;
  std::vector<int> steps;
  Trained repeated(settings, 0);
  EXPECT_EQ(repeated.trainer->StepsOf(repeated.examples), 12);
  const auto result =
      repeated.trainer->RunEpoch(repeated.examples, [&](int step) { steps.push_back(step); });
  ASSERT_TRUE(result.ok()) << result.message();
  EXPECT_EQ(steps, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  // If a mini-batch has all examples, four steps with one mini-batch and four epochs differ only in
  // the order of sums.
  settings.network.batch = kExamples;
  const Trained once(settings, 1);
  settings.repeats = 1;
  const Trained epochs(settings, 4);
  EXPECT_LT(RelativeError(once.Parameters(), epochs.Parameters()), 1e-12);
}

}  // namespace
}  // namespace ucudnn::multigrid
