// Tests parts of gradients that are not summed over ranks, and gradients of biases.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/spatial/random_layers.h"

namespace ucudnn::test {
namespace {

HostTensor SumOf(const std::vector<StripeResult>& results) {
  HostTensor sum = results.front().output;
  for (size_t rank = 1; rank < results.size(); ++rank) {
    for (size_t i = 0; i < sum.values.size(); ++i) {
      sum.values[i] += results[rank].output.values[i];
    }
  }
  return sum;
}

// Each rank has its own part of the gradient, and the program sums the parts. Every rank adds beta
// times the old value to its part.
TEST(SplitUnsummed, PartsOfGradientsAddUpToTheWhole) {
  for (const char* const grid : {"h2", "h3", "h2w2"}) {
    Traffic traffic;
    RankJob job(Counted({.grid = grid, .sums_gradients = false}, traffic));
    for (int type = 0; type < 4; ++type) {
      for (const double beta : {0.0, 1.0}) {
        ConvolutionProblem problem = Layer(Operation::kBackwardFilter, 1);
        SetType(problem, static_cast<DataType>(type));
        SplitLayer layer(problem, job.grid(),
                         {{{1},
                           std::vector<int64_t>(static_cast<size_t>(job.grid().h), 4),
                           std::vector<int64_t>(static_cast<size_t>(job.grid().w), 4)}});
        const HostTensor gradient = layer.expected;  // for beta 0
        layer.whole.beta = beta;
        const auto results = OnEach(job, [&](RankState& rank) { return layer.RunOn(rank); });
        HostTensor expected = gradient;
        for (size_t i = 0; i < expected.values.size(); ++i) {
          expected.values[i] += beta * job.size() * layer.whole.w.values[i];
        }
        EXPECT_EQ(SumOf(results), expected) << grid << " " << Describe(problem) << " " << beta;
        for (const StripeResult& result : results) {
          EXPECT_EQ(result.status, kFine);
          EXPECT_TRUE(result.is_intact);
          EXPECT_NE(result.output, gradient);
        }
      }
    }
    EXPECT_GT(traffic.exchanges, 0);
    EXPECT_EQ(traffic.reductions, 0);
  }
}

// Several ranks have copies of the same tensors. All of these ranks except one get a part of 0, so
// that the program's sum counts each copy once.
TEST(SplitUnsummed, PartsOfCopiesAddUpToTheWhole) {
  Traffic traffic;
  RankJob job(Counted({.grid = "h2w2", .ones = SpatialOnes::kReplicated, .sums_gradients = false},
                      traffic));
  for (int type = 0; type < 4; ++type) {
    for (const bool is_strip : {false, true}) {
      ConvolutionProblem problem = Layer(Operation::kBackwardFilter, 1);
      SetType(problem, static_cast<DataType>(type));
      const SpatialGrid parts = is_strip ? *SpatialGrid::Parse("w2") : SpatialGrid();
      SplitLayer layer(problem, parts,
                       is_strip ? AxisExtents{{{1}, {1}, {3, 4}}} : AxisExtents{{{1}, {1}, {1}}});
      if (is_strip) {
        CopyAlongHeight(job.grid(), layer);
      } else {
        layer.stripes.assign(4, layer.stripes.front());
      }
      const auto results = OnEach(job, [&](RankState& rank) { return layer.RunOn(rank); });
      for (const StripeResult& result : results) EXPECT_EQ(result.status, kFine);
      EXPECT_EQ(SumOf(results), layer.expected) << Describe(layer.whole.problem);
    }
  }
  EXPECT_EQ(traffic.reductions, 0);
}

// The gradient of a bias equals the gradient of a filter of one tap over an image of ones.
SplitLayer BiasLayer(const SpatialGrid& grid, const AxisExtents& extents, DataType type,
                     double beta) {
  ConvolutionProblem problem;
  problem.operation = Operation::kBackwardFilter;
  problem.n = 2;
  problem.k = 3;
  SetType(problem, type);
  SplitLayer layer(problem, grid, extents);
  std::fill(layer.whole.x.values.begin(), layer.whole.x.values.end(), 1);
  layer.whole.beta = beta;
  layer.expected = Undivided(layer.whole);
  return layer;
}

// Runs the call as cudnnConvolutionBackwardBias would.
StripeResult RunBias(RankState& rank, const SplitLayer& layer) {
  static const cudnn::Functions functions = StandIn();
  const Stripe& stripe = layer.StripeOf(rank);
  return RunStripe(layer.whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& filter) {
    cudnnTensorDescriptor_t db = nullptr;
    EXPECT_EQ(cudnnCreateTensorDescriptor(&db), kFine);
    EXPECT_EQ(
        cudnnSetTensor4dDescriptor(db, CUDNN_TENSOR_NCHW, cudnn::CudnnType(stripe.problem.type), 1,
                                   stripe.problem.k, 1, 1),
        kFine);
    ConvolutionProblem read;
    EXPECT_EQ(cudnn::ReadBiasGradient(functions, filter.descriptors.y, db, read), nullptr);
    cudnn::ConvolutionCall call = filter;
    call.x = nullptr;
    GivenCall own([&](const cudnn::ConvolutionCall& mine) {
      return functions.cudnnConvolutionBackwardBias(mine.handle, mine.alpha, filter.descriptors.y,
                                                    mine.y, mine.beta, db, mine.w);
    });
    spatial::SplitCall split{read, call, rank.context, rank.stream};
    split.work = spatial::SplitWork::kBiasGradient;
    const cudnnStatus_t status = rank.calls->Run(split, own);
    EXPECT_EQ(cudnnDestroyTensorDescriptor(db), kFine);
    return status;
  });
}

void ExpectBiasExact(RankJob& job, const SplitLayer& layer) {
  job.OnAll([&](RankState& rank) {
    const StripeResult result = RunBias(rank, layer);
    EXPECT_EQ(result.status, kFine);
    EXPECT_TRUE(result.is_intact);
    EXPECT_EQ(result.output, layer.expected) << job.grid().Text() << ", rank " << rank.rank;
  });
}

TEST(SplitBiasGradients, AreThoseOfTheWhole) {
  std::mt19937 random(9);
  for (const char* const grid : {"h2", "h3", "h2w2"}) {
    Traffic traffic;
    RankJob job(Counted({.grid = grid, .agrees_each_time = true}, traffic));
    int calls = 0;
    for (int type = 0; type < 4; ++type) {
      for (const double beta : {0.0, 1.0, 0.5}) {
        ConvolutionProblem extents;
        extents.x = {1, 4, 5};
        SplitLayer layer = BiasLayer(job.grid(), PartsOf(job.grid(), extents, 2, 4, random),
                                     static_cast<DataType>(type), beta);
        AddGaps(layer, random);
        for (int i = 0; i < 2; ++i, ++calls) ExpectBiasExact(job, layer);
      }
    }
    EXPECT_EQ(traffic.exchanges, 0);
    EXPECT_EQ(traffic.reductions, calls * job.size());
  }
}

TEST(SplitBiasGradients, OfMapsOfOneRowAreRefusedUntilTheUserSays) {
  const AxisExtents ones = {{{1}, {1, 1}, {1, 1}}};
  for (const auto said : {std::optional<SpatialOnes>(), std::optional(SpatialOnes::kSplit)}) {
    Traffic traffic;
    RankJob job(Counted({.grid = "h2w2", .ones = said}, traffic));
    const SplitLayer layer = BiasLayer(job.grid(), ones, DataType::kFloat, 1);
    if (said) {
      ExpectBiasExact(job, layer);
      continue;
    }
    testing::internal::CaptureStderr();
    job.OnAll([&](RankState& rank) { EXPECT_EQ(RunBias(rank, layer).status, kRefused); });
    ExpectContains(testing::internal::GetCapturedStderr(),
                   {"cannot be split", "UCUDNN_SPATIAL_ONE=split", "replicated"});
    EXPECT_EQ(traffic.reductions, 0);
  }
}

// The layer is cut along w, and ranks along h have copies of its parts.
TEST(SplitBiasGradients, OfCopiesCountEachOnce) {
  RankJob job({.grid = "h2w2", .ones = SpatialOnes::kReplicated});
  for (int type = 0; type < 4; ++type) {
    for (const double beta : {0.0, 1.0}) {
      SplitLayer layer = BiasLayer(*SpatialGrid::Parse("w2"), {{{1}, {1}, {3, 4}}},
                                   static_cast<DataType>(type), beta);
      CopyAlongHeight(job.grid(), layer);
      ExpectBiasExact(job, layer);
    }
  }
}

}  // namespace
}  // namespace ucudnn::test
