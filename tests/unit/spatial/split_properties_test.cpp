// What holds of every split convolution, whatever tensors look like in memory and whatever a rank
// does by itself: gaps of strided tensors, adjoint operations, micro-batches and pauses of each
// rank's own, parts of gradients that nobody sums, gradients of biases, and memory.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>

#include "cuda/driver.h"
#include "spatial/group_stripes.h"
#include "spatial/split_kernel.h"
#include "tests/support/device.h"
#include "tests/unit/spatial/split_layer.h"

namespace ucudnn::test {
namespace {

constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                     Operation::kBackwardFilter};

int Draw(int least, int most, std::mt19937& random) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

void SetType(ConvolutionProblem& problem, DataType type) {
  problem.type = type;
  problem.compute = type == DataType::kDouble ? type : DataType::kFloat;
}

// Part extents along each axis that `grid` cuts; the others stay the problem's.
AxisExtents PartsOf(const SpatialGrid& grid, const ConvolutionProblem& problem, int least, int most,
                    std::mt19937& random) {
  AxisExtents extents;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int parts = grid.Parts()[axis];
    for (int part = 0; part < parts; ++part) {
      extents[axis].push_back(parts == 1 ? problem.x[axis]
                                         : Draw(least, most, random) * problem.stride[axis]);
    }
  }
  return extents;
}

// Three taps along each axis of the grid, in two or three dimensions.
ConvolutionProblem SameOf(Operation operation, const SpatialGrid& grid, DataType type) {
  ConvolutionProblem problem = Layer(operation, 1);
  if (grid.d > 1) {
    problem.spatial_rank = 3;
    problem.w[0] = 3;
    problem.pad[0] = 1;
  }
  SetType(problem, type);
  return problem;
}

// Gaps behind every row, plane, channel and image, in the order of `layout`.
Strides WithGaps(Layout layout, const Extents5& extents, std::mt19937& random) {
  const std::array<size_t, 5> order = layout == Layout::kNchw
                                          ? std::array<size_t, 5>{4, 3, 2, 1, 0}
                                          : std::array<size_t, 5>{1, 4, 3, 2, 0};
  Strides strides = {};
  int64_t next = Draw(1, 2, random);
  for (const size_t axis : order) {
    strides[axis] = next;
    next = next * extents[axis] + Draw(0, 3, random);
  }
  return strides;
}

// Each rank has gaps of its own.
void AddGaps(SplitLayer& layer, std::mt19937& random) {
  for (Stripe& stripe : layer.stripes) {
    ConvolutionProblem& p = stripe.problem;
    const Spatial y = OutputExtents(p);
    p.x_strides = WithGaps(p.layout, {p.n, p.c, p.x[0], p.x[1], p.x[2]}, random);
    p.y_strides = WithGaps(p.layout, {p.n, p.k, y[0], y[1], y[2]}, random);
  }
}

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

// <conv(x), dy> = <x, conv^T(dy)> = <w, dw>, each rank's part of it from its own results alone.
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
    problem.w[2] = 4;  // even, so that its halo is larger on one side
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
INSTANTIATE_TEST_SUITE_P(Grids, SplitAdjoint, testing::Values("h2", "h3", "h2w2", "d2h2"),
                         [](const auto& grid) { return grid.param; });

// Eight channels of each: every image begins on 16 bytes, as engines require, in 16 bit, too.
ConvolutionProblem OfAlignedImages(Operation operation, int images, DataType type) {
  ConvolutionProblem problem = Layer(operation, 1);
  problem.n = images;
  problem.c = problem.k = 8;
  SetType(problem, type);
  return problem;
}

