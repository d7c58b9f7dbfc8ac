// Tests one workspace budget for calls on several handles, streams and threads.
#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "budget_program.h"

namespace ucudnn::interposer {
namespace {

// A handle, a stream and an output, all for one thread.
class Lane {
 public:
  explicit Lane(Program& program) : program_(program), call_(program.Call(0, 0)) {
    EXPECT_EQ(program.interposer.sessions().Create(&call_.handle), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(program.interposer.sessions().SetStream(call_.handle, stream_), CUDNN_STATUS_SUCCESS);
    CUdeviceptr output = 0;
    EXPECT_EQ(cuMemAlloc(&output, kElements * sizeof(float)), CUDA_SUCCESS);
    call_.y = reinterpret_cast<void*>(output);
  }
  ~Lane() {
    EXPECT_EQ(program_.interposer.sessions().Destroy(call_.handle), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(call_.y)), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
  }
  Values Output() {
    Values output(kElements);
    EXPECT_EQ(cuMemcpyDtoHAsync(output.data(), reinterpret_cast<CUdeviceptr>(call_.y),
                                kElements * sizeof(float), stream_),
              CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    return output;
  }
  Values Undivided() {
    EXPECT_EQ(cudnn::Convolve(program_.functions, call_), CUDNN_STATUS_SUCCESS);
    return Output();
  }
  void Run() { EXPECT_EQ(program_.interposer.legacy().Convolve(call_), CUDNN_STATUS_SUCCESS); }

 private:
  static constexpr size_t kElements = size_t{kImages} * 8 * 64;
  Program& program_;
  cudnn::ConvolutionCall call_;
  CUstream stream_ = nullptr;
};

// The total workspace is enough for one segment only.
TEST(TotalWorkspaceOfLanes, HandlesWhoseWorkIsOrderedShareASegment) {
  const size_t need = Shared(Operation::kForward).need;
  for (const bool ordered : {false, true}) {
    SCOPED_TRACE(ordered ? "ordered" : "not ordered");
    Shared program(Operation::kForward, need);
    cudnnHandle_t other = nullptr;
    ASSERT_EQ(program.interposer.sessions().Create(&other), CUDNN_STATUS_SUCCESS);
    CUstream stream = nullptr;
    ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    EXPECT_EQ(program.interposer.sessions().SetStream(other, stream), CUDNN_STATUS_SUCCESS);
    if (ordered) {
      const Status status = program.interposer.sessions().DeclareOrder(program.handle(), other);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    cudnn::ConvolutionCall call = program.Call(0, 0);
    call.handle = other;
    std::vector<Seen> last[2];
    for (int round = 0; round < 4 * kLearning; ++round) {
      program.ExpectRight(0, 0);  // synchronises
      last[0] = TheCalls();
      TheCalls().clear();
      EXPECT_EQ(program.interposer.legacy().Convolve(call), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      last[1] = TheCalls();
      EXPECT_LE(program.TheBudget().bytes(), need);
    }
    EXPECT_EQ(program.Total()["divided"], true);
    const size_t pieces = last[0].size() + last[1].size();
    EXPECT_EQ(pieces, ordered ? size_t{kImages} : 2u) << "two segments do not fit";
    EXPECT_EQ(last[0][0].workspace, last[1][0].workspace);
    EXPECT_EQ(program.interposer.sessions().Destroy(other), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  }
}

TEST(TotalWorkspaceOfLanes, OrderIsDeclaredBeforeAnythingRuns) {
  Shared program(Operation::kForward);
  cudnnHandle_t others[2];
  for (cudnnHandle_t& other : others) {
    ASSERT_EQ(program.interposer.sessions().Create(&other), CUDNN_STATUS_SUCCESS);
  }
  EXPECT_TRUE(program.interposer.sessions().DeclareOrder(others[0], others[0]).ok());
  EXPECT_TRUE(program.interposer.sessions().DeclareOrder(program.handle(), others[0]).ok());
  EXPECT_TRUE(program.interposer.sessions().DeclareOrder(program.handle(), others[0]).ok())
      << "again";
  program.Ran();
  const Status late = program.interposer.sessions().DeclareOrder(others[1], others[0]);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.message().find("ran on one of the handles before"), std::string::npos);
  EXPECT_TRUE(program.interposer.sessions().DeclareOrder(others[1], others[1]).ok());
  for (const cudnnHandle_t other : others) {
    EXPECT_EQ(program.interposer.sessions().Destroy(other), CUDNN_STATUS_SUCCESS);
  }
}

TEST(TotalWorkspaceOfLanes, ThreadsOnStreamsOfTheirOwnGetTheirOwnResults) {
  const size_t need = Shared(Operation::kForward).need;
  for (const WorkspaceDivision division :
       {WorkspaceDivision::kDisjoint, WorkspaceDivision::kShared, WorkspaceDivision::kConcurrent}) {
    for (const size_t budget_bytes : {need, 2 * need, kAmple}) {
      SCOPED_TRACE(WorkspaceDivisionName(division) + std::string(" ") +
                   std::to_string(budget_bytes));
      Options options = Budget(budget_bytes);
      options.division = division;
      Program program(Operation::kForward, options, test::StandIn());
      program.StorePairs();
      const Values expected = Lane(program).Undivided();
      CUcontext context = nullptr;
      ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
      WorkspaceBudget& budget = test::BudgetOf(program.interposer);
      std::vector<std::thread> threads;
      for (int thread = 0; thread < 2; ++thread) {
        threads.emplace_back([&] {
          EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
          Lane lane(program);
          for (int round = 0; round < 6; ++round) {
            for (int call = 0; call < 3; ++call) lane.Run();
            EXPECT_LE(budget.bytes(), budget_bytes);
            EXPECT_EQ(lane.Output(), expected);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_LE(budget.bytes(), budget_bytes);
    }
  }
}

}  // namespace
}  // namespace ucudnn::interposer
