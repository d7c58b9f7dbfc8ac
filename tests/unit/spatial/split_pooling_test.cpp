// Tests poolings that are cut over the ranks of a job, against undivided calls.
#include <array>
#include <numeric>

#include "tests/unit/spatial/pooling_case.h"

namespace ucudnn::test {
namespace {

// Returns a pooling's problem, with one channel of y for each of x.
ConvolutionProblem Pooled(int images, int channels, const Spatial& x, const Spatial& w) {
  ConvolutionProblem p;
  p.n = images;
  p.c = p.k = p.groups = channels;
  p.x = x;
  p.w = w;
  SetPackedStrides(p);
  return p;
}

// Returns a random window. Along axes that `grid` cuts, w - stride <= 2 * pad < w, as a cut
// requires.
ConvolutionProblem RandomWindow(const SpatialGrid& grid, std::mt19937& random) {
  ConvolutionProblem p;
  p.operation = Draw(0, 1, random) == 0 ? Operation::kForward : Operation::kBackwardData;
  p.spatial_rank = grid.d > 1 || Draw(0, 3, random) == 0 ? 3 : 2;
  p.n = Draw(1, 3, random);
  p.c = p.k = p.groups = Draw(1, 3, random);
  SetType(p, static_cast<DataType>(Draw(0, 3, random)));
  for (size_t axis = 3 - static_cast<size_t>(p.spatial_rank); axis < 3; ++axis) {
    const bool is_cut = grid.Parts()[axis] > 1;
    do {
      p.w[axis] = Draw(1, 6, random);
      p.stride[axis] = Draw(1, 4, random);
      p.pad[axis] = Draw(0, p.w[axis] - 1, random);
    } while (is_cut &&
             (p.w[axis] - p.stride[axis] > 2 * p.pad[axis] || 2 * p.pad[axis] > p.w[axis] - 1));
    p.x[axis] = std::max(p.w[axis], Draw(3, 7, random));
  }
  return p;
}

std::optional<CutPooling> RandomPooling(const SpatialGrid& grid, const PoolingKind& kind,
                                        std::mt19937& random) {
  ConvolutionProblem problem = RandomWindow(grid, random);
  const AxisExtents parts = PartsOf(grid, problem, 1, 4, random);
  SetWhole(problem, parts);
  for (size_t axis = 0; axis < 3; ++axis) {
    if (problem.x[axis] + 2 * problem.pad[axis] < problem.w[axis]) return std::nullopt;
  }
  WholePooling whole(problem, kind, random, Draw(0, 1, random) == 0 ? 2 : 50);
  whole.alpha = Draw(0, 2, random) == 0 ? 2 : 1;
  whole.beta = Draw(0, 2, random) == 0 ? 1 : 0;
  auto stripes = CutInto(problem, grid, parts);
  if (!stripes) return std::nullopt;
  LayAnyhow(*stripes, random);
  return CutPooling(whole, *stripes);
}

class SplitPooling : public testing::TestWithParam<const char*> {};

TEST_P(SplitPooling, IsThatOfTheWholeImage) {
  // A kernel may be new on one rank while it is not on the others, so ranks agree at each call.
  RankJob job({.grid = GetParam(), .agrees_each_time = true, .ones = SpatialOnes::kSplit});
  const unsigned seed = 20261125;
  std::mt19937 random(seed);
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    const PoolingKind& kind = kKinds[static_cast<size_t>(i) % std::size(kKinds)];
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    std::vector<CutPooling> groups;  // each group has images of its own
    while (groups.size() < static_cast<size_t>(job.grid().n)) {
      std::optional<CutPooling> cut = RandomPooling(OfOneGroup(job.grid()), kind, random);
      if (cut) groups.push_back(std::move(*cut));
    }
    ExpectPartsOf(job, groups, 2);
  }
}
INSTANTIATE_TEST_SUITE_P(Grids, SplitPooling,
                         testing::Values("h2", "h3", "h5", "w2", "h2w2", "d2h2", "n2h2"),
                         [](const auto& grid) { return grid.param; });

// Windows may each cover a rank's whole stripe without being one global pooling, if the user says
// so (SpatialOnes::kSplit). Here four ranks have two rows each, and 2x2 windows of stride 2 give
// each rank one row. If the user says nothing, such a call is refused.
TEST(SplitPoolingOnes, AWindowThatCoversEachStripeGivesEachRankARow) {
  Traffic traffic;
  RankJob said(Counted({.grid = "h4", .ones = SpatialOnes::kSplit}, traffic));
  RankJob unsaid({.grid = "h4"});
  std::mt19937 random(4);
  ConvolutionProblem problem = Pooled(2, 3, {1, 8, 6}, {1, 2, 2});
  problem.stride = problem.w;
  SetPackedStrides(problem);
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    problem.operation = operation;
    const auto stripes = CutInto(problem, said.grid(), {{{1}, {2, 2, 2, 2}, {6}}});
    ASSERT_TRUE(stripes.has_value());
    for (const PoolingKind& kind : kKinds) {
      const CutPooling cut({problem, kind, random, 9}, *stripes);
      ExpectPartsOf(said, {cut});
      unsaid.OnAll([&](RankState& rank) {
        EXPECT_EQ(RunOnRank(rank, cut.whole, cut.StripeOf(unsaid, rank)).status, kRefused);
      });
    }
  }
  EXPECT_EQ(traffic.exchanges, 0);
}

