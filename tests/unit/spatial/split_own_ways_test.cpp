// Tests that what ranks do together does not depend on what a rank does on its own: its
// micro-batches and pauses, its other device memory, and the layout of its tensors.
#include <gtest/gtest.h>

#include <cuda.h>

#include <map>
#include <mutex>
#include <random>

#include "tests/unit/spatial/random_layers.h"

namespace ucudnn::test {
namespace {

// Makes the rank's own call in micro-batches of `sizes` images.
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

// Returns whether the rank's result is exact if its own call is divided into `sizes`.
bool IsExactInPieces(RankState& rank, const SplitLayer& layer, const std::vector<int>& sizes) {
  const ConvolutionProblem& problem = layer.StripeOf(rank).problem;
  const StripeResult result = RunGiven(rank, layer, [&](const cudnn::ConvolutionCall& call) {
    return RunInPieces(problem, call, sizes);
  });
  return result.status == kFine && result.is_intact && result.output == layer.Part(rank.rank);
}

TEST(SplitMicroBatches, OfOtherSizesOnEachRankAreExact) {
  const std::vector<std::vector<int>> sizes = {{7}, {1, 1, 1, 1, 1, 1, 1}, {3, 4}};
  // The larger buffer holds all images at once, the smaller one only some.
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
        const Stripe& stripe = layer.StripeOf(rank);
        const auto run_bare = [&](cudnn::ConvolutionCall call) {
          call.workspace = nullptr;
          call.workspace_bytes = 0;
          return rank.Run(stripe.problem, call);
        };
        ExpectPart(rank, layer, RunStripe(layer.whole, stripe, rank.handle, run_bare));
      });
    }
  }
}

// Holds what each rank passes to its channel, call by call.
struct Passed {
  explicit Passed(int ranks) : calls(static_cast<size_t>(ranks)) {}
  std::mutex mutex;
  std::vector<std::vector<std::string>> calls;
  // The number of the latest gather, by the rank that gathers and the rank that hears of it.
  std::map<std::pair<int, int>, uint64_t> gathers;
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

// Adds gaps between images and declares another alignment. Each image still begins at a multiple of
// 16 bytes.
void LayOut(Stripe& stripe, std::mt19937& random) {
  ConvolutionProblem& p = stripe.problem;
  p.x_strides[0] += 8 * Draw(1, 2, random);
  p.y_strides[0] += 8 * Draw(1, 2, random);
  p.alignment = 1 << Draw(0, 4, random);
}

// Makes the same calls every time. If `has_own_way`, every rank divides its own calls, pauses,
// allocates device memory and lays out its tensors at random.
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
      Stripe stripe = layer.StripeOf(rank);
      if (Draw(0, 2, own) == 0) LayOut(stripe, own);
      const StripeResult result =
          RunGiven(rank, layer.whole, stripe, [&](const cudnn::ConvolutionCall& call) {
            pause();
            const cudnnStatus_t status =
                RunInPieces(stripe.problem, call, RandomSizes(stripe.problem.n, own));
            pause();
            return status;
          });
      ExpectPart(rank, layer, result);
      EXPECT_EQ(cuMemFree(taken), CUDA_SUCCESS);
    }
    // Once Leave has returned, OnGather has been called for every gather of the other ranks.
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

}  // namespace
}  // namespace ucudnn::test
