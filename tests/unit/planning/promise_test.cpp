#include "planning/promise.h"

#include <gmock/gmock.h>

#include <cmath>

#include "measured.h"
#include "tests/support/seeded_random.h"

namespace ucudnn::planning {
namespace {

constexpr auto kDirect = NumericClass::kDirect;
constexpr auto kFft = NumericClass::kFft;
constexpr auto kWinograd = NumericClass::kWinograd;

Candidate Row(int algorithm, int micro_batch, double time_ms, size_t workspace_bytes,
              NumericClass numeric = kDirect, bool deterministic = true) {
  return {
      {"legacy:" + std::to_string(algorithm), micro_batch, time_ms, workspace_bytes, deterministic},
      numeric};
}

PromiseRequest Request(int n, size_t limit_bytes) {
  PromiseRequest request;
  request.n = n;
  request.limit_bytes = limit_bytes;
  return request;
}

// Returns a slow engine without workspace, and one that is fast in pieces of 4.
std::vector<Candidate> SlowAndFast() {
  return {Row(0, 4, 4, 0), Row(0, 8, 8, 0), Row(1, 4, 2, 100), Row(1, 8, 3, 200)};
}

TEST(Promise, DividesWhatDoesNotFitUndivided) {
  const auto promise = MakePromise(SlowAndFast(), Request(8, 150));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration.Pieces(), 2);
  EXPECT_EQ(promise->workspace_bytes, 100u);
  EXPECT_EQ(promise->reported.engine, "legacy:1");
  EXPECT_EQ(promise->reported.micro_batch, 8);
  EXPECT_EQ(promise->reported.time_ms, 4);
  EXPECT_EQ(promise->undivided.engine, "legacy:0");
  EXPECT_EQ(promise->baselines.own_api.engine, "legacy:0");
  EXPECT_EQ(promise->baselines.any_api.engine, "legacy:0");
}

TEST(Promise, StaysUndividedWhereTheFastestFits) {
  const auto promise = MakePromise(SlowAndFast(), Request(8, 200));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration.Pieces(), 1);
  EXPECT_EQ(promise->reported.engine, "legacy:1");
  EXPECT_EQ(promise->workspace_bytes, 200u);
}

TEST(Promise, NoneWhereNothingFitsUndivided) {
  const std::vector<Candidate> measured = {Row(1, 4, 2, 100), Row(1, 8, 3, 200)};
  EXPECT_FALSE(MakePromise(measured, Request(8, 150)));
  EXPECT_FALSE(MakePromise({}, Request(8, 150)));
}

TEST(Promise, AGainBelowTheHysteresisDoesNotDivide) {
  for (const auto& [half_ms, pieces] : {std::pair{48.6, 1}, std::pair{48.4, 2}}) {
    const std::vector<Candidate> measured = {Row(0, 8, 100, 0), Row(0, 4, half_ms, 0)};
    const auto promise = MakePromise(measured, Request(8, 0));
    ASSERT_TRUE(promise);
    EXPECT_EQ(promise->configuration.Pieces(), pieces) << half_ms;
  }
}

TEST(Promise, GrowsByWhatAnUndividedFallbackNeeds) {
  // The pieces use 50 bytes, and the only undivided engine uses 80, so a promise of less could not
  // be kept.
  const std::vector<Candidate> measured = {Row(0, 8, 100, 80), Row(1, 4, 10, 50)};
  const auto promise = MakePromise(measured, Request(8, 90));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration.Pieces(), 2);
  EXPECT_EQ(promise->workspace_bytes, 80u);
}

TEST(Promise, TheFastestDivisionNeedsNoHysteresisAndNoReplacement) {
  const std::vector<Candidate> measured = {Row(0, 8, 100, 80), Row(0, 4, 49, 40)};
  PromiseRequest request = Request(8, 80);
  EXPECT_EQ(FastestDivision(measured, request)->TimeMs(), 98);
  request.limit_bytes = 40;
  EXPECT_FALSE(MakePromise(measured, request));
  EXPECT_EQ(FastestDivision(measured, request)->TimeMs(), 98);
}

TEST(Promise, ADirectChoiceNeverBecomesATransform) {
  const std::vector<Candidate> measured = {Row(0, 8, 100, 0), Row(4, 8, 1, 0, kFft),
                                           Row(6, 4, 1, 0, kWinograd)};
  PromiseRequest request = Request(8, 0);
  request.chosen = kDirect;
  EXPECT_EQ(MakePromise(measured, request)->reported.engine, "legacy:0");
  request.chosen = kFft;
  EXPECT_EQ(MakePromise(measured, request)->reported.engine, "legacy:4");
}

