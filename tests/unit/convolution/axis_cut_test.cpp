// Tests cut axes against loops over all windows and taps. CutAxis must accept exactly the cuts with
// which the parts' own convolutions compute each window of the axis once. SourcesOf must list
// exactly what a part reads.
#include "convolution/axis_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "convolution/axis_sources.h"
#include "cut_convolution.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kAxisSeed = 1917;

Result<AxisCut> Cut(const SlidingWindow& window, std::vector<int64_t> extents) {
  return CutAxis('h', window, extents);
}

std::string Refusal(const SlidingWindow& window, const std::vector<int64_t>& extents) {
  const auto cut = Cut(window, extents);
  return cut.ok() ? "none" : cut.message();
}

TEST(AxisCut, IsAcceptedExactlyWhereLocalWindowsTileTheWhole) {
  test::RandomCuts cuts(kAxisSeed);
  int accepted = 0, without_window = 0;
  constexpr int kRounds = 40000;
  for (int round = 0; round < kRounds; ++round) {
    const test::RandomAxis axis = cuts.Axis(1 + round % 5, 7);
    const auto cut = CutAxis('w', axis.window, axis.extents);
    ASSERT_EQ(cut.ok(), test::IsTransparent(axis))
        << axis.Text() << "; " << cut.message() << "; seed " << kAxisSeed << ", round " << round;
    if (!cut.ok()) {
      without_window += cut.message().find("no window") != std::string::npos ? 1 : 0;
      continue;
    }
    ++accepted;
    int64_t elements = 0, windows = 0;
    for (int part = 0; part < cut->Parts(); ++part) {
      const int64_t count = test::CountedWindows(axis.window, axis.extents[part]);
      ASSERT_EQ(cut->elements[part], (Interval{elements, elements + axis.extents[part]}));
      ASSERT_EQ(cut->windows[part], (Interval{windows, windows + count}));
      elements += axis.extents[part];
      windows += count;
    }
  }
  EXPECT_GT(accepted, kRounds / 4);
  EXPECT_LT(accepted, kRounds * 3 / 4);
  EXPECT_GT(without_window, 100);
}

TEST(AxisCut, ARefusalNamesWhatPreventsIt) {
  const SlidingWindow resnet = {3, 1, 2, 1};
  EXPECT_EQ(Refusal(resnet, {8, 7, 8}),
            "h: part 1 of 3 has extent 7, which the stride 2 does not divide");
  EXPECT_EQ(Refusal(resnet, {8, 8, 7}), "none");
  EXPECT_EQ(
      Refusal({3, 1, 1, 0}, {8, 8}),
      "h: windows of extent 3 and stride 1 go on across a cut with a pad of 1, not with 0: set "
      "such a pad, or use ucudnn.spatial.convert (PyTorch)");
  EXPECT_EQ(
      Refusal({3, 1, 1, 2}, {8, 8}),
      "h: windows of extent 3 and stride 1 go on across a cut with a pad of 1, not with 2: set "
      "such a pad");
  EXPECT_EQ(Refusal({11, 1, 4, 2}, {8, 8}),
            "h: windows of extent 11 and stride 4 go on across a cut with a pad from 4 to 5, not "
            "with 2: set such a pad, or use ucudnn.spatial.convert (PyTorch)");
  EXPECT_EQ(Refusal({4, 1, 1, 1}, {8, 8}),
            "h: windows of extent 4 and stride 1 go on across a cut with no pad, not with 1: leave "
            "this axis uncut, or use ucudnn.spatial.convert (PyTorch)");
  EXPECT_EQ(Refusal({2, 1, 2, 0}, {2, 1}),
            "h: part 1 of 2 has no window: extent 1 with pad 0 on both sides is less than the "
            "window's extent 2");
  EXPECT_EQ(Refusal({3, 1, 1, 1}, {4, 0, 4}), "h: part 1 of 3 has extent 0");
  EXPECT_EQ(Refusal({3, 1, 1, 1}, {4, -1}), "h: part 1 of 2 has extent -1");
  EXPECT_EQ(Refusal({3, 1, 1, 1}, {int64_t{1} << 31, 4}), "h: part 0 of 2 has extent 2147483648");
  EXPECT_EQ(Refusal({3, 1, 1, 1}, {}), "h: there are no parts");
}

