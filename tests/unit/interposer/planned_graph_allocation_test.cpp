// Tests that an execution of the graph API in pieces allocates nothing in steady state.
#include <gtest/gtest.h>

#include "graph_setting.h"
#include "tests/bench/allocation_count.h"

namespace ucudnn {
namespace {

void ExpectNoAllocation(const Options& options) {
  test::GraphSetting setting(options, test::GraphSetting::With());
  const auto plan = setting.Plan();
  // With a total workspace, the network is known after these calls.
  for (size_t i = 0; i <= interposer::KernelSequence::kOfOneProblem; ++i) setting.Execute(plan);
  test::Executions().calls.clear();
  test::Executions().calls.reserve(1000);
  const int reads = setting.store.reads;
  const long before = bench::Allocations();
  for (int i = 0; i < 100; ++i) setting.Execute(plan);
  EXPECT_EQ(bench::Allocations() - before, 0);
  EXPECT_EQ(test::Executions().calls.size(), 400u);
  EXPECT_EQ(setting.store.reads, reads);
}

TEST(PlannedGraph, AllocatesNothing) {
  ExpectNoAllocation(test::GraphSetting::Limited(test::GraphSetting::kPartBytes));
}

TEST(PlannedGraph, AllocatesNothingInOwnedWorkspace) {
  Options options = test::PlannedSetting::NotMeasuring();
  options.total_workspace = test::GraphSetting::kPartBytes;
  ExpectNoAllocation(options);
}

}  // namespace
}  // namespace ucudnn
