// Tests split convolutions against the undivided call on whole numbers: results are equal to the
// last bit.
#include "spatial/split_calls.h"

#include <gtest/gtest.h>

#include "cudnn/descriptors.h"
#include "tests/unit/spatial/split_layer.h"

namespace ucudnn::test {
namespace {

// Runs the case on all ranks and expects each rank's part of the undivided result.
void ExpectExact(RankJob& job, const WholeCase& whole, const std::vector<Stripe>& stripes) {
  SCOPED_TRACE(Describe(whole.problem) + " alpha " + std::to_string(whole.alpha) + " beta " +
               std::to_string(whole.beta) + " grid " + job.grid().Text() +
               (whole.fused.is_used ? " fused" : ""));
  const HostTensor expected = Undivided(whole);
  const auto results = OnEach(job, [&](RankState& rank) {
    return rank.RunStripe(whole, stripes[static_cast<size_t>(rank.rank)]);
  });
  for (size_t rank = 0; rank < stripes.size(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    ASSERT_EQ(results[rank].status, CUDNN_STATUS_SUCCESS);
    EXPECT_TRUE(results[rank].is_intact);
    EXPECT_EQ(results[rank].output, PartOf(expected, whole.problem.operation, stripes[rank]));
  }
}

// Returns the extents of parts: along axes that the grid cuts, randomly 1 to 4 times the stride;
// along other axes, the problem's extent.
AxisExtents RandomExtents(const SpatialGrid& grid, const ConvolutionProblem& problem,
                          std::mt19937& random) {
  AxisExtents extents;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int parts = grid.Parts()[axis];
    for (int part = 0; part < parts; ++part) {
      const int units = std::uniform_int_distribution<int>(1, 4)(random);
      const int whole = parts > 1 ? units * problem.stride[axis] : problem.x[axis];
      extents[axis].push_back(whole);
    }
  }
  return extents;
}

ConvolutionProblem RandomSplittable(Operation operation, const SpatialGrid& grid,
                                    std::mt19937& random) {
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  ConvolutionProblem p;
  p.operation = operation;
  p.spatial_rank = grid.d > 1 || pick(0, 4) == 0 ? 3 : 2;
  p.n = pick(1, 3);
  p.groups = pick(0, 3) == 0 ? 2 : 1;
  p.c = p.groups * pick(1, 2);
  p.k = p.groups * pick(1, 3);
  for (size_t axis = 3 - static_cast<size_t>(p.spatial_rank); axis < 3; ++axis) {
    p.w[axis] = pick(1, 5);
    p.dilation[axis] = pick(1, 2);
    p.stride[axis] = pick(1, 3);
    const int window = (p.w[axis] - 1) * p.dilation[axis] + 1;
    // Convolutions can be cut along an axis where window - stride <= 2 pad <= window - 1.
    p.pad[axis] = std::max(0, (window - 1) / 2);
    p.x[axis] = window + pick(0, 4);
  }
  p.type = static_cast<DataType>(pick(0, 3));
  p.compute = p.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  p.layout = pick(0, 2) == 0 ? Layout::kNhwc : Layout::kNchw;
  p.mode = pick(0, 3) == 0 ? ConvolutionMode::kConvolution : ConvolutionMode::kCrossCorrelation;
  return p;
}

// Returns whether a buffer of `bytes` is certainly large enough to exchange one image at a time. An
// exchange needs, among others, workspace for small convolutions.
bool FitsOneImage(const std::vector<Stripe>& stripes, size_t bytes) {
  for (const Stripe& stripe : stripes) {
    ConvolutionProblem one = stripe.problem;
    one.n = 1;
    const size_t tensors =
        cudnn::ImageBytes(one) + cudnn::OutputBytes(one) + cudnn::FilterBytes(one);
    // The buffer keeps old results of all images, even if images are exchanged one at a time.
    const size_t kept = cudnn::OutputBytes(stripe.problem) + cudnn::ImageBytes(stripe.problem);
    if (3 * tensors + kept + 3000 > bytes) return false;
  }
  return true;
}

class SplitCallsTest : public testing::TestWithParam<const char*> {};

TEST_P(SplitCallsTest, EveryResultIsThatOfTheUndividedCall) {
  RankJob job({.grid = GetParam(), .ones = SpatialOnes::kSplit});
  const unsigned seed = 20261123;
  std::mt19937 random(seed);
  int ran = 0;
  for (int i = 0; ran < 40 && i < 1000 && !HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    ConvolutionProblem problem =
        RandomSplittable(static_cast<Operation>(i % 3), job.grid(), random);
    const AxisExtents extents = RandomExtents(job.grid(), problem, random);
    SetWhole(problem, extents);
    WholeCase whole = WholeCase::Random(problem, random);
    whole.alpha = i % 4 == 1 ? 2 : 1;
    whole.beta = std::array{0.0, 1.0, 0.5}[static_cast<size_t>(i / 3 % 3)];
    const auto stripes = CutInto(problem, job.grid(), extents);
    if (!stripes) continue;
    ++ran;
    ExpectExact(job, whole, *stripes);
  }
  EXPECT_EQ(ran, 40);
}
INSTANTIATE_TEST_SUITE_P(Grids, SplitCallsTest,
                         testing::Values("h2", "h3", "w2", "h2w2", "d2h2", "h5"),
                         [](const auto& grid) { return grid.param; });

// A bias, an activation and a residual that are fused with the convolution require that boundary
// rows are recomputed, because partial results cannot be added after a ReLU.
TEST_P(SplitCallsTest, FusedCallsAreRecomputed) {
  RankJob job({.grid = GetParam(), .ones = SpatialOnes::kSplit});
  const unsigned seed = 7;
  std::mt19937 random(seed);
  int ran = 0;
  for (int i = 0; ran < 16 && i < 1000 && !HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    ConvolutionProblem problem = RandomSplittable(Operation::kForward, job.grid(), random);
    if (problem.type == DataType::kDouble) continue;
    const AxisExtents extents = RandomExtents(job.grid(), problem, random);
    SetWhole(problem, extents);
    WholeCase whole = WholeCase::Random(problem, random);
    whole.fused.is_used = true;
    whole.fused.has_activation = i % 3 != 0;
    whole.fused.z_is_y = i % 2 == 0;
    whole.fused.alpha2 = std::array{1.0, 2.0, 0.0}[static_cast<size_t>(i / 2 % 3)];
    const auto stripes = CutInto(problem, job.grid(), extents);
    if (!stripes) continue;
    ++ran;
    ExpectExact(job, whole, *stripes);
  }
  EXPECT_EQ(ran, 16);
}

// If the buffer is too small for all images, a call exchanges a few images at a time.
TEST_P(SplitCallsTest, SlicesOfImagesAreExactToo) {
  std::mt19937 random(11);
  int sliced = 0;
  for (const size_t bytes : {size_t{30000}, size_t{8000}}) {
    RankJob job({.grid = GetParam(), .ones = SpatialOnes::kSplit, .most_buffer_bytes = bytes});
    for (int i = 0; i < 60 && !HasFailure(); ++i) {
      ConvolutionProblem problem =
          RandomSplittable(static_cast<Operation>(i % 3), job.grid(), random);
      problem.n = 5;
      const AxisExtents extents = RandomExtents(job.grid(), problem, random);
      SetWhole(problem, extents);
      WholeCase whole = WholeCase::Random(problem, random);
      whole.beta = i % 2;
      whole.fused.is_used = problem.operation == Operation::kForward && i % 4 == 0 &&
                            problem.type != DataType::kDouble;
      whole.fused.z_is_y = i % 8 == 0;
      const auto stripes = CutInto(problem, job.grid(), extents);
      if (!stripes || !FitsOneImage(*stripes, bytes)) continue;
      ++sliced;
      ExpectExact(job, whole, *stripes);
    }
  }
  EXPECT_GE(sliced, 8);
}

TEST(SplitCalls, SameConvolutionOfThreeByThree) {
  RankJob job({.grid = "h2"});
  std::mt19937 random(1);
  for (const Operation operation : kOperations) {
    ConvolutionProblem problem;
    problem.operation = operation;
    problem.n = 2, problem.c = 3, problem.k = 4;
    problem.w = {1, 3, 3};
    problem.pad = {0, 1, 1};
    const AxisExtents extents = {{{1}, {4, 4}, {8}}};
    problem.x = {1, 0, 0};
    SetWhole(problem, extents);
    const WholeCase whole = WholeCase::Random(problem, random);
    const auto stripes = CutInto(problem, job.grid(), extents);
    ASSERT_TRUE(stripes.has_value());
    ExpectExact(job, whole, *stripes);
    ExpectExact(job, whole, *stripes);
  }
}

}  // namespace
}  // namespace ucudnn::test
