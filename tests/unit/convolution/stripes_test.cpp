// Tests that the contributions of all ranks' own tensors and received messages add up to the
// undivided convolution. There are 20,000 random cuts along one to three axes, a third of them for
// each operation.
#include "convolution/stripes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "cut_convolution.h"
#include "tests/support/problem.h"

namespace ucudnn {
namespace {

using test::CutConvolution;
using test::Image;
using test::Place;
using ::testing::HasSubstr;

constexpr unsigned kStripesSeed = 230;
constexpr int kStripesRounds = 20000;

template <typename Check>
void ForEachCut(const Check& check) {
  test::RandomCuts cuts(kStripesSeed);
  for (int round = 0; round < kStripesRounds; ++round) {
    const CutConvolution cut = cuts.Next(test::kOperations[round % 3]);
    const std::vector<Stripes> cells = cut.Cells();
    if (!cells.empty()) check(cut, cells, cuts.Random());
    if (testing::Test::HasFailure()) {
      FAIL() << cut.Text() << "; seed " << kStripesSeed << ", round " << round;
    }
  }
}

bool IsForward(const CutConvolution& cut) { return cut.whole.operation == Operation::kForward; }

// Returns the box of the exchanged tensor that a rank owns.
SpatialBox OwnedOf(const CutConvolution& cut, int cell) {
  return IsForward(cut) ? cut.ElementsOf(cell) : cut.WindowsOf(cell);
}

// The undivided operands of a convolution: random numbers, and zeros in the tensor that the
// operation computes.
struct Operands {
  Image x, w, y;

  Operands(const CutConvolution& cut, std::mt19937_64& random) : x({}), w({}), y({}) {
    Place of_x, of_w, of_y;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      of_x[axis] = cut.whole.x[axis];
      of_w[axis] = cut.whole.w[axis];
      of_y[axis] = test::CountedWindows(WindowOf(cut.whole, axis), of_x[axis]);
    }
    const Operation operation = cut.whole.operation;
    x = operation == Operation::kBackwardData ? Image(of_x) : Image::Random(of_x, random);
    w = operation == Operation::kBackwardFilter ? Image(of_w) : Image::Random(of_w, random);
    y = operation == Operation::kForward ? Image(of_y) : Image::Random(of_y, random);
  }
};

SpatialBox BoxOf(const HaloTerm& term, Interval AxisTerm::*which) {
  return {term[0].*which, term[1].*which, term[2].*which};
}

// Adds what `block` contributes to the rank's result. `own` is the rank's own y in forward, and its
// own x otherwise. `received` holds the block's elements of the tensor that ranks exchange.
void AddTerms(const CutConvolution& cut, const HaloBlock& block, Image& received, Image& own,
              Image& w) {
  for (const HaloTerm& term : block.terms) {
    test::Moves moves = cut.AllMoves();
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) moves.pad[axis] = term[axis].pad;
    const SpatialBox elements = BoxOf(term, &AxisTerm::elements);
    const SpatialBox windows = BoxOf(term, &AxisTerm::windows);
    test::Convolve(cut.whole.operation, Slice(IsForward(cut) ? received : own, elements),
                   Slice(w, BoxOf(term, &AxisTerm::taps)),
                   Slice(IsForward(cut) ? own : received, windows), moves);
  }
}

