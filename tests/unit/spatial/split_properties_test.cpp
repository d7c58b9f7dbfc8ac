// Tests properties that every split convolution has: tensors may have gaps in memory, and
// operations are adjoint to each other.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/unit/spatial/random_layers.h"

namespace ucudnn::test {
namespace {

class SplitGaps : public testing::TestWithParam<const char*> {};

TEST_P(SplitGaps, StridedTensorsAreExactAndNothingBetweenTheirElementsIsWritten) {
  const unsigned seed = 20261125;
  std::mt19937 random(seed);
  RankJob job({.grid = GetParam(), .agrees_each_time = true});
  for (int i = 0; i < 24 && !HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    const auto type = static_cast<DataType>(i % 4);
    ConvolutionProblem problem = SameOf(kOperations[i % 3], job.grid(), type);
    problem.layout = i / 3 % 2 == 0 ? Layout::kNchw : Layout::kNhwc;
    if (i % 5 == 0) {
      problem.w[1] = 7;
      problem.pad[1] = 3;
      problem.stride = {1, 2, 2};
      problem.pad[2] = 1;
    }
    SplitLayer layer(problem, job.grid(), PartsOf(job.grid(), problem, 2, 4, random), seed + i);
    layer.whole.beta = std::array{0.0, 1.0, 0.5}[static_cast<size_t>(i / 6 % 3)];
    layer.expected = Undivided(layer.whole);
    AddGaps(layer, random);
    ExpectExactOnAll(job, layer);
  }
}

TEST_P(SplitGaps, FusedCallsAreToo) {
  const unsigned seed = 20261126;
  std::mt19937 random(seed);
  RankJob job({.grid = GetParam(), .agrees_each_time = true});
  for (int i = 0; i < 12 && !HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    const auto type = static_cast<DataType>(i % 3);  // without fp64, which is not fused
    ConvolutionProblem problem = SameOf(Operation::kForward, job.grid(), type);
    problem.layout = i / 3 % 2 == 0 ? Layout::kNchw : Layout::kNhwc;
    SplitLayer layer(problem, job.grid(), PartsOf(job.grid(), problem, 2, 4, random), seed + i);
    layer.whole.fused.is_used = true;
    layer.whole.fused.has_activation = i % 4 != 0;
    layer.whole.fused.z_is_y = i % 2 == 0;
    layer.whole.fused.alpha2 = 2;
    layer.expected = Undivided(layer.whole);
    AddGaps(layer, random);
    ExpectExactOnAll(job, layer);
  }
}
INSTANTIATE_TEST_SUITE_P(Grids, SplitGaps, testing::Values("h2", "h3", "h2w2", "d2h2"),
                         [](const auto& grid) { return grid.param; });

double Inner(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(a.extents, b.extents);
  return std::inner_product(a.values.begin(), a.values.end(), b.values.begin(), 0.0);
}

// Tests that <conv(x), dy> = <x, conv^T(dy)> = <w, dw>. Each rank computes its part of the inner
// products from its own results alone.
class SplitAdjoint : public testing::TestWithParam<const char*> {};

TEST_P(SplitAdjoint, OperationsAreEachOthersAdjoint) {
  const unsigned seed = 20261127;
  std::mt19937 random(seed);
  RankJob job({.grid = GetParam(), .agrees_each_time = true});
  for (int i = 0; i < 8; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    ConvolutionProblem problem =
        SameOf(Operation::kForward, job.grid(), i % 2 == 0 ? DataType::kFloat : DataType::kDouble);
    problem.dilation[1] = problem.pad[1] = Draw(1, 2, random);
    problem.w[2] = 4;  // even, so the halo is larger on one side
    problem.stride[2] = 2;
    const AxisExtents extents = PartsOf(job.grid(), problem, 1, 4, random);
    SplitLayer forward(problem, job.grid(), extents, seed + i);
    SplitLayer data = forward, filter = forward;
    for (auto [layer, operation] : {std::pair(&data, Operation::kBackwardData),
                                    std::pair(&filter, Operation::kBackwardFilter)}) {
      layer->whole.problem.operation = operation;
      for (Stripe& stripe : layer->stripes) stripe.problem.operation = operation;
    }
    std::vector<double> y_dy(forward.stripes.size()), x_dx = y_dy, w_dw = y_dy;
    job.OnAll([&](RankState& rank) {
      const auto at = static_cast<size_t>(rank.rank);
      const Stripe& stripe = forward.stripes[at];
      const StripeResult y = forward.RunOn(rank), dx = data.RunOn(rank), dw = filter.RunOn(rank);
      for (const StripeResult* result : {&y, &dx, &dw}) EXPECT_EQ(result->status, kFine);
      y_dy[at] = Inner(y.output, forward.whole.y.Box(stripe.windows));
      x_dx[at] = Inner(dx.output, forward.whole.x.Box(stripe.elements));
      w_dw[at] = Inner(dw.output, forward.whole.w);
    });
    const double both = std::accumulate(y_dy.begin(), y_dy.end(), 0.0);
    EXPECT_NE(both, 0);
    EXPECT_EQ(std::accumulate(x_dx.begin(), x_dx.end(), 0.0), both);
    // Every rank has the whole gradient of the filter.
    EXPECT_EQ(w_dw, std::vector<double>(w_dw.size(), both));
  }
}
INSTANTIATE_TEST_SUITE_P(Grids, SplitAdjoint, testing::Values("h2", "h3", "h2w2", "d2h2", "d2h2w2"),
                         [](const auto& grid) { return grid.param; });

}  // namespace
}  // namespace ucudnn::test
