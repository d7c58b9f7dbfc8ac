// Tests that the lanes of a stage share the stage's workspace limit in the same way as
// WorkspaceDivision::kConcurrent divides a budget between lanes that run the same kernels.
#include <gtest/gtest.h>

#include <algorithm>

#include "cudnn/convolution_call.h"
#include "planner/multigrid/device/device_chain.h"
#include "planner/multigrid/device/tensors.h"
#include "planning/knapsack_solver.h"
#include "planning/network_division.h"
#include "support/device.h"
#include "support/stand_in.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/alone_stage.h"

namespace ucudnn::multigrid {
namespace {

using DeviceWorkspace = test::DeviceTest;

// Returns the algorithms of a forward convolution of the chain as a desirable set. The time of an
// algorithm is its index in cuDNN's ranking.
planning::DesirableConfigurations RankedChoices(const DeviceTarget& target,
                                                const ChainShape& shape) {
  const int pad = shape.window / 2;
  const StepLayer layer = {.kind = StepLayer::Kind::kConvolution,
                           .window = {shape.window, shape.window},
                           .pad = {pad, pad}};
  const Result<Tensor> state = MakePacked(target, 1, shape.channels, shape.extent, shape.extent);
  const Result<Filter> weights =
      MakeFilter(target, {shape.channels, shape.channels, shape.window, shape.window});
  const Result<ConvolutionDescriptor> convolution = MakeConvolution(target, layer, 1);
  cudnnHandle_t handle = nullptr;
  EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  std::vector<cudnn::AlgorithmPerformance> ranking;
  EXPECT_EQ(cudnn::RankAlgorithms(*target.functions, Operation::kForward, handle,
                                  {state->get(), weights->get(), state->get(), convolution->get()},
                                  ranking),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  planning::DesirableConfigurations choices;
  for (size_t place = 0; place < ranking.size(); ++place) {
    const cudnn::AlgorithmPerformance& ranked = ranking[place];
    const bool is_less =
        choices.empty() || ranked.workspace_bytes < choices.back().WorkspaceBytes();
    if (ranked.status != CUDNN_STATUS_SUCCESS || ranked.determinism != CUDNN_DETERMINISTIC ||
        ranked.math != CUDNN_FMA_MATH || !is_less) {
      continue;
    }
    choices.push_back({{{{.micro_batch = 1,
                          .time_ms = 1.0 + static_cast<double>(place),
                          .workspace_bytes = ranked.workspace_bytes},
                         1}}});
  }
  std::reverse(choices.begin(), choices.end());
  return choices;
}

TEST_F(DeviceWorkspace, OfLanesIsAsConcurrentDivisionHasIt) {
  const cudnn::Functions functions = test::StandIn();
  const DeviceTarget target = {cuda::GetDriver(), &functions, context};
  std::mt19937_64 random(1);
  const ChainShape shape = {.steps = 8, .channels = 4, .extent = 8, .window = 3};
  const WeightedChain chain = DrawnChain(shape, random);
  AloneStage stage(chain, {.levels = 1});
  const planning::DesirableConfigurations choices = RankedChoices(target, shape);
  ASSERT_GT(choices.size(), 1);
  planning::KnapsackSolver solver;
  for (const int lanes : {1, 3}) {
    std::vector<int> all;
    for (int lane = 0; lane < lanes; ++lane) all.push_back(lane);
    for (const Configuration& choice : choices) {
      for (const size_t more : {size_t{0}, size_t{1}}) {
        const size_t budget = lanes * (choice.WorkspaceBytes() + 1) - more;
        const planning::NetworkKernel kernels[] = {{.choices = choices, .lanes = all}};
        const planning::DividedNetwork divided = test::Must(
            planning::DivideNetwork(kernels, budget, WorkspaceDivision::kConcurrent, solver));
        const auto made = DeviceChain::Make(target, stage.ToSolve(), budget,
                                            std::move(*DeviceLanes::Make(target, lanes)));
        EXPECT_EQ((*made)->shared().runner->needs().workspace, divided.share_bytes.at(0))
            << budget << " bytes, " << lanes << " lanes";
      }
    }
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
