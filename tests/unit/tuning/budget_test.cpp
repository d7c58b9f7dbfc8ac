#include "tuning/budget.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

namespace ucudnn::tuning {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

Tuning Bounds(double kernel_seconds, double process_seconds) {
  Tuning bounds;
  bounds.kernel_seconds = kernel_seconds;
  bounds.process_seconds = process_seconds;
  return bounds;
}

// The deadline is asked for before the time is.
bool IsOver(const Budget& budget, Clock::duration spent) {
  const auto deadline = budget.Deadline(spent);
  return deadline <= Clock::now();
}

TEST(Budget, AKernelHasWhatItHasNotTaken) {
  const Budget budget(Bounds(3600, 36000));
  const auto before = Clock::now();
  const auto fresh = budget.Deadline({}), used = budget.Deadline(seconds(600));
  const auto after = Clock::now();
  EXPECT_GE(fresh, before + seconds(3600));
  EXPECT_LE(fresh, after + seconds(3600));
  EXPECT_GE(used, before + seconds(3000));
  EXPECT_LE(used, after + seconds(3000));
  EXPECT_TRUE(IsOver(budget, seconds(3600)));
  EXPECT_LT(budget.Deadline(hours(10)), Clock::now());
}

TEST(Budget, AllKernelsShareTheProcesss) {
  Budget budget(Bounds(3600, 7200));
  budget.Spend(seconds(7000));
  const auto deadline = budget.Deadline({});
  EXPECT_LE(deadline, Clock::now() + seconds(200));
  EXPECT_GT(budget.Deadline({}), Clock::now());
  budget.Spend(seconds(200));
  EXPECT_TRUE(IsOver(budget, {}));
}

TEST(Budget, ThreadsSpendTogether) {
  Budget budget(Bounds(1e6, 4000));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) budget.Spend(seconds(1));
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
  EXPECT_EQ(Budget(Bounds(1e300, 1e300)).Deadline({}), Clock::time_point::max());
  const auto deadline = Budget(Bounds(1e300, 5)).Deadline({});
  EXPECT_LE(deadline, Clock::now() + seconds(5));
  EXPECT_EQ(Budget(std::nullopt).Deadline(hours(1000)), Clock::time_point::max());
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