TEST(Promise, APlanNeverMixesTransforms) {
  // 3 images by FFT and 2 by Winograd would be fastest.
  const std::vector<Candidate> measured = {Row(0, 5, 100, 0), Row(4, 3, 1, 0, kFft),
                                           Row(6, 2, 1, 0, kWinograd), Row(4, 5, 90, 0, kFft)};
  const auto promise = MakePromise(measured, Request(5, 0));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration.Pieces(), 1);
}

TEST(Promise, TheLargestPieceIsTheLeastExact) {
  // 4 direct images and 2 by FFT would be reported as direct, because the direct piece is the
  // largest, although the FFT piece is less exact. So the plan is 3 pieces of 2 images by FFT,
  // which are reported as FFT.
  const std::vector<Candidate> measured = {Row(0, 6, 100, 0), Row(0, 4, 1, 0),
                                           Row(4, 2, 1, 0, kFft), Row(4, 6, 90, 0, kFft)};
  const auto promise = MakePromise(measured, Request(6, 0));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration, (Configuration{{{Row(4, 2, 1, 0, kFft).micro, 3}}}));
  EXPECT_EQ(promise->reported.engine, "legacy:4");
}

// Two direct pieces of 4 images would be fastest. But no direct engine runs undivided, so nothing
// could replace them.
TEST(Promise, AFasterPieceOfTheSameSizeFollowsTheOneThatIsReported) {
  const std::vector<Candidate> measured = {Row(4, 8, 90, 0, kFft), Row(4, 4, 3, 0, kFft),
                                           Row(0, 4, 2, 0)};
  const auto promise = MakePromise(measured, Request(8, 0));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration,
            (Configuration{{{Row(4, 4, 3, 0, kFft).micro, 1}, {Row(0, 4, 2, 0).micro, 1}}}));
  EXPECT_EQ(promise->reported.engine, "legacy:4");
}

TEST(Promise, BrokenTimesAreNoChoice) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Candidate> measured = {Row(2, 8, nan, 0), Row(3, 8, -1, 0), Row(0, 8, 5, 0)};
  const auto promise = MakePromise(measured, Request(8, 0));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->reported.engine, "legacy:0");
  EXPECT_FALSE(MakePromise(std::vector{Row(2, 8, nan, 0)}, Request(8, 0)));
}

TEST(Promise, AFasterRemainderDoesNotCostAPlanItsDeterminism) {
  // The plan has two pieces of 4 and one of 2. The faster of the engines at 2 is not deterministic.
  const std::vector<Candidate> measured = {Row(0, 10, 40, 0), Row(1, 4, 2, 100),
                                           Row(1, 2, 1.5, 100),
                                           Row(2, 2, 1.4, 100, kDirect, /*deterministic=*/false)};
  const auto promise = MakePromise(measured, Request(10, 150));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->reported.engine, "legacy:1");
  EXPECT_TRUE(promise->reported.deterministic);
  EXPECT_EQ(promise->configuration.TimeMs(), 5.5);
}

TEST(Promise, IsOnlyAsDeterministicAsWhatMayTakeItsPlace) {
  const std::vector<Candidate> measured = {Row(0, 8, 8, 0, kDirect, /*deterministic=*/false),
                                           Row(1, 4, 2, 100), Row(1, 8, 3, 200)};
  const auto promise = MakePromise(measured, Request(8, 150));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration.Pieces(), 2);
  EXPECT_FALSE(promise->reported.deterministic);
  PromiseRequest deterministic = Request(8, 150);
  deterministic.deterministic = true;
  EXPECT_FALSE(MakePromise(measured, deterministic));
}

TEST(Promise, PiecesOfOneEngineNeedNothingElse) {
  const auto pieces = PiecesOf("legacy:1", SlowAndFast(), Request(8, 150));
  ASSERT_TRUE(pieces);
  EXPECT_EQ(pieces->configuration.Pieces(), 2);
  EXPECT_EQ(pieces->workspace_bytes, 100u);
  EXPECT_TRUE(pieces->undivided.engine.empty());
  EXPECT_FALSE(PiecesOf("legacy:1", SlowAndFast(), Request(8, 99)));
}

NumericClass ClassOf(const std::vector<NumericClass>& classes, const MicroConfiguration& micro) {
  return classes[static_cast<size_t>(micro.engine.legacy()->algorithm)];
}

