// Tests that stripes, extended by the adjacent rows of other ranks, equal the same rows of the
// whole image.
#include "cuda/box_copy.h"

#include "tests/unit/spatial/split_layer.h"

namespace ucudnn::test {
namespace {

// Returns a random problem that ReadRowsBeside accepts. Its extents are the whole image's.
ConvolutionProblem RandomRows(const SpatialGrid& grid, std::mt19937& random) {
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  ConvolutionProblem p;
  p.spatial_rank = grid.d > 1 || pick(0, 3) == 0 ? 3 : 2;
  p.n = pick(1, 3);
  p.c = p.k = p.groups = pick(1, 3);
  p.type = static_cast<DataType>(pick(0, 3));
  p.compute = p.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  for (size_t axis = 3 - static_cast<size_t>(p.spatial_rank); axis < 3; ++axis) {
    p.pad[axis] = pick(0, 4);
    p.w[axis] = 2 * p.pad[axis] + 1;
    p.x[axis] = pick(2, 6);
  }
  return p;
}

// Returns the box `elements` of `whole`, extended by `pad` on every side, with zeros outside of
// `whole`.
HostTensor Padded(const HostTensor& whole, const Box3& elements, const Spatial& pad) {
  Extents5 extents = whole.extents;
  for (size_t axis = 0; axis < 3; ++axis)
    extents[2 + axis] = elements[axis].Length() + 2 * pad[axis];
  HostTensor padded(extents);
  Extents5 at;
  for (at[0] = 0; at[0] < extents[0]; ++at[0])
    for (at[1] = 0; at[1] < extents[1]; ++at[1])
      for (at[2] = 0; at[2] < extents[2]; ++at[2])
        for (at[3] = 0; at[3] < extents[3]; ++at[3])
          for (at[4] = 0; at[4] < extents[4]; ++at[4]) {
            Extents5 from = at;
            bool inside = true;
            for (size_t axis = 0; axis < 3; ++axis) {
              from[2 + axis] += elements[axis].begin - pad[axis];
              inside = inside && from[2 + axis] >= 0 && from[2 + axis] < whole.extents[2 + axis];
            }
            padded.At(at) = inside ? whole.At(from) : 0;
          }
  return padded;
}

// Returns packed strides with `gap` more elements between rows.
Strides WithGaps(const Extents5& extents, int64_t gap) {
  Strides strides;
  strides[4] = 1;
  strides[3] = extents[4] + gap;
  strides[2] = strides[3] * extents[3];
  strides[1] = strides[2] * extents[2];
  strides[0] = strides[1] * extents[1];
  return strides;
}

class RowsBeside : public testing::TestWithParam<const char*> {};

TEST_P(RowsBeside, AreThoseOfTheWholeImage) {
  RankJob job({.grid = GetParam(), .ones = SpatialOnes::kSplit});
  const unsigned seed = 11;
  std::mt19937 random(seed);
  for (int i = 0; i < 25 && !HasFailure(); ++i) {
    ConvolutionProblem problem = RandomRows(job.grid(), random);
    AxisExtents parts;
    for (size_t axis = 0; axis < 3; ++axis) {
      const int count = job.grid().Parts()[axis];
      for (int part = 0; part < count; ++part) {
        parts[axis].push_back(count > 1 ? std::uniform_int_distribution<int>(1, 4)(random)
                                        : problem.x[axis]);
      }
    }
    SetWhole(problem, parts);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i) + ": " +
                 Describe(problem));
    const WholeCase whole = WholeCase::Random(problem, random);
    const auto stripes = CutInto(problem, job.grid(), parts);
    ASSERT_TRUE(stripes.has_value());
    job.OnAll([&](RankState& rank) {
      const Stripe& stripe = (*stripes)[static_cast<size_t>(rank.rank)];
      ConvolutionProblem own = stripe.problem;
      const HostTensor expected = Padded(whole.x, stripe.elements, problem.pad);
      HostTensor before(expected.extents);
      std::fill(before.values.begin(), before.values.end(), 7);
      own.y_strides = WithGaps(expected.extents, i % 3);
      const DeviceTensor x(whole.x.Box(stripe.elements), own.x_strides, own.type);
      const DeviceTensor y(before, own.y_strides, own.type);
      cudnn::ConvolutionCall call;
      call.handle = rank.handle;
      call.x = x.data();
      call.y = y.data();
      GivenCall local([&](const cudnn::ConvolutionCall& given) {
        const size_t element = ElementBytes(own.type);
        const auto to = reinterpret_cast<CUdeviceptr>(given.y);
        int64_t begin = 0;
        for (size_t axis = 0; axis < 3; ++axis) begin += own.pad[axis] * own.y_strides[2 + axis];
        const cuda::DeviceBox all = {expected.extents, own.y_strides, element, to};
        const cuda::BoxCopy copy({own.n, own.c, own.x[0], own.x[1], own.x[2]}, own.x_strides,
                                 own.y_strides, element);
        EXPECT_TRUE(cuda::Fill(*cuda::GetDriver(), all, 0, rank.stream).ok());
        EXPECT_TRUE(copy.Enqueue(*cuda::GetDriver(), reinterpret_cast<CUdeviceptr>(given.x),
                                 to + static_cast<size_t>(begin) * element, rank.stream)
                        .ok());
        return kFine;
      });
      spatial::SplitCall split{own, call, rank.context, rank.stream};
      split.work = spatial::SplitWork::kRows;
      EXPECT_EQ(rank.calls->Run(split, local), kFine);
      EXPECT_EQ(cuStreamSynchronize(rank.stream), CUDA_SUCCESS);
      EXPECT_EQ(y.Read(), expected);
      EXPECT_TRUE(y.IsIntact());
    });
  }
}
INSTANTIATE_TEST_SUITE_P(Grids, RowsBeside,
                         testing::Values("h2", "h4", "w3", "h2w2", "d2h2", "d2h2w2"),
                         [](const auto& grid) { return grid.param; });

// Once the job has failed, all of y must be NaN.
TEST(RowsBesideFault, LeavesNothingThatLooksLikeRows) {
  RankJob job;
  job.OnAll([&](RankState& rank) {
    if (rank.rank == 1) rank.calls->Fail("a test says so");
  });
  EXPECT_NE(FailureOf(job), "");
  ConvolutionProblem p;
  p.c = p.k = p.groups = 2;
  p.x = {1, 3, 4};
  p.pad = {0, 2, 1};
  p.w = {1, 5, 3};
  SetPackedStrides(p);
  const HostTensor zeros({1, 2, 1, 7, 6});
  p.y_strides = WithGaps(zeros.extents, 0);
  job.OnAll([&](RankState& rank) {
    const DeviceTensor x(HostTensor({1, 2, 1, 3, 4}), p.x_strides, p.type);
    const DeviceTensor y(zeros, p.y_strides, p.type);
    cudnn::ConvolutionCall call;
    call.handle = rank.handle;
    call.x = x.data();
    call.y = y.data();
    GivenCall local([](const cudnn::ConvolutionCall&) { return kFine; });
    spatial::SplitCall split{p, call, rank.context, rank.stream};
    split.work = spatial::SplitWork::kRows;
    EXPECT_EQ(rank.calls->Run(split, local), kBroken);
    EXPECT_EQ(cuStreamSynchronize(rank.stream), CUDA_SUCCESS);
    EXPECT_TRUE(IsNan(y.Read()));
  });
}

}  // namespace
}  // namespace ucudnn::test
