#include "interposer/kernel_sequence.h"

#include <gmock/gmock.h>

#include <string>

namespace ucudnn::interposer {
namespace {

using ::testing::ElementsAre;
using Known = KernelSequence::Known;

// Runs the kernels that `calls` names by letters on one lane, and gives the number of calls after
// which it was known: 0 when it never was.
size_t KnownAfter(KernelSequence& sequence, const std::string& calls, int lane = 0) {
  for (size_t i = 0; i < calls.size(); ++i) {
    if (sequence.Run(calls[i], lane, false) == Known::kRepeated) return i + 1;
  }
  return 0;
}

TEST(KernelSequence, IsKnownAtItsFirstWholeRepeat) {
  for (const auto& [calls, expected] : std::initializer_list<std::pair<const char*, size_t>>{
           {"abcabc", 6},
           {"abcab", 0},
           {"abacabac", 8},        // a kernel that comes twice
           {"abbcabbc", 8},        // twice in a row
           {"aabcaabc", 8},        // at the beginning
           {"abababcabababc", 4},  // "abab" is a whole repeat; what comes later comes too late
           {"abcdefgabcdefg", 14},
           {"aaaa", 4},
           {"aaa", 0}}) {
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
  EXPECT_EQ(sequence.Run('a', 0, false), Known::kNotYet);
  EXPECT_EQ(sequence.Run('x', 1, false), Known::kNotYet);
  EXPECT_EQ(sequence.Run('b', 0, false), Known::kNotYet);
  EXPECT_EQ(sequence.Run('a', 0, false), Known::kNotYet);
  EXPECT_EQ(sequence.Run('y', 1, false), Known::kNotYet);
  EXPECT_EQ(sequence.Run('b', 0, false), Known::kNotYet) << "lane 1 has not repeated";
  EXPECT_EQ(sequence.Run('x', 1, false), Known::kNotYet);
  EXPECT_EQ(sequence.Run('y', 1, false), Known::kRepeated);
  EXPECT_THAT(sequence.Uses(), ElementsAre(KernelUse{'a', 1, {0}}, KernelUse{'b', 1, {0}},
                                           KernelUse{'x', 1, {1}}, KernelUse{'y', 1, {1}}));
}

TEST(KernelSequence, DoesNotWaitForALaneThatRanOnce) {
  KernelSequence sequence;
  sequence.Run('w', 1, false);
  std::string calls;
  for (size_t i = 0; i <= KernelSequence::kPatience; ++i) calls += "abcabc";
  EXPECT_EQ(KnownAfter(sequence, calls), 6 * KernelSequence::kPatience);
  EXPECT_EQ(sequence.Uses().size(), 4u) << "what ran once counts";
}

TEST(KernelSequence, AKernelOfTwoLanesIsOne) {
  KernelSequence sequence;
  for (const char* call : {"a0", "a1", "b0", "a0", "a1", "a1", "a1"}) {
    sequence.Run(call[0], call[1] - '0', false);
  }
  EXPECT_EQ(sequence.Run('b', 0, false), Known::kRepeated);
  EXPECT_THAT(sequence.Uses(), ElementsAre(KernelUse{'a', 2, {0, 1}}, KernelUse{'b', 1, {0}}));
}

TEST(KernelSequence, QueriesForSeveralKernelsBeforeTheFirstCallAreTheNetwork) {
  KernelSequence sequence;
  for (const int kernel : {'a', 'b', 'b', 'c'}) sequence.Ask(kernel);
  EXPECT_EQ(sequence.Run('a', 0, true), Known::kAsked);
  EXPECT_THAT(sequence.Uses(),
              ElementsAre(KernelUse{'a', 1, {0}}, KernelUse{'b', 2, {0}}, KernelUse{'c', 1, {0}}));
  for (const int kernel : {'b', 'c', 'a', 'b'}) {
    EXPECT_EQ(sequence.Run(kernel, 0, true), Known::kNotYet);
  }
  EXPECT_EQ(sequence.Run('c', 0, true), Known::kRepeated);
  EXPECT_FALSE(sequence.surprised());
}

TEST(KernelSequence, OneOfManyThatAreTimedInTurnIsNoNetwork) {
  KernelSequence sequence;
  for (const char kernel : {'a', 'b', 'c'}) sequence.Ask(kernel);
  EXPECT_EQ(KnownAfter(sequence, std::string(100, 'a')), 0u);
  EXPECT_EQ(KnownAfter(sequence, std::string(100, 'a')), KernelSequence::kOfOneAmongOthers - 100)
      << "nothing else runs";
  KernelSequence all_ran;
  for (const char kernel : {'a', 'b'}) all_ran.Ask(kernel);
  EXPECT_EQ(KnownAfter(all_ran, "aaaa", 0), 0u);
  EXPECT_EQ(KnownAfter(all_ran, "bbbb", 1), 0u);
  EXPECT_EQ(KnownAfter(all_ran, "a", 0), 1u) << "each on a lane of its own";
}

TEST(KernelSequence, WhoAsksAsItGoesIsRecorded) {
  KernelSequence lazy;
  lazy.Ask('a');
  EXPECT_EQ(lazy.Run('a', 0, true), Known::kNotYet) << "one kernel is no network";
  lazy.Ask('b');
  EXPECT_EQ(lazy.Run('b', 0, true), Known::kNotYet);
  EXPECT_EQ(lazy.Run('a', 0, true), Known::kNotYet);
  EXPECT_EQ(lazy.Run('b', 0, true), Known::kRepeated);
  KernelSequence lanes;
  lanes.Ask('a');
  lanes.Ask('b');
  EXPECT_EQ(lanes.Run('a', 0, false), Known::kNotYet) << "which lane runs which is not known";
}

TEST(KernelSequence, ANewKernelOrLaneAfterTheQueriesIsASurprise) {
  const auto asked = [] {
    KernelSequence sequence;
    sequence.Ask('a');
    sequence.Ask('b');
    EXPECT_EQ(sequence.Run('a', 0, true), Known::kAsked);
    return sequence;
  };
  KernelSequence by_query = asked(), by_call = asked(), by_lane = asked(), none = asked();
  by_query.Ask('c');
  by_call.Run('c', 0, true);
  by_lane.Run('b', 1, true);
  none.Run('b', 0, true);
  none.Ask('a');
  EXPECT_TRUE(by_query.surprised());
  EXPECT_TRUE(by_call.surprised());
  EXPECT_TRUE(by_lane.surprised());
  EXPECT_FALSE(none.surprised());
  by_query.Run('c', 0, true);
  EXPECT_EQ(KnownAfter(by_query, "ac"), 2u);
  EXPECT_THAT(by_query.Uses(), ElementsAre(KernelUse{'a', 1, {0}}, KernelUse{'c', 1, {0}}))
      << "what runs is the network, not what was asked about";
}

TEST(KernelSequence, WhatNeverRepeatsEndsAtItsBound) {
  KernelSequence sequence;
  const auto most = static_cast<int>(KernelSequence::kMostCalls);
  for (int call = 1; call < most; ++call) {
    ASSERT_EQ(sequence.Run(call, 0, false), Known::kNotYet);
  }
  EXPECT_EQ(sequence.Run(most, 0, false), Known::kRepeated);
  EXPECT_TRUE(sequence.complete());
  EXPECT_EQ(sequence.Uses().size(), KernelSequence::kMostCalls);
  EXPECT_EQ(sequence.Run(most + 1, 0, false), Known::kNotYet);
  EXPECT_EQ(sequence.Uses().size(), KernelSequence::kMostCalls);
}

}  // namespace
}  // namespace ucudnn::interposer
