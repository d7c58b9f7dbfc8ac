// Tests calls that follow a workspace plan, on the stand-in's real arithmetic.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "legacy_program.h"
#include "workspace_plan_file.h"

namespace ucudnn::interposer {
namespace {

using test::Following;
using test::Totalled;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr size_t kPairs = kImages / 2;
constexpr Operation kPinned[] = {Operation::kForward, Operation::kBackwardFilter};

nlohmann::json PlanFile(Operation operation, size_t bytes) {
  return test::WorkspacePlanFile(
      test::WorkspacePlanEntry(Problem(operation), {.images = 2, .bytes = bytes}));
}

size_t NeedOfPairs(Operation operation) { return Program(operation, Options{}).Need(1, 2); }

// A program that follows `file`. If `compared`, the store says that the pieces were compared and
// are slow, so that only the file divides. The stored row of algorithm 0 is deterministic only if
// `operation` is kForward, as the algorithm is.
struct Follower : Program {
  Follower(Operation operation, const nlohmann::json& file, bool compared = true,
           cudnn::Functions functions = WrongStandIn())
      : Program(operation, Following(file), functions) {
    const bool deterministic = operation == Operation::kForward;
    StoreRow({{"legacy:0", kImages, 0.01, 0, deterministic}, 5, true});
    if (compared) StoreRow({{"legacy:1", 2, 1000, Need(1, 2), true}, 5, true});
  }
  size_t Pieces(size_t bytes) {
    ExpectRight(0, bytes);
    return TheCalls().size();
  }
};

TEST(PlanFile, IsFollowedInTheCallersWorkspaceAndNothingIsMeasured) {
  for (const Operation operation : kPinned) {
    SCOPED_TRACE(OperationName(operation));
    const size_t need = NeedOfPairs(operation);
    Follower program(operation, PlanFile(operation, need));
    EXPECT_EQ(program.Pieces(need), kPairs);
    EXPECT_THAT(TheCalls(), Each(Field(&Seen::algorithm, 1)));
    EXPECT_EQ(program.interposer.kernels().measured(), 0);
    EXPECT_EQ(program.Fallbacks(), "[]");
    EXPECT_EQ(program.Pieces(need - 1), 1u) << "not in less than it needs";
    EXPECT_EQ(program.interposer.kernels().measured(), 0);
  }
}

TEST(PlanFile, AnswersItsOwnWorkspaceAndKeepsIt) {
  for (const Operation operation : kPinned) {
    SCOPED_TRACE(OperationName(operation));
    const size_t need = NeedOfPairs(operation);
    for (const bool get : {false, true}) {
      Follower program(operation, PlanFile(operation, need));
      const auto answer = get ? program.Gotten() : program.Found();
      ASSERT_TRUE(answer && !answer->empty());
      const size_t bytes = program.WorkspaceOf(answer->at(0).algorithm);
      EXPECT_EQ(bytes, answer->at(0).workspace_bytes);
      EXPECT_GE(bytes, need);
      program.ExpectRight(answer->at(0).algorithm, bytes);
      EXPECT_THAT(TheCalls(), SizeIs(kPairs));
    }
  }
}

TEST(PlanFile, OfABudgetAnswersNothingAndBringsTheWorkspace) {
  for (const Operation operation : kPinned) {
    SCOPED_TRACE(OperationName(operation));
    const size_t need = NeedOfPairs(operation);
    Follower program(operation, Totalled(PlanFile(operation, need), need));
    const auto answer = program.Found();
    ASSERT_TRUE(answer && !answer->empty());
    for (const auto& told : *answer) EXPECT_EQ(told.workspace_bytes, 0u);
    EXPECT_EQ(program.Pieces(0), kPairs) << "from the first call on";
    const void* const workspace = TheCalls()[0].workspace;
    EXPECT_NE(workspace, nullptr);
    EXPECT_EQ(program.Pieces(0), kPairs);
    EXPECT_EQ(TheCalls()[0].workspace, workspace);
    const nlohmann::json total = program.ReportJson()["total_workspace"];
    EXPECT_EQ(total["total_bytes"], need);
    EXPECT_EQ(total["total_workspace_bytes"], need);
    EXPECT_EQ(total["divided"], true);
    EXPECT_EQ(program.interposer.kernels().measured(), 0);
    EXPECT_EQ(test::BudgetOf(program.interposer).bytes(), need);
  }
}

// The total is enough for one segment. The two streams share it only if the file orders them.
TEST(PlanFile, OrderAloneLetsStreamsShareASegment) {
  const Operation operation = Operation::kForward;
  const size_t need = NeedOfPairs(operation);
  for (const bool ordered : {false, true}) {
    SCOPED_TRACE(ordered ? "ordered" : "not ordered");
    nlohmann::json file = Totalled(PlanFile(operation, need), need);
    if (ordered) file["kernels"][0]["order_after"] = {0};
    Follower program(operation, file);
    ASSERT_EQ(program.Pieces(0), kPairs);
    const void* const first = TheCalls()[0].workspace;
    const test::HandleStream stream(program.interposer, program.handle());
    EXPECT_EQ(program.Pieces(0), ordered ? kPairs : 1u);
    EXPECT_EQ(TheCalls()[0].workspace, ordered ? first : nullptr);
  }
}

// A captured graph may run at any time, also while calls and other graphs run. So no other call or
// graph gets its segment until the graph is destroyed.
TEST(PlanFile, OfABudgetGivesACaptureASegmentOfItsOwn) {
  for (const Operation operation : kPinned) {
    SCOPED_TRACE(OperationName(operation));
    const size_t need = NeedOfPairs(operation);
    Follower program(operation, Totalled(PlanFile(operation, need), 2 * need));
    CUstream other = nullptr;
    ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    test::HandleStream stream(program.interposer, program.handle());
    const auto capture = [&](CUgraph& graph) {
      TheCalls().clear();
      graph = stream.Capture([&] {
        EXPECT_EQ(program.interposer.legacy().Convolve(program.Call(0, 0)), CUDNN_STATUS_SUCCESS);
      });
      return TheCalls();
    };
    CUgraph early = nullptr, first = nullptr, second = nullptr;
    EXPECT_THAT(capture(early), SizeIs(1)) << "pieces are captured after they ran outside";
    ASSERT_EQ(program.Pieces(0), kPairs);
    const void* const outside = TheCalls()[0].workspace;
    const std::vector<Seen> pieces = capture(first);
    ASSERT_THAT(pieces, SizeIs(kPairs));
    EXPECT_THAT(pieces, Each(Field(&Seen::workspace, pieces[0].workspace)));
    EXPECT_NE(pieces[0].workspace, nullptr);
    EXPECT_NE(pieces[0].workspace, outside);
    EXPECT_THAT(capture(second), SizeIs(1)) << "never another capture's";
    for (const CUgraph graph : {early, first, second}) {
      CUgraphExec exec = nullptr;
      ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
      EXPECT_EQ(program.Output([&](cudnn::ConvolutionCall& call) {
        EXPECT_EQ(cuGraphLaunch(exec, other), CUDA_SUCCESS);
        EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
        call.workspace = nullptr;
        call.workspace_bytes = 0;
      }),
                program.Expected())
          << "a call behind the graph";
      EXPECT_EQ(program.Launched(exec, other), program.Expected()) << "the graph alone";
      EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    }
    EXPECT_EQ(test::BudgetOf(program.interposer).bytes(), 2 * need);
    EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
  }
}

int& Refusals() {
  static int refusals = 0;
  return refusals;
}

// A query that the library refuses at first may succeed later.
TEST(PlanFile, IsFollowedOnceTheLibraryAnswers) {
  const Operation operation = Operation::kForward;
  const size_t need = NeedOfPairs(operation);
  cudnn::Functions functions = WrongStandIn();
  functions.cudnnGetConvolutionForwardAlgorithm_v7 =
      [](cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
         const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
         int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
        if (Refusals() > 0) {
          --Refusals();
          return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
        }
        return cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, requested,
                                                      returned, results);
      };
  Refusals() = 0;
  Follower program(operation, PlanFile(operation, need), true, functions);
  Refusals() = 1;
  EXPECT_EQ(program.Pieces(need), 1u);
  EXPECT_THAT(program.Fallbacks(), HasSubstr("the workspace plan cannot be followed yet"));
  for (int call = 0; call < 2; ++call) program.Pieces(need);
  EXPECT_EQ(program.Pieces(need), kPairs);
  EXPECT_THAT(TheCalls(), Each(Field(&Seen::algorithm, 1)));
}

// The kernels in the file have their part of the budget before they run, so other kernels get only
// the rest.
TEST(PlanFile, KernelsThatItDoesNotHaveGetWhatItLeaves) {
  const size_t need = NeedOfPairs(Operation::kForward);
  for (const size_t left : {size_t{0}, need}) {
    nlohmann::json file = Totalled(PlanFile(Operation::kForward, need), 2 * need);
    file["kernels"][0]["problem"]["k"] = 7;  // another kernel than the program's
    file["total_bytes"] = need + left;
    Program program(Operation::kForward, Following(file));
    program.StorePairs();
    program.ExpectRight(0, 0);
    EXPECT_THAT(TheCalls(), SizeIs(left > 0 ? kPairs : 1u));
  }
}

TEST(PlanFile, ADividedPlanIsComparedBeforeItRuns) {
  const Operation operation = Operation::kForward;
  const size_t need = NeedOfPairs(operation);
  for (const bool total : {false, true}) {
    nlohmann::json file = PlanFile(operation, need);
    if (total) file = Totalled(file, need);
    Follower program(operation, file, false);
    TheWrong() = {1};
    program.ExpectRight(0, total ? 0 : need);
    EXPECT_THAT(program.OnCallersData(), SizeIs(1)) << "undivided";
    EXPECT_THAT(program.Fallbacks(), HasSubstr("a divided plan is wrong and never used"));
    program.ExpectRight(0, total ? 0 : need);
  }
}

TEST(PlanFile, AnEntryThatTheLibraryContradictsIsDropped) {
  const Operation operation = Operation::kForward;
  const size_t need = NeedOfPairs(operation);
  const auto faults = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json file = PlanFile(operation, need);
    change(file["kernels"][0]["plan"][0]);
    Follower program(operation, file);
    EXPECT_EQ(program.Pieces(Program::kWorkspace), 1u);
    EXPECT_EQ(program.Pieces(Program::kWorkspace), 1u);
    return program.Fallbacks();
  };
  const auto too_small =
      faults([&](nlohmann::json& piece) { piece["workspace_bytes"] = need - 1; });
  EXPECT_THAT(too_small, HasSubstr("IMPLICIT_PRECOMP_GEMM (legacy:1) for 2 images needs " +
                                   std::to_string(need)));
  for (const char* engine : {"legacy:99", "graph:1[k2=0]", "legacy:1[math=1]", "", "legacy:-1"}) {
    EXPECT_THAT(faults([&](nlohmann::json& piece) { piece["engine"] = engine; }),
                HasSubstr("no such engine"));
  }
}

