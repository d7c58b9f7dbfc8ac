#include "planning/owned_promise.h"

#include <gmock/gmock.h>

#include <random>

#include "planning/workspace_reuse.h"

namespace ucudnn::planning {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kImages = 8;

Candidate Row(const char* engine, int micro_batch, double time_ms, size_t workspace_bytes,
              NumericClass numeric = NumericClass::kDirect, bool native = true) {
  return {{engine, micro_batch, time_ms, workspace_bytes, true}, numeric, native};
}

PromiseRequest Within(size_t limit_bytes, NumericClass chosen = NumericClass::kDirect) {
  PromiseRequest request;
  request.n = kImages;
  request.limit_bytes = limit_bytes;
  request.chosen = chosen;
  return request;
}

TEST(OwnedPromise, NeedsNothingOfTheCaller) {
  const std::vector<Candidate> measured = {Row("legacy:0", 8, 100, 0), Row("legacy:1", 8, 40, 800),
                                           Row("legacy:1", 2, 12, 200)};
  const auto promise = MakeOwnedPromise(measured, Within(300));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->workspace_bytes, 0u);
  EXPECT_EQ(promise->owned_bytes, 200u);
  EXPECT_EQ(promise->configuration.Pieces(), 4);
  EXPECT_EQ(promise->undivided.engine, "legacy:0");
  EXPECT_EQ(MakeOwnedPromise(measured, Within(800))->owned_bytes, 800u);
  EXPECT_EQ(MakeOwnedPromise(measured, Within(100))->owned_bytes, 0u);
  EXPECT_EQ(MakeOwnedPromise(measured, Within(100))->configuration.Largest().engine, "legacy:0");
}

TEST(OwnedPromise, IsNoneWhereNothingKeepsItWithoutWorkspace) {
  const std::vector<Candidate> measured = {
      Row("legacy:1", 8, 40, 800), Row("legacy:6", 8, 30, 0, NumericClass::kWinograd),
      Row("graph:1", 8, 20, 0, NumericClass::kDirect, false), Row("legacy:0", 4, 50, 0)};
  EXPECT_FALSE(MakeOwnedPromise(measured, Within(1000)));
  EXPECT_THAT(OwnedChoices(measured, Within(1000)), IsEmpty());
  EXPECT_TRUE(MakeOwnedPromise(measured, Within(1000, NumericClass::kWinograd)));
}

TEST(OwnedPromise, ADivisionMustGain) {
  std::vector<Candidate> measured = {Row("legacy:0", 8, 100, 0), Row("legacy:1", 2, 24.5, 200)};
  EXPECT_THAT(OwnedChoices(measured, Within(1000)), SizeIs(1)) << "98 of 100 ms";
  measured[1].micro.time_ms = 24;
  EXPECT_THAT(OwnedChoices(measured, Within(1000)), SizeIs(2)) << "96 of 100 ms";
  measured.push_back(Row("legacy:1", 8, 98, 300));
  EXPECT_THAT(OwnedChoices(measured, Within(1000)), SizeIs(2));
  measured[1].micro.time_ms = 24.5;
  EXPECT_THAT(OwnedChoices(measured, Within(1000)), SizeIs(2)) << "the caller's API has it";
}

// One grid cuts an image into four tiles, the other into eight tiles, two of which are slow edges.
TEST(OwnedPromise, TilesAreChoicesWhereTheyGain) {
  const std::vector<Candidate> measured = {Row("legacy:0", 8, 100, 0), Row("legacy:1", 8, 40, 800)};
  const std::vector<Tiling> tilings = {
      {{.n = 8, .spatial = {1, 4, 1}},
       {{32, {Row("graph:1", 1, 2, 200), Row("graph:2", 1, 1.5, 300)}}}},
      {{.n = 8, .spatial = {1, 8, 1}},
       {{48, {Row("graph:1", 1, 0.5, 100)}}, {16, {Row("graph:1", 1, 4, 100)}}}}};
  const std::vector<Configuration> choices = OwnedChoices(measured, Within(1000), tilings);
  std::vector<std::pair<size_t, double>> costs;
  for (const Configuration& choice : choices) {
    costs.emplace_back(choice.WorkspaceBytes(), choice.TimeMs());
  }
  EXPECT_THAT(costs, testing::ElementsAre(std::pair(0, 100), std::pair(100, 88), std::pair(200, 64),
                                          std::pair(300, 48), std::pair(800, 40)));
  EXPECT_EQ(MakeOwnedPromise(measured, Within(250), tilings)->configuration, choices[2]);
  EXPECT_TRUE(choices[1].IsTiled());
  EXPECT_EQ(choices[1].grid, tilings[1].grid);
  EXPECT_THAT(OwnedChoices(measured, Within(250, NumericClass::kDirect), tilings), SizeIs(3));
}

// Compares the choices with the optima of Workspace Reuse. A choice may be slower than an optimum
// by less than the hysteresis.
TEST(OwnedPromise, ChoicesRiseAndFallAndHoldTheBestOfEveryLimit) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Candidate> measured = {Row("legacy:0", 8, 1 << 20, 0)};
    std::vector<MicroConfiguration> rows = {measured[0].micro};
    for (int i = 0; i < 6; ++i) {
      const int images = 1 << random() % 4;
      measured.push_back(Row("legacy:1", images, 1 << random() % 18, random() % 8 * 100));
      measured.back().micro.engine = "legacy:1" + std::to_string(i);
      rows.push_back(measured.back().micro);
    }
    const std::vector<Configuration> choices = OwnedChoices(measured, Within(600));
    ASSERT_FALSE(choices.empty());
    EXPECT_EQ(choices[0].WorkspaceBytes(), 0u);
    for (size_t i = 1; i < choices.size(); ++i) {
      EXPECT_GT(choices[i].WorkspaceBytes(), choices[i - 1].WorkspaceBytes());
      EXPECT_LT(choices[i].TimeMs(), choices[i - 1].TimeMs());
    }
    for (size_t limit = 0; limit <= 600; limit += 100) {
      const auto best = OptimizeWorkspaceReuse(rows, kImages, 1, limit);
      double time_ms = 0;
      for (const Configuration& choice : choices) {
        if (choice.WorkspaceBytes() <= limit) time_ms = choice.TimeMs();
      }
      EXPECT_GE(time_ms, best->TimeMs());
      EXPECT_LE((1 - kHysteresis) * time_ms, best->TimeMs());
    }
  }
}

}  // namespace
}  // namespace ucudnn::planning