// Every rank has the same whole tensor and declares so. Then each rank pools its tensor alone, also
// with a window over all positions.
TEST(SplitPoolingReplicated, CallsOnWholeTensorsRunAsTheyAre) {
  Traffic traffic;
  RankJob job(Counted({.grid = "h2w2"}, traffic));
  std::mt19937 random(4);
  job.OnAll([](RankState& rank) { rank.declared.is_replicated = true; });
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    for (const PoolingKind& kind : kKinds) {
      for (const bool is_global : {false, true}) {
        const Spatial x = {1, 5, 6};
        ConvolutionProblem problem = Pooled(2, 2, x, is_global ? x : Spatial{1, 3, 3});
        problem.operation = operation;
        problem.pad = is_global ? Spatial{0, 0, 0} : Spatial{0, 1, 1};
        SetPackedStrides(problem);
        const CutPooling cut({problem, kind, random, 9}, {WholeStripe(problem)});
        job.OnAll([&](RankState& rank) { ExpectItsPart(rank, cut, cut.stripes[0]); });
      }
    }
  }
  EXPECT_EQ(traffic.exchanges, 0);
}

// Describes a pooling of an image with 32 positions along each axis that the grid cuts, and 4 along
// other pooled axes, in even stripes. Each group has images of its own.
struct PublishedPooling {
  int spatial_rank = 2;
  int window = 3, stride = 1, pad = 0;
  PoolingKind kind = kMax;
};

void ExpectPublished(RankJob& job, const PublishedPooling& of, bool is_exact,
                     std::mt19937& random) {
  const SpatialGrid grid = OfOneGroup(job.grid());
  ConvolutionProblem problem;
  problem.spatial_rank = std::max(2, of.spatial_rank);
  problem.n = 2;
  AxisExtents parts;
  for (size_t axis = 0; axis < 3; ++axis) {
    const auto count = static_cast<size_t>(grid.Parts()[axis]);
    const bool is_pooled = axis >= 3 - static_cast<size_t>(of.spatial_rank);
    problem.x[axis] = static_cast<int32_t>(!is_pooled ? 1 : count > 1 ? 32 : 4);
    problem.w[axis] = is_pooled ? of.window : 1;
    problem.stride[axis] = is_pooled ? of.stride : 1;
    problem.pad[axis] = is_pooled ? of.pad : 0;
    parts[axis].assign(count, problem.x[axis] / static_cast<int64_t>(count));
  }
  SetPackedStrides(problem);
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    problem.operation = operation;
    SCOPED_TRACE(Describe(problem));
    const auto stripes = CutInto(problem, grid, parts);
    ASSERT_EQ(stripes.has_value(), is_exact);
    if (!is_exact) continue;
    std::vector<CutPooling> groups;
    for (int group = 0; group < job.grid().n; ++group) {
      groups.emplace_back(WholePooling(problem, of.kind, random, 9), *stripes);
    }
    ExpectPartsOf(job, groups);
  }
}

