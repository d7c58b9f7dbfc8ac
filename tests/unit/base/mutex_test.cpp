#include "base/mutex.h"

#include <gtest/gtest.h>

#include <thread>

namespace ucudnn {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Condition, WaitUntil_EndsAtTheDeadline) {
  Mutex mutex;
  Condition changed;
  MutexLock lock(mutex);
  const auto deadline = Clock::now() + std::chrono::milliseconds(20);
  while (changed.WaitUntil(mutex, deadline)) EXPECT_LT(Clock::now(), deadline);
  EXPECT_GE(Clock::now(), deadline);
}

TEST(Condition, WaitUntil_EndsWhenItIsNotified) {
  Mutex mutex;
  Condition changed;
  bool ready = false;
  std::thread other([&] {
    MutexLock lock(mutex);
    ready = true;
    changed.NotifyAll();
  });
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  {
    MutexLock lock(mutex);
    while (!ready) ASSERT_TRUE(changed.WaitUntil(mutex, deadline));
  }
  other.join();
}

}  // namespace
}  // namespace ucudnn
