#include "planner/striping/striping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "planner/graph/networks.h"
#include "planner/striping/exact_size.h"

namespace ucudnn::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;
using ::testing::Not;

Graph At(const std::string& network, int32_t extent) {
  Graph graph = *BuildNetwork(network);
  EXPECT_TRUE(SetInputExtents(graph, {0, extent, extent}).ok());
  return graph;
}

Striping Stripe(const Graph& graph, const std::string& grid, int batch = 2) {
  const auto striping = StripeNetwork(graph, *SpatialGrid::Parse(grid), batch);
  EXPECT_TRUE(striping.ok()) << striping.message();
  return *striping;
}

std::vector<std::string> Having(const Striping& striping, Verdict verdict) {
  std::vector<std::string> names;
  for (const StripedOperator& made : striping.operators) {
    if (made.judgement.verdict == verdict) names.push_back(made.name);
  }
  return names;
}

const StripedOperator& Find(const Striping& striping, const std::string& name) {
  for (const StripedOperator& made : striping.operators) {
    if (made.name == name) return made;
  }
  ADD_FAILURE() << name;
  return striping.operators.front();
}

std::vector<int64_t> RowsOf(const StripedOperator& made) {
  return made.judgement.output.axes[1].extents;
}

// Returns a network of a 1 x 1 convolution, which exchanges nothing, and then `op`.
Graph Net(const Operator& op, int32_t height, int32_t width) {
  GraphBuilder builder("net");
  const NodeId data = builder.Add("data", Input{3, {1, height, width}, 2}, {});
  const NodeId before = builder.Add("before", Convolution{.filters = 4}, {data});
  builder.Add("op", op, {before});
  return *builder.Build();
}

TEST(Striping, ResNetIsRefusedAt224AndExactAt256) {
  const Graph at_224 = *BuildNetwork("resnet50");
  const Striping refused = Stripe(at_224, "h2");
  EXPECT_THAT(Having(refused, Verdict::kRefused),
              ElementsAre("layer4.0.downsample", "layer4.0.conv2"));
  EXPECT_EQ(Find(refused, "layer4.0.conv2").judgement.why,
            "h: part 0 of 2 has extent 7, which the stride 2 does not divide");
  const auto next = NextExactSize(at_224, *SpatialGrid::Parse("h2"));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->extents, (Spatial{1, 256, 224}));
  EXPECT_TRUE(next->as_it_is);
  EXPECT_THAT(next->other_weights, IsEmpty());
  EXPECT_EQ(NextExactSize(at_224, *SpatialGrid::Parse("h2w2"))->extents, (Spatial{1, 256, 256}));
  for (const char* grid : {"h2", "h4", "h2w2", "n2h2"}) {
    EXPECT_EQ(Stripe(At("resnet50", 256), grid).Worst(), Verdict::kExact) << grid;
  }
}

TEST(Striping, StripesOfMultiplesSplitWhatEqualOnesDoNot) {
  const Graph resnet = *BuildNetwork("resnet50");
  EXPECT_EQ(NextExactMultiple(resnet, *SpatialGrid::Parse("h2w2")), 32);
  // The image has 224 = 7 * 32 rows, too few for 8 parts with multiples of 32 rows.
  EXPECT_EQ(NextExactMultiple(resnet, *SpatialGrid::Parse("h8")), std::nullopt);
  const auto striping = StripeNetwork(resnet, *SpatialGrid::Parse("h4"), 1, 32);
  ASSERT_TRUE(striping.ok()) << striping.message();
  EXPECT_EQ(striping->Worst(), Verdict::kExact);
  EXPECT_THAT(RowsOf(striping->operators.front()), ElementsAre(64, 64, 64, 32));
}

TEST(Striping, EqualStripesBelowTheNextSizeAreRefused) {
  for (int32_t extent = 226; extent < 256; extent += 2) {
    EXPECT_NE(Stripe(At("resnet18", extent), "h2").Worst(), Verdict::kExact) << extent;
  }
}

