#include "planning/knapsack_solver.h"

#include <gmock/gmock.h>

#include <limits>
#include <map>
#include <random>

#include "measured.h"
#include "random_choices.h"
#include "tests/support/seeded_random.h"

namespace ucudnn::planning {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Totals = std::pair<double, size_t>;  // milliseconds, then bytes

Totals TotalsOf(std::span<const Choices> kernels, const std::vector<size_t>& chosen) {
  Totals totals;
  for (size_t i = 0; i < kernels.size(); ++i) {
    totals.first += kernels[i].at(chosen[i]).time_ms;
    totals.second += kernels[i].at(chosen[i]).workspace_bytes;
  }
  return totals;
}

// Tries every selection, one kernel after the other.
void Enumerate(std::span<const Choices> kernels, size_t budget_bytes, const Totals& so_far,
               Totals& best) {
  if (so_far.second > budget_bytes) return;
  if (kernels.empty()) {
    best = std::min(best, so_far);
    return;
  }
  for (const Choice& choice : kernels.front()) {
    Enumerate(kernels.subspan(1), budget_bytes,
              {so_far.first + choice.time_ms, so_far.second + choice.workspace_bytes}, best);
  }
}

// Returns the least totals. Uses no bounds: after each kernel it keeps every pair of totals that no
// other pair beats.
Totals FullDynamicProgram(std::span<const Choices> kernels, size_t budget_bytes) {
  std::map<size_t, double> front = {{0, 0}};
  for (const Choices& choices : kernels) {
    std::map<size_t, double> next;
    for (const auto& [bytes, time_ms] : front) {
      for (const Choice& choice : choices) {
        const size_t sum = bytes + choice.workspace_bytes;
        if (sum > budget_bytes) continue;
        const auto [known, is_new] = next.emplace(sum, time_ms + choice.time_ms);
        if (!is_new) known->second = std::min(known->second, time_ms + choice.time_ms);
      }
    }
    front.clear();
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& [bytes, time_ms] : next) {
      if (time_ms >= fastest) continue;
      fastest = time_ms;
      front.emplace_hint(front.end(), bytes, time_ms);
    }
  }
  return {front.rbegin()->second, front.rbegin()->first};
}

size_t Least(std::span<const Choices> kernels) {
  size_t least = 0;
  for (const Choices& choices : kernels) {
    least += std::min_element(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
               return a.workspace_bytes < b.workspace_bytes;
             })->workspace_bytes;
  }
  return least;
}

// Returns a random network. Times and sizes are whole numbers, so that sums are exact and ties
// frequent.
std::vector<Choices> SmallNetwork(std::mt19937& random, int kernels) {
  std::vector<Choices> network(kernels);
  for (Choices& choices : network) {
    for (int count = Draw(random, 1, 5); count > 0; --count) {
      choices.push_back(
          {static_cast<size_t>(Draw(random, 0, 20)), static_cast<double>(Draw(random, 0, 20))});
    }
  }
  return network;
}

TEST(KnapsackSolver, EqualsEnumerationOfAllSelections) {
  test::SeededRandom random;
  for (int i = 0; i < 4000 && !::testing::Test::HasFailure(); ++i) {
    const std::vector<Choices> network = SmallNetwork(random, Draw(random, 0, 6));
    const size_t budget = static_cast<size_t>(Draw(random, 0, 80));
    const Result<Selection> selection = KnapsackSolver().Solve(network, budget);
    ASSERT_EQ(selection.ok(), Least(network) <= budget);
    if (!selection.ok()) continue;
    Totals best = {std::numeric_limits<double>::infinity(), 0};
    Enumerate(network, budget, {}, best);
    EXPECT_TRUE(selection->optimal);
    EXPECT_EQ(TotalsOf(network, selection->chosen), best) << "budget " << budget;
  }
}

TEST(KnapsackSolver, EqualsAFullDynamicProgramOnWholeNumbers) {
  test::SeededRandom random;
  for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
    const std::vector<Choices> network = SmallNetwork(random, Draw(random, 1, 60));
    const size_t budget = Least(network) + static_cast<size_t>(Draw(random, 0, 400));
    const Result<Selection> selection = KnapsackSolver().Solve(network, budget);
    ASSERT_TRUE(selection.ok()) << selection.message();
    EXPECT_TRUE(selection->optimal);
    EXPECT_EQ(TotalsOf(network, selection->chosen), FullDynamicProgram(network, budget));
  }
}

TEST(KnapsackSolver, EqualsAFullDynamicProgramOnNetworks) {
  test::SeededRandom random;
  for (int i = 0; i < 150 && !::testing::Test::HasFailure(); ++i) {
    const int kernels = Draw(random, 1, 20);
    const auto network = RandomNetwork(random, kernels, Draw(random, 1, 6), 512, 12);
    const size_t budget = static_cast<size_t>(Draw(random, 1, 64)) << 20;
    const Result<Selection> selection = KnapsackSolver().Solve(network, budget);
    ASSERT_TRUE(selection.ok()) << selection.message();
    EXPECT_TRUE(selection->optimal);
    const Totals totals = TotalsOf(network, selection->chosen);
    EXPECT_LE(totals.second, budget);
    // The solver rounds each time to 2^-30 ms, so it distinguishes two selections of `kernels`
    // times if they differ by more than kernels * 2^-30 ms. Sums of doubles are off by far less.
    const double optimum = FullDynamicProgram(network, budget).first;
    EXPECT_NEAR(totals.first, optimum, kernels * 0x1p-30);
  }
}