TEST(AxisCut, AnUncutAxisNeedsAWindowAndNothingElse) {
  EXPECT_EQ(Refusal({11, 1, 4, 2}, {7}), "none");
  EXPECT_EQ(Refusal({3, 1, 1, 9}, {1}), "none");
  EXPECT_THAT(Refusal({11, 1, 4, 2}, {6}), HasSubstr("part 0 of 1 has no window"));
}

TEST(AxisCut, CommonLayersAreAcceptedOrRefused) {
  const auto accepted = [](SlidingWindow window) { return Refusal(window, {64, 64}) == "none"; };
  EXPECT_TRUE(accepted({3, 1, 1, 1}));
  EXPECT_TRUE(accepted({3, 3, 1, 3}));
  EXPECT_TRUE(accepted({7, 1, 2, 3}));  // ResNet's stem
  EXPECT_TRUE(accepted({3, 1, 2, 1}));
  EXPECT_TRUE(accepted({1, 1, 2, 0}));    // ResNet's shortcuts
  EXPECT_TRUE(accepted({4, 1, 2, 1}));    // generators
  EXPECT_TRUE(accepted({16, 1, 16, 0}));  // image patches
  EXPECT_FALSE(accepted({11, 1, 4, 2}));  // AlexNet's stem
  EXPECT_FALSE(accepted({3, 1, 1, 0}));
  EXPECT_FALSE(accepted({2, 1, 1, 0}));
  EXPECT_FALSE(accepted({4, 1, 1, 1}));
  EXPECT_FALSE(accepted({3, 1, 2, 0}));
}

using Pair = std::array<int64_t, 3>;  // window, tap, element
using Pairs = std::set<Pair>;

// Looks at all windows in `windows`. Returns (window, tap, element) for each tap that reads an
// element in `elements`.
Pairs PairsOf(const SlidingWindow& window, const Interval& windows, const Interval& elements) {
  Pairs pairs;
  for (int64_t at = windows.begin; at < windows.end; ++at) {
    for (int64_t tap = 0; tap < window.taps; ++tap) {
      const int64_t element = at * window.stride - window.pad + tap * window.dilation;
      if (elements.begin <= element && element < elements.end) pairs.insert({at, tap, element});
    }
  }
  return pairs;
}

// Adds the (window, tap, element) triples of `term` to `pairs`. The windows of `term` are counted
// from `windows_at`, its elements from `elements_at`. Returns false if `pairs` already has such a
// triple, or if a `term` without pad reads beyond its elements.
bool AddPairs(const SlidingWindow& window, const AxisTerm& term, int64_t windows_at,
              int64_t elements_at, Pairs& pairs) {
  for (int64_t at = 0; at < term.windows.Length(); ++at) {
    for (int64_t tap = 0; tap < term.taps.Length(); ++tap) {
      const int64_t read = at * window.stride - term.pad + tap * window.dilation;
      if (read < 0 || read >= term.elements.Length()) {
        if (term.pad == 0) return false;
        continue;
      }
      const Pair pair = {windows_at + term.windows.begin + at, term.taps.begin + tap,
                         elements_at + term.elements.begin + read};
      if (!pairs.insert(pair).second) return false;
    }
  }
  return true;
}

// Two pairs lie in one rectangle if `pairs` also has the rectangle's other two corners. Returns the
// size of the largest subset of `pairs` in which no two pairs lie in one rectangle. At least as
// many rectangles are needed to cover `pairs`. Tries all subsets, so `pairs` must be few.
size_t MostApart(const Pairs& pairs, std::vector<Pair> chosen = {}) {
  size_t most = chosen.size();
  for (const Pair& next : pairs) {
    if (!chosen.empty() && next <= chosen.back()) continue;
    const bool is_apart = std::all_of(chosen.begin(), chosen.end(), [&](const Pair& other) {
      const auto has = [&](int64_t at, int64_t tap) {
        return std::any_of(pairs.begin(), pairs.end(),
                           [&](const Pair& pair) { return pair[0] == at && pair[1] == tap; });
      };
      return !has(next[0], other[1]) || !has(other[0], next[1]);
    });
    if (!is_apart) continue;
    chosen.push_back(next);
    most = std::max(most, MostApart(pairs, chosen));
    chosen.pop_back();
  }
  return most;
}