// Checks what holds for every promise, whatever was measured.
void ExpectKeepable(const Promise& promise, const PromiseRequest& request,
                    const std::vector<NumericClass>& classes) {
  ExpectLegalDivision(promise.configuration, request.n, request.step, promise.workspace_bytes);
  EXPECT_LE(promise.workspace_bytes, request.limit_bytes);
  EXPECT_EQ(promise.reported.workspace_bytes, promise.workspace_bytes);
  EXPECT_EQ(promise.reported.engine, promise.configuration.Largest().engine);
  EXPECT_EQ(promise.reported.time_ms, promise.configuration.TimeMs());
  EXPECT_EQ(promise.undivided.micro_batch, request.n);
  EXPECT_LE(promise.undivided.workspace_bytes, promise.workspace_bytes);
  EXPECT_EQ(promise.baselines.own_api.micro_batch, request.n);
  EXPECT_LE(promise.baselines.own_api.workspace_bytes, request.limit_bytes);
  EXPECT_EQ(promise.baselines.any_api, promise.baselines.own_api) << "no other API has any";

  const NumericClass reported = ClassOf(classes, promise.reported);
  std::vector<MicroConfiguration> used = {promise.undivided};
  for (const Run& run : promise.configuration.runs) used.push_back(run.micro);
  for (const MicroConfiguration& micro : used) {
    const NumericClass numeric = ClassOf(classes, micro);
    EXPECT_TRUE(numeric == kDirect || numeric == reported) << micro.engine;
    if (promise.reported.deterministic) {
      EXPECT_TRUE(micro.deterministic) << micro.engine;
    }
    EXPECT_TRUE(std::isfinite(micro.time_ms) && micro.time_ms >= 0);
  }
  if (request.chosen) {
    EXPECT_TRUE(reported == kDirect || reported == *request.chosen);
  }
  if (request.deterministic) {
    EXPECT_TRUE(promise.reported.deterministic);
  }
  if (promise.configuration.Pieces() > 1) {
    EXPECT_LT(promise.configuration.TimeMs(),
              (1 - kHysteresis) * promise.baselines.own_api.time_ms);
  } else {
    EXPECT_EQ(promise.configuration.TimeMs(), promise.baselines.own_api.time_ms);
  }
}

TEST(Promise, CanBeKeptWhateverWasMeasured) {
  test::SeededRandom random;
  int divided = 0, none = 0;
  for (int i = 0; i < 5000 && !::testing::Test::HasFailure(); ++i) {
    constexpr int kEngines = 5;
    std::vector<NumericClass> classes;
    for (int e = 0; e < kEngines; ++e)
      classes.push_back(static_cast<NumericClass>(Draw(random, 0, 2)));
    const int n = Draw(random, 1, 24);
    PromiseRequest request = Request(n, static_cast<size_t>(Draw(random, 0, 9)) << 20);
    request.step = 1 << Draw(random, 0, 3);
    request.deterministic = Draw(random, 0, 3) == 0;
    if (Draw(random, 0, 1) == 1) request.chosen = static_cast<NumericClass>(Draw(random, 0, 2));
    std::vector<Candidate> candidates;
    for (const MicroConfiguration& micro : RandomMeasured(random, n, kEngines)) {
      candidates.push_back({micro, ClassOf(classes, micro)});
    }
    SCOPED_TRACE("case " + std::to_string(i));
    const auto promise = MakePromise(candidates, request);
    if (promise) {
      ExpectKeepable(*promise, request, classes);
      divided += promise->configuration.Pieces() > 1;
    } else {
      ++none;
      for (const Candidate& c : candidates) {
        const bool allowed =
            c.micro.micro_batch == n && std::isfinite(c.micro.time_ms) && c.micro.time_ms >= 0 &&
            c.micro.workspace_bytes <= request.limit_bytes &&
            (c.micro.deterministic || !request.deterministic) &&
            (!request.chosen || c.numeric == kDirect || c.numeric == *request.chosen);
        EXPECT_FALSE(allowed) << c.micro.engine << " would have served";
      }
    }
  }
  EXPECT_GT(divided, 200);
  EXPECT_GT(none, 100);
}

// Returns a row of engine 38 of the graph API, which the caller's legacy API does not have.
Candidate Foreign(int micro_batch, double time_ms, size_t workspace_bytes,
                  NumericClass numeric = kDirect, bool deterministic = true) {
  return {{"graph:38", micro_batch, time_ms, workspace_bytes, deterministic}, numeric, false};
}