TEST(Striping, VggGathersAndNeedsOtherWeightsAt256) {
  const Graph vgg = *BuildNetwork("vgg16");
  EXPECT_THAT(Having(Stripe(vgg, "h2"), Verdict::kRefused), ElementsAre("pool5"));
  const auto next = NextExactSize(vgg, *SpatialGrid::Parse("h2w2"));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->extents, (Spatial{1, 256, 256}));
  EXPECT_THAT(next->other_weights, ElementsAre("fc6"));
  const Striping larger = Stripe(At("vgg16", 256), "h4");
  EXPECT_THAT(Having(larger, Verdict::kRefused), IsEmpty());
  EXPECT_THAT(Having(larger, Verdict::kGather), ElementsAre("fc6"));
  EXPECT_FALSE(Find(larger, "fc7").judgement.output.IsCut());
}

TEST(Striping, AlexNetsStemIsNoCallOfItsOwn) {
  const Striping alexnet = Stripe(*BuildNetwork("alexnet"), "h2");
  const Judgement& stem = Find(alexnet, "conv1").judgement;
  EXPECT_EQ(stem.verdict, Verdict::kConvert);
  EXPECT_TRUE(stem.never_as_it_is);
  EXPECT_THAT(stem.why, HasSubstr("h: windows of extent 11 and stride 4 go on across a cut with "
                                  "a pad from 4 to 5, not with 2"));
  EXPECT_THAT(RowsOf(Find(alexnet, "conv1")), ElementsAre(28, 27));
}

TEST(Striping, RowsThatAreTakenAwayHaveNoSize) {
  const Graph nasnet = *BuildNetwork("nasnet-a");
  const Striping striping = Stripe(nasnet, "h2");
  EXPECT_THAT(Having(striping, Verdict::kRefused), ::testing::Not(IsEmpty()));
  EXPECT_FALSE(NextExactSize(nasnet, *SpatialGrid::Parse("h2")));
}

TEST(Striping, GatesOfOnePixelMeetStripes) {
  const Striping efficientnet = Stripe(At("efficientnet-b0", 256), "h2w2");
  EXPECT_THAT(Having(efficientnet, Verdict::kRefused), IsEmpty());
  EXPECT_EQ(Find(efficientnet, "stage1.0.se.reduce").judgement.ones, OnesAre::kReplicated);
  EXPECT_THAT(RowsOf(Find(efficientnet, "stage1.0.se.pool")), ElementsAre(1));
  EXPECT_THAT(RowsOf(Find(efficientnet, "stage1.0.se.mul")), ElementsAre(64, 64));
}

TEST(Striping, WindowsThatCoverEachStripeAreNotGlobalPooling) {
  const Pooling twice = {PoolingKind::kAverage, {1, 2, 2}, {1, 2, 2}};
  const StripedOperator in_stripes = Find(Stripe(Net(twice, 8, 8), "h4"), "op");
  EXPECT_EQ(in_stripes.judgement.verdict, Verdict::kExact);
  EXPECT_EQ(in_stripes.judgement.ones, OnesAre::kSplit);
  EXPECT_THAT(RowsOf(in_stripes), ElementsAre(1, 1, 1, 1));
  const StripedOperator global =
      Find(Stripe(Net(Pooling{PoolingKind::kAverage, {1, 8, 8}, {1, 8, 8}}, 8, 8), "h4"), "op");
  EXPECT_EQ(global.judgement.ones, OnesAre::kReplicated);
  EXPECT_FALSE(global.judgement.output.IsCut());
  ASSERT_EQ(global.exchanges.size(), 1u);
  EXPECT_EQ(global.exchanges[0].summed, 2 * 4 * 4);  // images, channels, bytes
}

