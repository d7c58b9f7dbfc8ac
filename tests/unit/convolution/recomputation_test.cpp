// Tests that rows next to cuts, if computed again from assembled tensors, equal those of the
// undivided convolution. There are 10,000 random cuts along one to three axes, alternately for
// forward and for backward_data.
#include "convolution/recomputation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cut_convolution.h"
#include "tests/support/problem.h"

namespace ucudnn {
namespace {

using test::CutConvolution;
using test::Image;
using test::Place;
using test::View;

constexpr unsigned kRecomputationSeed = 77;
constexpr int kRecomputationRounds = 10000;

template <typename Check>
void ForEachRecomputedCut(const Check& check) {
  test::RandomCuts cuts(kRecomputationSeed);
  for (int round = 0; round < kRecomputationRounds; ++round) {
    const Operation operation = round % 2 == 0 ? Operation::kForward : Operation::kBackwardData;
    const CutConvolution cut = cuts.Next(operation);
    const std::vector<Stripes> cells = cut.Cells();
    if (!cells.empty()) check(cut, cells, cuts.Random());
    if (testing::Test::HasFailure()) {
      FAIL() << cut.Text() << "; seed " << kRecomputationSeed << ", round " << round;
    }
  }
}

bool ComputesWindows(const CutConvolution& cut) {
  return cut.whole.operation == Operation::kForward;
}

SpatialBox ResultOf(const CutConvolution& cut, int cell) {
  return ComputesWindows(cut) ? cut.WindowsOf(cell) : cut.ElementsOf(cell);
}

SpatialBox ExchangedOf(const CutConvolution& cut, int cell) {
  return ComputesWindows(cut) ? cut.ElementsOf(cell) : cut.WindowsOf(cell);
}

// Returns the tensor from which `box` is computed: copies of own and received rows, zeros
// elsewhere.
Image Assembled(const CutConvolution& cut, const RecomputedBox& box, int cell,
                const std::vector<HaloMessage>& received, Image& exchanged) {
  Image assembled(box.assembled);
  Image filled(box.assembled);  // 1 where something was copied
  Image own = CopyOf(Slice(exchanged, ExchangedOf(cut, cell)));
  for (const AssembledCopy& copy : box.copies) {
    Image from = own;
    if (copy.message != AssembledCopy::kOwn) {
      const HaloMessage& message = received.at(copy.message);
      Image sent = CopyOf(Slice(exchanged, ExchangedOf(cut, message.peer)));
      from = CopyOf(Slice(sent, message.blocks.at(copy.block).box));
    }
    SpatialBox to;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      to[axis] = {copy.to[axis], copy.to[axis] + copy.from[axis].Length()};
    }
    for (const uint64_t times : CopyOf(Slice(filled, to)).values) EXPECT_EQ(times, 0u);
    Image ones = CopyOf(Slice(filled, to));
    std::fill(ones.values.begin(), ones.values.end(), 1);
    Store(Whole(ones), Slice(filled, to));
    Store(Slice(from, copy.from), Slice(assembled, to));
  }
  return assembled;
}

TEST(Recomputation, OfRowsAtTheCutsGivesTheUndividedResult) {
  int boxes = 0;
  ForEachRecomputedCut(
      [&](const CutConvolution& cut, const std::vector<Stripes>& cells, std::mt19937_64& random) {
        const Operation operation = cut.whole.operation;
        const bool forward = ComputesWindows(cut);
        Place of_x, of_w, of_y;
        for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
          of_x[axis] = cut.whole.x[axis];
          of_w[axis] = cut.whole.w[axis];
          of_y[axis] = test::CountedWindows(WindowOf(cut.whole, axis), of_x[axis]);
        }
        Image w = Image::Random(of_w, random);
        Image exchanged = Image::Random(forward ? of_x : of_y, random);
        Image result(forward ? of_y : of_x);
        const auto convolve = [&](Image& from, const View& to, const test::Moves& moves) {
          test::Convolve(operation, forward ? Whole(from) : to, Whole(w),
                         forward ? to : Whole(from), moves);
        };
        convolve(exchanged, Whole(result), cut.AllMoves());
        for (int cell = 0; cell < static_cast<int>(cells.size()); ++cell) {
          Image own = CopyOf(Slice(exchanged, ExchangedOf(cut, cell)));
          Image computed(CopyOf(Slice(result, ResultOf(cut, cell))).extents);
          convolve(own, Whole(computed), cut.AllMoves());
          const auto received = cells[cell].Received();
          for (const RecomputedBox& box : RecomputedBoxes(cells[cell], received)) {
            Image assembled = Assembled(cut, box, cell, received, exchanged);
            const View rows = Slice(computed, box.result);
            Image again(rows.extents);
            test::Moves moves = cut.AllMoves();
            moves.pad = box.pad;
            convolve(assembled, Whole(again), moves);
            Store(Whole(again), rows);
            ++boxes;
          }
          ASSERT_EQ(computed, CopyOf(Slice(result, ResultOf(cut, cell)))) << "rank " << cell;
        }
      });
  EXPECT_GT(boxes, kRecomputationRounds);
}