TEST(PairRectangles, AreDisjointAndAllPairs) {
  std::mt19937 random(kAxisSeed);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int round = 0; round < 20000; ++round) {
    const SlidingWindow window = {draw(1, 7), draw(1, 3), draw(1, 4), draw(0, 9)};
    const int64_t at = draw(-6, 6), from = draw(-20, 20);
    const Interval windows = {at, at + draw(0, 8)};
    const Interval elements = {from, from + draw(0, 9)};
    Pairs pairs;
    for (const AxisTerm& term : PairRectangles(window, windows, elements)) {
      ASSERT_EQ(term.pad, 0);
      ASSERT_EQ((term.windows.Length() - 1) * window.stride +
                    (term.taps.Length() - 1) * window.dilation + 1,
                term.elements.Length());
      ASSERT_TRUE(AddPairs(window, term, 0, 0, pairs))
          << "seed " << kAxisSeed << ", round " << round;
    }
    ASSERT_EQ(pairs, PairsOf(window, windows, elements))
        << "seed " << kAxisSeed << ", round " << round;
  }
}

TEST(PairRectangles, AreTheFewestBetweenNeighbours) {
  for (int64_t taps = 1; taps <= 5; ++taps) {
    for (int64_t dilation = 1; dilation <= 2; ++dilation) {
      for (int64_t stride = 1; stride <= 2; ++stride) {
        const int64_t last = (taps - 1) * dilation;
        const SlidingWindow window = {taps, dilation, stride, last / 2};
        // The elements in the loop below are those directly before or after nine windows. If the
        // stride and the dilation both exceed 1, the windows skip some of these elements.
        if (stride > 1 && dilation > 1) continue;
        for (const auto& [windows, elements] :
             {std::pair{Interval{0, 9}, Interval{-window.pad, 0}},
              std::pair{Interval{-9, 0}, Interval{-window.pad - stride + 1, last}}}) {
          const Pairs pairs = PairsOf(window, windows, elements);
          EXPECT_EQ(PairRectangles(window, windows, elements).size(), MostApart(pairs))
              << taps << " taps, dilation " << dilation << ", stride " << stride;
        }
      }
    }
  }
}

TEST(PairRectangles, AreOfWindowsWhereThoseAreFewer) {
  // Window 0 reads elements 0 to 5, and window 1 reads elements 3 to 8. So element 3 is tap 3 of
  // window 0 and tap 0 of window 1.
  EXPECT_EQ(PairRectangles({6, 1, 3, 0}, {0, 2}, {3, 7}),
            (std::vector<AxisTerm>{{{0, 1}, {3, 6}, {3, 6}, 0}, {{1, 2}, {0, 4}, {3, 7}, 0}}));
}

struct CutPart {
  test::RandomAxis axis;
  AxisCut cut;
  int part = 0;
  Exchanged exchanged = Exchanged::kElements;

  // Owned() returns the positions of the exchanged tensor that part `owner` owns. Result() returns
  // the positions of the result that `part` owns.
  Interval Owned(int owner) const { return OwnedOf(exchanged == Exchanged::kElements, owner); }
  Interval Result() const { return OwnedOf(exchanged != Exchanged::kElements, part); }
  Interval All() const {
    return {0, OwnedOf(exchanged == Exchanged::kElements, cut.Parts() - 1).end};
  }
  Interval OwnedOf(bool elements, int owner) const {
    return elements ? cut.elements[owner] : cut.windows[owner];
  }
  // Returns the pairs of a position in Result() and a position in `exchanged_positions`.
  Pairs With(const Interval& exchanged_positions) const {
    return exchanged == Exchanged::kElements ? PairsOf(cut.window, Result(), exchanged_positions)
                                             : PairsOf(cut.window, exchanged_positions, Result());
  }
  std::set<int64_t> ReadOf(int owner) const {
    std::set<int64_t> positions;
    for (const Pair& pair : With(Owned(owner))) {
      positions.insert(exchanged == Exchanged::kElements ? pair[2] : pair[0]);
    }
    return positions;
  }
};

template <typename Check>
void ForEachCutPart(const Check& check) {
  test::RandomCuts cuts(kAxisSeed);
  for (int round = 0; round < 20000; ++round) {
    CutPart at;
    const int parts = 1 + round % 5;
    at.axis = cuts.TransparentAxis(parts, 7);
    const auto cut = CutAxis('h', at.axis.window, at.axis.extents);
    ASSERT_TRUE(cut.ok()) << cut.message();
    at.cut = *cut;
    at.part = static_cast<int>(cuts.Random()() % parts);
    at.exchanged = round / 5 % 2 == 0 ? Exchanged::kElements : Exchanged::kWindows;
    check(at);
    if (testing::Test::HasFailure()) {
      FAIL() << at.axis.Text() << ", part " << at.part
             << (at.exchanged == Exchanged::kElements ? ", elements" : ", windows")
             << " exchanged; seed " << kAxisSeed << ", round " << round;
    }
  }
}