TEST(Promise, OfAForeignEngineReportsTheNativeOneThatMayTakeItsPlace) {
  const auto promise = MakePromise(
      std::vector{Row(0, 8, 8, 50), Row(2, 8, 9, 10), Foreign(8, 4, 30)}, Request(8, 100));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration, (Configuration{{{{"graph:38", 8, 4, 30, true}, 1}}}));
  EXPECT_EQ(promise->undivided.engine, "legacy:2");  // it fits the 30 bytes that the plan needs
  EXPECT_EQ(promise->reported.engine, "legacy:2");
  EXPECT_EQ(promise->reported.time_ms, 4);
  EXPECT_EQ(promise->workspace_bytes, 30u);
  EXPECT_EQ(promise->baselines.own_api.engine, "legacy:0");
  EXPECT_EQ(promise->baselines.any_api.engine, "graph:38");
}

TEST(Promise, OfAForeignEngineHoldsWhatTheNativeOneNeeds) {
  const auto promise =
      MakePromise(std::vector{Row(0, 8, 8, 50), Foreign(8, 4, 30)}, Request(8, 100));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration.Largest().engine, "graph:38");
  EXPECT_EQ(promise->workspace_bytes, 50u);
}

TEST(Promise, AForeignEngineNeedsAGainAndANativeOneBehindIt) {
  const auto slight =
      MakePromise(std::vector{Row(0, 8, 8, 50), Foreign(8, 7.9, 0)}, Request(8, 100));
  ASSERT_TRUE(slight);
  EXPECT_EQ(slight->configuration.Largest().engine, "legacy:0");
  EXPECT_FALSE(MakePromise(std::vector{Row(0, 8, 8, 101), Foreign(8, 4, 0)}, Request(8, 100)));
}

// A caller who is told of a direct algorithm gets no Winograd engine, and a caller who is told of a
// deterministic algorithm gets no engine that is not deterministic.
TEST(Promise, AForeignEngineIsNoCoarserThanWhatIsReported) {
  const std::vector<Candidate> direct = {Row(0, 8, 8, 0), Row(1, 4, 2, 0),
                                         Foreign(8, 3, 0, kWinograd)};
  const auto native = MakePromise(direct, Request(8, 100));
  ASSERT_TRUE(native);
  EXPECT_EQ(native->configuration, (Configuration{{{{"legacy:1", 4, 2, 0, true}, 2}}}));
  std::vector<Candidate> winograd = direct;
  winograd.push_back(Row(6, 8, 9, 10, kWinograd));
  const auto foreign = MakePromise(winograd, Request(8, 100));
  ASSERT_TRUE(foreign);
  EXPECT_EQ(foreign->configuration.Largest().engine, "graph:38");
  EXPECT_EQ(foreign->reported.engine, "legacy:6");
  const auto random =
      MakePromise(std::vector{Row(0, 8, 8, 0), Foreign(8, 3, 0, kDirect, false)}, Request(8, 100));
  ASSERT_TRUE(random);
  EXPECT_EQ(random->configuration.Largest().engine, "graph:38");
  EXPECT_FALSE(random->reported.deterministic);
}

// If the faster Winograd engine ran, the program would have to be told of a Winograd engine of the
// legacy API, and there is none. So the direct engine is promised.
TEST(Promise, AForeignEngineThatNothingReplacesLeavesTheNextOneItsPlace) {
  const std::vector<Candidate> measured = {
      Row(0, 8, 8, 0), Foreign(8, 3, 20, kWinograd), {{"graph:5", 8, 4, 10, true}, kDirect, false}};
  for (const size_t limit : {10, 20}) {
    const auto promise = MakePromise(measured, Request(8, limit));
    ASSERT_TRUE(promise);
    EXPECT_EQ(promise->configuration.Largest().engine, "graph:5") << limit;
  }
}

TEST(Promise, ForeignPiecesShareAPlanWithNativeOnes) {
  const auto promise = MakePromise(
      std::vector{Row(0, 8, 9, 0), Row(0, 2, 1, 0), Foreign(6, 2, 100)}, Request(8, 100));
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->configuration.Pieces(), 2);
  EXPECT_EQ(promise->configuration.Largest().engine, "graph:38");
  EXPECT_EQ(promise->reported.engine, "legacy:0");
  EXPECT_EQ(promise->workspace_bytes, 100u);
}

}  // namespace
}  // namespace ucudnn::planning
