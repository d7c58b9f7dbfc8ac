#include "planning/workspace_reuse.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "measured.h"
#include "planning/compositions.h"
#include "tests/support/seeded_random.h"

namespace ucudnn::planning {
namespace {

using ::testing::Contains;

using Cost = std::pair<double, int>;  // time, then pieces
constexpr Cost kImpossible = {std::numeric_limits<double>::infinity(), 0};

bool Usable(const MicroConfiguration& micro, size_t limit_bytes) {
  return micro.micro_batch >= 1 && micro.workspace_bytes <= limit_bytes && micro.time_ms >= 0 &&
         micro.time_ms < std::numeric_limits<double>::infinity();
}

// Returns the least cost of any ordered composition of the images from `begin` on.
Cost BruteForce(const std::vector<MicroConfiguration>& measured, int begin, int n, int step,
                size_t limit_bytes) {
  if (begin == n) return {0, 0};
  if (begin > n || begin % step != 0) return kImpossible;
  Cost best = kImpossible;
  for (const MicroConfiguration& micro : measured) {
    if (!Usable(micro, limit_bytes)) continue;
    Cost rest = BruteForce(measured, begin + micro.micro_batch, n, step, limit_bytes);
    if (rest == kImpossible) continue;
    best = std::min(best, {micro.time_ms + rest.first, 1 + rest.second});
  }
  return best;
}

// Returns the same as BruteForce with a `begin` of 0, by the textbook recurrence over every prefix.
// Suits mini-batches that are too large to enumerate.
Cost Textbook(const std::vector<MicroConfiguration>& measured, int n, int step,
              size_t limit_bytes) {
  std::vector<Cost> best(n + 1, kImpossible);
  best[0] = {0, 0};
  for (int end = 1; end <= n; ++end) {
    for (const MicroConfiguration& micro : measured) {
      const int begin = end - micro.micro_batch;
      if (!Usable(micro, limit_bytes) || begin < 0 || begin % step != 0) continue;
      if (best[begin] == kImpossible) continue;
      best[end] = std::min(best[end], {micro.time_ms + best[begin].first, 1 + best[begin].second});
    }
  }
  return best[n];
}

void ExpectOptimal(const std::vector<MicroConfiguration>& measured, int n, int step,
                   size_t limit_bytes, const Cost& optimum) {
  const std::optional<Configuration> configuration =
      OptimizeWorkspaceReuse(measured, n, step, limit_bytes);
  ASSERT_EQ(configuration.has_value(), optimum != kImpossible);
  if (!configuration) return;
  ExpectLegalDivision(*configuration, n, step, limit_bytes);
  for (const Run& run : configuration->runs) EXPECT_THAT(measured, Contains(run.micro));
  EXPECT_EQ(configuration->TimeMs(), optimum.first);
  EXPECT_EQ(configuration->Pieces(), optimum.second);
}

size_t RandomLimit(std::mt19937& random) {
  return Draw(random, 0, 4) == 0 ? kUnlimited : static_cast<size_t>(Draw(random, 0, 8)) << 20;
}

TEST(WorkspaceReuse, EqualsEnumerationOfAllCompositions) {
  test::SeededRandom random;
  for (int i = 0; i < 2000 && !::testing::Test::HasFailure(); ++i) {
    const int n = Draw(random, 1, 10);
    const int step = 1 << Draw(random, 0, 3);
    const int engines = Draw(random, 1, 2);
    const size_t limit = RandomLimit(random);
    const std::vector<MicroConfiguration> measured = RandomMeasured(random, n, engines);
    SCOPED_TRACE("n " + std::to_string(n) + " step " + std::to_string(step));
    ExpectOptimal(measured, n, step, limit, BruteForce(measured, 0, n, step, limit));
  }
}

TEST(WorkspaceReuse, EqualsTheTextbookRecurrence) {
  test::SeededRandom random;
  for (int i = 0; i < 1500 && !::testing::Test::HasFailure(); ++i) {
    const int n = Draw(random, 1, 120);
    const int step = 1 << Draw(random, 0, 4);
    const size_t limit = RandomLimit(random);
    const std::vector<MicroConfiguration> measured = RandomMeasured(random, n, Draw(random, 1, 4));
    SCOPED_TRACE("n " + std::to_string(n) + " step " + std::to_string(step));
    ExpectOptimal(measured, n, step, limit, Textbook(measured, n, step, limit));
  }
}

TEST(WorkspaceReuse, ScatteredSizesAreComposedExactly) {
  test::SeededRandom random;
  for (int i = 0; i < 1000 && !::testing::Test::HasFailure(); ++i) {
    const int n = Draw(random, 50, 200);
    std::vector<MicroConfiguration> measured;
    for (int rows = Draw(random, 1, 6); rows > 0; --rows) {
      const int size = Draw(random, 1, n / 2);
      // Times are nearly linear, so that many divisions tie.
      measured.push_back(Micro(size, size + Draw(random, 0, 1)));
    }
    SCOPED_TRACE("n " + std::to_string(n));
    ExpectOptimal(measured, n, 1, kUnlimited, Textbook(measured, n, 1, kUnlimited));
  }
}

TEST(WorkspaceReuse, EqualTimesTakeFewerPieces) {
  const std::vector<MicroConfiguration> linear = {Micro(1, 1), Micro(3, 3), Micro(4, 4)};
  const std::optional<Configuration> configuration =
      OptimizeWorkspaceReuse(linear, 6, 1, kUnlimited);
  ASSERT_TRUE(configuration);
  EXPECT_EQ(configuration->runs, (std::vector<ucudnn::Run>{{Micro(3, 3), 2}}));
}

TEST(WorkspaceReuse, EqualTimesTakeFewerPiecesBeforeARemainder) {
  // 8 + 1 takes as long as 2 + 2 + 5, which has more pieces.
  const std::vector<MicroConfiguration> linear = {Micro(1, 1), Micro(2, 2), Micro(5, 5),
                                                  Micro(8, 8)};
  const std::optional<Configuration> configuration =
      OptimizeWorkspaceReuse(linear, 9, 2, kUnlimited);
  ASSERT_TRUE(configuration);
  EXPECT_EQ(configuration->Pieces(), 2);
}

TEST(WorkspaceReuse, LargestPiecesComeFirstAndTheUnalignedOneLast) {
  const std::vector<MicroConfiguration> measured = {Micro(1, 1), Micro(4, 2), Micro(8, 3)};
  const std::optional<Configuration> configuration =
      OptimizeWorkspaceReuse(measured, 21, 4, kUnlimited);
  ASSERT_TRUE(configuration);
  EXPECT_EQ(configuration->runs,
            (std::vector<ucudnn::Run>{{Micro(8, 3), 2}, {Micro(4, 2), 1}, {Micro(1, 1), 1}}));
}

TEST(WorkspaceReuse, TheFastestEngineInsideTheLimitServesASize) {
  const std::vector<MicroConfiguration> measured = {
      Micro(2, 1, 300, "legacy:6"), Micro(2, 2, 200, "legacy:1"), Micro(2, 3, 100, "legacy:0")};
  EXPECT_EQ(OptimizeWorkspaceReuse(measured, 4, 1, 300)->runs[0].micro.engine, "legacy:6");
  EXPECT_EQ(OptimizeWorkspaceReuse(measured, 4, 1, 299)->runs[0].micro.engine, "legacy:1");
  EXPECT_EQ(OptimizeWorkspaceReuse(measured, 4, 1, 100)->runs[0].micro.engine, "legacy:0");
  EXPECT_FALSE(OptimizeWorkspaceReuse(measured, 4, 1, 99));
}

using Pieces = std::vector<Piece>;

// Tries every ordered composition of the images from `begin` on; `largest` is the largest piece so
// far.
Cost BruteForceByLargest(const Pieces& pieces, int begin, int n, int step, const Piece& largest) {
  if (begin == n) return largest.may_be_largest ? Cost{0, 0} : kImpossible;
  if (begin > n || begin % step != 0) return kImpossible;
  Cost best = kImpossible;
  for (const Piece& piece : pieces) {
    if (!Usable(*piece.micro, kUnlimited)) continue;
    const bool is_largest =
        largest.micro == nullptr || piece.micro->micro_batch > largest.micro->micro_batch;
    const int end = begin + piece.micro->micro_batch;
    const Cost rest = BruteForceByLargest(pieces, end, n, step, is_largest ? piece : largest);
    if (rest == kImpossible) continue;
    best = std::min(best, {piece.micro->time_ms + rest.first, 1 + rest.second});
  }
  return best;
}

bool MayBeLargest(const Pieces& pieces, const MicroConfiguration& micro) {
  return std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return piece.may_be_largest && *piece.micro == micro;
  });
}