// Makes the rank's own call in micro-batches of these sizes.
cudnnStatus_t RunInPieces(const ConvolutionProblem& problem, const cudnn::ConvolutionCall& call,
                          const std::vector<int>& sizes) {
  static const float one = 1;
  static const double wide_one = 1;
  const cudnn::Functions functions = StandIn();
  const auto element = static_cast<int64_t>(ElementBytes(problem.type));
  int64_t image = 0;
  for (const int size : sizes) {
    ConvolutionProblem piece = problem;
    piece.n = size;
    cudnn::OwnedDescriptors descriptors(functions);
    EXPECT_TRUE(descriptors.Create(piece).ok());
    cudnn::ConvolutionCall part = call;
    part.descriptors = descriptors.get();
    const int64_t y_bytes = image * problem.y_strides[0] * element;
    part.x = static_cast<char*>(call.x) + image * problem.x_strides[0] * element;
    part.y = static_cast<char*>(call.y) + y_bytes;
    cudnn::BiasActivation bias;
    if (call.bias != nullptr) {
      bias = *call.bias;
      bias.z_descriptor = descriptors.get().y;
      bias.z = static_cast<const char*>(bias.z) + y_bytes;
      part.bias = &bias;
    }
    if (problem.operation == Operation::kBackwardFilter && image > 0) {
      part.beta = problem.type == DataType::kDouble ? static_cast<const void*>(&wide_one) : &one;
    }
    if (const cudnnStatus_t status = cudnn::Convolve(functions, part); status != kFine) {
      return status;
    }
    image += size;
  }
  EXPECT_EQ(image, problem.n);
  return kFine;
}

std::vector<int> RandomSizes(int images, std::mt19937& random) {
  std::vector<int> sizes;
  for (int left = images; left > 0; left -= sizes.back()) sizes.push_back(Draw(1, left, random));
  return sizes;
}

// Whether the rank's result is exact where its own call is divided so.
bool IsExactInPieces(RankState& rank, const SplitLayer& layer, const std::vector<int>& sizes) {
  const Stripe& stripe = layer.stripes[static_cast<size_t>(rank.rank)];
  const StripeResult result = RunGiven(
      rank, layer.whole, stripe,
      [&](const cudnn::ConvolutionCall& call) { return RunInPieces(stripe.problem, call, sizes); });
  return result.status == kFine && result.is_intact && result.output == layer.Part(rank.rank);
}

TEST(SplitMicroBatches, OfOtherSizesOnEachRankAreExact) {
  const std::vector<std::vector<int>> sizes = {{7}, {1, 1, 1, 1, 1, 1, 1}, {3, 4}};
  // All images in one exchange, and some at a time.
  for (const size_t bytes : {size_t{64} << 20, size_t{12} << 10}) {
    RankJob job({.grid = "h3", .most_buffer_bytes = bytes});
    for (int i = 0; i < 16; ++i) {
      const bool fused = i >= 12;
      const auto type = static_cast<DataType>(fused ? i % 3 : i / 3 % 4);
      const ConvolutionProblem problem =
          OfAlignedImages(fused ? Operation::kForward : kOperations[i % 3], 7, type);
      SplitLayer layer(problem, job.grid(), {{{1}, {3, 2, 4}, {6}}});
      layer.whole.beta = i % 2;
      layer.whole.fused.is_used = fused;
      layer.whole.fused.z_is_y = i % 2 == 0;
      layer.expected = Undivided(layer.whole);
      job.OnAll([&](RankState& rank) {
        const auto turn = static_cast<size_t>(rank.rank + i) % sizes.size();
        EXPECT_TRUE(IsExactInPieces(rank, layer, sizes[turn])) << Describe(problem);
      });
    }
  }
}

TEST(SplitMicroBatches, CallerWithoutWorkspaceIsExact) {
  for (const DataType type : {DataType::kFloat, DataType::kHalf}) {
    RankJob job;
    for (const Operation operation : kOperations) {
      ConvolutionProblem problem = Layer(operation, 1, 5);
      SetType(problem, type);
      const SplitLayer layer(problem, job.grid(), {{{1}, {3, 4}, {6}}});
      job.OnAll([&](RankState& rank) {
        const Stripe& stripe = layer.stripes[static_cast<size_t>(rank.rank)];
        const StripeResult result =
            RunStripe(layer.whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& call) {
              cudnn::ConvolutionCall bare = call;
              bare.workspace = nullptr;
              bare.workspace_bytes = 0;
              return rank.Run(stripe.problem, bare);
            });
        EXPECT_EQ(result.status, kFine);
        EXPECT_EQ(result.output, layer.Part(rank.rank));
      });
    }
  }
}

// What each rank hands its channel, call by call.
struct Passed {
  explicit Passed(int ranks) : calls(static_cast<size_t>(ranks)) {}
  std::mutex mutex;
  std::vector<std::vector<std::string>> calls;
  std::map<std::pair<int, int>, uint64_t> gathers;  // of a rank, as another one hears of them
};

