// Tests threads that run equal plans, each with its own handle, on the stand-in's real arithmetic.
// cuDNN does not promise that one plan may run on two threads at once.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tiled_plan.h"

namespace ucudnn::interposer {
namespace {

// The plans that run now, the number of executions, and whether a plan ran on two threads at once.
// If `pieces_fail`, pieces return an error.
struct Watch {
  std::mutex mutex;
  std::set<cudnnBackendDescriptor_t> running;
  int executed = 0;
  bool overlapped = false;
  bool pieces_fail = false;
};
Watch& TheWatch() {
  static Watch watch;
  return watch;
}
cudnnStatus_t ExecuteWatched(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack) {
  Watch& watch = TheWatch();
  {
    const std::lock_guard lock(watch.mutex);
    watch.overlapped |= !watch.running.insert(plan).second;
    ++watch.executed;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const cudnn::Functions real = test::StandInGraphs();
  const auto read = cudnn::ReadTemplate(real, plan);
  const bool fails = watch.pieces_fail && read.ok() && read->convolution.problem.n == kPart;
  const cudnnStatus_t status =
      fails ? CUDNN_STATUS_EXECUTION_FAILED : real.cudnnBackendExecute(handle, plan, pack);
  const std::lock_guard lock(watch.mutex);
  watch.running.erase(plan);
  return status;
}

// Executes `subject`'s plan on two threads with a handle each. If `shares_plan`, both threads run
// the same plan. Otherwise the second thread has an equal plan of its own, as in PyTorch. Expects
// right results, and that each plan of the library, such as a piece, runs on one thread at a time.
void ExpectThreadsApart(OnePlan& subject, const ConvolutionProblem& problem,
                        bool shares_plan = false) {
  Program& program = subject.program();
  cudnnHandle_t second = nullptr;
  ASSERT_EQ(program.interposer.sessions().Create(&second), CUDNN_STATUS_SUCCESS);
  {
    const test::Graph graph(problem, {}, program.hooked, {second});
    const auto second_plan = graph.Plan(kEngine);
    ASSERT_TRUE(second_plan);
    subject.Run(*subject.Memory());  // measures and compares beforehand
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    std::vector<Values> expected;
    for (int seed = 0; seed < 11; ++seed) expected.push_back(subject.Undivided(seed));
    TheWatch().executed = 0;
    TheWatch().overlapped = false;
    const auto run = [&](cudnnHandle_t handle, cudnnBackendDescriptor_t plan, int shift) {
      ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      const auto memory = subject.Memory();
      for (int call = 0; call < 10; ++call) {
        const int seed = (call + shift) % 11;
        memory->Fill(seed);
        EXPECT_EQ(memory->Execute(program.hooked, handle, plan), CUDNN_STATUS_SUCCESS);
        EXPECT_EQ(memory->Output(), expected[seed]);
      }
    };
    std::thread other([&] { run(second, shares_plan ? subject.plan() : second_plan->get(), 5); });
    run(program.handle, subject.plan(), 0);
    other.join();
  }
  EXPECT_GE(TheWatch().executed, 20);
  EXPECT_FALSE(TheWatch().overlapped);
  EXPECT_EQ(program.interposer.sessions().Destroy(second), CUDNN_STATUS_SUCCESS);
}

// A program whose plan ucudnn replaces by pieces and, if these fail, by an engine that needs no
// workspace.
class Replaced : public OnePlan {
 public:
  explicit Replaced(size_t limit_bytes)
      : OnePlan(Problem(Operation::kForward), false, test::Within(limit_bytes), ExecuteWatched) {
    constexpr int kWithoutWorkspace = 0;
    program_.Measured(whole_, kEngine, 100);
    program_.Measured(whole_, kWithoutWorkspace, 50);
    PartsMeasured(kEngine, 1);
    MakePlans();
  }
};

class GraphThreads : public ::testing::TestWithParam<bool> {
 protected:
  void TearDown() override { TheWatch().pieces_fail = false; }
};

TEST_P(GraphThreads, WhatUcudnnBuiltRunsOnOneAtATime) {
  const bool pieces_fail = GetParam();
  const size_t limit = NeedOf(WithBatch(Problem(Operation::kForward), kPart));
  Replaced subject(limit);
  EXPECT_LE(subject.ToldBytes(), limit);
  TheWatch().pieces_fail = pieces_fail;
  ExpectThreadsApart(subject, Problem(Operation::kForward));
  const int pieces = pieces_fail ? 1 : 8 / kPart;
  EXPECT_EQ(TheWatch().executed, 2 * 10 * pieces);
}
INSTANTIATE_TEST_SUITE_P(Ways, GraphThreads, ::testing::Bool());

TEST(TileThreads, TilesRunOnOneAtATime) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  for (const bool shares_plan : {false, true}) {
    TiledPlan subject(problem, {}, Measuring(NeedOf(problem) / 3), ExecuteWatched);
    ExpectThreadsApart(subject, problem, shares_plan);
    subject.ExpectTiles();
    EXPECT_EQ(TheWatch().executed, 2 * 10 * subject.Pieces());
  }
}

}  // namespace
}  // namespace ucudnn::interposer
