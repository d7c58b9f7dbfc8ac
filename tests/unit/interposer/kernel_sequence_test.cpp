#include "interposer/budget/kernel_sequence.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace ucudnn::interposer {
namespace {

using ::testing::ElementsAre;
using Progress = KernelSequence::Progress;

// Returns a run of `kernel`, which is the only kernel of its problem.
KernelRun Only(int kernel) { return {kernel, kernel}; }

// Runs the kernels named by the letters of `calls` on one lane. Returns the number of calls after
// which the sequence was known, or 0.
size_t KnownAfter(KernelSequence& sequence, const std::string& calls, int lane = 0) {
  for (size_t i = 0; i < calls.size(); ++i) {
    if (sequence.Run(Only(calls[i]), lane, false) == Progress::kRepeated) return i + 1;
  }
  return 0;
}

TEST(KernelSequence, IsKnownAtItsFirstWholeRepeat) {
  for (const auto& [calls, expected] : std::initializer_list<std::pair<const char*, size_t>>{
           {"abcabc", 6},
           {"abcab", 0},
           {"abacabac", 8},        // kernel a runs twice in an iteration
           {"abbcabbc", 8},        // kernel b runs twice in a row
           {"aabcaabc", 8},        // kernel a runs twice at the beginning
           {"abababcabababc", 4},  // "abab" counts as a repeat before c runs
           {"abcdefgabcdefg", 14},
           {"aababa", 6},         // the repeat, "baba", does not begin with the first kernel
           {"aabbccabcabc", 11},  // each kernel was timed twice before the loop
           {"waabbabab", 0},      // no repeat contains w, which ran first
           {"aaaaaaaaaaaa", 0}}) {
    SCOPED_TRACE(calls);
    KernelSequence sequence;
    EXPECT_EQ(KnownAfter(sequence, calls), expected);
    EXPECT_EQ(sequence.complete(), expected > 0);
  }
}

TEST(KernelSequence, CountsTheCallsOfOneIteration) {
  KernelSequence sequence;
  ASSERT_EQ(KnownAfter(sequence, "abbcabbc"), 8u);
  EXPECT_THAT(sequence.Uses(),
              ElementsAre(KernelUse{'a', 1, {0}}, KernelUse{'b', 2, {0}}, KernelUse{'c', 1, {0}}));
}

TEST(KernelSequence, TellsOfARepeatOnce) {
  KernelSequence sequence;
  ASSERT_EQ(KnownAfter(sequence, "abab"), 4u);
  EXPECT_EQ(KnownAfter(sequence, "ababcdcdcdcd"), 0u);
  EXPECT_THAT(sequence.Uses(), ElementsAre(KernelUse{'a', 1, {0}}, KernelUse{'b', 1, {0}}));
}

TEST(KernelSequence, EveryLaneMustHaveRepeated) {
  KernelSequence sequence;
  EXPECT_EQ(sequence.Run(Only('a'), 0, false), Progress::kNotYet);
  EXPECT_EQ(sequence.Run(Only('x'), 1, false), Progress::kNotYet);
  EXPECT_EQ(sequence.Run(Only('b'), 0, false), Progress::kNotYet);
  EXPECT_EQ(sequence.Run(Only('a'), 0, false), Progress::kNotYet);
  EXPECT_EQ(sequence.Run(Only('y'), 1, false), Progress::kNotYet);
  EXPECT_EQ(sequence.Run(Only('b'), 0, false), Progress::kNotYet) << "lane 1 has not repeated";
  EXPECT_EQ(sequence.Run(Only('x'), 1, false), Progress::kNotYet);
  EXPECT_EQ(sequence.Run(Only('y'), 1, false), Progress::kRepeated);
  EXPECT_THAT(sequence.Uses(), ElementsAre(KernelUse{'a', 1, {0}}, KernelUse{'b', 1, {0}},
                                           KernelUse{'x', 1, {1}}, KernelUse{'y', 1, {1}}));
}

TEST(KernelSequence, DoesNotWaitForALaneThatRanOnce) {
  KernelSequence sequence;
  sequence.Run(Only('w'), 1, false);
  std::string calls;
  for (size_t i = 0; i <= KernelSequence::kPatience; ++i) calls += "abcabc";
  EXPECT_EQ(KnownAfter(sequence, calls), 6 * KernelSequence::kPatience);
  EXPECT_EQ(sequence.Uses().size(), 3u) << "nor has it a part";
}

TEST(KernelSequence, ALaneWhoseHandleIsGoneIsNotWaitedForAndHasNoPart) {
  KernelSequence sequence;
  EXPECT_EQ(KnownAfter(sequence, "xy", 1), 0u);
  EXPECT_EQ(KnownAfter(sequence, "abab", 0), 0u);
  sequence.Leave(1);
  EXPECT_EQ(KnownAfter(sequence, "a", 0), 1u);
  EXPECT_THAT(sequence.Uses(), ElementsAre(KernelUse{'a', 1, {0}}, KernelUse{'b', 1, {0}}));
}

TEST(KernelSequence, ALaneThatRunsAgainGoesOn) {
  KernelSequence sequence;
  EXPECT_EQ(KnownAfter(sequence, "ab"), 0u);
  sequence.Leave(0);
  EXPECT_EQ(KnownAfter(sequence, "ab"), 2u);
  EXPECT_THAT(sequence.Uses(), ElementsAre(KernelUse{'a', 1, {0}}, KernelUse{'b', 1, {0}}));
}

TEST(KernelSequence, AKernelOfTwoLanesIsOne) {
  KernelSequence sequence;
  for (const char* call : {"a0", "a1", "b0", "a0", "a1", "a1", "a1"}) {
    sequence.Run(Only(call[0]), call[1] - '0', false);
  }
  EXPECT_EQ(sequence.Run(Only('b'), 0, false), Progress::kRepeated);
  EXPECT_THAT(sequence.Uses(), ElementsAre(KernelUse{'a', 2, {0, 1}}, KernelUse{'b', 1, {0}}));
}

TEST(KernelSequence, QueriesForSeveralKernelsBeforeTheFirstCallAreTheNetwork) {
  KernelSequence sequence;
  for (const int kernel : {'a', 'b', 'b', 'c'}) sequence.Ask(kernel);
  EXPECT_EQ(sequence.Run(Only('a'), 0, true), Progress::kAsked);
  EXPECT_THAT(sequence.Uses(),
              ElementsAre(KernelUse{'a', 1, {0}}, KernelUse{'b', 2, {0}}, KernelUse{'c', 1, {0}}));
  for (const int kernel : {'b', 'c', 'a', 'b'}) {
    EXPECT_EQ(sequence.Run(Only(kernel), 0, true), Progress::kNotYet);
  }
  EXPECT_EQ(sequence.Run(Only('c'), 0, true), Progress::kRepeated);
  EXPECT_FALSE(sequence.surprised());
}

TEST(KernelSequence, OneProblemIsANetworkOnceNothingElseHasRunForLong) {
  for (const bool plans : {false, true}) {
    SCOPED_TRACE(plans ? "two plans in turn" : "one kernel");
    KernelSequence sequence;
    size_t calls = 0;
    while (sequence.Run({plans ? int(calls % 2) : 0, 7}, 0, true) == Progress::kNotYet) ++calls;
    EXPECT_EQ(calls + 1, KernelSequence::kOfOneProblem);
    EXPECT_EQ(sequence.Uses().size(), plans ? 2u : 1u);
  }
}

TEST(KernelSequence, WaysThatAreTimedInTurnAreOneKernel) {
  KernelSequence sequence;
  const auto run = [&](int kernel, int way) {
    return sequence.Run({kernel, kernel, way}, 0, true) == Progress::kRepeated;
  };
  for (const int kernel : {1, 2}) {
    for (int way = 0; way < 8; ++way) {
      for (int time = 0; time < 5; ++time) ASSERT_FALSE(run(kernel, way));
    }
  }
  int calls = 1;
  while (calls < 100 && !run(calls % 2 ? 1 : 2, 3)) ++calls;
  EXPECT_EQ(calls, 4);
  EXPECT_THAT(sequence.Uses(), ElementsAre(KernelUse{1, 1, {0}}, KernelUse{2, 1, {0}}));
}

// A network of a stem (stuvw), 36 bottleneck blocks (abc) and a head (xyz).
TEST(KernelSequence, BlocksThatRepeatInsideANetworkAreNoNetwork) {
  KernelSequence sequence;
  std::string iteration = "stuvw";
  for (int block = 0; block < 36; ++block) iteration += "abc";
  iteration += "xyz";
  EXPECT_EQ(KnownAfter(sequence, iteration), 0u);
  EXPECT_EQ(KnownAfter(sequence, iteration), iteration.size());
  EXPECT_EQ(sequence.Uses().size(), 11u);
}

TEST(KernelSequence, WhatRanOnceBeforeTheLoopIsForgottenAfterLong) {
  KernelSequence sequence;
  std::string calls = "w";
  while (calls.size() < 2 * KernelSequence::kLongRepeat) calls += "abc";
  const size_t known = KnownAfter(sequence, calls);
  EXPECT_EQ(known, KernelSequence::kLongRepeat + 1);
  EXPECT_EQ(sequence.Uses().size(), 3u);
}

// A program that runs several problems, with several plans for each, and keeps one plan of each.
// `timing` says when it times the plans. The first problem runs once per iteration, like a
// network's first layer.
struct RandomProgram {
  enum Timing { kNone, kBefore, kAmidst };
  RandomProgram(std::mt19937& random, Timing timing) {
    const auto any = [&](int from, int to) {
      return std::uniform_int_distribution<int>(from, to)(random);
    };
    // If a program timed each plan just once before the loop, the timing could look like an
    // iteration.
    const int problems = any(2, 12), times = any(timing == kBefore ? 2 : 1, 4);
    std::vector<std::vector<KernelRun>> plans(problems);
    std::vector<KernelRun> kept;
    int kernels = 0;
    for (int problem = 0; problem < problems; ++problem) {
      const bool legacy = any(0, 1) == 0;
      const int several = any(1, 5);
      for (int plan = 0; plan < several; ++plan) {
        plans[problem].push_back({legacy ? kernels : kernels + plan, problem, legacy ? plan : 0});
      }
      kernels += several;
      kept.push_back(plans[problem][any(0, several - 1)]);
    }
    std::vector<int> order = {0};
    for (int problem = 1; problem < problems; ++problem) {
      for (int call = any(1, 3); call > 0; --call) order.push_back(problem);
    }
    std::shuffle(order.begin() + 1, order.end(), random);
    std::set<int> timed;
    const auto time = [&](int problem) {
      if (timing == kNone || !timed.insert(problem).second) return;
      for (const KernelRun& plan : plans[problem]) {
        for (int i = 0; i < times; ++i) prologue.push_back(plan);
      }
    };
    for (int problem = 0; timing == kBefore && problem < problems; ++problem) time(problem);
    for (const int problem : order) {
      loop.push_back(kept[problem]);
      if (timing != kAmidst) continue;
      time(problem);
      prologue.push_back(kept[problem]);
    }
    for (const KernelRun& run : loop) ++calls[run.kernel];
  }

