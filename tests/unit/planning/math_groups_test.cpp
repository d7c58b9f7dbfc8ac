#include "planning/math_groups.h"

#include <gtest/gtest.h>

namespace ucudnn::planning {
namespace {

TEST(GroupByMath, KeepsEachMathTypeApartAndLeavesOtherEnginesOut) {
  ConvolutionProblem problem;
  problem.math = MathType::kTensorOp;
  const std::vector<MicroConfiguration> measured = {{"legacy:1", 4, 1, 0, true},
                                                    {"legacy:1[math=0]", 4, 2, 0, true},
                                                    {"graph:3", 4, 0.5, 0, true},
                                                    {"legacy:2", 4, 3, 0, true}};
  const auto groups = GroupByMath(problem, measured);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].math, MathType::kTensorOp);
  EXPECT_EQ(groups[0].candidates.size(), 2u);
  EXPECT_EQ(groups[1].math, MathType::kDefault);
  ASSERT_EQ(groups[1].candidates.size(), 1u);
  EXPECT_EQ(groups[1].candidates[0].micro.engine, "legacy:1");
  EXPECT_EQ(OwnMathCandidates(problem, measured).size(), 2u);
  problem.math = MathType::kFma;
  EXPECT_TRUE(OwnMathCandidates(problem, {measured[1]}).empty());
}

}  // namespace
}  // namespace ucudnn::planning