TEST(WorkspaceReuse, ByLargestEqualsEnumerationOfAllCompositions) {
  test::SeededRandom random;
  int divided = 0, slower = 0;
  for (int i = 0; i < 3000 && !::testing::Test::HasFailure(); ++i) {
    const int n = Draw(random, 1, 7);
    const int step = 1 << Draw(random, 0, 2);
    const std::vector<MicroConfiguration> measured = RandomMeasured(random, n, Draw(random, 1, 3));
    Pieces pieces;
    for (const MicroConfiguration& micro : measured) {
      pieces.push_back({&micro, Draw(random, 0, 2) == 0});
    }
    SCOPED_TRACE("n " + std::to_string(n) + " step " + std::to_string(step));
    const std::optional<Configuration> configuration =
        OptimizeWorkspaceReuseByLargest(pieces, n, step, kNoTime);
    const Cost optimum = BruteForceByLargest(pieces, 0, n, step, {});
    ASSERT_EQ(configuration.has_value(), optimum != kImpossible);
    if (!configuration) continue;
    ExpectLegalDivision(*configuration, n, step, kUnlimited);
    for (const ucudnn::Run& run : configuration->runs) EXPECT_THAT(measured, Contains(run.micro));
    EXPECT_TRUE(MayBeLargest(pieces, configuration->Largest()));
    EXPECT_EQ(configuration->TimeMs(), optimum.first);
    EXPECT_EQ(configuration->Pieces(), optimum.second);
    divided += configuration->Pieces() > 1;
    slower +=
        configuration->TimeMs() > OptimizeWorkspaceReuse(measured, n, step, kUnlimited)->TimeMs();
  }
  EXPECT_GT(divided, 300);
  EXPECT_GT(slower, 300);
}

