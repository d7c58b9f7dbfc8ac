// Tests the texts that describe divisions, and that ReadPlan reads back the tiles that PlanRuns
// writes.
#include "convolution/division_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/json_value.h"
#include "convolution/json_kernel.h"
#include "tests/support/problem.h"
#include "tests/support/random_grid.h"

namespace ucudnn {
namespace {

using test::ProblemWith;

// Returns a division into the tiles of a grid. Each kind of tile has its own engine and costs.
Division DivisionOf(const ConvolutionProblem& whole, const TileGrid& grid) {
  auto cut = CutIntoTiles(whole, grid);
  EXPECT_TRUE(cut.ok()) << cut.message();
  Division division({}, std::make_shared<const Tiles>(std::move(*cut)));
  for (size_t kind = 0; kind < division.tiles->kinds.size(); ++kind) {
    const TileKind& of = division.tiles->kinds[kind];
    MicroConfiguration micro = {EngineId("graph:" + std::to_string(kind)), of.problem.n,
                                0.25 * static_cast<double>(kind), kind * 100};
    micro.tile = of.lengths;
    division.configuration.runs.push_back({micro, division.tiles->CountOf(kind)});
  }
  return division;
}

std::string TextOf(const ConvolutionProblem& whole, const TileGrid& grid) {
  return DivisionText(DivisionOf(whole, grid));
}

TEST(DivisionText, SaysImagesInTheirOrder) {
  EXPECT_EQ(DivisionText(Configuration{{{{"e", 32, 1, 0}, 4}, {{"e", 8, 1, 0}, 1}}}), "4 x 32 + 8");
  EXPECT_EQ(DivisionText(Configuration{{{{"e", 256, 1, 0}, 1}}}), "256");
}

TEST(DivisionText, SaysThePartsOfEachAxisThatIsCut) {
  const ConvolutionProblem image = ProblemWith({.n = 1, .x = {1, 2048, 2048}});
  EXPECT_EQ(TextOf(image, {.spatial = {1, 128, 1}}), "h 126x16 + 2 edges");
  EXPECT_EQ(TextOf(image, {.spatial = {1, 3, 2}}), "h 1x683 + 2 edges, w 2x1024");
  EXPECT_EQ(TextOf(ProblemWith({.n = 2, .x = {1, 64, 64}}), {.n = 2, .spatial = {1, 5, 1}}),
            "n 2x1, h 3x13 + 2 edges");
  const ConvolutionProblem volume = ProblemWith(
      {.spatial_rank = 3, .n = 1, .x = {17, 480, 832}, .w = {3, 3, 3}, .pad = {1, 1, 1}});
  EXPECT_EQ(TextOf(volume, {.spatial = {16, 2, 1}}), "d 14x1 + 2 edges, h 2x240");
  // Without padding no part is an edge; an axis with padding at one end alone has one edge.
  const ConvolutionProblem even = ProblemWith({.n = 1, .x = {1, 60, 8}, .w = {1, 1, 1}, .pad = {}});
  EXPECT_EQ(TextOf(even, {.spatial = {1, 4, 1}}), "h 4x15");
  EXPECT_EQ(TextOf(even, {.k = 4}), "k 4x2");
  ConvolutionProblem causal = ProblemWith({.n = 1, .x = {1, 64, 8}});
  causal.pad[1] = 2;
  causal.extra_pad[1] = -2;
  SetPackedStrides(causal);
  EXPECT_EQ(TextOf(causal, {.spatial = {1, 4, 1}}), "h 3x16 + 1 edge");
  const ConvolutionProblem grouped = ProblemWith({.n = 1, .c = 8, .k = 16, .groups = 8});
  EXPECT_EQ(TextOf(grouped, {.groups = 4}), "groups 4x2");
}

TEST(DivisionText, BordersAreThoseOfAllTilesOfAKind) {
  const ConvolutionProblem image = ProblemWith({.n = 1, .x = {1, 64, 64}});
  const Division rows = DivisionOf(image, {.spatial = {1, 4, 1}});
  ASSERT_EQ(rows.tiles->kinds.size(), 3u);
  EXPECT_EQ(BorderOf(*rows.tiles, 0), "h-");
  EXPECT_EQ(BorderOf(*rows.tiles, 1), "");
  EXPECT_EQ(BorderOf(*rows.tiles, 2), "h+");
  const Division corners = DivisionOf(image, {.spatial = {1, 2, 2}});
  ASSERT_EQ(corners.tiles->kinds.size(), 4u);
  EXPECT_EQ(BorderOf(*corners.tiles, 1), "h-w+");
  const ConvolutionProblem even = ProblemWith({.n = 1, .x = {1, 60, 8}, .w = {1, 1, 1}, .pad = {}});
  EXPECT_EQ(BorderOf(*DivisionOf(even, {.spatial = {1, 4, 1}}).tiles, 0), "");
}

std::string JsonOf(Division division) {
  std::optional<double> total_ms;
  return PlanRuns{division, {}, total_ms}.Write(json::kOneLine);
}

TEST(DivisionText, ImagesAreWrittenAsTheyWere) {
  const Configuration configuration{{{{"legacy:1", 3, 0.5, 100}, 2}, {{"graph:0", 2, -1, 0}, 1}}};
  EXPECT_EQ(
      JsonOf(configuration),
      R"([{"engine": "legacy:1", "micro_batch": 3, "count": 2, "workspace_bytes": 100, "piece_ms": 0.5}, )"
      R"({"engine": "graph:0", "micro_batch": 2, "count": 1, "workspace_bytes": 0, "piece_ms": null}])");
}

TEST(DivisionText, TilesAreWrittenWithTheirExtentsAndBorders) {
  const ConvolutionProblem image = ProblemWith({.n = 1, .x = {1, 64, 64}});
  EXPECT_EQ(
      JsonOf(DivisionOf(image, {.spatial = {1, 4, 1}})),
      R"([{"engine": "graph:0", "micro_batch": 1, "tile": {"h": 16}, "border": "h-", "count": 1, )"
      R"("workspace_bytes": 0, "piece_ms": 0.0}, )"
      R"({"engine": "graph:1", "micro_batch": 1, "tile": {"h": 16}, "count": 2, )"
      R"("workspace_bytes": 100, "piece_ms": 0.25}, )"
      R"({"engine": "graph:2", "micro_batch": 1, "tile": {"h": 16}, "border": "h+", "count": 1, )"
      R"("workspace_bytes": 200, "piece_ms": 0.5}])");
}

// A tile's view of x spans more elements than engines can count, so a packed copy replaces the
// view. A tile's view of y spans fewer.
TEST(DivisionText, PackedTilesAreWrittenWithTheirCopies) {
  const ConvolutionProblem whole =
      ProblemWith({.n = 1, .c = 256, .k = 2, .x = {1, 4096, 4096}, .type = DataType::kBfloat16});
  Division division = DivisionOf(whole, {.spatial = {1, 64, 1}});
  // An inner tile of 64 rows reads 66 rows of 256 channels.
  const size_t copy = size_t{2} * 256 * 66 * 4096;
  ASSERT_EQ(PackedBytes(division.tiles->kinds[1]), copy);
  for (auto& run : division.configuration.runs) {
    run.micro.workspace_bytes += 2 * copy;
    run.micro.time_ms = 1;
    run.micro.pack_ms = 0.25;
  }
  const std::string text = JsonOf(division);
  EXPECT_NE(text.find("\"pack_bytes\": " + std::to_string(copy) + ", \"pack_ms\": 0.25"),
            std::string::npos)
      << text;
  const auto read_back = [&](const std::string& plan, Division& read) {
    const auto value = ParseJson(plan);
    EXPECT_TRUE(value.ok()) << value.message();
    Status fault;
    (void)ReadPlan(JsonPlace(&*value, "plan", fault), whole, read);
    return fault;
  };
  Division read = Configuration{};
  const Status fault = read_back(text, read);
  ASSERT_TRUE(fault.ok()) << fault.message();
  EXPECT_EQ(read.configuration, division.configuration);
  std::string other = text;
  other.replace(other.find(std::to_string(copy)), std::to_string(copy).size(), "1");
  EXPECT_FALSE(read_back(other, read).ok()) << "copies of other extents";
}

TEST(DivisionText, WhatIsWrittenOfAnyTilesIsReadBack) {
  constexpr int kCases = 3000;
  const uint64_t seed = 35;
  SCOPED_TRACE("seed " + std::to_string(seed));
  test::RandomGrids random(seed);
  int divided = 0;
  for (int i = 0; i < kCases; ++i) {
    const ConvolutionProblem whole = random.Problem();
    const TileGrid grid = random.Grid(whole);
    if (!CutIntoTiles(whole, grid).ok()) continue;
    const Division division = DivisionOf(whole, grid);
    // A cut along n alone is written as micro-batches, without tiles.
    if (division.tiles->kinds[0].lengths == TileLengths{}) continue;
    ++divided;
    const std::string text = JsonOf(division);
    const auto value = ParseJson(text);
    ASSERT_TRUE(value.ok()) << value.message() << "\n" << text;
    Status fault;
    Division read = Configuration{};
    const auto time_ms = ReadPlan(JsonPlace(&*value, "plan", fault), whole, read);
    ASSERT_TRUE(fault.ok()) << fault.message() << "\n" << test::Text(whole, grid) << "\n" << text;
    ASSERT_NE(read.tiles, nullptr);
    EXPECT_EQ(read.tiles->grid, grid) << test::Text(whole, grid);
    EXPECT_EQ(read.tiles->kinds, division.tiles->kinds) << test::Text(whole, grid);
    EXPECT_EQ(read.configuration, division.configuration) << test::Text(whole, grid);
    EXPECT_EQ(time_ms, division.configuration.TimeMs());
  }
  EXPECT_GT(divided, 500);
}

}  // namespace
}  // namespace ucudnn