TEST(AxisSources, HaveEachReadPositionOfOtherPartsOnceAndNoOther) {
  int hops = 0, gaps = 0;
  ForEachCutPart([&](const CutPart& at) {
    std::map<int, std::set<int64_t>> found;
    for (const AxisSource& source : SourcesOf(at.cut, at.part, at.exchanged)) {
      const int64_t begin = at.Owned(source.part).begin;
      std::vector<Interval> ranges;
      for (const AxisRun& run : source.runs) {
        ranges.push_back(run.range);
        ASSERT_EQ(run.at + at.Owned(at.part).begin, run.range.begin + begin);
        for (int64_t position = run.range.begin; position < run.range.end; ++position) {
          ASSERT_TRUE(found[source.part].insert(begin + position).second);
        }
      }
      ASSERT_EQ(RunsOf(at.cut, at.part, source.part, at.exchanged), ranges);
      hops += std::abs(source.part - at.part) > 1 ? 1 : 0;
      gaps += source.runs.size() > 1 ? 1 : 0;
    }
    for (int owner = 0; owner < at.cut.Parts(); ++owner) {
      const std::set<int64_t> read = at.ReadOf(owner);
      ASSERT_EQ(RunsOf(at.cut, at.part, owner, at.exchanged).empty(), read.empty());
      if (owner != at.part) {
        ASSERT_EQ(found[owner], read);
      } else {
        // If the part reads any of its own positions, the sources list all positions that it owns.
        // Otherwise they list none of these.
        ASSERT_EQ(found[owner].size(), read.empty() ? 0u : at.Owned(owner).Length());
      }
    }
  });
  EXPECT_GT(hops, 1000);
  EXPECT_GT(gaps, 100);
}

TEST(AxisSources, HaveEveryPairOnce) {
  ForEachCutPart([&](const CutPart& at) {
    Pairs pairs;
    for (const AxisSource& source : SourcesOf(at.cut, at.part, at.exchanged)) {
      for (const AxisRun& run : source.runs) {
        const int64_t begin = at.Owned(source.part).begin + run.range.begin;
        for (const AxisTerm& term : run.terms) {
          ASSERT_EQ(term.pad, source.part == at.part ? at.cut.window.pad : 0);
          ASSERT_TRUE(at.exchanged == Exchanged::kElements
                          ? AddPairs(at.cut.window, term, at.Result().begin, begin, pairs)
                          : AddPairs(at.cut.window, term, begin, at.Result().begin, pairs));
        }
      }
    }
    ASSERT_EQ(pairs, at.With(at.All()));
  });
}

TEST(AxisSources, TouchThePositionsThatReadAnotherPart) {
  ForEachCutPart([&](const CutPart& at) {
    std::set<int64_t> touched;
    for (int owner = 0; owner < at.cut.Parts(); ++owner) {
      if (owner == at.part) continue;
      for (const Pair& pair : at.With(at.Owned(owner))) {
        touched.insert((at.exchanged == Exchanged::kElements ? pair[0] : pair[2]) -
                       at.Result().begin);
      }
    }
    std::set<int64_t> found;
    int64_t end = -1;
    const auto sources = SourcesOf(at.cut, at.part, at.exchanged);
    for (const Interval& run : TouchedRuns(at.cut, at.part, at.exchanged, sources)) {
      ASSERT_GT(run.begin, end);  // adjacent runs would be one run
      ASSERT_GT(run.end, run.begin);
      end = run.end;
      for (int64_t position = run.begin; position < run.end; ++position) found.insert(position);
    }
    ASSERT_EQ(found, touched);
  });
}

// Cuts an axis into 5 parts of `windows` windows each. Returns what part 2 reads from its
// neighbour, part 2 + `side`.
AxisSource Neighbour(const SlidingWindow& window, int64_t windows, int side, Exchanged exchanged) {
  const auto cut = Cut(window, std::vector<int64_t>(5, windows * window.stride));
  EXPECT_TRUE(cut.ok()) << cut.message();
  for (const AxisSource& source : SourcesOf(*cut, 2, exchanged)) {
    if (source.part == 2 + side) return source;
  }
  return {};
}