// The cases are those of test_pooling.sh in LBANN's DiHydrogen that cut an image.
TEST(SplitPoolingPublished, DiHydrogensListIsExact) {
  std::mt19937 random(1);
  for (const char* const grid : {"w2", "h2", "h2w2", "n2w2", "n2h2", "n2d2"}) {
    RankJob job({.grid = grid});
    for (const int spatial_rank : {2, 3}) {
      if (spatial_rank == 2 && job.grid().d > 1) continue;
      ExpectPublished(job, {.spatial_rank = spatial_rank, .pad = 1}, true, random);
    }
  }
}

// The cases are those of test_pooling.py in NVIDIA's physicsnemo. Without padding, windows of 4
// with a stride of 2 continue across cuts. No cuDNN call on a stripe can express this, so such a
// pooling cannot be cut.
TEST(SplitPoolingPublished, PhysicsnemosListIsExactWhereWindowsEndAtCuts) {
  std::mt19937 random(2);
  for (const char* const grid : {"w4", "h2w2"}) {
    RankJob job({.grid = grid});
    for (int spatial_rank = job.grid().h > 1 ? 2 : 1; spatial_rank <= 3; ++spatial_rank) {
      for (const int window : {2, 4}) {
        for (const int stride : {2, 4}) {
          for (const PoolingKind& kind : {kMax, kKinds[2]}) {
            ExpectPublished(job, {spatial_rank, window, stride, 0, kind}, window <= stride, random);
          }
        }
      }
    }
  }
}

// If the buffer is too small for all images, a call exchanges a few images at a time. If the buffer
// is too small for one image, the call is refused.
TEST(SplitPoolingRoom, DividesTheImages) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    for (const size_t bytes : {size_t{1} << 10, size_t{40} << 10, size_t{1} << 20}) {
      Traffic traffic;
      RankJob job(Counted({.grid = "h2", .most_buffer_bytes = bytes}, traffic));
      std::mt19937 random(9);
      ConvolutionProblem problem = Pooled(7, 24, {1, 12, 9}, {1, 3, 3});
      problem.operation = operation;
      problem.pad = {0, 1, 1};
      SetPackedStrides(problem);
      WholePooling pooling(problem, kMax, random, 9);
      pooling.beta = 1;
      const auto stripes = CutInto(problem, job.grid(), {{{1}, {7, 5}, {9}}});
      ASSERT_TRUE(stripes.has_value());
      const CutPooling cut(pooling, *stripes);
      if (bytes > size_t{1} << 10) {
        ExpectPartsOf(job, {cut});
      } else {
        job.OnAll([&](RankState& rank) {
          EXPECT_EQ(RunOnRank(rank, pooling, cut.StripeOf(job, rank)).status, kRefused);
        });
      }
      if (bytes == size_t{40} << 10) {
        EXPECT_GT(traffic.exchanges, 2);
      }
    }
  }
}

// Holds a global pooling: each rank's window covers its stripe.
struct GlobalCase {
  WholePooling whole;
  std::vector<Stripe> stripes;

  GlobalCase(const ConvolutionProblem& local, const PoolingKind& kind, const SpatialGrid& grid,
             const AxisExtents& parts, std::mt19937& random)
      : whole(WindowOver(local, parts, parts), kind, random, 100) {
    for (const Box3& slice : SlicesOf(grid, parts)) {
      AxisExtents own;
      for (size_t axis = 0; axis < 3; ++axis) own[axis] = {slice[axis].Length()};
      stripes.push_back({WindowOver(local, own, parts), slice, WholeStripe(whole.problem).windows});
    }
  }
  // Returns `problem` for an image with the extents `own`, and with a window over the image along
  // every axis that `parts` cut.
  static ConvolutionProblem WindowOver(ConvolutionProblem problem, const AxisExtents& own,
                                       const AxisExtents& parts) {
    SetWhole(problem, own);
    for (size_t axis = 0; axis < 3; ++axis) {
      if (parts[axis].size() > 1) problem.w[axis] = problem.stride[axis] = problem.x[axis];
    }
    SetPackedStrides(problem);
    return problem;
  }
};

