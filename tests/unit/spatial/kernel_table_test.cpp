#include "spatial/kernel_table.h"

#include <gtest/gtest.h>

namespace ucudnn::test {
namespace {

using spatial::KernelKey;
using spatial::KernelTable;
using spatial::SplitKernel;

KernelKey KeyOf(int channels) {
  ConvolutionProblem problem;
  problem.c = channels;
  return KernelKey::Of(problem, {});
}

std::unique_ptr<SplitKernel> KernelOf(int height, const std::string& why = "refused") {
  return SplitKernel::Refused({{1, height, 1}}, why);
}

TEST(KernelTable, KnowsWhatWasAdded) {
  KernelTable table;
  EXPECT_TRUE(table.Find(KeyOf(1)).empty());
  table.Add(KeyOf(1), KernelOf(4, "one"));
  table.Add(KeyOf(2), KernelOf(4, "two"));
  ASSERT_EQ(table.Find(KeyOf(1)).size(), 1U);
  EXPECT_EQ(table.Find(KeyOf(1))[0].first().refusal(), "one");
  EXPECT_EQ(table.Find(KeyOf(2))[0].first().refusal(), "two");
}

TEST(KernelTable, TheSameExtentsAreKeptOnce) {
  KernelTable table;
  table.Add(KeyOf(1), KernelOf(4, "before"));
  table.Add(KeyOf(1), KernelOf(5));
  EXPECT_EQ(table.Add(KeyOf(1), KernelOf(4, "after")).first().refusal(), "after");
  ASSERT_EQ(table.Find(KeyOf(1)).size(), 2U);
  EXPECT_EQ(table.Find(KeyOf(1))[1].first().refusal(), "after");
  EXPECT_EQ(table.size(), 2U);
}

TEST(KernelTable, ForgetsTheOldestExtentsOfOneConvolution) {
  KernelTable table;
  for (size_t i = 0; i < KernelTable::kMostExtents + 3; ++i) {
    table.Add(KeyOf(1), KernelOf(static_cast<int>(i)));
  }
  const auto kernels = table.Find(KeyOf(1));
  ASSERT_EQ(kernels.size(), KernelTable::kMostExtents);
  EXPECT_EQ(kernels[0].first().extents()[0][1], 3);
}

TEST(KernelTable, ForgetsTheOldestOfAll) {
  KernelTable table;
  const int more = 10, all = static_cast<int>(KernelTable::kMost) + more;
  for (int i = 0; i < all; ++i) table.Add(KeyOf(i + 1), KernelOf(4));
  EXPECT_EQ(table.size(), KernelTable::kMost);
  EXPECT_TRUE(table.Find(KeyOf(more)).empty());
  EXPECT_EQ(table.Find(KeyOf(more + 1)).size(), 1U);
  EXPECT_EQ(table.Find(KeyOf(all)).size(), 1U);
}

TEST(KernelTable, HowTensorsLieIsNoneOfTheKey) {
  ConvolutionProblem problem;
  problem.c = 3, problem.x = {1, 4, 4};
  SetPackedStrides(problem);
  ConvolutionProblem other = problem;
  other.x_strides[0] += 8;
  other.alignment = 16;
  EXPECT_EQ(KernelKey::Of(problem, {}), KernelKey::Of(other, {}));
  other.layout = Layout::kNhwc;
  EXPECT_NE(KernelKey::Of(problem, {}), KernelKey::Of(other, {}));
}

TEST(KernelTable, ForgetsGradientsAlone) {
  KernelTable table;
  ConvolutionProblem gradient;
  gradient.operation = Operation::kBackwardFilter;
  const KernelKey key = KernelKey::Of(gradient, {});
  table.Add(KeyOf(1), KernelOf(4));
  table.Add(key, KernelOf(4));
  table.Add(key, KernelOf(5));
  table.ForgetGradients();
  EXPECT_EQ(table.size(), 1U);
  EXPECT_TRUE(table.Find(key).empty());
  EXPECT_EQ(table.Find(KeyOf(1)).size(), 1U);
  table.Add(key, KernelOf(4, "again"));
  EXPECT_EQ(table.Find(key)[0].first().refusal(), "again");
}

}  // namespace
}  // namespace ucudnn::test
