#include "planning/auto_policy.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "auto_replay.h"
#include "measured.h"
#include "planning/micro_batch_sizes.h"
#include "tests/support/seeded_random.h"

namespace ucudnn::planning {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

AutoRequest Asking(int n, size_t limit_bytes, int step = 1, size_t l2_bytes = 0) {
  AutoRequest request;
  request.promise.n = n;
  request.promise.step = step;
  request.promise.limit_bytes = limit_bytes;
  request.l2_bytes = l2_bytes;
  return request;
}

struct Curve {
  double time_ms;
  double workspace_bytes;
};

// Adds the rows of one engine for every size from 1 to n.
void AddEngine(std::vector<Candidate>& table, const std::string& engine, int n,
               const std::function<Curve(int size)>& curve) {
  for (int size = 1; size <= n; ++size) {
    const Curve at = curve(size);
    table.push_back({{engine, size, at.time_ms, static_cast<size_t>(at.workspace_bytes), true},
                     NumericClass::kDirect});
  }
}

void Remove(std::vector<Candidate>& table,
            const std::function<bool(const MicroConfiguration&)>& is) {
  std::erase_if(table, [&](const Candidate& row) { return is(row.micro); });
}

// Returns a slow engine without workspace, and a fast one that needs 1 MiB of workspace per image.
// An image takes 0.3 ms on the slow engine and 0.1 ms on the fast one.
std::vector<Candidate> SlowAndFast(int n, double launch_ms = 1) {
  std::vector<Candidate> table;
  AddEngine(table, "legacy:0", n, [&](int size) { return Curve{launch_ms + 0.3 * size, 0}; });
  AddEngine(table, "legacy:1", n, [&](int size) {
    return Curve{launch_ms + 0.1 * size, 1.0 * kMiB * size};
  });
  return table;
}

TEST(AutoPolicy, BeginsWithTheWholeAndTwoParts) {
  EXPECT_THAT(NextSizes({}, {}, Asking(256, kUnlimited)), ElementsAre(16, 64, 256));
  EXPECT_THAT(NextSizes({}, {}, Asking(100, kUnlimited, 8)), ElementsAre(8, 24, 100));
}

TEST(FittingSizes, AreFewAndBeginWithTheLeastPieceOfThePolicy) {
  EXPECT_THAT(FittingSizes(BatchSizePolicy::kUndivided, 256, 1), ElementsAre(256));
  EXPECT_THAT(FittingSizes(BatchSizePolicy::kAuto, 256, 1), ElementsAre(1, 16, 64, 256));
  EXPECT_THAT(FittingSizes(BatchSizePolicy::kAuto, 100, 8), ElementsAre(4, 8, 24, 100));
  EXPECT_THAT(FittingSizes(BatchSizePolicy::kAuto, 8, 8), ElementsAre(8));
  EXPECT_THAT(FittingSizes(BatchSizePolicy::kAll, 20, 3), ElementsAre(2, 3, 20));
  for (const int n : {1, 2, 7, 100, 256}) {
    for (const int step : {1, 2, 3, 16}) {
      for (const BatchSizePolicy policy : {BatchSizePolicy::kPowerOfTwo, BatchSizePolicy::kAll}) {
        const std::vector<int> sizes = FittingSizes(policy, n, step);
        const std::vector<int> of_policy = MicroBatchSizes(policy, n, step);
        EXPECT_THAT(of_policy, IsSupersetOf(sizes));
        EXPECT_EQ(sizes.front(), of_policy.front());
        EXPECT_EQ(sizes.back(), n);
        EXPECT_LE(sizes.size(), 14u);
      }
    }
  }
}

TEST(AutoPolicy, OnlyTheWholeWhereNothingMayBeDivided) {
  for (const AutoRequest& undivided : {Asking(1, kMiB), Asking(8, kMiB, 8), Asking(8, kMiB, 16)}) {
    const Replay replay = ReplayAuto(SlowAndFast(64), undivided);
    EXPECT_THAT(replay.asked, ElementsAre(undivided.promise.n));
  }
  EXPECT_THAT(NextSizes({}, {}, Asking(0, kMiB)), IsEmpty());
}

TEST(AutoPolicy, FewSizesWhereNothingIsGainedByDividing) {
  EXPECT_THAT(ReplayAuto(SlowAndFast(256, 3), Asking(256, kUnlimited)).asked, SizeIs(3));
  // Each image needs 1 MiB of workspace, so a cache of 24 MiB holds the workspace of 24 images, and
  // half of the cache holds the workspace of 12 images. With at most 24 images in a part there are
  // 11 parts, ceil(256 / 24), of up to 24 images, ceil(256 / 11). With at most 12 images in a part
  // there are 22 parts of up to 12 images.
  EXPECT_THAT(ReplayAuto(SlowAndFast(256, 3), Asking(256, kUnlimited, 1, 24 * kMiB)).asked,
              ElementsAre(16, 64, 256, 12, 24));
  // If a launch costs nothing, dividing may gain time at any size between the measured ones. Policy
  // auto still measures no more than 1.5 * 9 = 13 sizes; powerOfTwo measures 9.
  EXPECT_LE(ReplayAuto(SlowAndFast(256, 0), Asking(256, kUnlimited)).asked.size(), 13u);
}

TEST(AutoPolicy, FindsPiecesThatFitTheCache) {
  std::vector<Candidate> table;
  AddEngine(table, "legacy:1", 256, [](int size) {
    const double megabytes = 1.5 * size;
    return Curve{0.01 + size * (megabytes > 50 ? 0.1 : 0.07), megabytes * kMiB};
  });
  const Replay blind = ReplayAuto(table, Asking(256, kUnlimited, 1, 0));
  const Replay replay = ReplayAuto(table, Asking(256, kUnlimited, 1, 50 * kMiB));
  // At 1.5 MiB for each image, 50 MiB hold the workspace of 33 images, so 256 images have 8 parts
  // of 32 images each. Half of 50 MiB holds the workspace of 16 images.
  EXPECT_THAT(replay.asked, IsSupersetOf({32, 16}));
  EXPECT_EQ(replay.division->Largest().micro_batch, 32);
  EXPECT_LE(replay.division->TimeMs(), blind.division->TimeMs());
}

TEST(AutoPolicy, MeasuresTheLargestPiecesThatFitALimit) {
  const Replay replay = ReplayAuto(SlowAndFast(256), Asking(256, 37 * kMiB));
  EXPECT_LE(replay.division->WorkspaceBytes(), 37 * kMiB);
  EXPECT_EQ(replay.division->Largest().engine, "legacy:1");
  EXPECT_EQ(replay.division->Pieces(), 7);
  EXPECT_LE(replay.asked.size(), 9u);
}

TEST(AutoPolicy, ReachesPiecesSmallerThanThoseItBeginsWith) {
  const Replay replay = ReplayAuto(SlowAndFast(256, 0.01), Asking(256, 2 * kMiB));
  EXPECT_EQ(replay.division->Largest().micro_batch, 2);
  EXPECT_EQ(replay.division->Pieces(), 128);
}

TEST(AutoPolicy, AnEngineThatDoesNotServeTheWholeIsTriedOnLargeParts) {
  std::vector<Candidate> table;
  AddEngine(table, "legacy:0", 256, [](int size) { return Curve{1 + 0.3 * size, 0}; });
  AddEngine(table, "legacy:1", 140, [](int size) { return Curve{1 + 0.1 * size, 0}; });
  const Replay replay = ReplayAuto(table, Asking(256, kUnlimited));
  EXPECT_EQ(replay.division->Pieces(), 2);
  EXPECT_EQ(replay.division->Largest().engine, "legacy:1");
}

TEST(AutoPolicy, ASizeThatFailsIsNotAskedForAgain) {
  for (const int failing : {16, 37, 64, 256}) {
    std::vector<Candidate> table = SlowAndFast(256);
    Remove(table, [&](const MicroConfiguration& micro) { return micro.micro_batch == failing; });
    const Replay replay = ReplayAuto(table, Asking(256, 37 * kMiB));
    EXPECT_EQ(std::count(replay.asked.begin(), replay.asked.end(), failing), 1) << failing;
    ASSERT_TRUE(replay.division) << failing;
    // Without size 37 there is no division into 7 pieces.
    EXPECT_EQ(replay.division->Pieces(), failing == 37 ? 8 : 7) << failing;
  }
}

TEST(AutoPolicy, EndsWhereNothingCanBeMeasured) {
  EXPECT_FALSE(ReplayAuto({}, Asking(256, kUnlimited)).division);
}

TEST(AutoPolicy, EndsWhereNothingFits) {
  std::vector<Candidate> table = SlowAndFast(64);
  Remove(table, [](const MicroConfiguration& micro) { return micro.engine == "legacy:0"; });
  const Replay replay = ReplayAuto(table, Asking(64, kMiB - 1));
  EXPECT_FALSE(replay.division);
  EXPECT_THAT(replay.asked, Contains(1));
}

TEST(AutoPolicy, DividesWhereNoUndividedEngineFits) {
  std::vector<Candidate> table = SlowAndFast(64);
  Remove(table, [](const MicroConfiguration& micro) { return micro.engine == "legacy:0"; });
  const Replay replay = ReplayAuto(table, Asking(64, 32 * kMiB));
  ASSERT_TRUE(replay.division);
  EXPECT_EQ(replay.division->Pieces(), 2);
}

TEST(AutoPolicy, OnlyTheLastPieceIsNoMultipleOfTheStep) {
  const Replay replay = ReplayAuto(SlowAndFast(27), Asking(27, 9 * kMiB, 4));
  ASSERT_TRUE(replay.division);
  ExpectLegalDivision(*replay.division, 27, 4, 9 * kMiB);
  EXPECT_EQ(replay.division->Largest().engine, "legacy:1");
  // The workspace of 9 images fits the limit. Pieces of 8, 8, 8 and 3 images are legal, and so are
  // pieces of 8, 8, 4 and 7.
  EXPECT_EQ(replay.division->Pieces(), 4);
}

TEST(AutoPolicy, AnyStepWillDo) {
  const Replay replay = ReplayAuto(SlowAndFast(96), Asking(96, 50 * kMiB, 3));
  ASSERT_TRUE(replay.division);
  EXPECT_EQ(replay.division->Pieces(), 2);
  EXPECT_EQ(replay.division->Largest().engine, "legacy:1");
}

TEST(AutoPolicy, LargeMiniBatchesAreDividedAsFinelyAsTheLimitDemands) {
  for (const int images : {3, 5, 700}) {
    const std::vector<Candidate> table = SlowAndFast(2100, 0.01);
    const AutoRequest request = Asking(2100, images * kMiB);
    const Replay replay = ReplayAuto(table, request);
    ASSERT_TRUE(replay.division);
    EXPECT_EQ(replay.division->Largest().engine, "legacy:1");
    EXPECT_LE(replay.division->TimeMs(),
              1.0051 * FastestDivision(table, request.promise)->TimeMs());
  }
}

TEST(AutoPolicy, TransformsThatMayNotServeAreNotRefined) {
  std::vector<Candidate> table = SlowAndFast(256);
  for (Candidate& row : table) {
    if (row.micro.engine == "legacy:1") row.numeric = NumericClass::kFft;
  }
  AutoRequest request = Asking(256, 37 * kMiB);
  request.promise.chosen = NumericClass::kDirect;
  EXPECT_THAT(ReplayAuto(table, request).asked, Not(Contains(37)));
  request.promise.chosen = NumericClass::kFft;
  EXPECT_EQ(ReplayAuto(table, request).division->Pieces(), 7);
}

// Checks what holds for every search, whatever was measured.
void ExpectSoundSearch(const std::vector<Candidate>& table, const AutoRequest& request,
                       std::mt19937& random) {
  const int n = request.promise.n, step = request.promise.step;
  const size_t powers = MicroBatchSizes(BatchSizePolicy::kPowerOfTwo, n, step).size();
  std::vector<int> asked;
  std::vector<Candidate> known;
  while (true) {
    const std::vector<int> next = NextSizes(known, asked, request);
    // The answer must depend neither on the order of the rows and sizes nor on rows of sizes that
    // were not asked for.
    std::vector<Candidate> shuffled = table;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    std::vector<int> reversed(asked.rbegin(), asked.rend());
    ASSERT_EQ(NextSizes(shuffled, reversed, request), next);
    if (asked.empty()) {
      ASSERT_THAT(next, Contains(n));
    }
    if (next.empty()) break;
    ASSERT_EQ(std::adjacent_find(next.begin(), next.end(), std::greater_equal<>()), next.end());
    for (const int size : next) {
      ASSERT_THAT(asked, Not(Contains(size)));
      ASSERT_TRUE(size >= 1 && size <= n);
      ASSERT_TRUE(size % step == 0 || size % step == n % step) << size;
      asked.push_back(size);
      for (const Candidate& row : table) {
        if (row.micro.micro_batch == size) known.push_back(row);
      }
    }
    ASSERT_LE(asked.size(), 3 * powers / 2);
  }
}

AutoRequest RandomRequest(std::mt19937& random, int n) {
  AutoRequest request = Asking(n, static_cast<size_t>(Draw(random, 0, 9)) << 20,
                               Draw(random, 0, 1) == 0 ? 1 : 1 << Draw(random, 0, 4),
                               static_cast<size_t>(Draw(random, 0, 6)) << 20);
  if (Draw(random, 0, 4) == 0) request.promise.limit_bytes = kUnlimited;
  request.promise.deterministic = Draw(random, 0, 5) == 0;
  return request;
}

TEST(AutoPolicy, IsSoundWhateverIsMeasured) {
  test::SeededRandom random;
  for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
    const int n = Draw(random, 1, Draw(random, 0, 3) == 0 ? 400 : 40);
    const AutoRequest request = RandomRequest(random, n);
    SCOPED_TRACE("case " + std::to_string(i) + ": n " + std::to_string(n) + " step " +
                 std::to_string(request.promise.step));
    std::vector<Candidate> table;
    for (MicroConfiguration& micro : RandomMeasured(random, n, Draw(random, 1, 5))) {
      table.push_back({std::move(micro), static_cast<NumericClass>(Draw(random, 0, 2))});
    }
    ExpectSoundSearch(table, request, random);
  }
}

