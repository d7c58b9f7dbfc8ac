// Tests one workspace budget for all kernels on the stand-in's real arithmetic: pieces run in
// ucudnn's memory, and a workspace that the caller passes stays untouched.
#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "budget_program.h"
#include "shim/host/hostgpu.h"

namespace ucudnn::interposer {
namespace {

using test::HandleStream;
using ::testing::Each;
using ::testing::Field;
using ::testing::SizeIs;

constexpr Operation kDivided[] = {Operation::kForward, Operation::kBackwardFilter};

TEST(TotalWorkspace, HoldsThePiecesAndTheCallersIsUntouched) {
  for (const Operation operation : kDivided) {
    SCOPED_TRACE(OperationName(operation));
    Shared program(operation);
    const auto callers = reinterpret_cast<CUdeviceptr>(program.CallersWorkspace());
    ASSERT_EQ(cuMemsetD8(callers, 0x5a, Program::kWorkspace), CUDA_SUCCESS);
    const void* const own = program.Ran();
    EXPECT_NE(own, nullptr);
    EXPECT_NE(own, program.CallersWorkspace());
    program.Learn();
    EXPECT_EQ(program.Ran(), own) << "the same when all is known";
    EXPECT_EQ(program.Ran(Program::kWorkspace), own) << "whatever the caller passes";
    std::vector<unsigned char> left(Program::kWorkspace);
    ASSERT_EQ(cuMemcpyDtoH(left.data(), callers, left.size()), CUDA_SUCCESS);
    EXPECT_EQ(std::count(left.begin(), left.end(), 0x5a), Program::kWorkspace);
    EXPECT_EQ(program.Fallbacks(), "[]");
  }
}

TEST(TotalWorkspace, QueriesAnswerThatNoneIsNeeded) {
  Shared program(Operation::kForward);
  for (const bool get : {false, true}) {
    const auto answer = get ? program.Gotten() : program.Found(Program::kWorkspace);
    ASSERT_TRUE(answer && !answer->empty());
    for (const auto& told : *answer) {
      EXPECT_EQ(told.workspace_bytes, 0u);
      EXPECT_EQ(program.WorkspaceOf(told.algorithm), 0u);
    }
    EXPECT_EQ((*answer)[0].time_ms, 4) << "the plan's";
  }
  program.Ran();
}

TEST(TotalWorkspace, IsStatedAndInsideTheBudget) {
  Shared program(Operation::kForward);
  EXPECT_EQ(program.Total()["divided"], false);
  program.Learn();
  const nlohmann::json total = program.Total();
  EXPECT_EQ(total["total_bytes"], kAmple);
  EXPECT_EQ(total["division"], "concurrent");
  EXPECT_EQ(total["divided"], true);
  EXPECT_EQ(total["kernels"], 1);
  EXPECT_EQ(total["total_workspace_bytes"], program.need);
  const nlohmann::json kernels = program.ReportJson()["kernels"];
  const nlohmann::json kernel = kernels.back();
  EXPECT_EQ(kernel["workspace_bytes"], 0);
  EXPECT_EQ(kernel["owned_workspace_bytes"], program.need);
  EXPECT_EQ(kernel["limit_bytes"], program.need) << "its share";
}

TEST(TotalWorkspace, IsNeverExceeded) {
  const size_t need = Shared(Operation::kForward).need;
  Shared enough(Operation::kForward, need), short_of_one(Operation::kForward, need - 1);
  enough.Ran();
  EXPECT_EQ(enough.TheBudget().bytes(), need);
  for (int call = 0; call < 2 * kLearning; ++call) short_of_one.ExpectUndivided();
  EXPECT_EQ(short_of_one.TheBudget().bytes(), 0u);
  EXPECT_EQ(short_of_one.Total()["divided"], true);
  EXPECT_EQ(short_of_one.Total()["total_workspace_bytes"], 0);
}

TEST(TotalWorkspace, OfTwoStreamsAndTwoHandlesIsApart) {
  for (const bool known : {false, true}) {
    SCOPED_TRACE(known ? "known" : "learning");
    Shared program(Operation::kForward);
    if (known) program.Learn();
    const void* const first = program.Ran();
    {
      HandleStream stream(program.interposer, program.handle());
      const void* const second = program.Ran();
      EXPECT_NE(second, first);
    }
    EXPECT_EQ(program.Ran(), first);
    EXPECT_LE(program.TheBudget().bytes(), program.Total()["total_bytes"]);
    cudnnHandle_t other = nullptr;
    ASSERT_EQ(program.interposer.sessions().Create(&other), CUDNN_STATUS_SUCCESS);
    cudnn::ConvolutionCall call = program.Call(0, 0);
    call.handle = other;
    TheCalls().clear();
    EXPECT_EQ(program.interposer.legacy().Convolve(call), CUDNN_STATUS_SUCCESS);
    ASSERT_FALSE(TheCalls().empty());
    EXPECT_NE(TheCalls()[0].workspace, first);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(program.interposer.sessions().Destroy(other), CUDNN_STATUS_SUCCESS);
  }
}

// Another stream's work may still use the only segment.
TEST(TotalWorkspace, AStreamThatFindsNoneLeftRunsWithout) {
  const size_t need = Shared(Operation::kForward).need;
  Shared program(Operation::kForward, need);
  program.Learn();
  const void* const first = program.Ran();
  {
    HandleStream stream(program.interposer, program.handle());
    program.ExpectUndivided();
  }
  EXPECT_EQ(program.Ran(), first);
  EXPECT_EQ(program.TheBudget().bytes(), need);
}

TEST(TotalWorkspace, IsGivenBackWithTheLastHandle) {
  Shared program(Operation::kForward);
  const size_t before = test::FreeBytes();
  cudnnHandle_t other = nullptr;
  ASSERT_EQ(program.interposer.sessions().Create(&other), CUDNN_STATUS_SUCCESS);
  cudnn::ConvolutionCall call = program.Call(0, 0);
  call.handle = other;
  for (int i = 0; i < 2 * kLearning; ++i) {
    EXPECT_EQ(program.interposer.legacy().Convolve(call), CUDNN_STATUS_SUCCESS);
  }
  EXPECT_EQ(program.TheBudget().bytes(), program.need);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(program.interposer.sessions().Destroy(other), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(program.TheBudget().bytes(), 0u);
  EXPECT_EQ(program.Total()["total_workspace_bytes"], 0) << "a handle that never ran is left";
  EXPECT_EQ(test::FreeBytes(), before);
  program.Ran();
}

TEST(TotalWorkspace, OfACaptureIsItsOwn) {
  Shared program(Operation::kForward);
  HandleStream other(program.interposer, program.handle());
  const auto captured = [&](int calls) {
    TheCalls().clear();
    other.Capture([&] {
      for (int i = 0; i < calls; ++i) {
        EXPECT_EQ(program.interposer.legacy().Convolve(program.Call(0, 0)), CUDNN_STATUS_SUCCESS);
      }
    });
    return TheCalls();
  };
  program.Ran();
  const std::vector<Seen> unready = captured(1);
  ASSERT_THAT(unready, SizeIs(1));
  EXPECT_EQ(unready[0].workspace, nullptr) << "the choice without workspace";
  program.Learn();
  const void* const outside = program.Ran();
  const std::vector<Seen> pieces = captured(2);
  ASSERT_THAT(pieces, SizeIs(kImages));
  EXPECT_NE(pieces[0].workspace, nullptr);
  EXPECT_NE(pieces[0].workspace, outside);
  EXPECT_THAT(pieces, Each(Field(&Seen::workspace, pieces[0].workspace)));
  EXPECT_THAT(captured(1), Each(Field(&Seen::workspace, nullptr))) << "never another graph's";
  EXPECT_EQ(program.Ran(), outside);
  other.DestroyGraphs();
  EXPECT_THAT(captured(1), Each(Field(&Seen::workspace, pieces[0].workspace)));
  EXPECT_EQ(program.Ran(), outside);
  other.DestroyGraphs();
  EXPECT_LE(program.TheBudget().bytes(), kAmple);
}

TEST(TotalWorkspace, ThatIsHeldIsStatedWithThePartOfCaptures) {
  Shared program(Operation::kForward);
  HandleStream stream(program.interposer, program.handle());
  program.Ran();
  EXPECT_EQ(program.Total()["total_workspace_bytes"], program.need) << "lent";
  EXPECT_EQ(program.Total()["capture_bytes"], 0);
  program.Learn();
  EXPECT_EQ(program.Total()["total_workspace_bytes"], 2 * program.need);
  EXPECT_EQ(program.Total()["capture_bytes"], program.need);
  {
    HandleStream another(program.interposer, program.handle());
    program.Ran();
    EXPECT_EQ(program.Total()["total_workspace_bytes"], 3 * program.need);
    EXPECT_EQ(program.Total()["total_workspace_bytes"], program.TheBudget().bytes());
  }
  EXPECT_EQ(program.Total()["capture_bytes"], program.need);
}

TEST(TotalWorkspace, WithoutMemoryTheUndividedRuns) {
  Shared program(Operation::kForward);
  hostgpuInjectFault("alloc", 1);
  program.ExpectUndivided();
  hostgpuInjectFault("alloc", 0);
  for (int call = 2; call < kLearning; ++call) program.ExpectUndivided();
  program.Ran();
}

TEST(TotalWorkspace, WithoutMemoryASmallerBudgetIsPlanned) {
  Shared program(Operation::kForward);
  hostgpuInjectFault("alloc", 1);
  for (int call = 1; call < kLearning; ++call) program.ExpectUndivided();
  hostgpuInjectFault("alloc", 1);
  program.ExpectUndivided();
  hostgpuInjectFault("alloc", 0);
  EXPECT_EQ(program.Total()["planned_bytes"], program.need / 2);
  EXPECT_EQ(program.Total()["total_bytes"], kAmple);
  program.ExpectUndivided();
}

TEST(TotalWorkspace, IsDividedWhenTheProgramEndsTheRecording) {
  Shared program(Operation::kForward);
  EXPECT_FALSE(program.interposer.sessions().EndRecording(program.handle()).ok()) << "nothing ran";
  program.Ran();
  EXPECT_EQ(program.Total()["divided"], false);
  ASSERT_TRUE(program.interposer.sessions().EndRecording(program.handle()).ok());
  EXPECT_EQ(program.Total()["divided"], true);
  EXPECT_EQ(program.Total()["kernels"], 1);
  EXPECT_FALSE(program.TheBudget().learning());
  program.Ran();
  EXPECT_TRUE(program.interposer.sessions().EndRecording(program.handle()).ok()) << "again";
  EXPECT_EQ(program.TheBudget().bytes(), program.need);
}

TEST(TotalWorkspace, WhatItsDivisionLeavesAsItWasIsNotBuiltAgain) {
  for (const Operation operation : kDivided) {
    SCOPED_TRACE(OperationName(operation));
    Shared program(operation);
    program.Learn();
    Session* const session = program.interposer.sessions().Of(program.handle());
    const CallKey key = {Problem(operation)};
    const CallState* const before = session->Find(key);
    ASSERT_NE(before, nullptr);
    program.TheBudget().Stop();  // increases epoch(), so decisions are made anew
    program.Ran();
    const CallState* const after = session->Find(key);
    EXPECT_NE(after, before);
    EXPECT_TRUE(after->schedule->has_pieces());
    EXPECT_EQ(after->schedule, before->schedule);
  }
}

TEST(TotalWorkspace, IsDividedAmongWhatWasAskedAboutWhereNothingRan) {
  Shared program(Operation::kForward);
  ASSERT_TRUE(program.Found());
  ASSERT_TRUE(program.interposer.sessions().EndRecording(program.handle()).ok());
  EXPECT_EQ(program.Total()["divided"], true);
  EXPECT_EQ(program.Total()["kernels"], 1);
  EXPECT_EQ(program.Total()["total_workspace_bytes"], 0) << "who runs it is not known";
  EXPECT_TRUE(program.TheBudget().learning()) << "what it runs on is still to be learned";
  program.Learn();
  EXPECT_FALSE(program.TheBudget().learning());
  EXPECT_EQ(program.Total()["total_workspace_bytes"], program.need);
}

TEST(TotalWorkspace, IsDividedByTheExactSolverWhereGlpkIsMissing) {
  Options options = Budget(kAmple);
  options.solver = Solver::kGlpk;
  const size_t need = Shared(Operation::kForward).need;
  Program program(Operation::kForward, options);
  program.StorePairs();
  ::testing::internal::CaptureStderr();
  for (int call = 0; call <= kLearning; ++call) program.ExpectRight(0, 0);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("the exact solver takes the place of glpk: "));
  EXPECT_THAT(TheCalls(), SizeIs(kImages / 2));
  EXPECT_EQ(program.ReportJson()["total_workspace"]["total_workspace_bytes"], need);
}

}  // namespace
}  // namespace ucudnn::interposer
