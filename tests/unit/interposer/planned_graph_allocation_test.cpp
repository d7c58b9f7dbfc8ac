// Steady state of the graph API: an execution in pieces allocates nothing.
#include <gtest/gtest.h>

#include "graph_setting.h"
#include "tests/bench/allocation_count.h"

namespace ucudnn {
namespace {

TEST(PlannedGraph, AllocatesNothing) {
  test::GraphSetting setting;
  const auto plan = setting.Plan();
  setting.Execute(plan);
  test::Executions().calls.clear();
  test::Executions().calls.reserve(1000);
  const int reads = setting.store.reads;
  const long before = bench::Allocations();
  for (int i = 0; i < 100; ++i) setting.Execute(plan);
  EXPECT_EQ(bench::Allocations() - before, 0);
  EXPECT_EQ(test::Executions().calls.size(), 400u);
  EXPECT_EQ(setting.store.reads, reads);
}

}  // namespace
}  // namespace ucudnn