// Returns, for each position of a rank's result along one axis, whether a window and a tap connect
// it with a position of another part. Looks at all windows and taps.
std::vector<bool> TouchedAlong(const CutConvolution& cut, int cell, size_t axis) {
  const SlidingWindow window = WindowOf(cut.whole, axis);
  const Interval result = ResultOf(cut, cell)[axis], own = ExchangedOf(cut, cell)[axis];
  std::vector<bool> touched(result.Length());
  for (int64_t at = 0; at < test::CountedWindows(window, cut.whole.x[axis]); ++at) {
    for (int64_t tap = 0; tap < window.taps; ++tap) {
      const int64_t element = at * window.stride - window.pad + tap * window.dilation;
      if (element < 0 || element >= cut.whole.x[axis]) continue;
      const int64_t of_result = ComputesWindows(cut) ? at : element;
      const int64_t other = ComputesWindows(cut) ? element : at;
      if (of_result < result.begin || of_result >= result.end) continue;
      if (other < own.begin || other >= own.end) touched[of_result - result.begin] = true;
    }
  }
  return touched;
}

// Returns whether, along every axis, a window and a tap contribute to position `at` of a rank's
// result.
bool ReadsAlongAllAxes(const CutConvolution& cut, int cell, const Place& at) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const SlidingWindow window = WindowOf(cut.whole, axis);
    const int64_t position = ResultOf(cut, cell)[axis].begin + at[axis];
    bool reads = false;
    for (int64_t window_at = 0;
         window_at < test::CountedWindows(window, cut.whole.x[axis]) && !reads; ++window_at) {
      for (int64_t tap = 0; tap < window.taps && !reads; ++tap) {
        const int64_t element = window_at * window.stride - window.pad + tap * window.dilation;
        reads = element >= 0 && element < cut.whole.x[axis] &&
                position == (ComputesWindows(cut) ? window_at : element);
      }
    }
    if (!reads) return false;
  }
  return true;
}

TEST(Recomputation, IsOfTheRowsThatAHaloTouchesAndOfEachOnce) {
  int64_t untouched_rows = 0, touched_rows = 0;
  ForEachRecomputedCut(
      [&](const CutConvolution& cut, const std::vector<Stripes>& cells, std::mt19937_64& random) {
        const int cell = static_cast<int>(random() % cells.size());
        const SpatialBox result = ResultOf(cut, cell);
        Image times({result[0].Length(), result[1].Length(), result[2].Length()});
        for (const RecomputedBox& box : RecomputedBoxes(cells[cell], cells[cell].Received())) {
          const View rows = Slice(times, box.result);
          for (int64_t d = 0; d < rows.extents[0]; ++d) {
            for (int64_t h = 0; h < rows.extents[1]; ++h) {
              for (int64_t w = 0; w < rows.extents[2]; ++w) ++rows.At(d, h, w);
            }
          }
        }
        std::array<std::vector<bool>, kMaxSpatial> touched;
        for (size_t axis = 0; axis < kMaxSpatial; ++axis)
          touched[axis] = TouchedAlong(cut, cell, axis);
        const View all = Whole(times);
        for (int64_t d = 0; d < all.extents[0]; ++d) {
          for (int64_t h = 0; h < all.extents[1]; ++h) {
            for (int64_t w = 0; w < all.extents[2]; ++w) {
              const bool is_touched = touched[0][d] || touched[1][h] || touched[2][w];
              ++(is_touched ? touched_rows : untouched_rows);
              if (all.At(d, h, w) == (is_touched ? 1u : 0u)) continue;
              // A touched position may be in no box if, along some axis, no window and tap
              // contribute to it. Then the halo does not contribute to it either.
              ASSERT_TRUE(is_touched && all.At(d, h, w) == 0 &&
                          !ReadsAlongAllAxes(cut, cell, {d, h, w}))
                  << "rank " << cell << ", row " << d << " " << h << " " << w << " computed "
                  << all.At(d, h, w) << " times";
            }
          }
        }
      });
  EXPECT_GT(touched_rows, kRecomputationRounds);
  EXPECT_GT(untouched_rows, kRecomputationRounds);
}