// If time and workspace are linear in the size, the division is slower than the optimum over all
// sizes by at most kDoubt = 0.5 %.
TEST(AutoPolicy, FindsTheOptimumOfStraightLines) {
  test::SeededRandom random;
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int i = 0; i < 300 && !::testing::Test::HasFailure(); ++i) {
    const int n = Draw(random, 2, 300);
    AutoRequest request = RandomRequest(random, n);
    request.promise.limit_bytes *= Draw(random, 1, 20);
    SCOPED_TRACE("case " + std::to_string(i) + ": n " + std::to_string(n) + " step " +
                 std::to_string(request.promise.step));
    std::vector<Candidate> table;
    for (int engine = Draw(random, 1, 5); engine >= 0; --engine) {
      const double launch_ms = uniform(0.001, 0.05), image_ms = uniform(0.01, 0.3);
      const double fixed = Draw(random, 0, 2) * uniform(0, 20 * kMiB);
      const double image = Draw(random, 0, 2) * uniform(0, 2 * kMiB);
      AddEngine(table, "legacy:" + std::to_string(engine), n, [&](int size) {
        return Curve{launch_ms + image_ms * size, fixed + image * size};
      });
    }
    const Replay replay = ReplayAuto(table, request);
    const std::optional<Configuration> optimum = FastestDivision(table, request.promise);
    ASSERT_EQ(replay.division.has_value(), optimum.has_value());
    if (!optimum) continue;
    EXPECT_LE(replay.division->TimeMs(), 1.0051 * optimum->TimeMs());
  }
}

