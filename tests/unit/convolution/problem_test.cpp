#include "convolution/problem.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "tests/support/problem.h"
#include "tests/support/random_problem.h"

namespace ucudnn {
namespace {

// Counts one by one the positions at which a filter fits inside the padded image.
int CountedOutputs(int x, int w, int pad, int stride, int dilation) {
  int count = 0;
  for (int start = -pad; start + (w - 1) * dilation < x + pad; start += stride) ++count;
  return count;
}

TEST(Problem, OutputExtentsCountTheFilterPositions) {
  const unsigned seed = 11;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const ConvolutionProblem problem = RandomProblem(random);
    const Spatial y = OutputExtents(problem);
    for (int axis = 0; axis < kMaxSpatial; ++axis) {
      ASSERT_EQ(y[axis], CountedOutputs(problem.x[axis], problem.w[axis], problem.pad[axis],
                                        problem.stride[axis], problem.dilation[axis]))
          << Describe(problem);
    }
  }
}

TEST(Problem, OutputExtentsOfAbsurdNumbersSaturate) {
  constexpr int kMost = std::numeric_limits<int>::max();
  ConvolutionProblem problem;
  problem.x = {kMost, kMost, 1};
  problem.w = {1, 1, kMost};
  problem.pad = {kMost, 0, 0};
  problem.dilation = {1, 1, kMost};
  EXPECT_EQ(OutputExtents(problem), (Spatial{kMost, kMost, std::numeric_limits<int>::min()}));
}

// Returns the least number of images, at least 1, after which x and y are both aligned to
// `alignment` bytes again. Tries 1, 2, 3 and so on.
int WalkedStep(const ConvolutionProblem& problem) {
  for (int64_t step = 1;; ++step) {
    const auto element = static_cast<int64_t>(ElementBytes(problem.type));
    if (step * problem.x_strides[0] * element % problem.alignment == 0 &&
        step * problem.y_strides[0] * element % problem.alignment == 0) {
      return static_cast<int>(step);
    }
  }
}

TEST(Problem, LegalStepIsTheFirstAlignedImage) {
  const unsigned seed = 12;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 5000; ++i) {
    ConvolutionProblem problem = RandomProblem(random);
    problem.alignment = static_cast<int32_t>(random() % 48 + 1);
    ASSERT_EQ(LegalStep(problem), WalkedStep(problem))
        << Describe(problem) << " alignment " << problem.alignment;
  }
}

// How tensors lie in memory: packed in one of two layouts, with gaps along all axes, with images of
// odd length, or with the batch innermost.
enum class Memory { kNchw, kNhwc, kGaps, kOddImages, kBatchInnermost };

Strides StridesOf(Memory memory, int n, int channels, const Spatial& extents) {
  Strides strides =
      PackedStrides(memory == Memory::kNhwc ? Layout::kNhwc : Layout::kNchw, channels, extents);
  switch (memory) {
    case Memory::kNchw:
    case Memory::kNhwc:
      break;
    case Memory::kGaps: {
      int64_t stride = 1;
      for (int axis = 4; axis >= 0; --axis) {
        strides[axis] = stride;
        stride = (axis >= 2 ? extents[axis - 2] : channels) * stride + 3;
      }
      break;
    }
    case Memory::kOddImages:
      strides[0] |= 1;
      break;
    case Memory::kBatchInnermost:
      for (int64_t& stride : strides) stride *= n;
      strides[0] = 1;
      break;
  }
  return strides;
}