TEST(PlanFile, AnEntryThatTheLibraryContradictsKeepsNothingFromItsKernel) {
  const Operation operation = Operation::kForward;
  const size_t need = NeedOfPairs(operation);
  nlohmann::json file = Totalled(PlanFile(operation, need - 1), 1 << 20);
  Follower program(operation, file, false);
  program.StoreRow({{"legacy:1", 2, 0.0001, need, true}, 5, true});
  EXPECT_EQ(program.Pieces(0), kPairs) << "planned as without the file, in what it leaves";
  EXPECT_THAT(program.Fallbacks(), HasSubstr("the workspace plan does not hold for it"));
  EXPECT_GT(program.ReportJson()["kernels"].back()["owned_workspace_bytes"], need - 1);
}

TEST(PlanFile, OfMoreThanTheDeviceHasIsAsIfItWereNotThere) {
  const Operation operation = Operation::kForward;
  const size_t much = size_t{1} << 42;
  nlohmann::json file = Totalled(PlanFile(operation, much), size_t{1} << 50);
  Follower program(operation, file);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(program.Pieces(NeedOfPairs(operation)), 1u);
  ::testing::internal::GetCapturedStderr();
  EXPECT_FALSE(program.ReportJson().contains("total_workspace"));
}

TEST(PlanFile, MoreThanTheLibraryNeedsIsNotTaken) {
  const Operation operation = Operation::kForward;
  const size_t need = NeedOfPairs(operation);
  Follower program(operation, PlanFile(operation, need + 12345));
  EXPECT_EQ(program.Pieces(need), kPairs);
}

TEST(PlanFile, OfAnotherPlatformOrUnreadableIsAsIfItWereNotThere) {
  const Operation operation = Operation::kForward;
  const size_t need = NeedOfPairs(operation);
  const auto ignored = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json file = PlanFile(operation, need);
    change(file);
    Follower program(operation, file);
    EXPECT_EQ(program.Pieces(need), 1u);
    EXPECT_EQ(program.Fallbacks(), "[]");
    EXPECT_FALSE(program.ReportJson().contains("total_workspace"));
  };
  ignored([](nlohmann::json& file) { file["device"] = "another"; });
  ignored([](nlohmann::json& file) { file["cudnn"] = 90000; });
  ignored([](nlohmann::json& file) { file["version"] = 1; });
  ignored([](nlohmann::json& file) { file["kernels"][0]["problem"]["n"] = 2 * kImages; });
  ignored([](nlohmann::json& file) { file["kernels"] = 5; });
  ignored([&](nlohmann::json& file) {
    file = Totalled(file, need);
    file["device"] = "another";
  });
}

}  // namespace
}  // namespace ucudnn::interposer
