// Execution plans that no other engine can replace within the limit, on the stand-in's real
// arithmetic: their own pieces keep the promise, once they have run in this process and were
// compared with the plan itself.
#include <gmock/gmock.h>

#include <algorithm>

#include "graph_program.h"
#include "tests/support/options.h"

namespace ucudnn::interposer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Serves no plan but those of kEngine.
cudnnStatus_t FinalizeOwnEngine(cudnnBackendDescriptor_t descriptor) {
  const cudnn::Functions real = test::StandInGraphs();
  const cudnnStatus_t status = real.cudnnBackendFinalize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const auto read = cudnn::ReadTemplate(real, descriptor);
  const bool other = read.ok() && read->convolution.engine.graph()->index != kEngine;
  return other ? CUDNN_STATUS_NOT_SUPPORTED : status;
}

bool& PiecesFail() {
  static bool fail = false;
  return fail;
}
cudnnStatus_t FailPieces(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                         cudnnBackendDescriptor_t pack) {
  const cudnn::Functions real = test::StandInGraphs();
  const auto read = cudnn::ReadTemplate(real, plan);
  const bool fails = PiecesFail() && read.ok() && read->convolution.problem.n < 8;
  return fails ? CUDNN_STATUS_EXECUTION_FAILED : real.cudnnBackendExecute(handle, plan, pack);
}

size_t BytesOf(int images) {
  const Program program{Options()};
  ConvolutionProblem problem = Problem(Operation::kForward);
  problem.n = images;
  const test::Graph graph(problem, {}, program.real, {program.handle});
  return *cudnn::PlanWorkspace(program.real, graph.Plan(kEngine)->get());
}
// Asked by programs of their own, before any other is made.
size_t PartBytes() {
  static const size_t bytes = BytesOf(kPart);
  return bytes;
}
size_t NeedBytes() {
  static const size_t bytes = BytesOf(8);
  return bytes;
}

class Alone : public OnePlan {
 public:
  explicit Alone(decltype(cudnn::Functions::cudnnBackendExecute) execute = FailPieces)
      : OnePlan(Problem(Operation::kForward), false,
                test::Within(std::min(PartBytes(), NeedBytes() - 1)), execute) {
    PiecesFail() = false;
    PartsMeasured(kEngine, 1);
    undivided_ = whole_.Plan(kEngine);
    program_.under.cudnnBackendFinalize = FinalizeOwnEngine;
    plan_ = hooked_.Plan(kEngine);
    EXPECT_TRUE(plan_ && undivided_);
  }
  std::string Fallbacks() { return program_.Report()["fallbacks"].dump(); }
};

TEST(GraphPiecesAlone, KeepThePromise) {
  Alone subject;
  EXPECT_EQ(subject.Told(), PartBytes());
  const auto memory = subject.Memory();
  for (int seed = 1; seed <= 3; ++seed) {
    memory->Fill(seed);
    subject.Run(*memory);
    EXPECT_EQ(memory->Output(), subject.Undivided(seed));
  }
  EXPECT_TRUE(memory->GuardsAreIntact());
  EXPECT_EQ(subject.Fallbacks(), "[]");
  const auto kernel = subject.program().Report()["kernels"][0];
  EXPECT_EQ(kernel["workspace_bytes"], PartBytes());
  EXPECT_EQ(kernel["plan"][0]["count"], 8 / kPart);
}

TEST(GraphPiecesAlone, MayBeCapturedAtTheFirstCall) {
  Alone subject;
  CaptureSetting(subject).ExpectReplaysBesideCalls();
}

TEST(GraphPiecesAlone, ThatFailReturnTheirErrorAndThePlanItselfNeverRuns) {
  Alone subject;
  const auto memory = subject.Memory();
  PiecesFail() = true;
  EXPECT_EQ(memory->Execute(subject.program().hooked, subject.program().handle, subject.plan()),
            CUDNN_STATUS_EXECUTION_FAILED);
  EXPECT_TRUE(memory->GuardsAreIntact());
  EXPECT_THAT(subject.Fallbacks(), HasSubstr("its error is returned"));
  PiecesFail() = false;
  memory->Fill(1);
  subject.Run(*memory);
  EXPECT_EQ(memory->Output(), subject.Undivided(1));
}

TEST(GraphPiecesAlone, ThatAreWrongPromiseNothing) {
  Alone subject(SkipPieces);
  EXPECT_EQ(subject.Told(), NeedBytes());
  EXPECT_THAT(subject.Fallbacks(), AllOf(HasSubstr("a divided plan is wrong and never used"),
                                         HasSubstr("cannot be brought under the workspace limit")));
  const auto memory = subject.Memory();
  memory->Fill(1);
  subject.Run(*memory);
  EXPECT_EQ(memory->Output(), subject.Undivided(1));
}

}  // namespace
}  // namespace ucudnn::interposer
