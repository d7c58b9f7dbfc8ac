// Tests decisions that contradict themselves. A build with assertions aborts. A build without them
// reports the contradiction, and runs what the program asked for or what ran until then.
#include "interposer/core/lifecycle.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/problem.h"

namespace ucudnn::interposer {
namespace {

constexpr size_t kPlanLimit = 4, kPlanNeed = 8;

// Keep always answers that another process stored a promise first. This promise exceeds kPlanLimit,
// so the decision cannot keep it and would ask for ever.
class OutbidSteps : public DecisionAnswers {
 public:
  planning::Rows Answer(const planning::Measure&) override { return {{}, true, false}; }
  planning::Tilings Answer(const planning::FindTilings&) override { return {}; }
  std::vector<MicroConfiguration> Answer(const planning::FindSubstitutes& question) override {
    return {MicroConfiguration{"graph:2", 8, kUnknownTime, question.limit_bytes, true}};
  }
  planning::Trust Answer(const planning::Compare&) override { return {}; }
  planning::BuildOutcome Answer(const planning::Build&) override { return {}; }
  planning::KeptPromise Keep(const planning::Decision&) override {
    ++promises;
    return {kPlanLimit + 1, "graph:3", true};
  }
  std::optional<NumericClass> CoarsestOf(const planning::Decision&) override {
    return std::nullopt;
  }

  int promises = 0;  // number of calls of Keep
};

// Returns the facts of a plan that is the first of its heuristics list and needs more than the
// user's limit.
planning::Facts OverLimit() {
  planning::Facts facts;
  facts.problem = test::ProblemWith({.n = 8});
  facts.asked = "graph:1";
  facts.user_limit = kPlanLimit;
  planning::PlanFacts plan;
  plan.need_bytes = kPlanNeed;
  plan.deterministic = true;
  plan.is_heuristics_first = true;
  facts.program = std::move(plan);
  return facts;
}

class Contradiction : public ::testing::Test {
 protected:
  planning::Decision Decide(planning::Facts facts = OverLimit()) {
    return DecideBy(facts, steps_, &reporter_);
  }

  const Options options_{};
  tuning::MeasuredKernels kernels_{nullptr, std::nullopt, "/dev/null"};
  Reporter reporter_{options_, kernels_, true};
  OutbidSteps steps_;
};
using ContradictionDeathTest = Contradiction;

TEST_F(Contradiction, AsksForNoPromiseWhereNothingIsTold) {
  planning::Facts facts = OverLimit();
  const planning::Decision decision = DecideBy(facts, steps_, nullptr);
  EXPECT_EQ(decision.action, planning::CallAction::kSchedule);
  EXPECT_EQ(decision.promised_bytes, kPlanLimit);
  EXPECT_TRUE(decision.gives_promise);
  EXPECT_EQ(steps_.promises, 0);
}

#ifdef NDEBUG

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(Contradiction, RunsAsAskedAndIsToldOnce) {
  ::testing::internal::CaptureStderr();
  const planning::Decision decision = Decide(), again = Decide();
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_GT(steps_.promises, 2) << "it was tried";
  EXPECT_EQ(decision, again);
  EXPECT_EQ(decision.action, planning::CallAction::kReal);
  EXPECT_EQ(decision.promised_bytes, kPlanNeed);
  EXPECT_FALSE(decision.promises_less);
  EXPECT_FALSE(decision.gives_promise);
  EXPECT_FALSE(decision.standing);
  ASSERT_THAT(decision.configuration.runs, SizeIs(1));
  EXPECT_EQ(decision.configuration.runs[0].micro.engine, "graph:1");
  EXPECT_EQ(Sentence(decision.reason), "a decision contradicted itself: runs as the caller asked");
  ASSERT_THAT(decision.notes, SizeIs(1));
  EXPECT_EQ(decision.notes[0].cause, planning::FallbackCause::kBrokenInvariant);
  EXPECT_EQ(decision.notes[0].detail, "its questions do not end");

  EXPECT_THAT(told, HasSubstr("a decision contradicts itself; the call runs as the caller asked: "
                              "its questions do not end"));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  const auto fallbacks = nlohmann::json::parse(reporter_.report().Json("on", 0))["fallbacks"];
  ASSERT_THAT(fallbacks, SizeIs(1));
  EXPECT_EQ(fallbacks[0]["count"], 2);
}

TEST_F(Contradiction, LeavesInForceWhatRanUntilThen) {
  planning::Facts facts = OverLimit();
  facts.earlier = planning::EarlierDecision{false, false, true, kPlanLimit};
  EXPECT_TRUE(Decide(std::move(facts)).standing);
}

#else

TEST_F(ContradictionDeathTest, EndsABuildWithAssertions) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Decide(), "a decision contradicts itself");
}

#endif

}  // namespace
}  // namespace ucudnn::interposer
