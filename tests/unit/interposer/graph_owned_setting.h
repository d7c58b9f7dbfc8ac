// Execution plans under one workspace budget, on a cuDNN that records what runs and in which
// memory.
#pragma once

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "graph_setting.h"

namespace ucudnn::test {

inline constexpr size_t kPart = GraphSetting::kPartBytes, kAmple = size_t{1} << 20;
inline constexpr int kPieces = GraphSetting::kImages / GraphSetting::kPart;
// The network counts as learned after this number of calls of one problem.
inline constexpr size_t kLearning = interposer::KernelSequence::kOfOneProblem;

inline Options Budget(size_t bytes, WorkspaceDivision division = WorkspaceDivision::kConcurrent) {
  Options options = PlannedSetting::NotMeasuring();
  options.total_workspace = bytes;
  options.division = division;
  return options;
}

struct Shared : GraphSetting {
  explicit Shared(const With& with = {}, size_t budget = kAmple,
                  WorkspaceDivision division = WorkspaceDivision::kConcurrent)
      : GraphSetting(Budget(budget, division), with) {}

  const std::vector<RecordedExecution>& Run(cudnnBackendDescriptor_t plan) {
    Executions() = {};
    EXPECT_EQ(Execute(plan), CUDNN_STATUS_SUCCESS);
    // The budget cannot divide memory that is still in use, so the work must have ended.
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_LE(TheBudget().bytes(), *options.total_workspace);
    return Executions().calls;
  }
  // Runs the plan once, and expects that `engine` computes its pieces in ucudnn's memory. Returns
  // the workspace of the pieces.
  const void* Ran(cudnnBackendDescriptor_t plan, int engine = 38) {
    const std::vector<RecordedExecution> calls = Run(plan);
    EXPECT_THAT(calls, testing::SizeIs(kPieces));
    EXPECT_THAT(calls, testing::Each(testing::Field(&RecordedExecution::engine, engine)));
    EXPECT_THAT(calls,
                testing::Each(testing::Field(&RecordedExecution::workspace, calls[0].workspace)));
    EXPECT_NE(calls[0].workspace, nullptr);
    EXPECT_NE(calls[0].workspace, Pointer(0x40000000));
    return calls[0].workspace;
  }
  void Learn(cudnnBackendDescriptor_t plan) {
    for (size_t call = 0; call < kLearning && TheBudget().learning(); ++call) Run(plan);
    EXPECT_FALSE(TheBudget().learning());
    Run(plan);
  }
  // Expects that one call runs engine 0, which needs no workspace, with the application's own pack.
  void ExpectSubstitute(cudnnBackendDescriptor_t plan) {
    const std::vector<RecordedExecution> calls = Run(plan);
    ASSERT_THAT(calls, testing::SizeIs(1));
    EXPECT_EQ(calls[0].engine, 0);
    EXPECT_EQ(calls[0].images, kImages);
    EXPECT_EQ(calls[0].workspace, Pointer(0x40000000));
  }
  interposer::WorkspaceBudget& TheBudget() { return BudgetOf(interposer); }
  nlohmann::json Report() { return nlohmann::json::parse(interposer.report().Json("on", 0)); }
  nlohmann::json Total() { return Report()["total_workspace"]; }
};

// Returns a plan of engine 67, which needs twice the workspace of engine 38.
inline cudnnBackendDescriptor_t Hungry(Shared& setting) {
  setting.Measured("graph:67", GraphSetting::kImages, 100, 2 * GraphSetting::kNeed);
  setting.Measured("graph:67", GraphSetting::kPart, 1, 2 * kPart);
  return setting.Plan(nullptr, setting.Json(67));
}

}  // namespace ucudnn::test