// For every type, layout, rank and alignment, a boundary between images is a multiple of LegalStep
// exactly where the addresses of both tensors are aligned.
TEST(Problem, MultiplesOfTheLegalStepAreTheAlignedBoundaries) {
  constexpr int kImages = 270;  // more than twice the step of any case
  const Spatial kExtents[] = {{3, 5, 5}, {2, 6, 7}, {1, 7, 9}, {4, 8, 8}};
  for (const DataType type :
       {DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kDouble}) {
    for (const Memory memory : {Memory::kNchw, Memory::kNhwc, Memory::kGaps, Memory::kOddImages,
                                Memory::kBatchInnermost}) {
      for (const int rank : {2, 3}) {
        for (const auto& [c, k] : {std::pair{1, 1}, {3, 4}, {4, 6}, {5, 3}, {8, 2}}) {
          for (const Spatial& extents : kExtents) {
            ConvolutionProblem problem;
            problem.type = type;
            problem.spatial_rank = rank;
            problem.n = kImages;
            problem.c = c;
            problem.k = k;
            problem.x = extents;
            if (rank == 2) problem.x[0] = 1;
            problem.w = {1, 3, 3};
            problem.pad = {0, 0, 1};
            problem.x_strides = StridesOf(memory, kImages, c, problem.x);
            problem.y_strides = StridesOf(memory, kImages, k, OutputExtents(problem));
            for (problem.alignment = 1; problem.alignment <= 128; ++problem.alignment) {
              const int step = LegalStep(problem);
              const auto image_bytes = [&](const Strides& strides) {
                return strides[0] * static_cast<int64_t>(ElementBytes(type));
              };
              for (int boundary = 0; boundary <= kImages; ++boundary) {
                const bool aligned =
                    boundary * image_bytes(problem.x_strides) % problem.alignment == 0 &&
                    boundary * image_bytes(problem.y_strides) % problem.alignment == 0;
                if (aligned == (boundary % step == 0)) continue;
                FAIL() << Describe(problem) << ", alignment " << problem.alignment << ", memory "
                       << static_cast<int>(memory) << ": step " << step << ", boundary "
                       << boundary;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Problem, PackedStridesVisitEveryElementOnce) {
  const Spatial extents = {2, 3, 4};
  constexpr int kChannels = 5;
  for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    const Strides strides = PackedStrides(layout, kChannels, extents);
    std::vector<int> visits(2 * 3 * 4 * kChannels);
    for (int c = 0; c < kChannels; ++c) {
      for (int d = 0; d < extents[0]; ++d) {
        for (int h = 0; h < extents[1]; ++h) {
          for (int w = 0; w < extents[2]; ++w) {
            ++visits.at(static_cast<size_t>(c * strides[1] + d * strides[2] + h * strides[3] +
                                            w * strides[4]));
          }
        }
      }
    }
    EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
    EXPECT_EQ(strides[0], static_cast<int64_t>(visits.size()));
    EXPECT_EQ(strides[layout == Layout::kNchw ? 4 : 1], 1);
  }
}

TEST(Problem, EqualProblemsHashEqually) {
  std::mt19937 random(13);
  std::mt19937 same(13);
  for (int i = 0; i < 500; ++i) {
    const ConvolutionProblem a = RandomProblem(random);
    const ConvolutionProblem b = RandomProblem(same);
    ASSERT_EQ(a, b);
    ASSERT_EQ(a.Hash(), b.Hash());
  }
}

TEST(Problem, EveryMemberChangesEqualityAndHash) {
  const ConvolutionProblem base;
  std::vector<ConvolutionProblem> changed;
  const auto change = [&](auto&& edit) {
    ConvolutionProblem problem = base;
    edit(problem);
    changed.push_back(problem);
  };
  change([](auto& p) { p.operation = Operation::kBackwardData; });
  change([](auto& p) { p.spatial_rank = 3; });
  change([](auto& p) { p.n = 2; });
  change([](auto& p) { p.c = 2; });
  change([](auto& p) { p.k = 2; });
  change([](auto& p) { p.groups = 2; });
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    change([&](auto& p) { p.x[axis] = 2; });
    change([&](auto& p) { p.w[axis] = 2; });
    change([&](auto& p) { p.pad[axis] = 2; });
    change([&](auto& p) { p.stride[axis] = 2; });
    change([&](auto& p) { p.dilation[axis] = 2; });
  }
  change([](auto& p) { p.type = DataType::kHalf; });
  change([](auto& p) { p.compute = DataType::kHalf; });
  change([](auto& p) { p.layout = Layout::kNhwc; });
  change([](auto& p) { p.mode = ConvolutionMode::kConvolution; });
  change([](auto& p) { p.math = MathType::kFma; });
  change([](auto& p) { p.alignment = 2; });
  for (size_t axis = 0; axis < kMaxSpatial + 2; ++axis) {
    change([&](auto& p) { p.x_strides[axis] = 2; });
    change([&](auto& p) { p.y_strides[axis] = 2; });
  }
  for (size_t i = 0; i < changed.size(); ++i) {
    EXPECT_FALSE(changed[i] == base) << i;
    EXPECT_NE(changed[i].Hash(), base.Hash()) << i;
    for (size_t j = 0; j < i; ++j) EXPECT_NE(changed[i].Hash(), changed[j].Hash()) << i << " " << j;
  }
}

TEST(Problem, FamiliesIgnoreTheMiniBatchAlone) {
  ConvolutionProblem a;
  ConvolutionProblem b;
  a.n = 32;
  b.n = 64;
  EXPECT_EQ(KernelFamily(a), KernelFamily(b));
  b.alignment = 16;
  EXPECT_FALSE(KernelFamily(a) == KernelFamily(b));
}

TEST(Problem, DescribeShowsWhatDiffersFromTheDefault) {
  ConvolutionProblem problem = test::ProblemWith(
      {.n = 256, .c = 64, .k = 192, .x = {1, 27, 27}, .w = {1, 5, 5}, .pad = {0, 2, 2}});
  EXPECT_EQ(Describe(problem), "forward 256x64x27x27 -> 192, 5x5 pad 2x2 fp32 nchw");
  problem.stride = {1, 2, 2};
  problem.groups = 2;
  EXPECT_EQ(Describe(problem),
            "forward 256x64x27x27 -> 192, 5x5 pad 2x2 stride 2x2 groups 2 fp32 nchw");
  EXPECT_EQ(Describe(KernelFamily(problem)),
            "forward Nx64x27x27 -> 192, 5x5 pad 2x2 stride 2x2 groups 2 fp32 nchw");
}

}  // namespace
}  // namespace ucudnn
