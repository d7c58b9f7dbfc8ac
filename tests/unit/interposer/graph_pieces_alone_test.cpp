// Execution plans that no other engine can replace within the limit, on the stand-in's real
// arithmetic: their own pieces keep the promise, once they have run in this process and were
// compared with the plan itself.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "db/sqlite_store.h"
#include "graph_program.h"
#include "tests/support/options.h"

namespace ucudnn::interposer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

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
      : Alone(std::min(PartBytes(), NeedBytes() - 1), execute, nullptr) {}
  // `shared`: the store of other programs; null: one of its own.
  Alone(size_t limit_bytes, decltype(cudnn::Functions::cudnnBackendExecute) execute,
        planning::MeasurementStore* shared)
      : OnePlan(Problem(Operation::kForward), false, test::Within(limit_bytes), execute, shared) {
    PiecesFail() = false;
    PartsMeasured(kEngine, 1);
    undivided_ = whole_.Plan(kEngine);
    program_.under.cudnnBackendFinalize = FinalizeOwnEngine;
    plan_ = hooked_.Plan(kEngine);
    EXPECT_TRUE(plan_ && undivided_);
  }
  std::string Fallbacks() { return program_.Report()["fallbacks"].dump(); }
  // The store says that `images` of the plan's own engine take so long.
  void Measured(int images, double time_ms) { PartsMeasured(kEngine, time_ms, images); }
};

// A store in a file, as processes share one.
class StoreOnDisk {
 public:
  StoreOnDisk() {
    std::string pattern = ::testing::TempDir() + "/alone_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~StoreOnDisk() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  StoreOnDisk(const StoreOnDisk&) = delete;
  StoreOnDisk& operator=(const StoreOnDisk&) = delete;

  // As a process opens it.
  db::SqliteStore Opened() const { return db::SqliteStore({folder_ + "/measurements.db"}); }

 private:
  std::string folder_;
};

// The plans that run now; whether one ran on two threads at once.
struct Watch {
  std::mutex mutex;
  std::set<cudnnBackendDescriptor_t> running;
  int executed = 0;
  bool overlapped = false;
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
  const cudnnStatus_t status = test::StandInGraphs().cudnnBackendExecute(handle, plan, pack);
  const std::lock_guard lock(watch.mutex);
  watch.running.erase(plan);
  return status;
}

// A second thread has a handle and a plan of its own, as PyTorch's have, which is equal to the
// first one's: what ucudnn built for both runs on one of them at a time.
void ExpectThreadsApart(OnePlan& subject, const ConvolutionProblem& problem,
                        cudnnBackendDescriptor_t first_plan) {
  Program& program = subject.program();
  cudnnHandle_t second = nullptr;
  ASSERT_EQ(program.interposer.sessions().Create(&second), CUDNN_STATUS_SUCCESS);
  {
    const test::Graph graph(problem, {}, program.hooked, {second});
    const auto second_plan = graph.Plan(kEngine);
    ASSERT_TRUE(second_plan);
    subject.Run(*subject.Memory());  // what is measured or compared is so now
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    TheWatch().executed = 0;
    TheWatch().overlapped = false;
    const auto run = [&](cudnnHandle_t handle, cudnnBackendDescriptor_t plan) {
      ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      const auto memory = subject.Memory();
      for (int seed = 1; seed <= 10; ++seed) {
        memory->Fill(seed);
        EXPECT_EQ(memory->Execute(program.hooked, handle, plan), CUDNN_STATUS_SUCCESS);
      }
    };
    std::thread other([&] { run(second, second_plan->get()); });
    run(program.handle, first_plan);
    other.join();
  }
  EXPECT_GE(TheWatch().executed, 20);
  EXPECT_FALSE(TheWatch().overlapped);
  EXPECT_EQ(program.interposer.sessions().Destroy(second), CUDNN_STATUS_SUCCESS);
}

TEST(GraphThreads, PiecesRunOnOneAtATime) {
  Alone subject(ExecuteWatched);
  EXPECT_EQ(subject.Told(), PartBytes());
  ExpectThreadsApart(subject, Problem(Operation::kForward), subject.plan());
}

class Substituted : public OnePlan {
 public:
  Substituted() : OnePlan(Problem(Operation::kForward), false, test::Within(1024), ExecuteWatched) {
    undivided_ = whole_.Plan(kEngine);
    plan_ = hooked_.Plan(kEngine);
    EXPECT_TRUE(plan_ && undivided_);
  }
};

TEST(GraphThreads, ASubstituteRunsOnOneAtATime) {
  Substituted subject;
  EXPECT_LT(subject.Told(), NeedBytes());
  ExpectThreadsApart(subject, Problem(Operation::kForward), subject.plan());
}

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

TEST(GraphPiecesAlone, KeepThePromiseInTheNextProcess) {
  constexpr int kLarger = 2 * kPart;
  const size_t limit = BytesOf(kLarger);
  ASSERT_GT(limit, PartBytes());
  ASSERT_LT(limit, NeedBytes());
  const StoreOnDisk disk;
  {
    db::SqliteStore store = disk.Opened();
    Alone first(limit, FailPieces, &store);
    EXPECT_EQ(first.Told(), PartBytes());
    // From now on the store knows of larger pieces, which are faster and fit the limit.
    first.Measured(kLarger, 0.1);
  }
  db::SqliteStore store = disk.Opened();
  const auto kept = store.ListPromises();
  ASSERT_TRUE(kept.ok()) << kept.message();
  ASSERT_THAT(*kept, SizeIs(1));
  EXPECT_TRUE(kept->front().undivided.empty());
  EXPECT_EQ(kept->front().workspace_bytes, PartBytes());
  Alone next(limit, FailPieces, &store);
  EXPECT_EQ(next.Told(), PartBytes());
  const auto memory = next.Memory();
  memory->Fill(1);
  next.Run(*memory);
  EXPECT_EQ(memory->Output(), next.Undivided(1));
  EXPECT_TRUE(memory->GuardsAreIntact());
  EXPECT_EQ(next.Fallbacks(), "[]");
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