class RecordingChannel : public CountingChannel {
 public:
  RecordingChannel(std::unique_ptr<transport::Channel> channel, Traffic& traffic, Passed& passed,
                   int rank)
      : CountingChannel(std::move(channel), traffic),
        calls_(passed.calls[static_cast<size_t>(rank)]) {}
  Status Exchange(std::span<const transport::Message> sends,
                  std::span<const transport::Message> receives, CUstream stream) override {
    calls_.push_back("sends " + TextOf(sends) + " receives " + TextOf(receives));
    return CountingChannel::Exchange(sends, receives, stream);
  }
  Status AllReduce(CUdeviceptr data, size_t count, transport::Element element,
                   CUstream stream) override {
    calls_.push_back("sums " + std::to_string(count) + " of " +
                     std::to_string(transport::SizeOf(element)) + " bytes");
    return CountingChannel::AllReduce(data, count, element, stream);
  }
  Status Reserve(size_t message_bytes, size_t reduction_bytes) override {
    calls_.push_back("reserves " + std::to_string(message_bytes) + " and " +
                     std::to_string(reduction_bytes));
    return CountingChannel::Reserve(message_bytes, reduction_bytes);
  }

 private:
  static std::string TextOf(std::span<const transport::Message> messages) {
    std::string text;
    for (const transport::Message& m : messages) {
      text += std::to_string(m.bytes) + " with " + std::to_string(m.peer) + ", ";
    }
    return text;
  }

  std::vector<std::string>& calls_;
};

// Runs the same calls; `has_own_way`: every rank divides its own calls, pauses and takes device
// memory at random.
void RunCalls(const char* grid, bool agrees_each_time, bool has_own_way, unsigned seed,
              Passed& passed) {
  Traffic traffic;
  JobOptions options{
      .grid = grid, .agrees_each_time = agrees_each_time, .most_buffer_bytes = 16 << 10};
  options.wrap = [&](int rank, std::unique_ptr<transport::Channel> channel) {
    return std::make_unique<RecordingChannel>(std::move(channel), traffic, passed, rank);
  };
  RankJob job(options);
  for (int rank = 0; rank < job.size(); ++rank) {
    job.rank(rank).ranks->OnGather([&passed, rank](int other, uint64_t number) {
      const std::lock_guard lock(passed.mutex);
      passed.gathers[{other, rank}] = number;
    });
  }
  std::mt19937 shared(5);
  std::vector<SplitLayer> layers;
  for (int i = 0; i < 6; ++i) {
    const ConvolutionProblem problem =
        OfAlignedImages(kOperations[i % 3], 6, i < 3 ? DataType::kFloat : DataType::kHalf);
    SplitLayer layer(problem, job.grid(), PartsOf(job.grid(), problem, 2, 4, shared));
    layer.whole.beta = i % 2;
    layer.whole.fused.is_used = i == 3;
    layer.expected = Undivided(layer.whole);
    layers.push_back(std::move(layer));
  }
  std::vector<size_t> order;
  for (int i = 0; i < 24; ++i) order.push_back(static_cast<size_t>(Draw(0, 5, shared)));
  job.OnAll([&](RankState& rank) {
    std::mt19937 own(seed * 16 + static_cast<unsigned>(rank.rank));
    const auto pause = [&] {
      if (has_own_way) std::this_thread::sleep_for(std::chrono::microseconds(Draw(0, 2000, own)));
    };
    for (const size_t which : order) {
      const SplitLayer& layer = layers[which];
      if (!has_own_way) {
        EXPECT_TRUE(layer.IsExactOn(rank));
        continue;
      }
      CUdeviceptr taken = 0;
      EXPECT_EQ(cuMemAlloc(&taken, static_cast<size_t>(Draw(1, 32, own)) << 20), CUDA_SUCCESS);
      pause();
      const Stripe& stripe = layer.stripes[static_cast<size_t>(rank.rank)];
      const StripeResult result =
          RunGiven(rank, layer.whole, stripe, [&](const cudnn::ConvolutionCall& call) {
            pause();
            const cudnnStatus_t status =
                RunInPieces(stripe.problem, call, RandomSizes(stripe.problem.n, own));
            pause();
            return status;
          });
      EXPECT_EQ(result.status, kFine);
      EXPECT_EQ(result.output, layer.Part(rank.rank));
      EXPECT_EQ(cuMemFree(taken), CUDA_SUCCESS);
    }
    // Every rank has heard all others' gathers when they have said goodbye.
    EXPECT_EQ(rank.calls->Leave(), std::nullopt);
  });
}