// Returns a rank's problem of a global pooling. Along h and w, its window covers `x` on axes that
// `grid` does not cut; GlobalCase sets the window along the axes that `grid` cuts.
ConvolutionProblem LocalOf(const SpatialGrid& grid, Operation operation, int images, int channels,
                           const Spatial& x) {
  ConvolutionProblem local = Pooled(images, channels, x, {1, 1, 1});
  local.operation = operation;
  local.spatial_rank = grid.d > 1 ? 3 : 2;
  for (size_t axis = 1; axis < 3; ++axis) {
    if (grid.Parts()[axis] == 1) local.w[axis] = x[axis];
  }
  return local;
}

// Expects equality within `error` times the largest expected number.
void ExpectNear(const HostTensor& actual, const HostTensor& expected, double error) {
  ASSERT_EQ(actual.extents, expected.extents);
  double largest = 0;
  for (const double value : expected.values) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    EXPECT_NEAR(actual.values[i], expected.values[i], error * largest);
  }
}

double RoundingOf(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return 0x1p-24;
    case DataType::kHalf:
      return 0x1p-11;
    case DataType::kBfloat16:
      return 0x1p-8;
    case DataType::kDouble:
      break;
  }
  return 0x1p-53;
}

// Returns a global pooling over random parts of one group. All numbers of x differ, because cuts
// decide which of two equal maxima has the gradient. Returns nullopt if the type cannot hold so
// many different numbers.
std::optional<GlobalCase> RandomGlobal(const SpatialGrid& grid, const PoolingKind& kind,
                                       Operation operation, std::mt19937& random) {
  const int images = Draw(1, 3, random), channels = Draw(1, 4, random);
  ConvolutionProblem local = LocalOf(grid, operation, images, channels, {1, 5, 4});
  SetType(local, static_cast<DataType>(Draw(0, 3, random)));
  GlobalCase global(local, kind, grid, PartsOf(grid, local, 2, 5, random), random);
  std::iota(global.whole.x.values.begin(), global.whole.x.values.end(), -100);
  std::shuffle(global.whole.x.values.begin(), global.whole.x.values.end(), random);
  // Each type holds at least this many different whole numbers.
  const size_t most = local.type == DataType::kBfloat16 ? 250
                      : local.type == DataType::kHalf   ? 2000
                                                        : 100000;
  if (global.whole.x.values.size() > most) return std::nullopt;
  global.whole.beta = Draw(0, 2, random) == 0 ? 1 : 0;
  if (!global.whole.is_forward()) FillResult(global.whole);
  LayAnyhow(global.stripes, random);
  return global;
}

class GlobalPooling : public testing::TestWithParam<const char*> {};