TEST(Striping, PoolingOfOneRowOnEachRankIsNoCallOfItsOwn) {
  const auto pooled = [](int32_t height) {
    return Find(Stripe(Net(GlobalPooling{}, height, 8), "h4"), "op").judgement;
  };
  EXPECT_EQ(pooled(8).verdict, Verdict::kExact);
  EXPECT_EQ(pooled(4).verdict, Verdict::kConvert);
  EXPECT_THAT(pooled(4).why, HasSubstr("h: every rank has one row"));
  EXPECT_EQ(Find(Stripe(Net(BatchNormalization{}, 4, 8), "h4"), "op").judgement.ones,
            OnesAre::kSplit);
}

TEST(Striping, TheLastStripeHasWhatIsLeftOfMultiples) {
  const auto striping = StripeNetwork(Net(Activation{}, 30, 8), *SpatialGrid::Parse("h3"), 1, 8);
  ASSERT_TRUE(striping.ok()) << striping.message();
  EXPECT_THAT(RowsOf(striping->operators.front()), ElementsAre(16, 8, 6));
}

TEST(Striping, PaddingBeforeAConvolutionIsTheConvolutions) {
  GraphBuilder builder("net");
  const NodeId data = builder.Add("data", Input{3, {1, 16, 16}, 2}, {});
  const NodeId pad = builder.Add("pad", Padding{{0, 0, 0}, {0, 1, 1}}, {data});
  Convolution halves;
  halves.window = {1, 3, 3};
  halves.stride = {1, 2, 2};
  builder.Add("conv", halves, {pad});
  const Striping striping = Stripe(*builder.Build(), "h4");
  EXPECT_THAT(RowsOf(Find(striping, "pad")), ElementsAre(4, 4, 4, 5));
  EXPECT_THAT(RowsOf(Find(striping, "conv")), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(Having(striping, Verdict::kConvert), ElementsAre("pad", "conv"));
}

TEST(Striping, PaddingBehindAnActivationIsTheConvolutionsIfZerosStayZeros) {
  for (const auto& [kind, stay] : std::map<ActivationKind, bool>{{ActivationKind::kRelu, true},
                                                                 {ActivationKind::kSigmoid, false},
                                                                 {ActivationKind::kOther, false}}) {
    GraphBuilder builder("net");
    const NodeId data = builder.Add("data", Input{3, {1, 16, 16}, 2}, {});
    const NodeId pad = builder.Add("pad", Padding{{0, 0, 0}, {0, 1, 1}}, {data});
    const NodeId activation = builder.Add("activation", Activation{kind}, {pad});
    Convolution halves;
    halves.window = {1, 3, 3};
    halves.stride = {1, 2, 2};
    builder.Add("conv", halves, {activation});
    const Striping striping = Stripe(*builder.Build(), "h4");
    EXPECT_THAT(RowsOf(Find(striping, "activation")), ElementsAre(4, 4, 4, 5));
    EXPECT_THAT(RowsOf(Find(striping, "conv")), ElementsAre(2, 2, 2, 2));
    const auto is_padding = HasSubstr("padding stands at the image's ends alone");
    EXPECT_THAT(Find(striping, "conv").judgement.why,
                stay ? Matcher<std::string>(is_padding) : Not(is_padding))
        << static_cast<int>(kind);
  }
}

TEST(Striping, DropoutIsVouchedForByNobody) {
  EXPECT_EQ(Stripe(Net(Dropout{}, 8, 8), "h2").Worst(), Verdict::kUnvouched);
}

TEST(Striping, StripesThatDifferDoNotJoin) {
  GraphBuilder builder("net");
  const NodeId data = builder.Add("data", Input{3, {1, 9, 9}, 2}, {});
  Convolution valid;
  valid.window = {1, 3, 3};
  const NodeId less = builder.Add("less", valid, {data});
  const NodeId middle = builder.Add("middle", Padding{{0, -1, -1}, {0, -1, -1}}, {data});
  builder.Add("join", Concat{}, {less, middle});
  EXPECT_THAT(Having(Stripe(*builder.Build(), "h2"), Verdict::kRefused),
              ElementsAre("middle", "join"));
}

TEST(Striping, WhatIsReshapedIsGatheredAndWholeOnEveryRank) {
  const Striping striping = Stripe(Net(Reshape{2, {1, 16, 8}, 2}, 8, 8), "h2");
  EXPECT_EQ(Find(striping, "op").judgement.verdict, Verdict::kGather);
  EXPECT_THAT(RowsOf(Find(striping, "op")), ElementsAre(16));
}

TEST(Striping, GridsThatDoNotFitAreErrors) {
  const Graph resnet = *BuildNetwork("resnet18");
  EXPECT_EQ(StripeNetwork(resnet, *SpatialGrid::Parse("d2h2"), 2).message(),
            "the grid d2h2 cuts d, which 'resnet18', of two axes, does not have");
  EXPECT_EQ(StripeNetwork(resnet, *SpatialGrid::Parse("n2h2"), 3).message(),
            "a batch of 3 is not divided by the 2 groups of the grid n2h2");
}

TEST(Striping, MemoryIsOfTheRankThatHasMost) {
  Convolution same{.filters = 8};
  same.window = {1, 3, 3};
  same.pad = {0, 1, 1};
  const Striping striping = Stripe(Net(same, 10, 6), "n2h4", 4);
  // A single device has the outputs of both convolutions for 4 images with 10 rows. The rank with
  // most has them for 2 images with 3 rows.
  EXPECT_EQ(striping.device_activation_bytes, 4 * (4 + 8) * 10 * 6 * 4);
  EXPECT_EQ(striping.rank_activation_bytes, 2 * (4 + 8) * 3 * 6 * 4);
  EXPECT_EQ(striping.parameter_bytes, ((3 + 1) * 4 + (4 * 9 + 1) * 8) * 4);
  EXPECT_EQ(striping.largest_exchange_bytes, 2 * 8 * 2 * 6 * 4);  // a row of dy from each side
}

// A tensor that is divided along h and w. Rank() returns the rank that owns a position.
struct Tensor {
  std::vector<int64_t> h, w;  // extents of the parts

  std::vector<int> Owners(const std::vector<int64_t>& extents) const {
    std::vector<int> owners;
    for (size_t part = 0; part < extents.size(); ++part) {
      owners.insert(owners.end(), static_cast<size_t>(extents[part]), static_cast<int>(part));
    }
    return owners;
  }
  int Rank(int64_t row, int64_t column) const {
    return Owners(h)[static_cast<size_t>(row)] * static_cast<int>(w.size()) +
           Owners(w)[static_cast<size_t>(column)];
  }
};

using Moves = std::map<std::pair<int, int>, std::set<std::pair<int64_t, int64_t>>>;

// Returns the pairs (element, window) of positions along one axis such that the window reads the
// element.
std::vector<std::pair<int64_t, int64_t>> Connected(const Convolution& layer, size_t axis,
                                                   int64_t elements, int64_t windows) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t window = 0; window < windows; ++window) {
    for (int64_t tap = 0; tap < layer.window[axis]; ++tap) {
      const int64_t at = window * layer.stride[axis] - layer.pad[axis] + tap * layer.dilation[axis];
      if (at >= 0 && at < elements) pairs.emplace_back(at, window);
    }
  }
  return pairs;
}

