// Tests solver plug-ins for Workspace Division with a plug-in that reports its time limit and fails
// if calls overlap (watching_plugin.cpp).
#include "planning/plugin_solver.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "planning/preferred_solver.h"

namespace ucudnn::planning {
namespace {

constexpr std::chrono::milliseconds kMostTime{1234};

TEST(PluginSolver, SaysHowLongItMayTake) {
  auto solver = OpenPluginSolver(WATCHING_PLUGIN, "watching", kMostTime);
  ASSERT_TRUE(solver.ok()) << solver.message();
  const std::vector<Choices> network = {{{0, 2}}};
  const Result<Selection> selection = (*solver)->Solve(network, 0);
  ASSERT_TRUE(selection.ok()) << selection.message();
  EXPECT_EQ(selection->gap_ms, 1234);
}

// A call stays in the plug-in for 100 ms, and the plug-in refuses a call that begins while another
// is inside.
TEST(PluginSolver, OneSolvesAtATime) {
  const auto solve = [] {
    auto solver = OpenPluginSolver(WATCHING_PLUGIN, "watching", kMostTime);
    ASSERT_TRUE(solver.ok()) << solver.message();
    const std::vector<Choices> network = {{{0, 2}}};
    const Result<Selection> selection = (*solver)->Solve(network, 0);
    EXPECT_TRUE(selection.ok()) << selection.message();
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(solve);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(400));
}

}  // namespace
}  // namespace ucudnn::planning
