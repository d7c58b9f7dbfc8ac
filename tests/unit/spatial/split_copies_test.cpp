// Tests tensors of which each rank may have a copy. If each rank has one element along an axis, its
// tensor may be a copy or a stripe. If a copy and a stripe give different results, the user says
// which of the two it is (UCUDNN_SPATIAL_ONE). A program may also declare its tensors to be
// replicated.
#include <gtest/gtest.h>

#include "tests/unit/spatial/split_layer.h"

namespace ucudnn::test {
namespace {

// Makes the undivided call on each rank, with the same values on all ranks. Expects the result of
// the undivided call on each rank.
void ExpectCopiesRun(RankJob& job, const ConvolutionProblem& problem) {
  std::mt19937 random(3);
  const WholeCase whole = WholeCase::Random(problem, random);
  const HostTensor expected = Undivided(whole);
  job.OnAll([&](RankState& rank) {
    const StripeResult result = rank.RunStripe(whole, WholeStripe(whole.problem));
    EXPECT_EQ(result.status, kFine) << Describe(problem);
    EXPECT_EQ(result.output, expected) << Describe(problem);
  });
}

ConvolutionProblem OneByOneMap(Operation operation, int filter) {
  ConvolutionProblem problem = Layer(operation, 1, filter);
  problem.x = {1, 1, 1};
  SetPackedStrides(problem);
  return problem;
}

TEST(SplitOnes, OneByOneFiltersRunEitherWay) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    RankJob job({.grid = "h2w2"});
    ExpectCopiesRun(job, OneByOneMap(operation, 1));
  }
}

TEST(SplitOnes, WhatDiffersIsRefusedUntilTheUserSays) {
  const std::vector<std::string> words = {"cannot be split", "UCUDNN_SPATIAL_ONE=split",
                                          "replicated"};
  const auto refused = [&](const ConvolutionProblem& p) { ExpectRefused({}, {p, p}, words); };
  refused(OneByOneMap(Operation::kBackwardFilter, 1));
  refused(OneByOneMap(Operation::kForward, 3));
  refused(OneByOneMap(Operation::kBackwardData, 3));
  refused(OneByOneMap(Operation::kBackwardFilter, 3));
}

TEST(SplitOnes, CopiesAreLeftAsTheyAre) {
  for (const char* const grid : {"h2", "h2w2"}) {
    Traffic traffic;
    RankJob job(Counted({.grid = grid, .ones = SpatialOnes::kReplicated}, traffic));
    for (const int filter : {1, 3}) {
      for (const Operation operation : kOperations) {
        ExpectCopiesRun(job, OneByOneMap(operation, filter));
      }
    }
    EXPECT_EQ(traffic.exchanges, 0);
    EXPECT_EQ(traffic.reductions, 0);
  }
}

TEST(SplitOnes, StripesOfOneRowExchange) {
  RankJob job({.grid = "h2w2", .ones = SpatialOnes::kSplit});
  for (const int filter : {1, 3}) {
    for (const Operation operation : kOperations) {
      ExpectExactOnAll(
          job, SplitLayer(Layer(operation, 1, filter), job.grid(), {{{1}, {1, 1}, {1, 1}}}));
    }
  }
}

TEST(SplitOnes, StripPoolingCountsEachCopyOnce) {
  for (const DataType type : {DataType::kFloat, DataType::kHalf}) {
    RankJob job({.grid = "h2w2", .ones = SpatialOnes::kReplicated});
    for (const double beta : {0.0, 1.0}) {
      for (const Operation operation : kOperations) {
        ConvolutionProblem problem = Layer(operation, 1);
        problem.type = type;
        SplitLayer layer(problem, *SpatialGrid::Parse("w2"), {{{1}, {1}, {3, 4}}});
        layer.whole.beta = beta;
        layer.expected = Undivided(layer.whole);
        CopyAlongHeight(job.grid(), layer);
        ASSERT_EQ(layer.stripes.size(), 4U);
        ExpectExactOnAll(job, layer);
      }
    }
  }
}

TEST(SplitOnes, StripWithoutAFilterAlongItRunsEitherWay) {
  RankJob job({.grid = "h2w2"});
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    ConvolutionProblem problem = Layer(operation, 1);
    problem.w[1] = 1;
    problem.pad[1] = 0;
    SplitLayer layer(problem, *SpatialGrid::Parse("w2"), {{{1}, {1}, {3, 4}}});
    CopyAlongHeight(job.grid(), layer);
    ASSERT_EQ(layer.stripes.size(), 4U);
    ExpectExactOnAll(job, layer);
  }
}

// Returns the problem of a call that every rank makes on a whole image.
ConvolutionProblem WholeOnEachRank(Operation operation) { return Layer(operation, 5); }