// Returns random measurements of a kernel that resembles real ones: each engine has a launch time,
// a time per image and noise. With `waves`, the time rises only after every few images.
std::vector<Candidate> RealisticTable(std::mt19937& random, int n, double noise, bool waves) {
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const double image_ms = std::exp(uniform(std::log(0.002), std::log(0.5)));
  const double image_bytes = uniform(0.2, 4) * kMiB;
  struct Engine {
    const char* name;
    double launch_ms, rate, fixed_bytes, image_bytes;
  };
  const Engine engines[] = {
      {"legacy:0", uniform(0.003, 0.01), uniform(1.2, 3), 0, 0},
      {"legacy:1", uniform(0.005, 0.02), uniform(0.8, 1.2), uniform(0, 1) * kMiB, image_bytes},
      {"legacy:2", uniform(0.005, 0.02), uniform(0.9, 1.6), uniform(0, 20) * kMiB, 0},
      {"legacy:4", uniform(0.02, 0.06), uniform(0.4, 1.1), uniform(5, 200) * kMiB,
       image_bytes * uniform(1, 4)},
      {"legacy:6", uniform(0.01, 0.03), uniform(0.5, 1.0), uniform(0.5, 10) * kMiB,
       image_bytes * uniform(0.5, 3)},
  };
  std::vector<Candidate> table;
  for (const Engine& engine : engines) {
    const double images_a_wave = waves ? uniform(1, 8) : 0;
    AddEngine(table, engine.name, n, [&](int size) {
      const double images =
          waves ? std::ceil(size / images_a_wave) * images_a_wave : static_cast<double>(size);
      const double time_ms = (engine.launch_ms + engine.rate * image_ms * images) *
                             std::normal_distribution<double>(1, noise)(random);
      return Curve{std::max(time_ms, 1e-4), engine.fixed_bytes + engine.image_bytes * size};
    });
  }
  return table;
}