// Returns the positions that each rank sends to each other rank. If `of_elements`, a rank sends
// elements of x to the ranks that own windows which read them. Otherwise it sends elements of dy to
// the ranks that own elements of x which their windows read.
Moves Count(const Convolution& layer, const Tensor& x, const Tensor& y, bool of_elements) {
  const auto sum = [](const std::vector<int64_t>& extents) {
    return std::accumulate(extents.begin(), extents.end(), int64_t{0});
  };
  Moves moves;
  for (const auto& [row, out_row] : Connected(layer, 1, sum(x.h), sum(y.h))) {
    for (const auto& [column, out_column] : Connected(layer, 2, sum(x.w), sum(y.w))) {
      const int element = x.Rank(row, column), window = y.Rank(out_row, out_column);
      if (element == window) continue;
      if (of_elements) {
        moves[{element, window}].insert({row, column});
      } else {
        moves[{window, element}].insert({out_row, out_column});
      }
    }
  }
  return moves;
}

std::vector<int64_t> Bytes(const Moves& moves, bool received, int ranks, int64_t factor) {
  std::vector<int64_t> bytes(static_cast<size_t>(ranks));
  for (const auto& [ends, positions] : moves) {
    bytes[static_cast<size_t>(received ? ends.second : ends.first)] +=
        static_cast<int64_t>(positions.size()) * factor;
  }
  return bytes;
}

