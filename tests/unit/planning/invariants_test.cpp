// Tests that BrokenInvariant reports spoilt decisions: each is a valid decision in which one thing
// is changed.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "decision_lines.h"

namespace ucudnn::planning {
namespace {

struct Judged {
  Facts facts;
  Decision decision;
};

using Spoil = std::function<void(Judged&)>;

Judged Judge(const std::string& line) {
  World world = ReadWorld(line);
  Decision decision = DecideIn(world).value();
  return {std::move(world.facts), std::move(decision)};
}

std::string Broken(const Judged& spoilt) {
  const char* const broken = BrokenInvariant(spoilt.facts, spoilt.decision);
  return broken != nullptr ? broken : "";
}

// Returns the number of the invariant that the decision about `line` breaks after `spoil`; '-' if
// it breaks none.
char Number(const std::string& line, const Spoil& spoil) {
  Judged decided = Judge(line);
  EXPECT_EQ(Broken(decided), "") << line;
  spoil(decided);
  const std::string broken = Broken(decided);
  return broken.empty() ? '-' : broken[0];
}

PlanFacts& PlanOf(Judged& spoilt) { return std::get<PlanFacts>(spoilt.facts.program); }
CallFacts& CallOf(Judged& spoilt) { return std::get<CallFacts>(spoilt.facts.program); }

const char* const kCall = "plain need=8 passes=4 | 1@8:4/8d 0@8:9/0d 1@4:3/4d |";
const char* const kPlan = "plan need=8 limit=4 told=4/2 others=2/0 | 1@4:3/4 |";
const char* const kFits = "plan need=8 | 1@8:4/8 1@4:1/4 |";
const char* const kBudget = "plain need=8 passes=0 share=4/8 | 1@8:4/8 0@8:9/0 1@4:3/4 |";

TEST(Invariants, EnginesAreKnownAndNoCoarserThanWhatWasAsked) {
  const Spoil other = [](Judged& spoilt) {
    spoilt.decision.configuration.runs[0].micro.engine = "legacy:7";
  };
  EXPECT_EQ(Number(kCall, other), '1');
  const Spoil coarser = [](Judged& spoilt) { spoilt.facts.numeric = NumericClass::kWinograd; };
  EXPECT_EQ(Number(kCall, coarser), '-') << "direct engines are exact enough for all";
  const std::string fft = "plain asks=4f need=8 passes=4 | 4f@8:4/8 4f@4:3/4 0@8:9/0 |";
  EXPECT_EQ(Number(fft, coarser), '1');
}

TEST(Invariants, EnginesAreAsDeterministicAsWhatWasAsked) {
  const Spoil random = [](Judged& spoilt) { spoilt.decision.undivided.deterministic = false; };
  EXPECT_EQ(Number(kCall, random), '1');
  const Spoil demanded = [](Judged& spoilt) { spoilt.facts.deterministic = true; };
  EXPECT_EQ(Number("plain need=8 | 1@8:4/8 1@4:1/4 |", demanded), '1');
  const Spoil told = [](Judged& spoilt) { CallOf(spoilt).told->reported.deterministic = true; };
  EXPECT_EQ(Number("plain need=8 passes=4 told=2@4:3/4x2~0@8:9/0 | |", told), '1');
}

TEST(Invariants, APlanIsDividedWithItsOwnEngine) {
  const Spoil other = [](Judged& spoilt) {
    spoilt.decision.configuration.runs[0].micro.engine = "graph:2";
  };
  EXPECT_EQ(Number(kPlan, other), '1');
  const Spoil unknown = [](Judged& spoilt) { spoilt.decision.undivided.engine = "graph:3"; };
  EXPECT_EQ(Number(kPlan, unknown), '1');
}

const char* const kVast = "plan n=1 need=2 limit=9 tiles=gain vast | 1@1:40/2 5#4:1/6 |";

TEST(Invariants, TilesOfAVastPlanAreAsExact) {
  const Spoil small = [](Judged& spoilt) { PlanOf(spoilt).is_vast = false; };
  EXPECT_EQ(Number(kVast, small), '1');
  const Spoil unknown = [](Judged& spoilt) {
    spoilt.decision.configuration.runs[0].micro.engine = "graph:6";
  };
  EXPECT_EQ(Number(kVast, unknown), '1');
  const std::string winograd =
      "plan n=1 asks=1w need=2 limit=9 tiles=gain vast | 1w@1:40/2 5w#4:1/6 |";
  const Spoil direct = [](Judged& spoilt) { spoilt.facts.numeric = NumericClass::kDirect; };
  EXPECT_EQ(Number(winograd, direct), '1');
}

TEST(Invariants, MoreThanTheNeedIsPromisedWithinTheUsersLimitAndKept) {
  const Spoil silent = [](Judged& spoilt) { spoilt.decision.promises_more = false; };
  EXPECT_EQ(Number(kVast, silent), '2');
  const Spoil forgets = [](Judged& spoilt) { spoilt.decision.promise.reset(); };
  EXPECT_EQ(Number(kVast, forgets), '2');
  const Spoil other = [](Judged& spoilt) { spoilt.decision.promise->workspace_bytes = 7; };
  EXPECT_EQ(Number(kVast, other), '2');
  const Spoil unlimited = [](Judged& spoilt) { spoilt.facts.user_limit = kNoLimit; };
  EXPECT_EQ(Number(kVast, unlimited), '2');
  const Spoil smaller = [](Judged& spoilt) { spoilt.facts.user_limit = 5; };
  EXPECT_EQ(Number(kVast, smaller), '2');
  const std::string told = "plan n=1 need=2 limit=9 vast told=6/1* ran | 1@1:40/2 |";
  const Spoil less = [](Judged& spoilt) {
    spoilt.decision = AsAsked(spoilt.facts, ReasonKind::kNotMeasured);
  };
  EXPECT_EQ(Number(told, less), '2') << "also where the plan itself runs";
}

TEST(Invariants, NothingExceedsThePromise) {
  const Spoil grows = [](Judged& spoilt) { spoilt.decision.promised_bytes = 9; };
  EXPECT_EQ(Number(kCall, grows), '2');
  EXPECT_EQ(Number(kFits, grows), '2');
  const Spoil shrinks = [](Judged& spoilt) { spoilt.decision.promised_bytes = 3; };
  EXPECT_EQ(Number(kCall, shrinks), '2');
  EXPECT_EQ(Number(kPlan, shrinks), '2');
  const Spoil owns_less = [](Judged& spoilt) { spoilt.decision.owned_bytes = 3; };
  EXPECT_EQ(Number(kBudget, owns_less), '2');
  const Spoil whole = [](Judged& spoilt) { spoilt.decision.undivided.workspace_bytes = 5; };
  EXPECT_EQ(Number(kCall, whole), '2');
}

TEST(Invariants, SomethingKeepsThePromise) {
  const Spoil nothing = [](Judged& spoilt) { spoilt.decision.undivided = {}; };
  EXPECT_EQ(Number(kCall, nothing), '2');
  const Spoil asked = [](Judged& spoilt) { spoilt.decision.fallback = FallbackKind::kReal; };
  EXPECT_EQ(Number(kCall, asked), '2');
  EXPECT_EQ(Number(kPlan, asked), '2');
  const Spoil pieces = [](Judged& spoilt) { spoilt.decision.fallback = FallbackKind::kPieces; };
  EXPECT_EQ(Number(kCall, pieces), '2');
  const Spoil forgets = [](Judged& spoilt) { spoilt.decision.promise.reset(); };
  EXPECT_EQ(Number(kPlan, forgets), '2');
  const Spoil changes = [](Judged& spoilt) { PlanOf(spoilt).told->workspace_bytes = 3; };
  EXPECT_EQ(Number(kPlan, changes), '2');
}

TEST(Invariants, WhatWasPromisedLessNeverRunsAsItWasAsked) {
  const Spoil asked = [](Judged& spoilt) {
    spoilt.decision = AsAsked(spoilt.facts, ReasonKind::kNotMeasured);
  };
  EXPECT_EQ(Number(kPlan, asked), '2');
  EXPECT_EQ(Number(kFits, asked), '-');
  const std::string told = "plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 | |";
  EXPECT_EQ(Number(told, asked), '2');
  EXPECT_EQ(Number(told + " no-pieces", asked), '-') << "nothing else could be built";
  EXPECT_EQ(Number(kCall, asked), '-') << "nothing was told";
  const std::string alone = "plain need=8 passes=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 |";
  EXPECT_EQ(Number(alone, asked), '2');
  EXPECT_EQ(Number(alone + " wrong=1@4", asked), '-') << "nothing keeps it";
  const Spoil stands = [&](Judged& spoilt) {
    asked(spoilt);
    spoilt.decision.standing = true;
  };
  EXPECT_EQ(Number(kPlan, stands), '-') << "it does not run";
}

TEST(Invariants, AllThatRunsWasBuilt) {
  const Spoil forgets = [](Judged& spoilt) { spoilt.facts.built.Clear(); };
  EXPECT_EQ(Number(kCall, forgets), '3');
  EXPECT_EQ(Number(kPlan, forgets), '3');
  EXPECT_EQ(Number("plain need=8 passes=4 | 0@8:1/0d |", forgets), '3');
  const Spoil fails = [](Judged& spoilt) {
    const Build build = spoilt.facts.built.entries()[0].first;
    spoilt.facts.built.Clear();
    spoilt.facts.built.Add(build, {BuildOutcome::Kind::kNoPieces, {}});
  };
  EXPECT_EQ(Number(kCall, fails), '3');
}

TEST(Invariants, PiecesCoverTheMiniBatchInLegalSteps) {
  const Spoil fewer = [](Judged& spoilt) { spoilt.decision.configuration.runs[0].count = 1; };
  EXPECT_NE(Number(kCall, fewer), '-');
  const Spoil step = [](Judged& spoilt) { spoilt.facts.problem.alignment = 3 * 64; };
  EXPECT_EQ(Number(kCall, step), '4');
  EXPECT_EQ(Number(kPlan, step), '4');
  const std::string legal = "plain need=8 passes=4 step=3 | 1@8:4/8 0@8:9/0 1@3:1/4 1@2:1/4 |";
  const Spoil none = [](Judged&) {};
  EXPECT_EQ(Number(legal, none), '-') << "the last piece may be of any size";
}

TEST(Invariants, NothingThatFitsIsSlowerThanWhatWasAsked) {
  const auto faster = [](size_t bytes) -> Spoil {
    return [bytes](Judged& spoilt) {
      Candidate own;
      own.micro = {spoilt.facts.asked, 8, 1, bytes, false};
      const auto question = spoilt.facts.measured.entries()[0].first;
      spoilt.facts.measured.Clear();
      Rows rows = {{own}, true};
      rows.candidates.push_back({spoilt.decision.undivided});
      spoilt.facts.measured.Add(question, rows);
    };
  };
  EXPECT_EQ(Number("plain need=8 | 1@8:4/8 0@8:3/0 |", faster(8)), '7');
  EXPECT_EQ(Number("plain need=8 | 1@8:4/8 0@8:3/0 |", faster(9)), '-') << "it does not fit";
  EXPECT_EQ(Number("plain need=8 was-told | 1@8:4/8 0@8:3/0 |", faster(8)), '-');
  EXPECT_EQ(Number(kFits, faster(8)), '7');
  EXPECT_EQ(Number(kPlan, faster(4)), '-') << "it must fit";
}

TEST(Invariants, NothingIsRefusedThatNobodyDemandsToBe) {
  const Spoil refuses = [](Judged& spoilt) { spoilt.decision.action = CallAction::kRefusal; };
  EXPECT_EQ(Number(kCall, refuses), '7');
  const Spoil strict = [&](Judged& spoilt) {
    refuses(spoilt);
    spoilt.facts.strict_limit = true;
  };
  EXPECT_EQ(Number(kCall, strict), '-');
}

TEST(Invariants, WorkspaceStaysWithinTheLimits) {
  const Spoil limit = [](Judged& spoilt) { spoilt.facts.user_limit = 3; };
  EXPECT_EQ(Number(kCall, limit), '8');
  EXPECT_EQ(Number("plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 | |", limit), '-')
      << "what was told holds";
  const Spoil share = [](Judged& spoilt) { spoilt.facts.share->bytes = 3; };
  EXPECT_EQ(Number(kBudget, share), '8');
  const Spoil most = [](Judged& spoilt) { spoilt.facts.share->limit_bytes = 3; };
  EXPECT_EQ(Number(kBudget, most), '8');
  const Spoil none = [](Judged& spoilt) { spoilt.facts.share.reset(); };
  EXPECT_EQ(Number(kBudget, none), '8');
}

TEST(Invariants, PiecesWereCompared) {
  const Spoil forgets = [](Judged& spoilt) { spoilt.facts.compared.Clear(); };
  EXPECT_EQ(Number(kCall, forgets), '9');
  EXPECT_EQ(Number(kPlan, forgets), '9');
  EXPECT_EQ(Number("plain need=8 with-graph | 1@8:4/8 g5@8:2/4 |", forgets), '9');
  EXPECT_EQ(Number("identity need=8 passes=4 | 1@8:4/8 1@4:3/4 |", forgets), '-')
      << "nothing else keeps the promise";
}

}  // namespace
}  // namespace ucudnn::planning
