// Tests that a planned call allocates nothing. This test is in a separate program, in which malloc
// is replaced.
#include <gtest/gtest.h>

#include "convolution/partial_sums.h"
#include "planned_setting.h"
#include "tests/bench/allocation_count.h"
#include "tests/support/engines.h"

namespace ucudnn {
namespace {

TEST(PlannedCall, AllocatesNothing) {
  for (const int pieces : {1, 4, 16}) {
    test::PlannedSetting setting(test::NullFunctions(), pieces,
                                 test::PlannedSetting::NotMeasuring());
    const test::HandleStream stream(setting.interposer, setting.handle);
    const cudnn::ConvolutionCall call = setting.Call();
    ASSERT_EQ(setting.interposer.legacy().Convolve(call), CUDNN_STATUS_SUCCESS);  // decides
    const int reads = setting.store.reads;
    const long before = bench::Allocations();
    for (int i = 0; i < 100; ++i) setting.interposer.legacy().Convolve(call);
    EXPECT_EQ(bench::Allocations() - before, 0) << pieces << " pieces";
    EXPECT_EQ(setting.store.reads, reads) << "the store was asked again";
    const std::string report = setting.interposer.report().Json("on", 0);
    EXPECT_NE(report.find("\"count\": " + std::to_string(pieces)), std::string::npos) << report;
  }
}

TEST(PlannedCall, SummingPartialsAllocatesNothing) {
  const cudnn::Functions functions = test::NullFunctions();
  ConvolutionProblem problem = test::PlannedSetting::Problem();
  problem.operation = Operation::kBackwardFilter;
  problem.type = DataType::kHalf;
  const MicroConfiguration piece = AsPartial(problem, {"legacy:1", 4, 1, 4096, true}, 0);
  const auto schedule = test::LegacySchedule(functions, problem, Configuration{{{piece, 4}}}, {});
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  cudnn::OwnedDescriptors descriptors(functions);
  ASSERT_TRUE(descriptors.Create(problem).ok());
  cudnn::ConvolutionCall call = test::CallOf(nullptr, descriptors.get());
  call.operation = problem.operation;
  call.workspace = reinterpret_cast<void*>(0x40000000);
  call.workspace_bytes = piece.workspace_bytes;
  execution::Outcome outcome = execution::Outcome::kFailed;
  const long before = bench::Allocations();
  for (int i = 0; i < 100; ++i) (*schedule)->Run(call, outcome);
  EXPECT_EQ(bench::Allocations() - before, 0);
  EXPECT_EQ(outcome, execution::Outcome::kPlanned);
}

TEST(PlannedCall, AllocationsAreCounted) {
  const long before = bench::Allocations();
  delete new std::string(100, 'x');
  EXPECT_GE(bench::Allocations() - before, 1);
}

}  // namespace
}  // namespace ucudnn