TEST(Recomputation, OfGradientsCopiesTheWindowsOverThemAndPadsLittleMore) {
  ForEachRecomputedCut([](const CutConvolution& cut, const std::vector<Stripes>& cells,
                          std::mt19937_64& random) {
    const Stripes& stripes = cells[random() % cells.size()];
    if (ComputesWindows(cut)) return;
    for (const RecomputedBox& box : RecomputedBoxes(stripes, stripes.Received())) {
      for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
        const SlidingWindow window = WindowOf(cut.whole, axis);
        const auto sources = stripes.Sources()[axis];
        if (std::ranges::all_of(sources, [&](const AxisSource& source) {
              return source.part == stripes.part[axis];
            })) {
          ASSERT_EQ(box.pad[axis], window.pad);
          continue;
        }
        ASSERT_LE(box.pad[axis], window.Extent() - 2 + window.stride);
        const auto& [begin, end] = box.result[axis];
        const int64_t first = (window.pad + begin - box.pad[axis]) / window.stride;
        for (const AssembledCopy& copy : box.copies) {
          for (int64_t row = 0; row < copy.from[axis].Length(); ++row) {
            const int64_t reads_from = (first + copy.to[axis] + row) * window.stride - window.pad;
            ASSERT_LT(reads_from, end);
            ASSERT_GT(reads_from + window.Extent(), begin);
          }
        }
      }
    }
  });
}

std::vector<RecomputedBox> InnerBoxes(Operation operation, const SpatialGrid& grid, int cell,
                                      const AxisExtents& extents) {
  ConvolutionProblem local = test::ProblemWith({.operation = operation, .x = {1, 16, 16}});
  const auto stripes = Stripes::Make(local, grid, cell, extents);
  EXPECT_TRUE(stripes.ok()) << stripes.message();
  return RecomputedBoxes(*stripes, stripes->Received());
}

TEST(Recomputation, OfThreeTapsIsARowASideFromThree) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    const auto boxes = InnerBoxes(operation, {.h = 3}, 1, {{{1}, {16, 16, 16}, {16}}});
    ASSERT_EQ(boxes.size(), 2u);
    EXPECT_EQ(boxes[0].result, (SpatialBox{{{0, 1}, {0, 1}, {0, 16}}}));
    EXPECT_EQ(boxes[1].result, (SpatialBox{{{0, 1}, {15, 16}, {0, 16}}}));
    for (const RecomputedBox& box : boxes) {
      EXPECT_EQ(box.assembled, (Place{1, 3, 16}));
      EXPECT_EQ(box.pad, (Place{0, operation == Operation::kForward ? 0 : 2, 1}));
      EXPECT_EQ(box.copies.size(), 2u);
    }
  }
}

TEST(Recomputation, OfCutsAlongTwoAxesIsAFrame) {
  const auto boxes =
      InnerBoxes(Operation::kForward, {.h = 3, .w = 3}, 4, {{{1}, {16, 16, 16}, {16, 16, 16}}});
  ASSERT_EQ(boxes.size(), 4u);
  EXPECT_EQ(boxes[0].result, (SpatialBox{{{0, 1}, {0, 1}, {0, 16}}}));
  EXPECT_EQ(boxes[1].result, (SpatialBox{{{0, 1}, {15, 16}, {0, 16}}}));
  EXPECT_EQ(boxes[2].result, (SpatialBox{{{0, 1}, {1, 15}, {0, 1}}}));
  EXPECT_EQ(boxes[3].result, (SpatialBox{{{0, 1}, {1, 15}, {15, 16}}}));
}

TEST(Recomputation, OfFilterGradientsThereIsNone) {
  EXPECT_TRUE(
      InnerBoxes(Operation::kBackwardFilter, {.h = 3}, 1, {{{1}, {16, 16, 16}, {16}}}).empty());
}

}  // namespace
}  // namespace ucudnn
