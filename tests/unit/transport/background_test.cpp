// Tests work that runs on a thread of its own. RunBounded must wait no longer than its bound.
#include "transport/background.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <new>
#include <thread>

namespace ucudnn::transport {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(RunBounded, WaitsForWorkThatEnds) {
  const auto ran = std::make_shared<std::atomic<bool>>(false);
  EXPECT_EQ(RunBounded([ran] { *ran = true; }, milliseconds(20000), {}), Ending::kDone);
  EXPECT_TRUE(*ran);
}

TEST(RunBounded, DoesNotWaitForWorkThatDoesNotEnd) {
  const auto end = std::make_shared<std::atomic<bool>>(false);
  const auto work = [end] {
    while (!*end) std::this_thread::sleep_for(milliseconds(1));
  };
  EXPECT_EQ(RunBounded(work, milliseconds(30), {}), Ending::kTooLate);
  int asked = 0;
  const auto begin = Clock::now();
  EXPECT_EQ(RunBounded(work, milliseconds(60000), [&] { return ++asked == 3; }), Ending::kGivenUp);
  EXPECT_LT(Clock::now() - begin, milliseconds(20000));
  *end = true;
}

TEST(RunBounded, WhatWorkThrowsEndsNothingElse) {
  EXPECT_EQ(RunBounded([] { throw std::bad_alloc(); }, milliseconds(20000), {}), Ending::kThrew);
  EXPECT_TRUE(RunInBackground([] { throw std::bad_alloc(); }));
}

TEST(RunBounded, TheThreadTakesNoneOfTheProgramsSignals) {
  sigset_t signals;
  sigemptyset(&signals);
  ASSERT_EQ(
      RunBounded([&] { pthread_sigmask(SIG_BLOCK, nullptr, &signals); }, milliseconds(20000), {}),
      Ending::kDone);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD, SIGUSR1}) {
    EXPECT_TRUE(sigismember(&signals, signal)) << signal;
  }
}

}  // namespace
}  // namespace ucudnn::transport
