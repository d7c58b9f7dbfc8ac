// Tests execution plans under one workspace budget on the stand-in's real arithmetic: pieces in
// ucudnn's memory compute the same bits as the undivided plan.
#include <gmock/gmock.h>

#include <thread>

#include "convolution/partial_sums.h"
#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

constexpr int kCalls = 8;  // EndRecording, if a test calls it, follows the fifth

struct BudgetCase {
  const char* name;
  Operation operation;
  bool fused = false;
  DataType type = DataType::kFloat;
};

Options Budget(size_t bytes, WorkspaceDivision division = WorkspaceDivision::kConcurrent) {
  Options options = test::Planned();
  options.total_workspace = bytes;
  options.division = division;
  return options;
}

// A program whose store says that pieces of two images are fast, and that engines without workspace
// are slow.
class Shared : public OnePlan {
 public:
  Shared(const BudgetCase& which, const Options& options)
      : OnePlan(Problem(which.operation, which.type), which.fused, options) {
    const test::Graph parts(WithBatch(problem_, kPart), graph_options_, program_.real,
                            {program_.handle});
    program_.Measured(whole_, kEngine, 100);
    PartsMeasured(kEngine, 1);
    SumMeasured(kEngine, 0.1);
    const auto piece = parts.Plan(kEngine);
    need_ = *cudnn::PlanWorkspace(program_.real, piece->get());
    EXPECT_GT(need_, 0u);
    if (SumsPartials(problem_)) need_ += PartialSumBytes(problem_);
    for (int engine = 0; engine < kMostEngines; ++engine) {
      const auto plan = whole_.Plan(engine);
      if (plan && *cudnn::PlanWorkspace(program_.real, plan->get()) == 0) {
        program_.Measured(whole_, engine, 50);
      }
    }
    MakePlans();
  }

  // Returns the bytes of workspace that one piece needs, with its partial sum.
  size_t need() const { return need_; }
  void EndRecording() {
    const Status status = program_.interposer.sessions().EndRecording(program_.handle);
    EXPECT_TRUE(status.ok()) << status.message();
  }

 private:
  size_t need_ = 0;
};

class GraphBudget : public ::testing::TestWithParam<BudgetCase> {};

TEST_P(GraphBudget, PiecesInOwnedMemoryComputeWhatTheUndividedCallDoes) {
  Shared shared(GetParam(), Budget(kAmple));
  const auto operands = shared.Memory();
  for (int call = 0; call < kCalls; ++call) {
    operands->Fill(call);
    shared.Run(*operands);
    EXPECT_EQ(operands->Output(), shared.Undivided(call)) << "call " << call;
    EXPECT_TRUE(operands->GuardsAreIntact());
    EXPECT_LE(shared.TheBudget().bytes(), kAmple);
    if (call == kCalls / 2) shared.EndRecording();
  }
  const auto report = shared.program().Report();
  EXPECT_EQ(report["fallbacks"].dump(), "[]");
  EXPECT_EQ(report["total_workspace"]["divided"], true);
  const auto& kernel = report["kernels"].back();
  EXPECT_EQ(kernel["plan"][0]["count"], 8 / kPart);
  EXPECT_EQ(kernel["workspace_bytes"], 0);
  EXPECT_GT(kernel["owned_workspace_bytes"], 0);
  EXPECT_EQ(kernel["calls"], kCalls);
}

TEST_P(GraphBudget, WhatACaptureHoldsReplaysBesideOtherCalls) {
  Shared shared(GetParam(), Budget(kAmple));
  CaptureSetting setting(shared);
  const auto operands = shared.Memory();
  for (int call = 0; call < kCalls; ++call) {
    shared.Run(*operands);
    if (call == kCalls / 2) shared.EndRecording();
  }
  setting.ExpectReplaysBesideCalls();
  EXPECT_LE(shared.TheBudget().bytes(), kAmple);
}

TEST_P(GraphBudget, ThreadsOnStreamsOfTheirOwnGetTheirOwnResults) {
  const size_t need = Shared(GetParam(), Budget(kAmple)).need();
  for (const WorkspaceDivision division :
       {WorkspaceDivision::kDisjoint, WorkspaceDivision::kConcurrent}) {
    for (const size_t budget_bytes : {need, 2 * need, kAmple}) {
      SCOPED_TRACE(WorkspaceDivisionName(division) + std::string(" ") +
                   std::to_string(budget_bytes));
      Shared shared(GetParam(), Budget(budget_bytes, division));
      const Values expected[] = {shared.Undivided(1), shared.Undivided(2)};
      WorkspaceBudget& budget = shared.TheBudget();
      std::vector<std::thread> threads;
      for (int thread = 0; thread < 2; ++thread) {
        threads.emplace_back([&, thread, context = budget.context()] {
          EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
          Interposer& interposer = shared.program().interposer;
          cudnnHandle_t handle = nullptr;
          CUstream stream = nullptr;
          EXPECT_EQ(interposer.sessions().Create(&handle), CUDNN_STATUS_SUCCESS);
          EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
          EXPECT_EQ(interposer.sessions().SetStream(handle, stream), CUDNN_STATUS_SUCCESS);
          const auto operands = shared.Memory();
          operands->Fill(thread + 1);
          for (int call = 0; call < kCalls; ++call) {
            shared.Run(*operands, handle);
            shared.Run(*operands, handle);
            EXPECT_LE(budget.bytes(), budget_bytes);
            EXPECT_EQ(operands->Output(), expected[thread]) << "call " << call;
          }
          EXPECT_EQ(interposer.sessions().Destroy(handle), CUDNN_STATUS_SUCCESS);
          EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_LE(budget.bytes(), budget_bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, GraphBudget,
    ::testing::Values(BudgetCase{"forward", Operation::kForward},
                      BudgetCase{"fused", Operation::kForward, true},
                      BudgetCase{"backward_data", Operation::kBackwardData},
                      BudgetCase{"backward_filter", Operation::kBackwardFilter},
                      BudgetCase{"backward_filter_fp16", Operation::kBackwardFilter, false,
                                 DataType::kHalf}),
    [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace ucudnn::interposer