struct Case {
  int32_t window, stride, pad, dilation, height, width;
  const char* grid;
};

class HaloBytes : public ::testing::TestWithParam<Case> {};

TEST_P(HaloBytes, AreThosePositionByPosition) {
  const Case& one = GetParam();
  Convolution layer{.filters = 5};
  layer.window = {1, one.window, one.window};
  layer.stride = {1, one.stride, one.stride};
  layer.pad = {0, one.pad, one.pad};
  layer.dilation = {1, one.dilation, one.dilation};
  constexpr int kImages = 3, kBytes = 4, kChannels = 4;
  const Striping striping = Stripe(Net(layer, one.height, one.width), one.grid, kImages);
  const StripedOperator& made = Find(striping, "op");
  ASSERT_EQ(made.judgement.verdict, Verdict::kExact) << made.judgement.why;
  const Placement& in = Find(striping, "before").judgement.output;
  const Placement& out = made.judgement.output;
  const Tensor x = {in.axes[1].extents, in.axes[2].extents};
  const Tensor y = {out.axes[1].extents, out.axes[2].extents};
  const int ranks = striping.grid.Ranks();
  const Moves of_x = Count(layer, x, y, true), of_y = Count(layer, x, y, false);
  ASSERT_EQ(made.exchanges.size(), 3u);
  for (const Exchange& exchange : made.exchanges) {
    const bool forward = exchange.pass == Pass::kForward;
    const Moves& moves = forward ? of_x : of_y;
    const int64_t factor = kImages * kBytes * (forward ? kChannels : layer.filters);
    EXPECT_EQ(exchange.received, Bytes(moves, true, ranks, factor)) << PassName(exchange.pass);
    EXPECT_EQ(exchange.sent, Bytes(moves, false, ranks, factor)) << PassName(exchange.pass);
  }
  const int64_t weights = 5 * (kChannels * one.window * one.window + 1);
  EXPECT_EQ(made.exchanges[2].summed, weights * kBytes);
}

INSTANTIATE_TEST_SUITE_P(
    Convolutions, HaloBytes,
    ::testing::Values(Case{3, 1, 1, 1, 12, 7, "h2"}, Case{3, 1, 1, 1, 13, 7, "h3"},
                      Case{5, 1, 2, 1, 8, 5, "h4"},  // windows read all rows of a neighbour
                      Case{5, 1, 4, 2, 6, 4, "h6"},  // windows read rows of several neighbours
                      Case{7, 2, 3, 1, 16, 16, "h2w2"}, Case{3, 2, 1, 1, 16, 12, "w2"},
                      Case{3, 1, 2, 2, 9, 11, "h3w2"}, Case{4, 2, 1, 1, 12, 12, "h2w3"}));

TEST(HaloBytesOf, TheNetworksOwnInputNeedsNoGradient) {
  const Striping striping = Stripe(At("resnet18", 256), "h2");
  std::vector<Pass> passes;
  for (const Exchange& exchange : Find(striping, "conv1").exchanges) {
    passes.push_back(exchange.pass);
  }
  EXPECT_THAT(passes, ElementsAre(Pass::kForward, Pass::kBackwardFilter));
}

