// Tests that a call that failed for lack of device memory can be repeated: the failed call does not
// change later results.
#include <gtest/gtest.h>

#include "planner/multigrid/device/device_solvers.h"
#include "support/device.h"
#include "support/stand_in.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/alone_stage.h"

namespace ucudnn::multigrid {
namespace {

// The number of allocations that succeed before one fails. If it is negative, none fails.
int succeeding = -1;
decltype(&cuMemAlloc) real_allocate = nullptr;
CUresult AllocateOrFail(CUdeviceptr* address, size_t bytes) {
  return succeeding-- == 0 ? CUDA_ERROR_OUT_OF_MEMORY : real_allocate(address, bytes);
}

struct Trained {
  std::vector<double> last, first, gradient, weights;
  bool has_failed = false;
};

class DeviceFailures : public test::DeviceTest {
 protected:
  DeviceFailures() {
    real_allocate = driver.cuMemAlloc;
    driver.cuMemAlloc = AllocateOrFail;
  }

  struct Setting {
    Way way;
    int levels;
    int distributed;
  };
  // Makes one step of training, in which allocation number `failing`, counted from 0, fails. Loads
  // the weights again after a failed call, and repeats the call. If coarse levels are gathered,
  // leaves out the descent, because a failed descent may have changed some of the weights.
  Trained Train(const Setting& setting, int failing) {
    const auto& [way, levels, distributed] = setting;
    AloneStage stage(chain, {.coarsening = {2}, .levels = levels, .h = 1.0 / 8}, distributed);
    DeviceSolvers solvers(
        {&driver, &functions, context, *ParsePrecision("fp16")},
        {.way = way, .launch = Launch::kEach, .lanes = 2, .workspace_limit = 1 << 20});
    const std::unique_ptr<StageSolver> solver = test::Must(solvers.Make(stage.ToSolve()));
    EXPECT_TRUE(solver->LoadWeights().ok());
    Trained trained;
    const auto repeat = [&](const auto& call) {
      if (call().ok()) return;
      EXPECT_FALSE(trained.has_failed);
      trained.has_failed = true;
      EXPECT_TRUE(solver->LoadWeights().ok());
      const Status repeated = call();
      EXPECT_TRUE(repeated.ok()) << repeated.message();
    };
    trained.first.resize(chain.first.size());
    trained.last.resize(chain.first.size());
    Parameters gradient = ZerosLike(chain.parameters), weights = chain.parameters;
    succeeding = failing;
    repeat([&] {
      return solver->SolveForward(chain.first.data(), options, trained.last.data()).status();
    });
    repeat([&] {
      return solver->SolveBackward(by_last.data(), options, trained.first.data()).status();
    });
    repeat([&] { return solver->AddGradients(gradient, nullptr); });
    if (distributed == levels) repeat([&] { return solver->Descend({.rate = 0.5}); });
    succeeding = -1;
    EXPECT_TRUE(solver->ReadWeights(weights).ok());
    trained.gradient = Flat(gradient);
    trained.weights = Flat(weights);
    return trained;
  }

  const cudnn::Functions functions = test::StandIn();
  cuda::Driver driver = *cuda::GetDriver();
  const DrawnCase drawn = DrawCase(50, {.steps = 8, .channels = 2, .extent = 3});
  const WeightedChain& chain = drawn.chain;
  const std::vector<double>& by_last = drawn.last;
  const SolveOptions options = {.cycles = 1};
};

TEST_F(DeviceFailures, ACallThatLackedMemoryCanBeRepeated) {
  for (const Setting& setting : {Setting{Way::kStreams, 3, 3}, Setting{Way::kGrouped, 3, 3},
                                 Setting{Way::kGrouped, 3, 1}, Setting{Way::kGrouped, 1, 1}}) {
    const Trained expected = Train(setting, -1);
    EXPECT_FALSE(expected.has_failed);
    EXPECT_EQ(expected.weights != Flat(chain.parameters), setting.distributed == setting.levels);
    bool has_failed = true;
    for (int failing = 0; has_failed; ++failing) {
      SCOPED_TRACE(std::string(NameOf(setting.way)) + ", " + std::to_string(setting.distributed) +
                   " of " + std::to_string(setting.levels) + " levels, allocation " +
                   std::to_string(failing));
      const Trained found = Train(setting, failing);
      EXPECT_EQ(found.last, expected.last);
      EXPECT_EQ(found.first, expected.first);
      EXPECT_EQ(found.gradient, expected.gradient);
      EXPECT_EQ(found.weights, expected.weights);
      has_failed = found.has_failed;
      if (HasFailure()) return;
    }
  }
}

TEST_F(DeviceFailures, ALaneThatLackedMemoryHoldsNone) {
  const auto lane = test::Must(DeviceLane::Make({&driver, &functions, context}));
  const LaneNeeds few = {.room = 64, .workspace = 64};
  ASSERT_TRUE(lane->Reserve(few).ok());
  for (const LaneNeeds& many : {LaneNeeds{.room = 128}, LaneNeeds{.workspace = 128}}) {
    succeeding = 0;
    EXPECT_FALSE(lane->Reserve(many).ok());
  }
  EXPECT_FALSE(lane->Holds({.room = 1}));
  EXPECT_FALSE(lane->Holds({.workspace = 1}));
  ASSERT_TRUE(lane->Reserve(few).ok());
  EXPECT_NE(lane->room(), nullptr);
  EXPECT_NE(lane->workspace(), nullptr);
}

// Waiting is permitted only in a cycle that is not recorded. The first Run() fails, so the second
// Run() must not record its cycle, which waits.
TEST_F(DeviceFailures, ACycleThatFailedIsRunBeforeItIsRecorded) {
  const DeviceTarget target = {&driver, &functions, context};
  const auto lanes = test::Must(DeviceLanes::Make(target, 1));
  CycleGraphs graphs = test::Must(CycleGraphs::Make(target));
  const Status failed = graphs.Run(0, *lanes, [] { return Status::Error("no memory"); });
  EXPECT_EQ(failed.message(), "no memory");
  const Status run = graphs.Run(0, *lanes, [&] { return lanes->Wait(); });
  EXPECT_TRUE(run.ok()) << run.message();
}

}  // namespace
}  // namespace ucudnn::multigrid