TEST_P(GlobalPooling, GivesAllRanksWhatTheWholeImageGives) {
  RankJob job({.grid = GetParam(), .agrees_each_time = true, .ones = SpatialOnes::kReplicated});
  testing::internal::CaptureStderr();
  const unsigned seed = 7;
  std::mt19937 random(seed);
  for (int i = 0; i < 40 && !HasFailure(); ++i) {
    const PoolingKind& kind = kKinds[static_cast<size_t>(i) % std::size(kKinds)];
    const auto operation = i / 5 % 2 == 0 ? Operation::kForward : Operation::kBackwardData;
    std::vector<GlobalCase> groups;  // each has images of its own
    while (groups.size() < static_cast<size_t>(job.grid().n)) {
      auto global = RandomGlobal(OfOneGroup(job.grid()), kind, operation, random);
      if (global) groups.push_back(std::move(*global));
    }
    std::vector<HostTensor> expected;
    for (const GlobalCase& group : groups) expected.push_back(UndividedPooling(group.whole));
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i) + ": " +
                 cudnn::PoolingName(kind) + " " + Describe(groups[0].whole.problem));
    std::vector<HostTensor> results(static_cast<size_t>(job.size()));
    job.OnAll([&](RankState& rank) {
      const auto group = static_cast<size_t>(job.grid().GroupOf(rank.rank));
      const WholePooling& whole = groups[group].whole;
      const Stripe& stripe =
          groups[group].stripes[static_cast<size_t>(job.grid().GroupRankOf(rank.rank))];
      const PoolingResult result = RunOnRank(rank, whole, stripe);
      EXPECT_EQ(result.status, kFine);
      EXPECT_TRUE(result.is_intact);
      results[static_cast<size_t>(rank.rank)] = result.output;
      const HostTensor part =
          whole.is_forward() ? expected[group] : expected[group].Box(stripe.elements);
      if (kind.is_maximum()) {
        EXPECT_EQ(result.output, part) << "rank " << rank.rank;
      } else {
        ExpectNear(result.output, part,
                   (job.grid().GroupSize() + 2) * 2 * RoundingOf(whole.problem.type));
      }
    });
    if (operation == Operation::kBackwardData) continue;
    for (int rank = 0; rank < job.size(); ++rank) {
      const int first = job.grid().RankInGroup(job.grid().GroupOf(rank), 0);
      EXPECT_EQ(results[static_cast<size_t>(rank)], results[static_cast<size_t>(first)]);
    }
  }
  // All ranks have the same dy, as a global pooling requires, so no warning is logged.
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// The average of small whole numbers does not round if their count is a power of two, so the sum of
// the ranks' messages has the same bits as the undivided result.
TEST_P(GlobalPooling, OfWholeNumbersOverPowersOfTwoIsThatOfTheWholeImageToTheLastBit) {
  RankJob job({.grid = GetParam(), .agrees_each_time = true, .ones = SpatialOnes::kReplicated});
  const SpatialGrid grid = OfOneGroup(job.grid());
  std::mt19937 random(5);
  for (int i = 0; i < 16 && !HasFailure(); ++i) {
    const PoolingKind& kind = kKinds[i % 2 == 0 ? 2 : 3];
    ASSERT_FALSE(kind.is_maximum());
    const auto operation = i / 2 % 2 == 0 ? Operation::kForward : Operation::kBackwardData;
    ConvolutionProblem local = LocalOf(grid, operation, 2, 3, {1, 4, 4});
    SetType(local, static_cast<DataType>(i / 4));
    std::vector<CutPooling> groups;
    for (int group = 0; group < job.grid().n; ++group) {
      GlobalCase global(local, kind, grid, PowersOfTwo(grid, local.x), random);
      global.whole.x = RandomTensor(global.whole.x.extents, 2, random);
      LayAnyhow(global.stripes, random);
      groups.emplace_back(global.whole, global.stripes);
    }
    ExpectPartsOf(job, groups);
  }
}

// Returns the first element of `box` with the largest number of the channel, and sets `largest` to
// that number.
Extents5 FirstLargest(const HostTensor& x, int64_t n, int64_t c, const Box3& box, double& largest) {
  Extents5 first = {n, c, box[0].begin, box[1].begin, box[2].begin};
  largest = x.At(first);
  for (int64_t d = box[0].begin; d < box[0].end; ++d) {
    for (int64_t h = box[1].begin; h < box[1].end; ++h) {
      for (int64_t w = box[2].begin; w < box[2].end; ++w) {
        const Extents5 at = {n, c, d, h, w};
        if (x.At(at) > largest) largest = x.At(first = at);
      }
    }
  }
  return first;
}

// Returns the gradient of x. In each channel of an image, one element has all of dy: the first
// largest number of the first rank that has the largest number.
HostTensor GradientOfFirst(const GlobalCase& global) {
  const HostTensor& x = global.whole.x;
  HostTensor gradient(x.extents);
  for (int64_t n = 0; n < x.extents[0]; ++n) {
    for (int64_t c = 0; c < x.extents[1]; ++c) {
      std::optional<Extents5> first;
      double largest = 0;
      for (const Stripe& stripe : global.stripes) {
        double own = 0;
        const Extents5 at = FirstLargest(x, n, c, stripe.elements, own);
        if (first && own <= largest) continue;
        first = at;
        largest = own;
      }
      gradient.At(*first) = global.whole.dy.At({n, c, 0, 0, 0});
    }
  }
  return gradient;
}