// The time saved is proportional to the bytes spent. All selections that fill the budget are
// equally good, so the relaxation's bound excludes nothing until one of them is found.
TEST(KnapsackSolver, ProportionalChoicesAreSolved) {
  test::SeededRandom random;
  for (int i = 0; i < 100 && !::testing::Test::HasFailure(); ++i) {
    std::vector<Choices> network(Draw(random, 2, 30));
    for (Choices& choices : network) {
      for (int count = Draw(random, 2, 8); count > 0; --count) {
        const int bytes = Draw(random, 0, 300);
        choices.push_back({static_cast<size_t>(bytes), 1000.0 - 2 * bytes});
      }
    }
    const size_t budget = Least(network) + static_cast<size_t>(Draw(random, 0, 2000));
    const Result<Selection> selection = KnapsackSolver().Solve(network, budget);
    ASSERT_TRUE(selection.ok()) << selection.message();
    EXPECT_TRUE(selection->optimal);
    EXPECT_EQ(TotalsOf(network, selection->chosen), FullDynamicProgram(network, budget));
  }
}

TEST(KnapsackSolver, EqualTimesTakeTheFewestBytes) {
  const std::vector<Choices> network = {{{10, 5}, {4, 5}, {20, 1}}, {{0, 9}, {7, 3}, {5, 3}}};
  EXPECT_THAT(KnapsackSolver().Solve(network, 1000)->chosen, ElementsAre(2, 2));
  EXPECT_THAT(KnapsackSolver().Solve(network, 12)->chosen, ElementsAre(1, 2));
  EXPECT_THAT(KnapsackSolver().Solve(network, 8)->chosen, ElementsAre(1, 0));
}

TEST(KnapsackSolver, GivingUpSaysHowFarTheOptimumMayBe) {
  std::mt19937 random(7);
  int gave_up = 0;
  for (int i = 0; i < 50; ++i) {
    const std::vector<Choices> network = SmallNetwork(random, 12);
    const size_t budget = Least(network) + 30;
    const Result<Selection> hasty = KnapsackSolver(1).Solve(network, budget);
    ASSERT_TRUE(hasty.ok());
    const Totals totals = TotalsOf(network, hasty->chosen);
    EXPECT_LE(totals.second, budget);
    const double optimum = FullDynamicProgram(network, budget).first;
    EXPECT_LE(totals.first - hasty->gap_ms, optimum);
    gave_up += hasty->optimal ? 0 : 1;
    if (hasty->optimal) {
      EXPECT_EQ(totals.first, optimum);
    }
  }
  EXPECT_GT(gave_up, 10);
}

TEST(KnapsackSolver, NoKernelsNeedNothing) {
  const Result<Selection> selection = KnapsackSolver().Solve({}, 0);
  ASSERT_TRUE(selection.ok());
  EXPECT_THAT(selection->chosen, ElementsAre());
}

TEST(KnapsackSolver, AnyBudgetBeyondTheLargestChoicesIsTheSame) {
  std::mt19937 random(3);
  const auto network = RandomNetwork(random, 8, 4, 512, 12);
  const auto most = KnapsackSolver().Solve(network, std::numeric_limits<size_t>::max());
  ASSERT_TRUE(most.ok()) << most.message();
  for (size_t i = 0; i < network.size(); ++i) {
    EXPECT_EQ(most->chosen[i], network[i].size() - 1);
  }
}

TEST(KnapsackSolver, WhatCannotBeSolvedIsAnError) {
  const auto message = [](const std::vector<Choices>& network, size_t budget) {
    const Result<Selection> selection = KnapsackSolver().Solve(network, budget);
    return selection.ok() ? std::string() : selection.message();
  };
  constexpr size_t kMost = std::numeric_limits<size_t>::max();
  EXPECT_THAT(message({{{5, 1}}, {{6, 1}}}, 10), HasSubstr("short of 1 bytes"));
  EXPECT_THAT(message({{{5, 1}}, {{6, 1}}}, 5), HasSubstr("no choice within the budget"));
  EXPECT_THAT(message({{}}, 5), HasSubstr("no choice"));
  for (const double time_ms : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(), 1e300}) {
    EXPECT_THAT(message({{{0, time_ms}}}, 5), HasSubstr("a time of"));
  }
  EXPECT_THAT(message({{{0, 0x1p31}}, {{0, 0x1p31}}}, 5), HasSubstr("2^31 ms"));
  EXPECT_THAT(message({{{kMost, 1}}}, kMost), HasSubstr("a workspace of"));
  const size_t large = size_t{1} << 61;
  EXPECT_THAT(message({{{0, 3}, {large, 1}}, {{0, 3}, {large, 1}}}, kMost),
              HasSubstr("2^61 bytes"));
}

}  // namespace
}  // namespace ucudnn::planning