  std::vector<KernelRun> prologue, loop;
  std::map<int, double> calls;  // the number of calls of each kernel in one iteration
};

TEST(KernelSequence, ALoopIsKnownSoonAfterTheTimingOfItsPlans) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    for (const auto timing :
         {RandomProgram::kNone, RandomProgram::kBefore, RandomProgram::kAmidst}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " timing " + std::to_string(timing));
      std::mt19937 random(seed);
      const RandomProgram program(random, timing);
      KernelSequence sequence;
      for (const KernelRun& run : program.prologue) {
        ASSERT_EQ(sequence.Run(run, 0, true), Progress::kNotYet) << "while it is timed";
      }
      // Two iterations are enough. If plans are timed, the first iteration may still count as part
      // of the timing.
      const int most = timing == RandomProgram::kNone ? 2 : 3;
      for (int iteration = 0; iteration < most && !sequence.complete(); ++iteration) {
        for (const KernelRun& run : program.loop) sequence.Run(run, 0, true);
      }
      ASSERT_TRUE(sequence.complete());
      std::map<int, double> calls;
      for (const KernelUse& use : sequence.Uses()) calls[use.kernel] = use.calls;
      ASSERT_EQ(calls, program.calls);
    }
  }
}

TEST(KernelSequence, WhoAsksAsItGoesIsRecorded) {
  KernelSequence lazy;
  lazy.Ask('a');
  EXPECT_EQ(lazy.Run(Only('a'), 0, true), Progress::kNotYet) << "one kernel is no network";
  lazy.Ask('b');
  EXPECT_EQ(lazy.Run(Only('b'), 0, true), Progress::kNotYet);
  EXPECT_EQ(lazy.Run(Only('a'), 0, true), Progress::kNotYet);
  EXPECT_EQ(lazy.Run(Only('b'), 0, true), Progress::kRepeated);
  KernelSequence lanes;
  lanes.Ask('a');
  lanes.Ask('b');
  EXPECT_EQ(lanes.Run(Only('a'), 0, false), Progress::kNotYet)
      << "which lane runs which is not known";
}