TEST(Stripes, OwnAndReceivedRowsGiveTheUndividedResult) {
  ForEachCut(
      [](const CutConvolution& cut, const std::vector<Stripes>& cells, std::mt19937_64& random) {
        const Operation operation = cut.whole.operation;
        Operands whole(cut, random);
        Image& exchanged = IsForward(cut) ? whole.x : whole.y;
        Image sum(whole.w.extents);  // the gradient dw
        Operands split = whole;
        test::Convolve(operation, Whole(whole.x), Whole(whole.w), Whole(whole.y), cut.AllMoves());
        for (int cell = 0; cell < static_cast<int>(cells.size()); ++cell) {
          // The rank's local call sees only what the rank owns.
          Image x = CopyOf(Slice(split.x, cut.ElementsOf(cell)));
          Image y = CopyOf(Slice(split.y, cut.WindowsOf(cell)));
          Image& w = operation == Operation::kBackwardFilter ? sum : split.w;
          test::Convolve(operation, Whole(x), Whole(w), Whole(y), cut.AllMoves());
          for (const HaloMessage& message : cells[cell].Received()) {
            Image sent = CopyOf(Slice(exchanged, OwnedOf(cut, message.peer)));
            for (const HaloBlock& block : message.blocks) {
              Image received = CopyOf(Slice(sent, block.box));
              AddTerms(cut, block, received, IsForward(cut) ? y : x, w);
            }
          }
          if (operation == Operation::kForward) {
            ASSERT_EQ(y, CopyOf(Slice(whole.y, cut.WindowsOf(cell)))) << "rank " << cell;
          }
          if (operation == Operation::kBackwardData) {
            ASSERT_EQ(x, CopyOf(Slice(whole.x, cut.ElementsOf(cell)))) << "rank " << cell;
          }
        }
        if (operation == Operation::kBackwardFilter) {
          ASSERT_EQ(sum, whole.w);
        }
      });
}

TEST(Stripes, WhatARankReceivesIsWhatThePeerSendsIt) {
  int messages = 0, corners = 0, several_blocks = 0, silent = 0;
  ForEachCut([&](const CutConvolution& cut, const std::vector<Stripes>& cells, std::mt19937_64&) {
    const int ranks = static_cast<int>(cells.size());
    std::vector<std::vector<HaloSend>> expected(ranks);
    for (int cell = 0; cell < ranks; ++cell) {
      int last = -1;
      for (const HaloMessage& message : cells[cell].Received()) {
        ASSERT_GT(message.peer, last);
        ASSERT_NE(message.peer, cell);
        last = message.peer;
        HaloSend send = {cell, {}};
        for (const HaloBlock& block : message.blocks) {
          send.boxes.push_back(block.box);
          ASSERT_GT(Elements(block.box), 0);
        }
        expected[message.peer].push_back(std::move(send));
        ++messages;
        several_blocks += message.blocks.size() > 1 ? 1 : 0;
        const Place own = cut.PartOf(cell), others = cut.PartOf(message.peer);
        corners += (own[1] != others[1]) + (own[2] != others[2]) + (own[0] != others[0]) > 1;
      }
    }
    bool is_exchanging = false;
    for (int cell = 0; cell < ranks; ++cell) {
      ASSERT_EQ(cells[cell].Sent(), expected[cell]);
      is_exchanging = is_exchanging || !expected[cell].empty();
    }
    silent += is_exchanging ? 0 : 1;
  });
  EXPECT_GT(messages, kStripesRounds);
  EXPECT_GT(corners, 1000);
  EXPECT_GT(several_blocks, 100);
  EXPECT_GT(silent, 100);
}

// Returns which positions of the exchanged tensor a rank reads along one axis.
std::set<int64_t> ReadAlong(const CutConvolution& cut, int cell, size_t axis) {
  const SlidingWindow window = WindowOf(cut.whole, axis);
  const Interval elements = cut.ElementsOf(cell)[axis], windows = cut.WindowsOf(cell)[axis];
  std::set<int64_t> read;
  for (int64_t at = 0; at < test::CountedWindows(window, cut.whole.x[axis]); ++at) {
    for (int64_t tap = 0; tap < window.taps; ++tap) {
      const int64_t element = at * window.stride - window.pad + tap * window.dilation;
      if (element < 0 || element >= cut.whole.x[axis]) continue;
      if (IsForward(cut) && windows.begin <= at && at < windows.end) read.insert(element);
      if (!IsForward(cut) && elements.begin <= element && element < elements.end) read.insert(at);
    }
  }
  return read;
}

