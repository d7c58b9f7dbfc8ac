// Tests which micro-batch sizes of an execution plan are measured or compared first. If there is
// time for one size only, ucudnn measures the one with the least workspace, provided it fits the
// user's limit. Sizes that an earlier process measured are compared before others are measured.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

using ::testing::ElementsAre;

// Seconds for measuring. Even on a loaded machine they are enough to begin one size, but not for
// its two executions of 600 ms each.
constexpr double kTooLittle = 1;

cudnnStatus_t ExecuteSlowly(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                            cudnnBackendDescriptor_t pack) {
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  return test::StandInGraphs().cudnnBackendExecute(handle, plan, pack);
}

// Returns the workspace that four images need; one and two images fit it as well. REQUIRES at the
// first call: no other Program exists, because the call makes one.
size_t HurriedLimit() {
  static const size_t limit = NeedOf(WithBatch(Problem(Operation::kForward), 4));
  return limit;
}

class HurriedPlan : public OnePlan {
 public:
  HurriedPlan() : OnePlan(Problem(Operation::kForward), false, Hurried(), ExecuteSlowly) {
    plan_ = hooked_.Plan(kEngine);
    EXPECT_TRUE(plan_);
  }

 private:
  static Options Hurried() {
    Options options = test::Within(HurriedLimit());
    options.tuning.on = true;
    options.tuning.kernel_seconds = kTooLittle;
    return options;
  }
};

TEST(GraphLittleTime, IsSpentOnTheLeastThatKeepsTheLimit) {
  HurriedPlan subject;
  EXPECT_LE(subject.ToldBytes(), HurriedLimit());
  Program& program = subject.program();
  const auto plan = cudnn::ReadTemplate(program.real, subject.plan());
  ASSERT_TRUE(plan.ok()) << plan.message();
  const auto stored = program.store.Read(plan->convolution.problem, PlatformOf(program.real));
  ASSERT_TRUE(stored.ok());
  // The store also has rows of engines that may replace the plan, because measuring these engines
  // has a time limit of its own.
  std::vector<int> sizes;
  for (const planning::Measurement& row : stored->rows) {
    if (row.micro.engine == plan->convolution.engine) sizes.push_back(row.micro.micro_batch);
  }
  EXPECT_THAT(sizes, ElementsAre(1));
}

// The numbers of images of the plans that ran, in order.
std::vector<int> executed;
cudnnStatus_t ExecuteNoted(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                           cudnnBackendDescriptor_t pack) {
  const auto read = cudnn::ReadTemplate(test::StandInGraphs(), plan);
  EXPECT_TRUE(read.ok()) << read.message();
  executed.push_back(read->convolution.problem.n);
  return test::StandInGraphs().cudnnBackendExecute(handle, plan, pack);
}

// Sizes 8 and 4 were measured by an earlier process, sizes 1 and 2 were not.
class PlanKnownInPart : public OnePlan {
 public:
  PlanKnownInPart() : OnePlan(Problem(Operation::kForward), false, Measuring(), ExecuteNoted) {
    Know(8, 100);
    Know(4, 1);
    executed.clear();
    MakePlans();
  }

 private:
  // Stores a time of kEngine for `images` images. The engine's results were never compared.
  void Know(int images, double time_ms) {
    const test::Graph graph(WithBatch(problem_, images), graph_options_, program_.real,
                            {program_.handle});
    const auto plan = graph.Plan(kEngine);
    const auto read = cudnn::ReadTemplate(program_.real, plan->get());
    ASSERT_TRUE(read.ok());
    StoreRows(program_.store, program_.real, read->convolution.problem,
              {{{read->convolution.engine, images, time_ms,
                 *cudnn::PlanWorkspace(program_.real, plan->get()), read->deterministic},
                5}});
  }
  static Options Measuring() {
    Options options = test::Planned();
    options.tuning.on = true;
    return options;
  }
};

TEST(GraphLittleTime, IsSpentOnComparingWhatIsKnownFirst) {
  PlanKnownInPart subject;
  ASSERT_GT(executed.size(), 3u);
  EXPECT_THAT(std::vector(executed.begin(), executed.begin() + 3), ElementsAre(8, 4, 4));
  EXPECT_THAT(executed, testing::IsSupersetOf({1, 2})) << "the rest is measured afterwards";
}

}  // namespace
}  // namespace ucudnn::interposer