TEST(KernelSequence, ANewKernelOrLaneAfterTheQueriesIsASurprise) {
  const auto asked = [] {
    KernelSequence sequence;
    sequence.Ask('a');
    sequence.Ask('b');
    EXPECT_EQ(sequence.Run(Only('a'), 0, true), Progress::kAsked);
    return sequence;
  };
  KernelSequence by_query = asked(), by_call = asked(), by_lane = asked(), none = asked();
  by_query.Ask('c');
  by_call.Run(Only('c'), 0, true);
  by_lane.Run(Only('b'), 1, true);
  none.Run(Only('b'), 0, true);
  none.Ask('a');
  EXPECT_TRUE(by_query.surprised());
  EXPECT_TRUE(by_call.surprised());
  EXPECT_TRUE(by_lane.surprised());
  EXPECT_FALSE(none.surprised());
  by_query.Run(Only('c'), 0, true);
  EXPECT_EQ(KnownAfter(by_query, "ac"), 2u);
  EXPECT_THAT(by_query.Uses(), ElementsAre(KernelUse{'a', 1, {0}}, KernelUse{'c', 1, {0}}))
      << "what runs is the network, not what was asked about";
}

TEST(KernelSequence, WhatNeverRepeatsEndsAtItsBound) {
  KernelSequence sequence;
  const auto most = static_cast<int>(KernelSequence::kMostCalls);
  for (int call = 1; call < most; ++call) {
    ASSERT_EQ(sequence.Run(Only(call), 0, false), Progress::kNotYet);
  }
  EXPECT_EQ(sequence.Run(Only(most), 0, false), Progress::kRepeated);
  EXPECT_TRUE(sequence.complete());
  EXPECT_EQ(sequence.Uses().size(), KernelSequence::kMostCalls);
  EXPECT_EQ(sequence.Run(Only(most + 1), 0, false), Progress::kNotYet);
  EXPECT_EQ(sequence.Uses().size(), KernelSequence::kMostCalls);
}

}  // namespace
}  // namespace ucudnn::interposer