TEST(Stripes, EachHaloElementIsReceivedOnceAndNoOtherIs) {
  ForEachCut(
      [](const CutConvolution& cut, const std::vector<Stripes>& cells, std::mt19937_64& random) {
        const int cell = static_cast<int>(random() % cells.size());
        const SpatialBox own = OwnedOf(cut, cell);
        // For each axis, the positions that this rank needs: all positions that it reads from other
        // parts and, if it reads any position of its own part, all positions of its own part.
        std::array<std::set<int64_t>, kMaxSpatial> needed;
        int64_t expected = 1, owned = 1;
        for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
          bool reads_own = false;
          for (const int64_t at : ReadAlong(cut, cell, axis)) {
            if (at < own[axis].begin || at >= own[axis].end) {
              needed[axis].insert(at);
            } else {
              reads_own = true;
            }
          }
          for (int64_t at = own[axis].begin; reads_own && at < own[axis].end; ++at) {
            needed[axis].insert(at);
          }
          expected *= static_cast<int64_t>(needed[axis].size());
          owned *= reads_own ? own[axis].Length() : 0;
        }
        std::set<Place> received;
        int64_t elements = 0;
        for (const HaloMessage& message : cells[cell].Received()) {
          const SpatialBox begin = OwnedOf(cut, message.peer);
          elements += message.ElementsPerImage();
          for (const HaloBlock& block : message.blocks) {
            for (int64_t d = block.box[0].begin; d < block.box[0].end; ++d) {
              for (int64_t h = block.box[1].begin; h < block.box[1].end; ++h) {
                for (int64_t w = block.box[2].begin; w < block.box[2].end; ++w) {
                  const Place at = {begin[0].begin + d, begin[1].begin + h, begin[2].begin + w};
                  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
                    ASSERT_EQ(needed[axis].count(at[axis]), 1u);
                  }
                  ASSERT_TRUE(received.insert(at).second);
                }
              }
            }
          }
        }
        ASSERT_EQ(static_cast<int64_t>(received.size()), elements);
        ASSERT_EQ(elements, expected - owned);
      });
}

ConvolutionProblem Rows(Spatial x, Spatial taps, Operation operation = Operation::kForward) {
  return test::ProblemWith(
      {.operation = operation, .x = x, .w = taps, .pad = {taps[0] / 2, taps[1] / 2, taps[2] / 2}});
}

TEST(Stripes, AnInnerRankOfFourExchangesARowOfChannelsWithEachNeighbour) {
  const auto stripes =
      Stripes::Make(Rows({1, 16, 64}, {1, 3, 3}), {.h = 4}, 1, {{{1}, {16, 16, 16, 16}, {64}}});
  ASSERT_TRUE(stripes.ok()) << stripes.message();
  const auto received = stripes->Received();
  ASSERT_EQ(received.size(), 2u);
  const AxisTerm d = {{0, 1}, {0, 1}, {0, 1}, 0};
  const AxisTerm w = {{0, 64}, {0, 3}, {0, 64}, 1};
  EXPECT_EQ(
      received[0],
      (HaloMessage{
          0, {{{{{0, 1}, {15, 16}, {0, 64}}}, {{d, AxisTerm{{0, 1}, {0, 1}, {0, 1}, 0}, w}}}}}));
  EXPECT_EQ(
      received[1],
      (HaloMessage{
          2, {{{{{0, 1}, {0, 1}, {0, 64}}}, {{d, AxisTerm{{15, 16}, {2, 3}, {0, 1}, 0}, w}}}}}));
  // The received row has 64 columns of 4 channels in fp32.
  EXPECT_EQ(stripes->BytesPerImage(received[0].ElementsPerImage()), 64 * 4 * 4);
}

TEST(Stripes, GradientsAreExchangedInTheChannelsOfY) {
  for (const Operation operation : {Operation::kBackwardData, Operation::kBackwardFilter}) {
    const auto stripes =
        Stripes::Make(Rows({1, 8, 8}, {1, 3, 3}, operation), {.h = 2}, 0, {{{1}, {8, 8}, {8}}});
    ASSERT_TRUE(stripes.ok());
    EXPECT_EQ(stripes->ExchangedChannels(), 8);
    EXPECT_EQ(stripes->BytesPerImage(10), 10 * 8 * 4);
  }
}

