// Tests that a stage on the host refuses weights that do not fit.
#include "planner/multigrid/host/stage.h"

#include <gtest/gtest.h>

#include "unit/planner/multigrid/drawn_net.h"

namespace ucudnn::multigrid {
namespace {

TEST(HostStage, NamesTheNodeWhoseWeightsDoNotFit) {
  std::mt19937_64 random(1);
  const planner::Convolution square = {.filters = 2, .window = {1, 3, 3}, .pad = {0, 1, 1}};
  WeightedChain chain = ChainOf({{square}, {square}}, {}, random, 1);
  chain.step(1).weights.pop_back();
  const Result<HostStage> stage =
      HostStage::Make(chain.chain, chain.stage(), chain.parameters, 1, 1);
  EXPECT_NE(stage.message().find("step1.0"), std::string::npos) << stage.message();
  EXPECT_NE(stage.message().find("35 and 2 of bias; 36 and 2 are expected"), std::string::npos)
      << stage.message();
}

}  // namespace
}  // namespace ucudnn::multigrid