class SplitPrivateFacts : public testing::TestWithParam<bool> {};

TEST_P(SplitPrivateFacts, ChangeNothingOfWhatPassesBetweenRanks) {
  for (const char* const grid : {"h3", "h2w2"}) {
    const int ranks = SpatialGrid::Parse(grid)->Ranks();
    Passed expected(ranks);
    RunCalls(grid, GetParam(), false, 0, expected);
    for (const std::vector<std::string>& calls : expected.calls) ASSERT_GT(calls.size(), 30U);
    ASSERT_EQ(expected.gathers.size(), static_cast<size_t>(ranks * (ranks - 1)));
    for (unsigned seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(std::string(grid) + ", seed " + std::to_string(seed));
      Passed passed(ranks);
      RunCalls(grid, GetParam(), true, seed, passed);
      EXPECT_EQ(passed.calls, expected.calls);
      EXPECT_EQ(passed.gathers, expected.gathers);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(AgreeingEachTime, SplitPrivateFacts, testing::Bool());

HostTensor SumOf(const std::vector<StripeResult>& results) {
  HostTensor sum = results.front().output;
  for (size_t rank = 1; rank < results.size(); ++rank) {
    for (size_t i = 0; i < sum.values.size(); ++i) {
      sum.values[i] += results[rank].output.values[i];
    }
  }
  return sum;
}

// Each rank has its own part: the program sums them. beta counts on every rank.
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
        const HostTensor gradient = layer.expected;  // with beta 0
        layer.whole.beta = beta;
        std::vector<StripeResult> results(static_cast<size_t>(job.size()));
        job.OnAll(
            [&](RankState& rank) { results[static_cast<size_t>(rank.rank)] = layer.RunOn(rank); });
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

// A strip that is cut along w alone, for a grid of both axes: what each rank holds, a copy of the
// ranks' beside it along h.
void CopyAlongHeight(const SpatialGrid& grid, SplitLayer& strip) {
  const std::vector<Stripe> parts = strip.stripes;
  strip.stripes.clear();
  for (int rank = 0; rank < grid.Ranks(); ++rank) {
    strip.stripes.push_back(parts[static_cast<size_t>(grid.CellOf(rank).w)]);
  }
}

// The program's sum counts one copy, too: the others' parts are 0.
TEST(SplitUnsummed, PartsOfCopiesAddUpToTheWhole) {
  Traffic traffic;
  RankJob job(
      Counted({.grid = "h2w2", .ones = spatial::Ones::kCopies, .sums_gradients = false}, traffic));
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
      std::vector<StripeResult> results(4);
      job.OnAll([&](RankState& rank) {
        results[static_cast<size_t>(rank.rank)] = layer.RunOn(rank);
        EXPECT_EQ(results[static_cast<size_t>(rank.rank)].status, kFine);
      });
      EXPECT_EQ(SumOf(results), layer.expected) << Describe(layer.whole.problem);
    }
  }
  EXPECT_EQ(traffic.reductions, 0);
}

// The gradient of a bias is that of a filter of one tap over an image of ones.
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

// As cudnnConvolutionBackwardBias comes in.
StripeResult RunBias(RankState& rank, const SplitLayer& layer) {
  static const cudnn::Functions functions = StandIn();
  const Stripe& stripe = layer.stripes[static_cast<size_t>(rank.rank)];
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
    split.is_bias_gradient = true;
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
  for (const auto said : {std::optional<spatial::Ones>(), std::optional(spatial::Ones::kStripes)}) {
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

// Copies along h of a strip that is cut along w.
TEST(SplitBiasGradients, OfCopiesCountEachOnce) {
  RankJob job({.grid = "h2w2", .ones = spatial::Ones::kCopies});
  for (int type = 0; type < 4; ++type) {
    for (const double beta : {0.0, 1.0}) {
      SplitLayer layer = BiasLayer(*SpatialGrid::Parse("w2"), {{{1}, {1}, {3, 4}}},
                                   static_cast<DataType>(type), beta);
      CopyAlongHeight(job.grid(), layer);
      ExpectBiasExact(job, layer);
    }
  }
}

// Device memory beside the caller's: where halos are added 2.5 times the rows that a rank receives,
// or sends, from both sides together, 6 times where results are computed anew. A row is as wide as
// the wider of what is exchanged and what is computed. Beside that a copy of the filter, what
// alignment takes, and of a filter gradient its sum.
class SplitMemory : public DeviceTest {
 protected:
  SplitMemory() { EXPECT_EQ(cudnnCreate(&handle_), kFine); }
  ~SplitMemory() override { EXPECT_EQ(cudnnDestroy(handle_), kFine); }

  // Of one rank, in bytes: what its calls take, and what they may.
  void ExpectWithinBound(const ConvolutionProblem& local, const SpatialGrid& grid, int rank,
                         const std::vector<Spatial>& extents, const spatial::CallForm& form) {
    spatial::PlanContext context{functions_, *cuda::GetDriver(), handle_, {}};
    context.demand.is_fused = form.is_fused;  // and no workspace
    const auto group = spatial::GroupStripes::Make(local, grid, rank, extents, {});
    ASSERT_TRUE(group.ok()) << group.message();
    const auto plan = spatial::SlicePlan::Make(context, *group, form);
    const auto kernel = spatial::SplitKernel::Make(context, *group, form, true, local.n, SIZE_MAX);
    ASSERT_TRUE(plan.ok() && kernel.ok()) << kernel.status().message();
    const Spatial y = OutputExtents(local);
    const bool forward = local.operation == Operation::kForward;
    const double x_row = 1.0 * local.c * local.x[2], y_row = 1.0 * local.k * y[2];
    const double wider = std::max(x_row, y_row) / (forward ? x_row : y_row);
    const bool added = (*plan)->correction() == spatial::Correction::kAdded;
    const size_t halo = std::max((*plan)->received_bytes(), (*plan)->sent_bytes());
    const double rows = wider * static_cast<double>(halo);
    double beside = static_cast<double>(cudnn::FilterBytes(local)) + 16 * 256;
    if (local.operation == Operation::kBackwardFilter) {
      beside += static_cast<double>(SumsPartials(local) ? PartialSumBytes(local)
                                    : form.reads_result ? cudnn::FilterBytes(local)
                                                        : 0);
    }
    const double took = static_cast<double>((*kernel)->buffer_bytes()) - beside;
    EXPECT_LE(took, (added ? 2.5 : 6) * rows) << Describe(local) << ", rank " << rank;
  }

  const cudnn::Functions functions_ = StandIn();
  cudnnHandle_t handle_ = nullptr;
};

TEST_F(SplitMemory, IsWithinTheBound) {
  const unsigned seed = 20261128;
  std::mt19937 random(seed);
  const SpatialGrid grid = *SpatialGrid::Parse("h3");
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    ConvolutionProblem problem = Layer(kOperations[i % 3], 1, 2 * Draw(1, 3, random) + 1);
    problem.n = 4;
    problem.c = Draw(4, 32, random), problem.k = Draw(4, 32, random);
    SetType(problem, static_cast<DataType>(Draw(0, 3, random)));
    problem.x[2] = 64;
    if (i % 4 == 0) problem.stride = {1, 2, 2};
    if (i % 4 == 1) problem.dilation[1] = 2, problem.pad[1] *= 2;
    spatial::CallForm form;
    form.is_fused = problem.operation == Operation::kForward && Draw(0, 1, random) == 1;
    form.reads_result = Draw(0, 1, random) == 1;
    std::vector<Spatial> extents;
    for (int rank = 0; rank < 3; ++rank) extents.push_back({1, 2 * Draw(4, 16, random), 64});
    for (int rank = 0; rank < 3; ++rank) {
      problem.x = extents[static_cast<size_t>(rank)];
      SetPackedStrides(problem);
      ExpectWithinBound(problem, grid, rank, extents, form);
    }
  }
}

}  // namespace
}  // namespace ucudnn::test