int64_t Length(const AxisSource& source) {
  int64_t length = 0;
  for (const AxisRun& run : source.runs) length += run.range.Length();
  return length;
}

// Calls visit(window, extent) for each window with which an axis can be cut. `extent` is the extent
// of the window.
template <typename Visit>
void ForEachCuttableWindow(const Visit& visit) {
  for (int64_t taps = 1; taps <= 7; ++taps) {
    for (int64_t dilation = 1; dilation <= 3; ++dilation) {
      for (int64_t stride = 1; stride <= 4; ++stride) {
        const int64_t extent = (taps - 1) * dilation + 1;
        for (int64_t pad = 0; 2 * pad <= extent - 1; ++pad) {
          if (2 * pad >= extent - stride) visit(SlidingWindow{taps, dilation, stride, pad}, extent);
        }
      }
    }
  }
}

TEST(AxisSources, OfInnerPartsAreTheClosedForms) {
  int checked = 0;
  ForEachCuttableWindow([&](const SlidingWindow& window, int64_t extent) {
    const int64_t behind = std::max<int64_t>(0, extent - window.stride - window.pad);
    const AxisSource top = Neighbour(window, 24, -1, Exchanged::kElements);
    const AxisSource bottom = Neighbour(window, 24, 1, Exchanged::kElements);
    // If stride and dilation both exceed 1, windows may skip rows inside the halo.
    const bool dense = window.stride == 1 || window.dilation == 1;
    const int64_t stripe = 24 * window.stride;
    EXPECT_EQ(top.runs.empty() ? 0 : stripe - top.runs.front().range.begin, window.pad);
    EXPECT_EQ(bottom.runs.empty() ? 0 : bottom.runs.back().range.end, behind);
    if (dense) {
      EXPECT_EQ(Length(top), window.pad);
      EXPECT_EQ(Length(bottom), behind);
      EXPECT_LE(top.runs.size() + bottom.runs.size(), 2u);
    }
    EXPECT_EQ(Length(Neighbour(window, 24, -1, Exchanged::kWindows)),
              (extent - 1 - window.pad) / window.stride);
    EXPECT_EQ(Length(Neighbour(window, 24, 1, Exchanged::kWindows)),
              (window.pad + window.stride - 1) / window.stride);
    ++checked;
  });
  EXPECT_GT(checked, 100);
}

TEST(AxisSources, ThreeTapsOfAnyDilationAreOneRectangleASide) {
  for (int64_t dilation = 1; dilation <= 9; ++dilation) {
    const SlidingWindow window = {3, dilation, 1, dilation};
    const Interval last = {24 - dilation, 24};
    const Interval first = {0, dilation};
    for (const Exchanged exchanged : {Exchanged::kElements, Exchanged::kWindows}) {
      const AxisSource top = Neighbour(window, 24, -1, exchanged);
      const AxisSource bottom = Neighbour(window, 24, 1, exchanged);
      ASSERT_EQ(top.runs.size(), 1u);
      ASSERT_EQ(bottom.runs.size(), 1u);
      EXPECT_EQ(top.runs[0].range, last);
      EXPECT_EQ(bottom.runs[0].range, first);
      const bool forward = exchanged == Exchanged::kElements;
      // One term reads the whole halo and changes the rows of the result that are next to the halo:
      // the first `dilation` rows for `top`, the last for `bottom`.
      EXPECT_EQ(
          top.runs[0].terms,
          (std::vector<AxisTerm>{{first, forward ? Interval{0, 1} : Interval{2, 3}, first, 0}}));
      const Interval changed = forward ? last : first;
      const Interval read = forward ? first : last;
      EXPECT_EQ(
          bottom.runs[0].terms,
          (std::vector<AxisTerm>{{changed, forward ? Interval{2, 3} : Interval{0, 1}, read, 0}}));
    }
  }
}

TEST(AxisSources, OfAWideKernelAreSoonFound) {
  // Part 2048 reads 10000 positions on either side of its own 10: those of 1000 parts before it and
  // of 1000 parts after it. Part 2048 itself is one more source.
  const auto cut = Cut({20001, 1, 1, 10000}, std::vector<int64_t>(4096, 10));
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(SourcesOf(*cut, 2048, Exchanged::kElements).size(), 2001u);
}

}  // namespace
}  // namespace ucudnn