TEST(SplitReplicated, CallsOnWholeTensorsRunAsTheyAre) {
  Traffic traffic;
  RankJob job(Counted({.grid = "h2w2"}, traffic));
  for (const Operation operation : kOperations) {
    job.OnAll([](RankState& rank) { rank.declared.is_replicated = true; });
    ExpectCopiesRun(job, WholeOnEachRank(operation));
    EXPECT_EQ(traffic.exchanges, 0);
    EXPECT_EQ(traffic.reductions, 0);
  }
  job.OnAll([](RankState& rank) { rank.declared.is_replicated = false; });
  ExpectExactOnAll(job,
                   SplitLayer(Layer(Operation::kForward, 1), job.grid(), {{{1}, {2, 3}, {3, 3}}}));
  EXPECT_GT(traffic.exchanges, 0);
}

TEST(SplitReplicated, OnOneRankAloneIsAnErrorOnAll) {
  RankJob job({.timeout = milliseconds(2000)});
  const ConvolutionProblem problem = WholeOnEachRank(Operation::kForward);
  std::mt19937 random(1);
  const WholeCase whole = WholeCase::Random(problem, random);
  job.OnAll([&](RankState& rank) {
    rank.declared.is_replicated = rank.rank == 0;
    rank.RunStripe(whole, WholeStripe(whole.problem));
  });
  ExpectContains(FailureOf(job), {"rank 0 has replicated forward", "rank 1 has forward"});
  job.OnAll([](RankState& rank) { rank.declared.is_replicated = false; });
  ExpectAllFailFromNowOn(job);
}

// Like any other call, a replicated call that one rank cannot make is refused on all ranks. The job
// goes on.
TEST(SplitReplicated, CallThatOneRankCannotMakeIsRefusedOnAll) {
  RankJob job;
  const ConvolutionProblem problem = WholeOnEachRank(Operation::kForward);
  std::mt19937 random(1);
  const WholeCase whole = WholeCase::Random(problem, random);
  job.OnAll([](RankState& rank) { rank.declared.is_replicated = true; });
  for (int i = 0; i < 2; ++i) {
    const Statuses statuses = OnEach(job, [&](RankState& rank) {
      const Stripe stripe = WholeStripe(problem);
      return RunStripe(whole, stripe, rank.handle,
                       [&](const cudnn::ConvolutionCall& call) {
                         GivenCall given([&](const cudnn::ConvolutionCall& own) {
                           return rank.rank == 1 ? kRefused : RunReal(own);
                         });
                         return rank.calls->Run({.problem = stripe.problem,
                                                 .call = call,
                                                 .context = rank.context,
                                                 .stream = rank.stream,
                                                 .declared = rank.declared},
                                                given);
                       })
          .status;
    });
    EXPECT_EQ(statuses, Statuses(2, kRefused));
  }
  ExpectCopiesRun(job, WholeOnEachRank(Operation::kBackwardFilter));
}

TEST(SplitReplicated, OtherExtentsOnOneRankAreRefused) {
  RankJob job;
  job.OnAll([](RankState& rank) { rank.declared.is_replicated = true; });
  testing::internal::CaptureStderr();
  const Statuses statuses =
      RunOwn(job, {Layer(Operation::kForward, 5), Layer(Operation::kForward, 6)});
  ExpectContains(testing::internal::GetCapturedStderr(),
                 {"declared replicated", "rank 0 has 1x5x6", "rank 1 has 1x6x6"});
  EXPECT_EQ(statuses, Statuses(2, kRefused));
}

// Returns what a job logs if its ranks make one call twice, each rank on values from its own seed.
std::string ToldOf(const std::vector<unsigned>& seeds) {
  RankJob job;
  testing::internal::CaptureStderr();
  job.OnAll([&](RankState& rank) {
    std::mt19937 random(seeds[static_cast<size_t>(rank.rank)]);
    const WholeCase whole = WholeCase::Random(WholeOnEachRank(Operation::kForward), random);
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(rank.RunStripe(whole, WholeStripe(whole.problem)).status, kFine);
  });
  return testing::internal::GetCapturedStderr();
}

TEST(SplitReplicated, EqualValuesOnAllRanksAreToldOnce) {
  const std::string told = ToldOf({1, 1});
  const size_t at = told.find("ucudnnSpatialDeclareReplicated");
  EXPECT_NE(at, std::string::npos) << told;
  EXPECT_EQ(told.find("ucudnnSpatialDeclareReplicated", at + 1), std::string::npos) << told;
  EXPECT_EQ(ToldOf({1, 2}), "");
}

}  // namespace
}  // namespace ucudnn::test
