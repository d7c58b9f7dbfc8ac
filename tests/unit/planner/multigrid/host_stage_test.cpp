// What a stage on the host refuses: weights that do not fit, and means of layers that differ.
#include "planner/multigrid/host/stage.h"

#include <gtest/gtest.h>

#include "unit/planner/multigrid/drawn_net.h"

namespace ucudnn::multigrid {
namespace {

using planner::Convolution;
using planner::Operator;

Status CanAverage(const std::vector<std::vector<Operator>>& steps) {
  std::mt19937_64 random(1);
  const NetShape shape = {.channels = 4, .extent = 5};
  const WeightedChain chain = ChainOf(steps, shape, random, 1);
  const Result<HostStage> stage =
      HostStage::Make(chain.chain, chain.stage(), chain.parameters, chain.batch, 1);
  if (!stage.ok()) return stage.status();
  return stage->CheckCanAverage();
}

TEST(HostStage, AveragesStepsOfOneKindAlone) {
  const Convolution square = {.filters = 4, .window = {1, 3, 3}, .pad = {0, 1, 1}};
  EXPECT_TRUE(CanAverage({{square}, {square}, {square}}).ok());
  // As many weights, and the same shapes.
  const Convolution dilated = {
      .filters = 4, .window = {1, 3, 3}, .pad = {0, 2, 2}, .dilation = {1, 2, 2}};
  const Convolution row = {.filters = 4, .window = {1, 1, 9}, .pad = {0, 0, 4}};
  const Convolution shifted = {
      .filters = 4, .window = {1, 3, 3}, .pad = {0, 2, 1}, .extra_pad = {0, -2, 0}};
  for (const Convolution& other : {dilated, row, shifted}) {
    const Status refused = CanAverage({{square}, {square}, {other}});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.message(),
              "the mean of weights needs layers of one kind, and step 2 differs from the first; "
              "another coarse operator is expected");
  }
  const Convolution paired = {
      .filters = 4, .window = {1, 3, 6}, .pad = {0, 1, 3}, .groups = 2, .extra_pad = {0, 0, -1}};
  EXPECT_FALSE(CanAverage({{square}, {paired}}).ok());
  const planner::Pooling mean = {
      .kind = planner::PoolingKind::kAverage, .window = {1, 3, 3}, .pad = {0, 1, 1}};
  planner::Pooling maximum = mean;
  maximum.kind = planner::PoolingKind::kMaximum;
  EXPECT_TRUE(CanAverage({{mean}, {mean}}).ok());
  EXPECT_FALSE(CanAverage({{mean}, {maximum}}).ok());
  const planner::Activation relu = {planner::ActivationKind::kRelu};
  const planner::Activation tanh = {planner::ActivationKind::kTanh};
  EXPECT_FALSE(CanAverage({{square, relu}, {square, tanh}}).ok());
  EXPECT_FALSE(CanAverage({{square, relu}, {square}}).ok());
}

TEST(HostStage, NamesTheNodeWhoseWeightsDoNotFit) {
  std::mt19937_64 random(1);
  const Convolution square = {.filters = 2, .window = {1, 3, 3}, .pad = {0, 1, 1}};
  WeightedChain chain = ChainOf({{square}, {square}}, {}, random, 1);
  chain.step(1).weights.pop_back();
  const Result<HostStage> stage =
      HostStage::Make(chain.chain, chain.stage(), chain.parameters, 1, 1);
  ASSERT_FALSE(stage.ok());
  EXPECT_NE(stage.message().find("step1.0"), std::string::npos) << stage.message();
  EXPECT_NE(stage.message().find("35 and 2 of bias; 36 and 2 are expected"), std::string::npos)
      << stage.message();
}

}  // namespace
}  // namespace ucudnn::multigrid