// Sums over kernels under one limit. `times` adds up ratios: the time of a kernel's division under
// policy auto, divided by its time under policy all.
struct Sum {
  double times = 0;
  int kernels = 0;
  size_t rows = 0, rows_of_powers = 0;
};

Sum SumOver(int n, double noise, bool waves, size_t limit_bytes) {
  std::mt19937 random(1);
  Sum sum;
  for (int kernel = 0; kernel < 40; ++kernel) {
    const std::vector<Candidate> table = RealisticTable(random, n, noise, waves);
    const AutoRequest request = Asking(n, limit_bytes, 1, 50 * kMiB);
    const Replay replay = ReplayAuto(table, request);
    sum.times += replay.division->TimeMs() / FastestDivision(table, request.promise)->TimeMs();
    ++sum.kernels;
    sum.rows += replay.rows;
    sum.rows_of_powers += ReplayPolicy(BatchSizePolicy::kPowerOfTwo, table, request.promise).rows;
  }
  return sum;
}

TEST(AutoPolicy, IsWithinOnePercentOfAllSizesOnKernelsWithoutNoise) {
  for (const int n : {32, 100, 256}) {
    for (const size_t limit : {size_t{0}, kMiB, 8 * kMiB, 64 * kMiB, 512 * kMiB, kUnlimited}) {
      SCOPED_TRACE("n " + std::to_string(n) + " limit " + std::to_string(limit));
      const Sum sum = SumOver(n, 0, false, limit);
      EXPECT_LE(sum.times / sum.kernels, 1.01);
      EXPECT_LE(sum.rows, 1.5 * sum.rows_of_powers);
    }
  }
}

// Policy all picks the luckiest of n noisy times. A search of fewer sizes has less luck, so its
// division may be 5 % slower.
TEST(AutoPolicy, IsNotLedAstrayByNoiseAndWaves) {
  for (const int n : {32, 256}) {
    for (const size_t limit : {size_t{0}, kMiB, 8 * kMiB, 64 * kMiB, 512 * kMiB, kUnlimited}) {
      SCOPED_TRACE("n " + std::to_string(n) + " limit " + std::to_string(limit));
      const Sum sum = SumOver(n, 0.01, true, limit);
      EXPECT_LE(sum.times / sum.kernels, 1.05);
      EXPECT_LE(sum.rows, 1.5 * sum.rows_of_powers);
    }
  }
}

}  // namespace
}  // namespace ucudnn::planning
