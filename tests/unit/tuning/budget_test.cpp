#include "tuning/budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

namespace ucudnn::tuning {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using Seconds = Budget::Seconds;

constexpr Use kMeasuring = Use::kMeasuring, kComparing = Use::kComparing;

Tuning Bounds(double kernel_seconds, double process_seconds) {
  Tuning bounds;
  bounds.kernel_seconds = kernel_seconds;
  bounds.process_seconds = process_seconds;
  return bounds;
}

// Returns whether the deadline has passed. Calls Deadline() first and then reads the clock, so a
// deadline at the time of the call counts as passed.
bool IsOver(const Budget& budget, Clock::duration spent) {
  const auto deadline = budget.Deadline(kComparing, spent);
  return deadline <= Clock::now();
}

TEST(Budget, AKernelHasWhatItHasNotTaken) {
  const Budget budget(Bounds(3600, 36000));
  const auto before = Clock::now();
  const auto fresh = budget.Deadline(kComparing, {}),
             used = budget.Deadline(kComparing, seconds(600));
  const auto after = Clock::now();
  EXPECT_GE(fresh, before + seconds(3600));
  EXPECT_LE(fresh, after + seconds(3600));
  EXPECT_GE(used, before + seconds(3000));
  EXPECT_LE(used, after + seconds(3000));
  EXPECT_TRUE(IsOver(budget, seconds(3600)));
  EXPECT_LT(budget.Deadline(kComparing, hours(10)), Clock::now());
}

TEST(Budget, AllKernelsShareTheProcesss) {
  Budget budget(Bounds(3600, 7200));
  budget.Spend(kComparing, seconds(7000));
  const auto deadline = budget.Deadline(kComparing, {});
  EXPECT_LE(deadline, Clock::now() + seconds(200));
  EXPECT_GT(budget.Deadline(kComparing, {}), Clock::now());
  budget.Spend(kComparing, seconds(200));
  EXPECT_TRUE(IsOver(budget, {}));
}

TEST(Budget, ThreadsSpendTogether) {
  Budget budget(Bounds(1e6, 4000));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) budget.Spend(kComparing, seconds(1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(IsOver(budget, {}));
}

TEST(Budget, OfNoTimeIsOverAtOnce) {
  EXPECT_TRUE(IsOver(Budget(Bounds(0, 60)), {}));
  EXPECT_TRUE(IsOver(Budget(Bounds(60, 0)), {}));
}

TEST(Budget, BeyondAllTimeIsNoBound) {
  EXPECT_EQ(Budget(Bounds(1e300, 1e300)).Deadline(kComparing, {}), Clock::time_point::max());
  const auto deadline = Budget(Bounds(1e300, 5)).Deadline(kComparing, {});
  EXPECT_LE(deadline, Clock::now() + seconds(5));
  EXPECT_EQ(Budget(std::nullopt).Deadline(kComparing, hours(1000)), Clock::time_point::max());
}

// Returns the seconds that are left for `use`, rounded to whole seconds.
double SecondsFor(Use use, const Budget& budget) {
  return std::round(Seconds(budget.Deadline(use, {}) - Clock::now()).count());
}

TEST(Budget, MeasuringLeavesAQuarterOfTheProcesssToComparing) {
  const struct {
    int measured, compared;       // seconds spent
    double measuring, comparing;  // seconds left
  } cases[] = {{0, 0, 3000, 4000},       {2000, 0, 1000, 2000}, {3000, 0, 0, 1000},
               {3000, 600, 0, 400},      {0, 500, 3000, 3500},  {0, 1500, 2500, 2500},
               {1000, 2000, 1000, 1000}, {1000, 3000, 0, 0}};
  for (const auto& [measured, compared, measuring, comparing] : cases) {
    Budget budget(Bounds(1e6, 4000));
    budget.Spend(kMeasuring, seconds(measured));
    budget.Spend(kComparing, seconds(compared));
    for (const auto& [use, left] : {std::pair(kMeasuring, measuring), {kComparing, comparing}}) {
      SCOPED_TRACE(testing::Message() << measured << " + " << compared);
      if (left > 0) {
        EXPECT_EQ(SecondsFor(use, budget), left);
      } else {
        EXPECT_EQ(budget.Deadline(use, {}), Clock::time_point::min());
      }
    }
  }
}

TEST(Budget, ATurnTakesPartOfWhatIsLeftAndLessWhereTheKernelIsSmall) {
  const struct {
    double left, share_of_largest, turn;  // `left` and `turn` in seconds
  } cases[] = {{45, 1, 5.625}, {45, 0.25, 5.625}, {45, 0.24, 2.8125}, {45, 0, 2.8125},
               {8, 1, 1},      {8, 0.1, 0.5},     {0.8, 0.5, 0.1}};
  for (const auto& [left, share_of_largest, turn] : cases) {
    EXPECT_DOUBLE_EQ(Budget::TurnOf(Seconds(left), share_of_largest).count(), turn);
  }
  // With the default bounds, a turn has at least `kernel_seconds` while at least three quarters of
  // the time for measuring are left.
  const Tuning bounds;
  const Seconds left(0.75 * (1 - Budget::kComparingShare) * bounds.process_seconds);
  EXPECT_GE(Budget::TurnOf(left, 0).count(), bounds.kernel_seconds);
}

TEST(Budget, AKernelIsSmallBesideTheLargestSoFar) {
  Budget budget(Bounds(1e6, 8e4 / (1 - Budget::kComparingShare)));
  const auto turn = [&](double multiply_adds) {
    return std::round(Seconds(budget.EndOfTurn(multiply_adds) - Clock::now()).count());
  };
  EXPECT_EQ(turn(1), 10000);
  EXPECT_EQ(turn(100), 10000);
  EXPECT_EQ(turn(1), 5000);
  EXPECT_EQ(turn(30), 10000);
  budget.Spend(kMeasuring, seconds(40000));
  EXPECT_EQ(turn(100), 5000);
  EXPECT_EQ(turn(1), 2500);
  EXPECT_EQ(Budget(std::nullopt).EndOfTurn(1), Clock::time_point::max());
  EXPECT_EQ(Budget(Bounds(1, 0)).EndOfTurn(1), Clock::time_point::min());
}

TEST(Budget, MemoryIsWhatTheUserSaysOrAQuarterOfWhatIsFree) {
  Tuning bounds;
  EXPECT_EQ(Budget(bounds).MemoryBytes(400), 100u);
  EXPECT_EQ(Budget(bounds).MemoryBytes(0), 0u);
  bounds.memory_bytes = 7;
  EXPECT_EQ(Budget(bounds).MemoryBytes(400), 7u);
  EXPECT_EQ(Budget(std::nullopt).MemoryBytes(400), std::numeric_limits<size_t>::max());
}

}  // namespace
}  // namespace ucudnn::tuning
