// Tests tiles against the definition of a convolution. Each tile is computed as a library would
// compute it: from its own problem and offsets alone, in the memory of the whole tensors.
#include "convolution/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/support/cases.h"
#include "tests/support/problem.h"
#include "tests/support/random_grid.h"

namespace ucudnn {
namespace {

using test::ProblemWith;
using test::RandomGrids;

// Numbers are modulo 2^64. Two sums of products of random numbers are equal if they consist of the
// same products, and otherwise almost never.
using Numbers = std::vector<uint64_t>;

Numbers RandomNumbers(size_t count, std::mt19937_64& random) {
  Numbers numbers(count);
  for (uint64_t& number : numbers) number = random();
  return numbers;
}

// A tensor's memory, and how often each of its elements was written.
struct TileMemory {
  Numbers values;
  std::vector<int> writes;
};

struct TileOperands {
  TileMemory x, w, y;
};

// The offsets of a convolution's first elements in the memory of each tensor, in elements.
struct Offsets {
  int64_t x = 0, w = 0, y = 0;
};

// Calls visit(output, tap, element) for each product of one image and one channel of `problem`.
// Taps are numbered in the order of the filter's memory.
template <typename Visit>
void ForEachProduct(const ConvolutionProblem& problem, const Visit& visit) {
  const Spatial outputs = OutputExtents(problem);
  const auto along = [&](size_t axis, const auto& next) {
    for (int64_t o = 0; o < outputs[axis]; ++o) {
      for (int64_t tap = 0; tap < problem.w[axis]; ++tap) {
        const int64_t at =
            o * problem.stride[axis] - problem.pad[axis] + tap * problem.dilation[axis];
        if (0 <= at && at < problem.x[axis]) next(o, tap, at);
      }
    }
  };
  along(0, [&](int64_t od, int64_t td, int64_t xd) {
    along(1, [&](int64_t oh, int64_t th, int64_t xh) {
      along(2, [&](int64_t ow, int64_t tw, int64_t xw) {
        visit(std::array{od, oh, ow}, (td * problem.w[1] + th) * problem.w[2] + tw,
              std::array{xd, xh, xw});
      });
    });
  });
}

// Computes `problem`, whose tensors begin at the offsets `at`, by the definition of a convolution.
// The result replaces the output in `operands`, or is added to it if `adds`. Fails the test if the
// problem reaches beyond the memory.
void Compute(const ConvolutionProblem& problem, TileOperands& operands, const Offsets& at,
             bool adds) {
  const int64_t channels = problem.c / problem.groups, filters = problem.k / problem.groups;
  const int64_t taps = int64_t{problem.w[0]} * problem.w[1] * problem.w[2];
  const auto place = [](const Strides& strides, int64_t n, int64_t c,
                        const std::array<int64_t, 3>& s) {
    return n * strides[0] + c * strides[1] + s[0] * strides[2] + s[1] * strides[3] +
           s[2] * strides[4];
  };
  TileMemory& result = problem.operation == Operation::kForward        ? operands.y
                       : problem.operation == Operation::kBackwardData ? operands.x
                                                                       : operands.w;
  const auto write = [&](int64_t index) {
    ASSERT_LT(static_cast<size_t>(index), result.values.size());
    ++result.writes[static_cast<size_t>(index)];
    if (!adds) result.values[static_cast<size_t>(index)] = 0;
  };
  const Spatial outputs = OutputExtents(problem);
  const bool to_filter = problem.operation == Operation::kBackwardFilter;
  if (to_filter) {
    for (int64_t i = 0; i < problem.k * channels * taps; ++i) write(at.w + i);
  } else {
    const bool to_image = problem.operation == Operation::kBackwardData;
    const Spatial& extents = to_image ? problem.x : outputs;
    for (int64_t n = 0; n < problem.n; ++n) {
      for (int64_t c = 0; c < (to_image ? problem.c : problem.k); ++c) {
        for (int64_t d = 0; d < extents[0]; ++d) {
          for (int64_t h = 0; h < extents[1]; ++h) {
            for (int64_t w = 0; w < extents[2]; ++w) {
              write((to_image ? at.x : at.y) +
                    place(to_image ? problem.x_strides : problem.y_strides, n, c, {d, h, w}));
            }
          }
        }
      }
    }
  }
  ForEachProduct(problem, [&](const std::array<int64_t, 3>& output, int64_t tap,
                              const std::array<int64_t, 3>& element) {
    for (int64_t n = 0; n < problem.n; ++n) {
      for (int64_t k = 0; k < problem.k; ++k) {
        for (int64_t c = 0; c < channels; ++c) {
          const auto x = static_cast<size_t>(
              at.x + place(problem.x_strides, n, k / filters * channels + c, element));
          const auto y = static_cast<size_t>(at.y + place(problem.y_strides, n, k, output));
          const auto w = static_cast<size_t>(at.w + (k * channels + c) * taps + tap);
          ASSERT_LT(x, operands.x.values.size());
          ASSERT_LT(y, operands.y.values.size());
          ASSERT_LT(w, operands.w.values.size());
          if (problem.operation == Operation::kForward) {
            operands.y.values[y] += operands.x.values[x] * operands.w.values[w];
          } else if (problem.operation == Operation::kBackwardData) {
            operands.x.values[x] += operands.y.values[y] * operands.w.values[w];
          } else {
            operands.w.values[w] += operands.y.values[y] * operands.x.values[x];
          }
        }
      }
    }
  });
}

TileOperands RandomOperands(const ConvolutionProblem& problem, std::mt19937_64& random) {
  const auto memory = [&](int64_t elements) {
    const auto count = static_cast<size_t>(elements);
    return TileMemory{RandomNumbers(count, random), std::vector<int>(count)};
  };
  return {memory(ViewSpan(problem.n, problem.c, problem.x, problem.x_strides)),
          memory(int64_t{problem.k} * (problem.c / problem.groups) * problem.w[0] * problem.w[1] *
                 problem.w[2]),
          memory(ViewSpan(problem.n, problem.k, OutputExtents(problem), problem.y_strides))};
}

// Checks that the tile's problem describes the tile's boxes, and that no library would refuse it.
void CheckProblem(const ConvolutionProblem& whole, const Tiles& cut, const Tile& tile) {
  const TileKind& kind = cut.kinds[tile.kind];
  const ConvolutionProblem& problem = kind.problem;
  ASSERT_FALSE(kind.packs_x || kind.packs_y);
  EXPECT_EQ(problem.n, tile.x[kAxisN].Length());
  EXPECT_EQ(problem.n, tile.y[kAxisN].Length());
  EXPECT_EQ(problem.c, tile.x[kAxisC].Length());
  EXPECT_EQ(problem.k, tile.y[kAxisC].Length());
  EXPECT_EQ(problem.c / problem.groups, whole.c / whole.groups);
  const Spatial outputs = OutputExtents(problem);
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    EXPECT_EQ(problem.x[axis], tile.x[kAxisD + axis].Length());
    EXPECT_EQ(outputs[axis], tile.y[kAxisD + axis].Length());
    EXPECT_GE(problem.x[axis], 1);
    EXPECT_GE(outputs[axis], 1);
    EXPECT_GE(problem.pad[axis], 0);
    EXPECT_GE(problem.pad[axis] + problem.extra_pad[axis], 0);
  }
  const auto element = static_cast<int64_t>(ElementBytes(whole.type));
  for (const int64_t offset : {tile.x_offset, tile.w_offset, tile.y_offset}) {
    EXPECT_EQ(offset * element % problem.alignment, 0);
  }
}

// Expects that the tiles of `grid` together compute what `whole` does, and adds their number to
// `tiles`. Returns whether `whole` can be cut into this grid.
bool CheckTiles(const ConvolutionProblem& whole, const TileGrid& grid, std::mt19937_64& random,
                size_t& tiles) {
  const auto cut = CutIntoTiles(whole, grid);
  if (!cut.ok()) return false;
  const TileOperands before = RandomOperands(whole, random);
  TileOperands expected = before;
  Compute(whole, expected, {}, false);
  TileOperands computed = before;
  for (size_t i = 0; i < cut->tiles.size(); ++i) {
    const Tile& tile = cut->tiles[i];
    CheckProblem(whole, *cut, tile);
    EXPECT_LE(tile.result, i);
    if (i > 0) {
      EXPECT_GE(tile.kind, cut->tiles[i - 1].kind);
    }
    Compute(cut->kinds[tile.kind].problem, computed, {tile.x_offset, tile.w_offset, tile.y_offset},
            tile.result != i);
  }
  EXPECT_EQ(computed.x.values, expected.x.values);
  EXPECT_EQ(computed.w.values, expected.w.values);
  EXPECT_EQ(computed.y.values, expected.y.values);
  EXPECT_EQ(computed.x.writes, expected.x.writes);
  EXPECT_EQ(computed.y.writes, expected.y.writes);
  tiles += cut->tiles.size();
  return true;
}

// The tiles must write each element of x or y as often as the undivided convolution does. An
// element of a filter's gradient is not counted, because every tile that adds to it writes it.
TEST(Tiles, ComputeWhatTheWholeDoes) {
  constexpr uint64_t kSeed = 35;
  RandomGrids grids(kSeed);
  size_t tiles = 0;
  int checked = 0;
  const int cases = test::Cases(100000, 20000);
  while (checked < cases) {
    const ConvolutionProblem problem = grids.Problem();
    const TileGrid grid = grids.Grid(problem);
    SCOPED_TRACE(test::Text(problem, grid) + ", seed " + std::to_string(kSeed));
    checked += CheckTiles(problem, grid, grids.random(), tiles);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(tiles, size_t{4} * static_cast<size_t>(cases));
}

// Returns the rows of `tensor` that each tile of a cut along h covers, as "begin-end".
std::vector<std::string> RowsOf(const Tiles& cut, Box Tile::*tensor) {
  std::vector<std::string> rows;
  for (const Tile& tile : cut.tiles) {
    const Interval& h = (tile.*tensor)[kAxisH];
    rows.push_back(std::to_string(h.begin) + "-" + std::to_string(h.end));
  }
  return rows;
}

using RowTexts = std::vector<std::string>;

TEST(Tiles, AreKindsOfCells) {
  const ConvolutionProblem whole = ProblemWith({.n = 1, .c = 64, .k = 64, .x = {1, 1024, 1024}});
  const auto cut = CutIntoTiles(whole, {.spatial = {1, 64, 1}});
  ASSERT_TRUE(cut.ok()) << cut.message();
  ASSERT_EQ(cut->kinds.size(), 3u);
  EXPECT_EQ(cut->CountOf(0), 1);
  EXPECT_EQ(cut->CountOf(1), 62);
  EXPECT_EQ(cut->CountOf(2), 1);
  const auto pads = [&](size_t kind) {
    const ConvolutionProblem& problem = cut->kinds[kind].problem;
    return std::pair(problem.pad[1], problem.pad[1] + problem.extra_pad[1]);
  };
  EXPECT_EQ(pads(0), std::pair(1, 0));
  EXPECT_EQ(pads(1), std::pair(0, 0));
  EXPECT_EQ(pads(2), std::pair(0, 1));
  EXPECT_EQ(cut->kinds[1].problem.x[1], 18);
}

// 11 rows are cut into 4 parts. Their lengths differ by at most one row, and the longer parts come
// first.
TEST(Tiles, HaveEqualLengthsButForOneRow) {
  const auto cut = CutIntoTiles(ProblemWith({.x = {1, 11, 8}}), {.spatial = {1, 4, 1}});
  ASSERT_TRUE(cut.ok()) << cut.message();
  EXPECT_EQ(RowsOf(*cut, &Tile::y), (RowTexts{"0-3", "3-6", "6-9", "9-11"}));
  EXPECT_EQ(RowsOf(*cut, &Tile::x), (RowTexts{"0-4", "2-7", "5-10", "8-11"}));
}

// The windows have stride 2 and pad 1. They begin at rows -1, 1, 3 and 5 of the image, so tiles can
// begin at rows 1, 3 and 5.
TEST(Tiles, OfBackwardDataBeginWhereWindowsDo) {
  const ConvolutionProblem whole =
      ProblemWith({.operation = Operation::kBackwardData, .x = {1, 8, 8}, .stride = {1, 2, 2}});
  const auto cut = CutIntoTiles(whole, {.spatial = {1, 4, 1}});
  ASSERT_TRUE(cut.ok()) << cut.message();
  EXPECT_EQ(RowsOf(*cut, &Tile::x), (RowTexts{"0-1", "1-3", "3-5", "5-8"}));
  const auto more = CutIntoTiles(whole, {.spatial = {1, 5, 1}});
  EXPECT_EQ(more.message(), "h cannot be cut into 5 parts: there are 3 places to cut it");
}

TEST(Tiles, SayWhatPreventsThem) {
  const ConvolutionProblem small = ProblemWith({.n = 2});
  EXPECT_EQ(CutIntoTiles(small, {.n = 3}).message(),
            "n cannot be cut into 3 parts: its extent is 2");
  EXPECT_EQ(CutIntoTiles(ProblemWith({.x = {1, 64, 64}}), {.spatial = {1, 17, 16}}).message(),
            "more than 256 tiles");
  EXPECT_EQ(CutIntoTiles(ProblemWith({.c = 8, .k = 8, .groups = 4}), {.k = 2}).message(),
            "k cannot be cut into 2 parts: it has 4 groups");
  EXPECT_EQ(CutIntoTiles(ProblemWith({.operation = Operation::kBackwardData}), {.k = 2}).message(),
            "k cannot be cut into 2 parts: backward_data sums over it");
  EXPECT_EQ(CutIntoTiles(ProblemWith({.pad = {0, 3, 1}}), {.spatial = {1, 2, 1}}).message(),
            "h cannot be cut into 2 parts: its padding of 3 is not less than the filter's extent "
            "of 3");
  EXPECT_EQ(CutIntoTiles(
                ProblemWith({.operation = Operation::kBackwardFilter, .type = DataType::kBfloat16}),
                {.k = 2, .spatial = {1, 2, 1}})
                .message(),
            "a 16-bit gradient that is summed has one sum of all its filters");
}

// The rows have 1090 columns of 16 bits, so 4 bytes is the alignment that all rows share.
TEST(Tiles, DeclareTheAlignmentOfAllTheirPlaces) {
  const ConvolutionProblem whole =
      ProblemWith({.n = 1, .x = {1, 64, 1090}, .type = DataType::kBfloat16, .alignment = 16});
  const auto cut = CutIntoTiles(whole, {.spatial = {1, 64, 1}});
  ASSERT_TRUE(cut.ok()) << cut.message();
  for (const TileKind& kind : cut->kinds) EXPECT_EQ(kind.problem.alignment, 4);
  EXPECT_EQ(CutIntoTiles(whole, {.spatial = {1, 2, 1}})->kinds[0].problem.alignment, 4);
}

TEST(Tiles, OfChannelsLastBeginOnSixteenBytes) {
  ConvolutionProblem whole = ProblemWith({.n = 1,
                                          .c = 3,
                                          .x = {1, 64, 1090},
                                          .type = DataType::kBfloat16,
                                          .layout = Layout::kNhwc,
                                          .alignment = 16});
  EXPECT_EQ(CutIntoTiles(whole, {.spatial = {1, 64, 1}}).message(),
            "tiles of channels that come last would begin on 4 bytes, and not on 16");
  whole.c = 8;
  SetPackedStrides(whole);
  EXPECT_TRUE(CutIntoTiles(whole, {.spatial = {1, 64, 1}}).ok());
}

// A tile of x has 256 channels, 4096 x 4096 elements apart, and spans almost 2^32 elements. A tile
// of y has two channels and spans few enough.
TEST(Tiles, ArePackedWhereTheirViewsSpanTooMuch) {
  ConvolutionProblem whole =
      ProblemWith({.n = 1, .c = 256, .k = 2, .x = {1, 4096, 4096}, .type = DataType::kBfloat16});
  const auto cut = CutIntoTiles(whole, {.spatial = {1, 64, 1}});
  ASSERT_TRUE(cut.ok()) << cut.message();
  for (const TileKind& kind : cut->kinds) {
    EXPECT_TRUE(kind.packs_x);
    EXPECT_FALSE(kind.packs_y);
    EXPECT_EQ(kind.problem.x_strides, PackedStrides(whole.layout, 256, kind.problem.x));
    EXPECT_EQ(kind.problem.y_strides[1], int64_t{4096} * 4096);
  }
  // With channels last, a tile's rows are contiguous, so the tile spans only its own elements.
  whole.layout = Layout::kNhwc;
  SetPackedStrides(whole);
  const auto last = CutIntoTiles(whole, {.spatial = {1, 64, 1}});
  ASSERT_TRUE(last.ok()) << last.message();
  for (const TileKind& kind : last->kinds) EXPECT_FALSE(kind.packs_x || kind.packs_y);
}

// SlackTwin returns a tile as a part of tensors that have one row more than the tile. With channels
// first, this additional row lies between the channels. With channels last, no stride changes.
TEST(Tiles, HaveTwinsWithOneRowMore) {
  for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    const ConvolutionProblem whole =
        ProblemWith({.n = 1, .c = 8, .k = 8, .x = {1, 64, 32}, .layout = layout, .alignment = 16});
    const auto cut = CutIntoTiles(whole, {.spatial = {1, 4, 1}});
    ASSERT_TRUE(cut.ok()) << cut.message();
    ConvolutionProblem twin = SlackTwin(cut->kinds[1]);
    EXPECT_EQ(twin.x[1], 18);
    if (layout == Layout::kNhwc) {
      EXPECT_EQ(twin, cut->kinds[1].problem);  // the additional row comes after all other rows
      continue;
    }
    EXPECT_EQ(twin.x_strides, (Strides{7 * 19 * 32 + 18 * 32, 19 * 32, 18 * 32, 32, 1}));
    EXPECT_EQ(twin.y_strides, (Strides{7 * 17 * 32 + 16 * 32, 17 * 32, 16 * 32, 32, 1}));
    twin.x_strides = cut->kinds[1].problem.x_strides;
    twin.y_strides = cut->kinds[1].problem.y_strides;
    EXPECT_EQ(twin, cut->kinds[1].problem);
  }
}

// cuDNN looks at the stride of n even if there is one image. If that stride is larger than the span
// of the tile, cuDNN may refuse fast engines.
TEST(Tiles, OfOneImageHaveItsSpanAsStride) {
  const auto cut =
      CutIntoTiles(ProblemWith({.n = 2, .x = {1, 16, 8}}), {.n = 2, .spatial = {1, 2, 1}});
  ASSERT_TRUE(cut.ok()) << cut.message();
  // The tile reads 9 rows of 8 elements in each of the 4 channels of x, and writes 8 rows in each
  // of the 8 channels of y. Channels lie 128 elements apart.
  EXPECT_EQ(cut->kinds[0].problem.x_strides[0], 3 * 128 + 72);
  EXPECT_EQ(cut->kinds[0].problem.y_strides[0], 7 * 128 + 64);
  EXPECT_EQ(CutIntoTiles(ProblemWith({.n = 2, .x = {1, 16, 8}}), {.spatial = {1, 2, 1}})
                ->kinds[0]
                .problem.x_strides[0],
            4 * 128);
}

}  // namespace
}  // namespace ucudnn