TEST(Stripes, BothBackwardOperationsExchangeTheSameRows) {
  test::RandomCuts cuts(kStripesSeed);
  for (int round = 0; round < 500; ++round) {
    CutConvolution cut = cuts.Next(Operation::kBackwardData);
    const std::vector<Stripes> data = cut.Cells();
    cut.whole.operation = Operation::kBackwardFilter;
    const std::vector<Stripes> filter = cut.Cells();
    for (size_t cell = 0; cell < data.size(); ++cell) {
      ASSERT_EQ(data[cell].Received(), filter[cell].Received()) << cut.Text();
      ASSERT_EQ(data[cell].Sent(), filter[cell].Sent()) << cut.Text();
    }
  }
}

TEST(Stripes, WithoutOverlapOfWindowsNobodyExchanges) {
  ConvolutionProblem patches = Rows({1, 8, 8}, {1, 4, 4});
  patches.stride = {1, 4, 4};
  patches.pad = {0, 0, 0};
  for (const Operation operation : test::kOperations) {
    patches.operation = operation;
    const auto stripes = Stripes::Make(patches, {.h = 2, .w = 2}, 3, {{{1}, {8, 8}, {8, 8}}});
    ASSERT_TRUE(stripes.ok());
    EXPECT_TRUE(stripes->Received().empty());
    EXPECT_TRUE(stripes->Sent().empty());
  }
}

std::string RefusalOf(const ConvolutionProblem& local, const SpatialGrid& grid, int cell,
                      const AxisExtents& extents) {
  const auto stripes = Stripes::Make(local, grid, cell, extents);
  return stripes.ok() ? "none" : stripes.message();
}

TEST(Stripes, ARefusalNamesTheAxis) {
  EXPECT_THAT(RefusalOf(Rows({1, 8, 8}, {1, 3, 4}), {.h = 2, .w = 2}, 0, {{{1}, {8, 8}, {8, 8}}}),
              HasSubstr("w: windows of extent 4 and stride 1"));
  EXPECT_EQ(RefusalOf(Rows({1, 8, 8}, {1, 3, 3}), {.d = 2}, 0, {{{1, 1}, {8}, {8}}}),
            "grid d2 cuts d, which a convolution of two axes does not have");
  EXPECT_EQ(RefusalOf(Rows({1, 8, 8}, {1, 3, 3}), {.h = 3}, 0, {{{1}, {8, 8}, {8}}}),
            "h: 2 extents are not the 3 parts of grid h3");
  EXPECT_EQ(RefusalOf(Rows({1, 8, 8}, {1, 3, 3}), {.h = 2}, 1, {{{1}, {8, 9}, {8}}}),
            "h: the rank's own extent 8 is not the 9 of its part");
}

TEST(AxisExtents, AreThoseOfTheFirstRankOfEachPart) {
  const SpatialGrid grid = {.n = 2, .h = 2, .w = 3};
  const std::vector<Spatial> ranks = {{1, 5, 2}, {1, 5, 3}, {1, 5, 4},
                                      {1, 6, 2}, {1, 6, 3}, {1, 6, 4}};
  const auto extents = ExtentsOf(grid, ranks);
  ASSERT_TRUE(extents.ok()) << extents.message();
  EXPECT_EQ(*extents, (AxisExtents{{{1}, {5, 6}, {2, 3, 4}}}));
}

TEST(AxisExtents, OfRanksThatDifferAreRefusedByTheirNumbers) {
  const SpatialGrid grid = {.h = 2, .w = 2};
  std::vector<Spatial> ranks = {{1, 5, 2}, {1, 5, 3}, {1, 6, 2}, {1, 7, 3}};
  const auto uneven = ExtentsOf(grid, ranks);
  ASSERT_FALSE(uneven.ok());
  EXPECT_EQ(uneven.message(),
            "h: rank 3 of the group has extent 7 where rank 2, in the same part, has 6");
  ranks.pop_back();
  const auto few = ExtentsOf(grid, ranks);
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.message(), "grid h2w2 has groups of 4 ranks, but 3 gave their extents");
}

}  // namespace
}  // namespace ucudnn