TEST_P(GlobalPooling, GivesTheGradientOfEqualMaximaToTheFirstRank) {
  RankJob job({.grid = GetParam(), .agrees_each_time = true, .ones = SpatialOnes::kReplicated});
  const SpatialGrid grid = OfOneGroup(job.grid());  // all groups have the same images here
  std::mt19937 random(11);
  for (const PoolingKind& kind : kKinds) {
    if (!kind.is_maximum()) continue;
    for (int i = 0; i < 6 && !HasFailure(); ++i) {
      const ConvolutionProblem local = LocalOf(grid, Operation::kBackwardData, 2, 3, {1, 5, 4});
      GlobalCase global(local, kind, grid, PartsOf(grid, local, 2, 5, random), random);
      // With two different numbers, every stripe probably has the larger number more than once.
      for (double& value : global.whole.x.values) value = Draw(0, 1, random);
      LayAnyhow(global.stripes, random);
      FillResult(global.whole);
      const HostTensor expected = GradientOfFirst(global);
      // If only rows are cut, the undivided gradient chooses the same element, because the first
      // maximum of the image lies on the first rank that has a maximum.
      if (grid.Ranks() == grid.h) {
        EXPECT_EQ(UndividedPooling(global.whole), expected);
      }
      job.OnAll([&](RankState& rank) {
        const Stripe& stripe =
            global.stripes[static_cast<size_t>(job.grid().GroupRankOf(rank.rank))];
        const PoolingResult result = RunOnRank(rank, global.whole, stripe);
        EXPECT_EQ(result.status, kFine);
        EXPECT_TRUE(result.is_intact);
        EXPECT_EQ(result.output, expected.Box(stripe.elements))
            << cudnn::PoolingName(kind) << ", rank " << rank.rank;
      });
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Grids, GlobalPooling,
                         testing::Values("h2", "h3", "h5", "w2", "h2w2", "d2h2", "n2h2"),
                         [](const auto& grid) { return grid.param; });

ConvolutionProblem Window(int height, int window, int stride, int pad = 0) {
  ConvolutionProblem p = Pooled(2, 2, {1, height, 4}, {1, window, 1});
  p.stride = {1, stride, 1};
  p.pad = {0, pad, 0};
  SetPackedStrides(p);
  return p;
}

PoolingResult RunWindow(RankState& rank, const ConvolutionProblem& local, const PoolingKind& kind) {
  std::mt19937 random(3);
  return RunOnRank(rank, WholePooling(local, kind, random, 3), WholeStripe(local));
}

Statuses RunWindows(RankJob& job, const std::vector<ConvolutionProblem>& locals,
                    const PoolingKind& kind) {
  return OnEach(job, [&](RankState& rank) {
    return RunWindow(rank, locals[static_cast<size_t>(rank.rank)], kind).status;
  });
}

// Holds a case that is refused: each rank has its own window over its own rows.
struct Refusal {
  const char* name;
  std::optional<SpatialOnes> ones;
  std::vector<ConvolutionProblem> locals;
  std::vector<std::string> words;
};

TEST(SplitPoolingRefusal, NamesWhatCannotBeToldForwardAndBackward) {
  const std::vector<Refusal> refusals = {
      {"global or not",
       std::nullopt,
       {Window(2, 2, 2), Window(2, 2, 2)},
       {"the window covers the stripe of every rank", "UCUDNN_SPATIAL_ONE=replicated"}},
      {"one row, global or copies",
       SpatialOnes::kReplicated,
       {Window(1, 1, 1), Window(1, 1, 1)},
       {"a window of 1 over one row"}},
      {"unequal windows of stripes",
       SpatialOnes::kSplit,
       {Window(3, 3, 3), Window(4, 4, 4)},
       {"unequal windows", "1x3x1", "1x4x1"}},
      {"one covers, the other does not",
       SpatialOnes::kReplicated,
       {Window(3, 3, 3), Window(6, 4, 4)},
       {"unequal windows"}},
      {"strips",
       SpatialOnes::kReplicated,
       {Window(3, 3, 3), Window(3, 3, 3)},
       {"but not the image along w"}},
      {"a stride that a stripe breaks",
       std::nullopt,
       {Window(5, 2, 2), Window(4, 2, 2)},
       {"which the stride 2 does not divide"}},
      {"too little padding", std::nullopt, {Window(6, 3, 2), Window(6, 3, 2)}, {"pad"}},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.name);
    RankJob job({.grid = "h2", .ones = refusal.ones});
    for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
      std::vector<ConvolutionProblem> locals = refusal.locals;
      for (ConvolutionProblem& local : locals) local.operation = operation;
      for (const PoolingKind& kind : kKinds) {
        testing::internal::CaptureStderr();
        const Statuses statuses = RunWindows(job, locals, kind);
        const std::string told = testing::internal::GetCapturedStderr();
        EXPECT_EQ(statuses, Statuses({kRefused, kRefused})) << OperationName(operation);
        ExpectContains(told, refusal.words);
        ExpectContains(told, {cudnn::PoolingName(kind)});
      }
    }
    for (int rank = 0; rank < 2; ++rank) EXPECT_FALSE(job.rank(rank).ranks->Failure());
  }
}

