// Tests how one workspace budget is divided among execution plans, and which plans get a part of
// it.
#include <set>

#include "graph_owned_setting.h"

namespace ucudnn::interposer {
namespace {

using test::GraphSetting;
using test::Hungry;
using test::kAmple;
using test::kLearning;
using test::kPart;
using test::Shared;

// Legacy calls and plans of two engines use the same problem, and count as three kernels.
TEST(GraphOwned, LegacyCallsAndPlansShareOneBudget) {
  for (const auto& [division, together] :
       {std::pair(WorkspaceDivision::kDisjoint, kPart + 2 * kPart),
        std::pair(WorkspaceDivision::kConcurrent, 2 * kPart)}) {
    SCOPED_TRACE(WorkspaceDivisionName(division));
    Shared setting({}, kAmple, division);
    const auto plan = setting.Plan(), hungry = Hungry(setting);
    ConvolutionProblem problem = setting.Problem();
    problem.alignment = cudnn::kLegacyAlignment;
    test::StoreRows(setting.store, setting.functions, problem,
                    {{{"legacy:0", GraphSetting::kImages, 100, 0, true}, 5, true}},
                    {GraphSetting::kImages});
    cudnn::OwnedDescriptors descriptors(setting.functions);
    ASSERT_TRUE(descriptors.Create(problem).ok());
    const cudnn::ConvolutionCall call = test::CallOf(setting.handle, descriptors.get());
    for (size_t i = 0; i < kLearning && setting.TheBudget().learning(); ++i) {
      EXPECT_EQ(setting.interposer.legacy().Convolve(call), CUDNN_STATUS_SUCCESS);
      setting.Run(plan);
      setting.Run(hungry);
    }
    EXPECT_FALSE(setting.TheBudget().learning());
    const auto total = setting.Total();
    EXPECT_EQ(total["kernels"], 3);
    EXPECT_EQ(total["total_workspace_bytes"], together);
    const void *const first = setting.Ran(plan), *const second = setting.Ran(hungry, 67);
    EXPECT_EQ(first != second, division == WorkspaceDivision::kDisjoint);
    std::set<std::string> apis;
    const auto report = setting.Report();
    for (const auto& kernel : report["kernels"]) apis.insert(kernel["api"]);
    EXPECT_THAT(apis, ::testing::ElementsAre("graph", "legacy"));
  }
}

// An application that times plans makes many of them, and keeps one.
TEST(GraphOwned, PlansThatNeverRanHaveNoShareOnceTheOthersAreKnown) {
  Shared setting({}, 2 * kPart, WorkspaceDivision::kDisjoint);
  const auto hungry = Hungry(setting), plan = setting.Plan();
  // Until the network is learned, both plans count. `hungry` needs 2 * kPart, the whole budget.
  setting.Run(plan);
  EXPECT_EQ(setting.Total()["kernels"], 2);
  setting.Learn(plan);
  setting.Ran(plan);
  EXPECT_EQ(setting.Total()["kernels"], 1);
  EXPECT_EQ(setting.Total()["total_workspace_bytes"], kPart);
  // `hungry` runs later and gets what is left, kPart, which is too little.
  setting.ExpectSubstitute(hungry);
}

TEST(GraphOwned, PlansThatWereMeasuredSinceHaveAShareOnceAllRan) {
  Shared setting;
  const auto plan = setting.Plan(), other = setting.Plan(nullptr, setting.Json(67));
  setting.Run(plan);
  EXPECT_EQ(setting.Total()["total_workspace_bytes"], kPart);
  Hungry(setting);
  setting.Run(other);
  for (size_t call = 0; call < kLearning; ++call) setting.Run(call % 2 == 0 ? plan : other);
  EXPECT_EQ(setting.Total()["total_workspace_bytes"], 2 * kPart);
  setting.Ran(other, 67);
}

TEST(GraphOwned, EqualPlansAreOneKernel) {
  Shared setting;
  const auto plan = setting.Plan(), equal = setting.Plan();
  setting.Learn(plan);
  EXPECT_EQ(setting.Total()["kernels"], 1);
  setting.Ran(equal);
}

}  // namespace
}  // namespace ucudnn::interposer