// A 3x3 window with stride 2 and pad 1 moves over 128 rows, 64 on each rank. The first window of
// rank 1 also reads the last row of rank 0. In the backward pass, rank 0 needs the other two rows
// of x that this window reads, to find the maximum, and the window's row of gradients. Rank 1 needs
// the last row of rank 0 again.
TEST(HaloBytesOf, GradientsOfMaximaNeedRowsOfBothTensors) {
  const StripedOperator pool = Find(Stripe(At("resnet18", 256), "h2"), "pool1");
  constexpr int64_t kRow = 2 * 64 * 128 * 4, kGradientRow = 2 * 64 * 64 * 4;
  ASSERT_EQ(pool.exchanges.size(), 2u);
  EXPECT_THAT(pool.exchanges[0].received, ElementsAre(0, kRow));
  EXPECT_EQ(pool.exchanges[1].pass, Pass::kBackward);
  EXPECT_THAT(pool.exchanges[1].received, ElementsAre(2 * kRow + kGradientRow, kRow));
}

TEST(HaloBytesOf, NormsSumTwoNumbersAChannel) {
  const Striping striping = Stripe(Net(BatchNormalization{}, 8, 8), "h2w2");
  ASSERT_EQ(Find(striping, "op").exchanges.size(), 2u);
  for (const Exchange& exchange : Find(striping, "op").exchanges) {
    EXPECT_EQ(exchange.summed, 2 * 4 * 4);
    EXPECT_THAT(exchange.received, IsEmpty());
  }
}

TEST(HaloBytesOf, AGatherGivesEachTheWhole) {
  const Striping striping = Stripe(Net(FullyConnected{10}, 5, 4), "h2", 3);
  const StripedOperator& made = Find(striping, "op");
  ASSERT_EQ(made.exchanges.size(), 1u);
  constexpr int64_t kRow = 3 * 4 * 4 * 4;  // images * channels * columns * bytes
  EXPECT_THAT(made.exchanges[0].received, ElementsAre(2 * kRow, 3 * kRow));
  EXPECT_THAT(made.exchanges[0].sent, ElementsAre(3 * kRow, 2 * kRow));
  EXPECT_EQ(striping.Traffic(true).all, 5 * kRow);
}

TEST(HaloBytesOf, CopiesExchangeNothing) {
  const Striping striping = Stripe(At("resnet50", 256), "h2w2");
  EXPECT_THAT(Find(striping, "fc").exchanges, IsEmpty());
}

TEST(HaloBytesOf, TransposedConvolutionsAreTheOthersBackwards) {
  TransposedConvolution up;
  up.filters = 5;
  up.window = {1, 4, 4};
  up.stride = {1, 2, 2};
  up.pad = {0, 1, 1};
  const Striping striping = Stripe(Net(up, 8, 6), "h2", 3);
  const StripedOperator& made = Find(striping, "op");
  ASSERT_EQ(made.judgement.verdict, Verdict::kExact) << made.judgement.why;
  EXPECT_THAT(RowsOf(made), ElementsAre(8, 8));
  ASSERT_EQ(made.exchanges.size(), 3u);
  Convolution down{.filters = 4};
  down.window = up.window;
  down.stride = up.stride;
  down.pad = up.pad;
  const Tensor x = {{8, 8}, {12}}, y = {{4, 4}, {6}};
  EXPECT_EQ(made.exchanges[0].received, Bytes(Count(down, x, y, false), true, 2, 3 * 4 * 4));
  EXPECT_EQ(made.exchanges[1].received, Bytes(Count(down, x, y, true), true, 2, 3 * 5 * 4));
  EXPECT_EQ(made.exchanges[2].received, Bytes(Count(down, x, y, false), true, 2, 3 * 4 * 4));
}

}  // namespace
}  // namespace ucudnn::planner