// On the same stripes, one pooling is global and the other has windows of two rows. Rank 1, whose
// stripe has two rows, makes the same call for both poolings.
TEST(SplitPoolingWindows, TellPoolingsApartThatOneRankCannot) {
  RankJob job({.grid = "h2", .agrees_each_time = true, .ones = SpatialOnes::kReplicated});
  const PoolingKind average = kKinds[2];
  std::mt19937 random(4);
  ConvolutionProblem local = Window(1, 1, 1);
  local.x[2] = local.w[2] = 2;
  const AxisExtents rows = {{{1}, {4, 2}, {2}}};
  const GlobalCase global(local, average, job.grid(), rows, random);
  GlobalCase windows = global;
  windows.whole.problem.w = windows.whole.problem.stride = {1, 2, 2};
  const Spatial out = OutputExtents(windows.whole.problem);
  windows.whole.y = windows.whole.dy = windows.whole.before = HostTensor({2, 2, 1, out[1], out[2]});
  SetPackedStrides(windows.whole.problem);
  for (int rank = 0; rank < 2; ++rank) {
    Stripe& stripe = windows.stripes[static_cast<size_t>(rank)];
    stripe.problem.w = stripe.problem.stride = {1, 2, 2};
    SetPackedStrides(stripe.problem);
    stripe.windows[1] = rank == 0 ? Interval{0, 2} : Interval{2, 3};
  }
  for (const GlobalCase* const made :
       std::array<const GlobalCase*, 4>{&global, &windows, &global, &windows}) {
    const HostTensor expected = UndividedPooling(made->whole);
    job.OnAll([&](RankState& rank) {
      const Stripe& stripe = made->stripes[static_cast<size_t>(rank.rank)];
      const PoolingResult result = RunOnRank(rank, made->whole, stripe);
      EXPECT_EQ(result.status, kFine);
      ExpectNear(result.output, expected.Box(stripe.windows), 8 * RoundingOf(DataType::kFloat));
    });
  }
}

TEST(SplitPoolingReplicated, OnOneRankAloneIsAnErrorOnAll) {
  RankJob job({.timeout = milliseconds(2000)});
  const ConvolutionProblem local = Window(4, 3, 1, 1);
  job.OnAll([](RankState& rank) { rank.declared.is_replicated = rank.rank == 0; });
  RunWindows(job, {local, local}, kMax);
  ExpectContains(FailureOf(job), {"rank 0 has replicated max pooling", "rank 1 has max pooling"});
  job.OnAll([](RankState& rank) { rank.declared.is_replicated = false; });
  EXPECT_EQ(RunWindows(job, {local, local}, kMax), Statuses({kBroken, kBroken}));
}

TEST(SplitPoolingFault, AStripeThatCannotBePooledIsNanOnTheOthers) {
  RankJob job({.grid = "h2", .ones = SpatialOnes::kReplicated});
  ConvolutionProblem local = Window(4, 4, 4);
  local.w[2] = local.x[2];
  SetPackedStrides(local);
  std::mt19937 random(3);
  const WholePooling whole(local, kMax, random, 3);
  const auto run = [&](RankState& rank, const void* alpha) {
    return RunPart(whole, WholeStripe(local), rank.handle,
                   [&](cudnn::ConvolutionCall call, spatial::LocalCall& own) {
                     if (alpha == nullptr) call.x = nullptr;
                     spatial::SplitCall split{local, call, rank.context, rank.stream};
                     split.work = spatial::SplitWork::kPooling;
                     split.pooling = kMax;
                     return rank.calls->Run(split, own);
                   });
  };
  const float one = 1;
  job.OnAll([&](RankState& rank) { EXPECT_EQ(run(rank, &one).status, kFine); });
  job.OnAll([&](RankState& rank) {
    const PoolingResult result = run(rank, rank.rank == 1 ? nullptr : &one);
    if (rank.rank == 0) {
      EXPECT_TRUE(IsNan(result.output));
    }
  });
  EXPECT_NE(FailureOf(job), "");
}

