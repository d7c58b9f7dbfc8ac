// Tests the built-in solver against GLPK, and the plug-in that contains GLPK.
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>

#include "measured.h"
#include "planning/knapsack_solver.h"
#include "planning/plugin_solver.h"
#include "planning/preferred_solver.h"
#include "random_choices.h"
#include "tests/support/seeded_random.h"

namespace ucudnn::planning {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<DivisionSolver> Glpk(std::chrono::milliseconds within = PreferredSolver::kOffline) {
  auto solver = OpenPluginSolver(GLPK_PLUGIN, "glpk", within);
  EXPECT_TRUE(solver.ok()) << solver.message();
  return std::move(*solver);
}

double TimeMs(std::span<const Choices> kernels, const std::vector<size_t>& chosen) {
  double time_ms = 0;
  for (size_t i = 0; i < kernels.size(); ++i) time_ms += kernels[i].at(chosen[i]).time_ms;
  return time_ms;
}

size_t Bytes(std::span<const Choices> kernels, const std::vector<size_t>& chosen) {
  size_t bytes = 0;
  for (size_t i = 0; i < kernels.size(); ++i) bytes += kernels[i].at(chosen[i]).workspace_bytes;
  return bytes;
}

// Rounds times up to 64ths of a millisecond, so that totals are exact. Unequal totals then differ
// by at least 1/64 ms, which is more than the 1e-7 of a total that GLPK ignores.
void CoarsenTimes(std::vector<Choices>& network) {
  for (Choices& choices : network) {
    for (Choice& choice : choices) choice.time_ms = std::ceil(choice.time_ms * 64) / 64;
  }
}

// Expects the same least time from KnapsackSolver and GLPK. Sizes must be whole MiB, the unit of
// the plug-in, so that both get the same problem. Returns whether GLPK proved that its answer is
// the best, or that the problem has no solution.
bool ExpectEqualTimes(DivisionSolver& glpk, const std::vector<Choices>& network, size_t budget) {
  const Result<Selection> exact = KnapsackSolver().Solve(network, budget);
  const Result<Selection> other = glpk.Solve(network, budget);
  if (!other.ok() && other.message().find("in time") != std::string::npos) return false;
  EXPECT_EQ(exact.ok(), other.ok()) << exact.message() << other.message();
  if (!exact.ok() || !other.ok()) return true;
  EXPECT_TRUE(exact->optimal);
  EXPECT_LE(Bytes(network, exact->chosen), budget);
  EXPECT_LE(Bytes(network, other->chosen), budget);
  if (other->optimal) {
    EXPECT_EQ(TimeMs(network, exact->chosen), TimeMs(network, other->chosen));
  } else {
    EXPECT_LE(TimeMs(network, exact->chosen), TimeMs(network, other->chosen));
  }
  return other->optimal;
}

TEST(Glpk, AgreesWithTheExactSolverOnThousandsOfNetworks) {
  test::SeededRandom random;
  // Some networks would keep GLPK searching for minutes, so it stops after 2 s.
  const auto glpk = Glpk(std::chrono::seconds(2));
  constexpr int kNetworks = 2500;
  int unproved = 0;
  for (int i = 0; i < kNetworks && !::testing::Test::HasFailure(); ++i) {
    const int kernels = Draw(random, 1, i % 50 == 0 ? 60 : 12);
    auto network = RandomNetwork(random, kernels, Draw(random, 1, 6), kMiB, 10);
    CoarsenTimes(network);
    const size_t budget = static_cast<size_t>(Draw(random, 0, 600)) * kMiB;
    unproved += ExpectEqualTimes(*glpk, network, budget) ? 0 : 1;
  }
  EXPECT_LE(unproved, kNetworks / 100);
}

TEST(Glpk, AgreesWithTheExactSolverWhereNothingFits) {
  test::SeededRandom random;
  const auto glpk = Glpk();
  int infeasible = 0;
  for (int i = 0; i < 500 && !::testing::Test::HasFailure(); ++i) {
    std::vector<Choices> network(static_cast<size_t>(Draw(random, 1, 5)));
    for (Choices& choices : network) {
      for (int count = Draw(random, 1, 4); count > 0; --count) {
        choices.push_back({static_cast<size_t>(Draw(random, 0, 9)) * kMiB,
                           static_cast<double>(Draw(random, 0, 9))});
      }
    }
    const size_t budget = static_cast<size_t>(Draw(random, 0, 20)) * kMiB;
    infeasible += KnapsackSolver().Solve(network, budget).ok() ? 0 : 1;
    EXPECT_TRUE(ExpectEqualTimes(*glpk, network, budget));
  }
  EXPECT_GT(infeasible, 10);
}

TEST(Glpk, SelectionsFitInBytes) {
  std::mt19937 random(5);
  const auto glpk = Glpk();
  for (int i = 0; i < 200; ++i) {
    const auto network = RandomNetwork(random, Draw(random, 1, 12), 4, 1, 10);
    const size_t budget = static_cast<size_t>(Draw(random, 1, 1 << 30));
    const Result<Selection> selection = glpk->Solve(network, budget);
    ASSERT_TRUE(selection.ok()) << selection.message();
    EXPECT_LE(Bytes(network, selection->chosen), budget);
    EXPECT_GE(TimeMs(network, selection->chosen) + 1e-6,
              TimeMs(network, KnapsackSolver().Solve(network, budget)->chosen));
  }
}

TEST(Glpk, WhatItRefusesIsAnErrorAndNoEnd) {
  const auto glpk = Glpk();
  EXPECT_TRUE(glpk->Solve({}, 0).ok());
  const std::vector<Choices> none = {{}};
  EXPECT_FALSE(glpk->Solve(none, kMiB).ok());
  const std::vector<Choices> endless = {{{0, std::numeric_limits<double>::infinity()}}};
  EXPECT_THAT(glpk->Solve(endless, kMiB).message(), HasSubstr("a time of"));
  const std::vector<Choices> one = {{{std::numeric_limits<size_t>::max(), 1}, {0, 2}}};
  const Result<Selection> selection = glpk->Solve(one, kMiB);
  ASSERT_TRUE(selection.ok()) << selection.message();
  EXPECT_EQ(selection->chosen[0], 1u);
}

TEST(Glpk, WhatIsNotFoundInTimeIsAnError) {
  std::mt19937 random(7);
  const auto network = RandomNetwork(random, 60, 6, kMiB, 10);
  auto hurried = OpenPluginSolver(GLPK_PLUGIN, "glpk", std::chrono::milliseconds(0));
  ASSERT_TRUE(hurried.ok()) << hurried.message();
  EXPECT_THAT((*hurried)->Solve(network, 64 * kMiB).message(), HasSubstr("in time"));
}

// Two devices of a process divide their budgets independently, each with its own solver.
TEST(Glpk, TwoThreadsSolveAtOnce) {
  std::mt19937 random(3);
  std::vector<std::vector<Choices>> networks;
  std::vector<double> exact_ms;
  constexpr size_t kBudget = 64 * kMiB;
  for (int i = 0; i < 200; ++i) {
    CoarsenTimes(networks.emplace_back(RandomNetwork(random, 12, 4, kMiB, 10)));
    exact_ms.push_back(
        TimeMs(networks.back(), KnapsackSolver().Solve(networks.back(), kBudget)->chosen));
  }
  const auto solve_all = [&] {
    const auto glpk = Glpk();
    for (size_t i = 0; i < networks.size(); ++i) {
      const Result<Selection> selection = glpk->Solve(networks[i], kBudget);
      ASSERT_TRUE(selection.ok()) << selection.message();
      EXPECT_EQ(TimeMs(networks[i], selection->chosen), exact_ms[i]);
    }
  };
  std::thread other(solve_all);
  solve_all();
  other.join();
}

TEST(Glpk, PluginThatIsMissingOrForeignIsAnError) {
  EXPECT_THAT(
      OpenPluginSolver("/nowhere/libucudnn_glpk.so", "glpk", PreferredSolver::kOffline).message(),
      HasSubstr("/nowhere/libucudnn_glpk.so"));
  EXPECT_THAT(OpenPluginSolver("libm.so.6", "glpk", PreferredSolver::kOffline).message(),
              HasSubstr("ucudnnSolveDivision"));
}

}  // namespace
}  // namespace ucudnn::planning
