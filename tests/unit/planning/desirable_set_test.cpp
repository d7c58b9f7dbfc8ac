#include "planning/desirable_set.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "convolution/problem.h"
#include "measured.h"
#include "measured_tables.h"
#include "planning/compositions.h"
#include "planning/micro_batch_sizes.h"
#include "planning/workspace_reuse.h"
#include "tests/support/seeded_random.h"

namespace ucudnn::planning {
namespace {

using ::testing::IsEmpty;

struct Point {
  size_t workspace_bytes;
  double time_ms;
  int pieces;

  bool operator==(const Point&) const = default;
};

void PrintTo(const Point& point, std::ostream* out) {
  *out << point.workspace_bytes << " bytes, " << point.time_ms << " ms in " << point.pieces;
}

std::vector<Point> Points(const std::vector<Configuration>& set) {
  std::vector<Point> points;
  for (const Configuration& one : set) {
    points.push_back({one.WorkspaceBytes(), one.TimeMs(), one.Pieces()});
  }
  return points;
}

// Returns the points that no other point beats. `best` has, for each workspace, the least time and
// then the fewest pieces. A point is returned if it is faster than every point with less workspace.
std::vector<Point> Front(const std::map<size_t, std::pair<double, int>>& best) {
  std::vector<Point> front;
  for (const auto& [workspace_bytes, cost] : best) {
    if (front.empty() || cost.first < front.back().time_ms) {
      front.push_back({workspace_bytes, cost.first, cost.second});
    }
  }
  return front;
}

// Visits every ordered composition and keeps the best cost for each workspace.
void Enumerate(const std::vector<MicroConfiguration>& measured, int begin, int n, int step,
               const Point& so_far, std::map<size_t, std::pair<double, int>>& best) {
  if (begin == n) {
    const std::pair cost(so_far.time_ms, so_far.pieces);
    const auto [known, is_new] = best.emplace(so_far.workspace_bytes, cost);
    if (!is_new) known->second = std::min(known->second, cost);
    return;
  }
  if (begin > n || begin % step != 0) return;
  for (const MicroConfiguration& micro : measured) {
    if (micro.micro_batch < 1 || !(micro.time_ms >= 0) || micro.time_ms == kNoTime) continue;
    Enumerate(measured, begin + micro.micro_batch, n, step,
              {std::max(so_far.workspace_bytes, micro.workspace_bytes),
               so_far.time_ms + micro.time_ms, so_far.pieces + 1},
              best);
  }
}

// Finds the front by Workspace Reuse, once with each measured workspace as the limit.
std::vector<Point> FrontByWorkspaceReuse(const std::vector<MicroConfiguration>& measured, int n,
                                         int step) {
  std::map<size_t, std::pair<double, int>> best;
  for (const MicroConfiguration& micro : measured) {
    const auto configuration = OptimizeWorkspaceReuse(measured, n, step, micro.workspace_bytes);
    if (configuration)
      best[micro.workspace_bytes] = {configuration->TimeMs(), configuration->Pieces()};
  }
  return Front(best);
}

TEST(DesirableSet, EqualsEnumerationOfAllCompositions) {
  test::SeededRandom random;
  for (int i = 0; i < 1500 && !::testing::Test::HasFailure(); ++i) {
    const int n = Draw(random, 1, 9);
    const int step = 1 << Draw(random, 0, 2);
    const std::vector<MicroConfiguration> measured = RandomMeasured(random, n, Draw(random, 1, 2));
    SCOPED_TRACE("n " + std::to_string(n) + " step " + std::to_string(step));
    std::map<size_t, std::pair<double, int>> all;
    Enumerate(measured, 0, n, step, {0, 0, 0}, all);
    EXPECT_EQ(Points(DesirableSet(measured, n, step, kUnlimited)), Front(all));
  }
}

TEST(DesirableSet, EqualsWorkspaceReuseAtEveryWorkspace) {
  test::SeededRandom random;
  for (int i = 0; i < 600 && !::testing::Test::HasFailure(); ++i) {
    const int n = Draw(random, 1, 160);
    const int step = 1 << Draw(random, 0, 4);
    const std::vector<MicroConfiguration> measured = RandomMeasured(random, n, Draw(random, 1, 4));
    SCOPED_TRACE("n " + std::to_string(n) + " step " + std::to_string(step));
    EXPECT_EQ(Points(DesirableSet(measured, n, step, kUnlimited)),
              FrontByWorkspaceReuse(measured, n, step));
  }
}

// Returns random measurements. Times resemble an engine's: a fixed cost, a rate and a little noise.
// They are whole numbers, so sums are exact.
std::vector<MicroConfiguration> Kernel(std::mt19937& random, const std::vector<int>& sizes,
                                       int engines) {
  std::vector<MicroConfiguration> measured;
  for (const int size : sizes) {
    for (int engine = 0; engine < engines; ++engine) {
      const int time = 400 * (engine + 1) + (1000 / (engine + 1)) * size + Draw(random, 0, 200);
      const size_t workspace = static_cast<size_t>(engine) * size * 4096 + Draw(random, 0, 8) * 512;
      measured.push_back({"legacy:" + std::to_string(engine), size, static_cast<double>(time),
                          engine == 0 ? 0 : workspace, true});
    }
  }
  return measured;
}

TEST(DesirableSet, IsExactUpTo1024ImagesForBothPolicies) {
  test::SeededRandom random;
  for (const BatchSizePolicy policy : {BatchSizePolicy::kPowerOfTwo, BatchSizePolicy::kAll}) {
    for (const int n : {256, 1000, 1024}) {
      for (const int step : {1, 4}) {
        const bool many = policy == BatchSizePolicy::kAll && step == 1;
        const std::vector<MicroConfiguration> measured =
            Kernel(random, MicroBatchSizes(policy, n, step), many ? 2 : 5);
        SCOPED_TRACE("n " + std::to_string(n) + " step " + std::to_string(step));
        const std::vector<Configuration> set = DesirableSet(measured, n, step, kUnlimited);
        EXPECT_EQ(Points(set), FrontByWorkspaceReuse(measured, n, step));
        EXPECT_GT(set.size(), 3u);
        for (const Configuration& one : set) ExpectLegalDivision(one, n, step, kUnlimited);
      }
    }
  }
}

TEST(DesirableSet, OfRecordedKernelsAgreesWithWorkspaceReuse) {
  for (const char* name : {"alexnet", "resnet18-32"}) {
    const auto tables = ReadKernelTables(std::string(TABLES) + "/" + name + ".csv");
    ASSERT_TRUE(tables.ok()) << tables.message();
    for (const KernelTable& table : *tables) {
      SCOPED_TRACE(Describe(table.problem));
      std::vector<MicroConfiguration> measured;
      for (const Candidate& row : table.rows) measured.push_back(row.micro);
      const int step = LegalStep(table.problem);
      const auto set = DesirableSet(measured, table.problem.n, step, kUnlimited);
      ASSERT_FALSE(set.empty());
      std::set<size_t> workspaces;
      for (const MicroConfiguration& micro : measured) workspaces.insert(micro.workspace_bytes);
      // Under each limit, the last configuration of the set that fits is as fast as the optimum of
      // Workspace Reuse.
      for (const size_t limit : workspaces) {
        const auto optimum = OptimizeWorkspaceReuse(measured, table.problem.n, step, limit);
        const auto past = std::find_if(set.begin(), set.end(), [&](const Configuration& one) {
          return one.WorkspaceBytes() > limit;
        });
        ASSERT_EQ(optimum.has_value(), past != set.begin());
        if (!optimum) continue;
        // Both times are sums of at most n terms, each rounded to a double.
        EXPECT_NEAR(std::prev(past)->TimeMs(), optimum->TimeMs(),
                    table.problem.n * kEpsilon * optimum->TimeMs());
      }
    }
  }
}

TEST(DesirableSet, DominatedConfigurationsAndTiesAreLeftOut) {
  const std::vector<MicroConfiguration> measured = {
      Micro(4, 8, 0, "slow"),    Micro(4, 8, 100, "as slow, for more"),
      Micro(4, 5, 200, "fast"),  Micro(4, 6, 200, "slower, for as much"),
      Micro(4, 5, 300, "again"), Micro(2, 3, 300, "in pieces")};
  EXPECT_EQ(Points(DesirableSet(measured, 4, 1, kUnlimited)),
            (std::vector<Point>{{0, 8, 1}, {200, 5, 1}}));
}

TEST(DesirableSet, EqualTimesTakeFewerPiecesThenTheFirstName) {
  const std::vector<MicroConfiguration> measured = {Micro(1, 1, 10), Micro(4, 4, 10, "legacy:2"),
                                                    Micro(4, 4, 10, "legacy:0"), Micro(2, 2, 10)};
  for (const bool reversed : {false, true}) {
    std::vector<MicroConfiguration> rows = measured;
    if (reversed) std::reverse(rows.begin(), rows.end());
    const auto set = DesirableSet(rows, 4, 1, kUnlimited);
    ASSERT_EQ(set.size(), 1u);
    EXPECT_EQ(set[0].runs, (std::vector<ucudnn::Run>{{Micro(4, 4, 10, "legacy:0"), 1}}));
  }
}

TEST(DesirableSet, DoesNotDependOnTheOrderOfTheRows) {
  test::SeededRandom random;
  for (int i = 0; i < 300 && !::testing::Test::HasFailure(); ++i) {
    const int n = Draw(random, 1, 40);
    const int step = Draw(random, 1, 4);
    std::vector<MicroConfiguration> measured = RandomMeasured(random, n, 3);
    const auto set = DesirableSet(measured, n, step, kUnlimited);
    std::shuffle(measured.begin(), measured.end(), random);
    EXPECT_EQ(DesirableSet(measured, n, step, kUnlimited), set);
  }
}

TEST(DesirableSet, StaysInsideTheLimit) {
  const std::vector<MicroConfiguration> measured = {Micro(4, 8, 0), Micro(4, 5, 200, "fast"),
                                                    Micro(4, 1, 201, "fastest")};
  EXPECT_EQ(Points(DesirableSet(measured, 4, 1, 200)),
            (std::vector<Point>{{0, 8, 1}, {200, 5, 1}}));
  EXPECT_EQ(Points(DesirableSet(measured, 4, 1, 199)), (std::vector<Point>{{0, 8, 1}}));
}

TEST(DesirableSet, LargestPiecesComeFirstAndTheUnalignedOneLast) {
  const std::vector<MicroConfiguration> measured = {Micro(1, 1, 0), Micro(4, 2, 7), Micro(8, 3, 7)};
  const auto set = DesirableSet(measured, 21, 4, kUnlimited);
  ASSERT_EQ(set.size(), 1u);
  EXPECT_EQ(set[0].runs, (std::vector<ucudnn::Run>{
                             {Micro(8, 3, 7), 2}, {Micro(4, 2, 7), 1}, {Micro(1, 1, 0), 1}}));
}

TEST(DesirableSet, NothingComesOfNothing) {
  EXPECT_THAT(DesirableSet({}, 4, 1, kUnlimited), IsEmpty());
  const std::vector<MicroConfiguration> measured = {Micro(2, 1, 8)};
  EXPECT_THAT(DesirableSet(measured, 0, 1, kUnlimited), IsEmpty());
  EXPECT_THAT(DesirableSet(measured, -1, 1, kUnlimited), IsEmpty());
  EXPECT_THAT(DesirableSet(measured, 2, 0, kUnlimited), IsEmpty());
  EXPECT_THAT(DesirableSet(measured, 3, 1, kUnlimited), IsEmpty());
  EXPECT_THAT(DesirableSet(measured, 2, 1, 7), IsEmpty());
}

}  // namespace
}  // namespace ucudnn::planning
