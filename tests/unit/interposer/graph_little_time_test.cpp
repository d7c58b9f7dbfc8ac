// Execution plans for which there is time to measure one size only: it is the one that needs the
// least workspace of those that bring the plan under the user's limit.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "graph_program.h"
#include "tests/support/options.h"

namespace ucudnn::interposer {
namespace {

using ::testing::ElementsAre;

// Seconds: enough to begin with one size on a loaded machine, and over when it has run twice.
constexpr double kTooLittle = 1;

cudnnStatus_t ExecuteSlowly(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                            cudnnBackendDescriptor_t pack) {
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  return test::StandInGraphs().cudnnBackendExecute(handle, plan, pack);
}

size_t BytesAt(int images) {
  const Program program{Options()};
  ConvolutionProblem problem = Problem(Operation::kForward);
  problem.n = images;
  const test::Graph graph(problem, {}, program.real, {program.handle});
  return *cudnn::PlanWorkspace(program.real, graph.Plan(kEngine)->get());
}
// What four images need: one and two fit it, too. Asked before any other program is made.
size_t HurriedLimit() {
  static const size_t limit = BytesAt(4);
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
  EXPECT_LE(subject.Told(), HurriedLimit());
  Program& program = subject.program();
  const auto platform = tuning::DescribePlatform(*cuda::GetDriver(), program.real);
  ASSERT_TRUE(platform.ok());
  const auto plan = cudnn::ReadTemplate(program.real, subject.plan());
  ASSERT_TRUE(plan.ok()) << plan.message();
  const auto stored = program.store.Read(plan->convolution.problem, *platform);
  ASSERT_TRUE(stored.ok());
  // An engine that takes the plan's place has time of its own.
  std::vector<int> sizes;
  for (const planning::Measurement& row : stored->rows) {
    if (row.micro.engine == plan->convolution.engine) sizes.push_back(row.micro.micro_batch);
  }
  EXPECT_THAT(sizes, ElementsAre(1));
}

}  // namespace
}  // namespace ucudnn::interposer