// Each row next to a cut travels once: a row of x forward, and a row of dy backward. The gradient
// of a maximum also needs rows of x.
TEST(SplitPoolingTraffic, IsTheLeast) {
  struct Row {
    PoolingKind kind;
    Operation operation;
    int64_t rows;  // received by each of two ranks, with 4 columns, 2 channels, 2 images
  };
  // With windows of 3 rows, stride 1 and pad 1, a rank receives one row of x or of dy. For the
  // gradient of a maximum it receives two more rows of x. Each message of a max pooling also has an
  // arrival number of 4 bytes (slice_plan.h).
  for (const Row& row :
       {Row{kKinds[2], Operation::kForward, 1}, Row{kKinds[3], Operation::kBackwardData, 1},
        Row{kMax, Operation::kForward, 1}, Row{kMax, Operation::kBackwardData, 3}}) {
    Traffic traffic;
    RankJob job(Counted({.grid = "h2"}, traffic));
    ConvolutionProblem local = Window(4, 3, 1, 1);
    local.operation = row.operation;
    EXPECT_EQ(RunWindows(job, {local, local}, row.kind), Statuses({kFine, kFine}));
    const int64_t arrivals = row.kind.is_maximum() ? 2 * 4 : 0;
    EXPECT_EQ(traffic.received, 2 * row.rows * 4 * 2 * 2 * 4 + arrivals);
    EXPECT_EQ(traffic.sent, traffic.received);
    // Each rank's report must count the bytes of this rank, which are half of the traffic.
    for (int rank = 0; rank < job.size(); ++rank) {
      const spatial::RankFigures figures = job.rank(rank).calls->kernel_figures();
      ASSERT_EQ(figures.kernels.size(), 1u);
      const spatial::KernelFacts& facts = figures.kernels[0].facts;
      EXPECT_STREQ(facts.kind, cudnn::PoolingName(row.kind));
      EXPECT_EQ(facts.outcome, spatial::SplitOutcome::kTransparent);
      EXPECT_EQ(2 * static_cast<int64_t>(facts.received_bytes), traffic.received);
      EXPECT_EQ(2 * static_cast<int64_t>(facts.least_received_bytes), traffic.received - arrivals);
    }
  }
}

// Windows that do not overlap need no exchange.
TEST(SplitPoolingTraffic, OfAWindowPerStrideIsNone) {
  Traffic traffic;
  RankJob job(Counted({.grid = "h2"}, traffic));
  for (const PoolingKind& kind : kKinds) {
    EXPECT_EQ(RunWindows(job, {Window(4, 2, 2), Window(6, 2, 2)}, kind), Statuses({kFine, kFine}));
  }
  EXPECT_EQ(traffic.exchanges, 0);
}

// Once a rank has failed, every call on any rank returns an error.
TEST(SplitPoolingFault, IsNanOnceTheJobHasFailed) {
  RankJob job({.grid = "h2"});
  EXPECT_EQ(RunWindows(job, {Window(4, 3, 1, 1), Window(4, 3, 1, 1)}, kMax),
            Statuses({kFine, kFine}));
  job.OnAll([&](RankState& rank) {
    if (rank.rank == 1) rank.calls->Fail("a test says so");
  });
  EXPECT_NE(FailureOf(job), "");
  EXPECT_EQ(RunWindows(job, {Window(4, 3, 1, 1), Window(4, 3, 1, 1)}, kMax),
            Statuses({kBroken, kBroken}));
}

TEST(SplitPoolingFault, RowsThatNeverCameAreNan) {
  for (const bool is_global : {false, true}) {
    for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
      Traffic traffic;
      JobOptions options{.grid = "h2"};
      if (is_global) options.ones = SpatialOnes::kReplicated;
      RankJob job(Counted<SilentChannel>(options, traffic));
      ConvolutionProblem local = is_global ? Window(4, 4, 4) : Window(4, 3, 1, 1);
      if (is_global) local.w[2] = local.x[2];
      SetPackedStrides(local);
      local.operation = operation;
      job.OnAll([&](RankState& rank) {
        const PoolingResult result = RunWindow(rank, local, kMax);
        EXPECT_EQ(result.status, kFine);
        EXPECT_TRUE(HasNan(result.output));
      });
    }
  }
}

}  // namespace
}  // namespace ucudnn::test