TEST(WorkspaceReuse, ALeadIsRepeatedOnlyWhereNothingOfItsSizeIsFaster) {
  const MicroConfiguration largest = Micro(2, 3, 0, "legacy:0");
  const MicroConfiguration equal = Micro(2, 3, 0, "legacy:1");
  const MicroConfiguration faster = Micro(2, 2, 0, "legacy:2");
  EXPECT_EQ(
      OptimizeWorkspaceReuseByLargest(Pieces{{&equal}, {&largest, true}}, 6, 1, kNoTime)->runs,
      (std::vector<ucudnn::Run>{{largest, 3}}));
  EXPECT_EQ(
      OptimizeWorkspaceReuseByLargest(Pieces{{&faster}, {&largest, true}}, 6, 1, kNoTime)->runs,
      (std::vector<ucudnn::Run>{{largest, 1}, {faster, 2}}));
  EXPECT_FALSE(OptimizeWorkspaceReuseByLargest(Pieces{{&faster}}, 6, 1, kNoTime));
}

TEST(WorkspaceReuse, ByLargestIsNoneWhereItIsNoFasterThanAsked) {
  const MicroConfiguration half = Micro(2, 3);
  EXPECT_TRUE(OptimizeWorkspaceReuseByLargest(Pieces{{&half, true}}, 4, 1, 6.5));
  EXPECT_FALSE(OptimizeWorkspaceReuseByLargest(Pieces{{&half, true}}, 4, 1, 6));
}

TEST(WorkspaceReuse, NothingComesOfNothing) {
  EXPECT_FALSE(OptimizeWorkspaceReuse({}, 4, 1, kUnlimited));
  const std::vector<MicroConfiguration> measured = {Micro(2, 1)};
  EXPECT_FALSE(OptimizeWorkspaceReuse(measured, 0, 1, kUnlimited));
  EXPECT_FALSE(OptimizeWorkspaceReuse(measured, -1, 1, kUnlimited));
  EXPECT_FALSE(OptimizeWorkspaceReuse(measured, 2, 0, kUnlimited));
  EXPECT_FALSE(OptimizeWorkspaceReuse(measured, 3, 1, kUnlimited));
}

}  // namespace
}  // namespace ucudnn::planning
