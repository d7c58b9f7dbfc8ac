// Tests rows of tiles in stores, in CSV and in merged stores: each kind of tile is a separate
// kernel, and finds no rows of another kind.
#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "convolution/tiles.h"
#include "db/inspection.h"
#include "db/measurements_csv.h"
#include "fixture.h"
#include "tests/support/random_grid.h"

namespace ucudnn::db {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

class TileRowsTest : public StoreTest {
 protected:
  // Returns the distinct problems of all kinds of tiles, and of their slack twins (SlackTwin), on
  // which the kinds are measured.
  static std::vector<ConvolutionProblem> Kinds() {
    std::vector<ConvolutionProblem> kinds;
    const auto add = [&](const ConvolutionProblem& problem) {
      const ConvolutionProblem family = KernelFamily(problem);
      if (std::find(kinds.begin(), kinds.end(), family) == kinds.end()) kinds.push_back(family);
    };
    const auto cut = [&](const ConvolutionProblem& whole, const TileGrid& grid) {
      const auto tiles = CutIntoTiles(whole, grid);
      if (!tiles.ok()) return;
      for (const TileKind& kind : tiles->kinds) {
        add(kind.problem);
        add(SlackTwin(kind));
      }
    };
    for (const Operation operation : test::kOperations) {
      for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
        // The images of one kernel are cut into up to 16 parts along one axis or both.
        ConvolutionProblem whole = test::ProblemWith({.operation = operation,
                                                      .n = 1,
                                                      .c = 16,
                                                      .k = 16,
                                                      .x = {1, 64, 64},
                                                      .layout = layout,
                                                      .alignment = 16});
        for (int parts = 1; parts <= 16; parts *= 2) {
          cut(whole, {.spatial = {1, parts, 1}});
          cut(whole, {.spatial = {1, 1, parts}});
          cut(whole, {.spatial = {1, 2, parts}});
        }
      }
    }
    test::RandomGrids random(61);
    for (int i = 0; i < 300; ++i) {
      const ConvolutionProblem whole = random.Problem();
      cut(whole, random.Grid(whole));
    }
    return kinds;
  }
};

TEST_F(TileRowsTest, NoTwoKindsMeet) {
  const std::vector<ConvolutionProblem> kinds = Kinds();
  ASSERT_GT(kinds.size(), 500u);
  std::vector<StoredMeasurement> rows;
  for (size_t i = 0; i < kinds.size(); ++i) {
    rows.push_back({"", kinds[i], kPlatform, Row("graph:62", 1, static_cast<double>(i) + 1)});
  }
  SqliteStore store({Path()});
  ASSERT_EQ(*store.Add(rows), rows.size());
  EXPECT_EQ(Inspect(Path())->kernels, kinds.size());
  EXPECT_THAT(Inspect(Path())->faults, IsEmpty());
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto known = store.Read(kinds[i], kPlatform);
    ASSERT_EQ(known->rows.size(), 1u) << Describe(kinds[i]);
    EXPECT_EQ(known->rows[0].micro, rows[i].measurement.micro) << Describe(kinds[i]);
  }
  // The rows go through CSV into another store, which is then merged into a third.
  const std::string text = WriteMeasurementsCsv({*store.List(), {}});
  const auto read = ParseMeasurementsCsv(text, "m.csv", "");
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->measurements, rows);
  SqliteStore second({Path("second.db")});
  ASSERT_EQ(*second.Add(read->measurements), rows.size());
  EXPECT_EQ(WriteMeasurementsCsv({*second.List(), {}}), text);
  SqliteStore merged({Path("merged.db")});
  ASSERT_EQ(*merged.Add(ReadStore(Path("second.db"))->measurements), rows.size());
  EXPECT_THAT(*merged.List(), UnorderedElementsAreArray(rows));
  EXPECT_THAT(Inspect(Path("merged.db"))->faults, IsEmpty());
}

// The tiles at the upper and at the lower edge of an image have equal extents, but padding at
// different ends. Inner tiles have no padding.
TEST_F(TileRowsTest, EdgesAreKernelsOfTheirOwn) {
  const ConvolutionProblem whole = test::ProblemWith({.n = 1, .x = {1, 64, 64}});
  const auto tiles = CutIntoTiles(whole, {.spatial = {1, 8, 1}});
  ASSERT_TRUE(tiles.ok()) << tiles.message();
  ASSERT_EQ(tiles->kinds.size(), 3u);
  SqliteStore store({Path()});
  for (size_t kind = 0; kind < 3; ++kind) {
    const ConvolutionProblem& problem = tiles->kinds[kind].problem;
    const std::vector<planning::Measurement> row = {Row("graph:1", 1, 1.0 + kind)};
    EXPECT_THAT(store.Read(problem, kPlatform)->rows, IsEmpty()) << Describe(problem);
    ASSERT_TRUE(store.Write(problem, kPlatform, row, {}).ok());
  }
  EXPECT_THAT(store.Read(whole, kPlatform)->rows, IsEmpty());
  EXPECT_EQ(Inspect(Path())->kernels, 3u);
}

// The text is what `cache export` wrote before kernels could have more padding at the end of an
// axis.
TEST_F(TileRowsTest, AFileOfEvenPadsIsWrittenAsItWas) {
  const std::string text =
      "name,n,c,h,w,k,r,s,pad_h,pad_w,stride_h,stride_w,dilation_h,dilation_w,groups,dtype,layout,"
      "d,t,pad_d,stride_d,dilation_d,op,engine,micro_batch,time_ms,workspace_bytes,deterministic,"
      "math,compute,mode,x_strides,y_strides,align,cudnn,driver,device,samples,verified\n"
      "conv2,256,64,27,27,192,5,5,2,2,1,1,1,1,1,fp32,nchw,,,,,,forward,legacy:1,32,0.5,4096,1,"
      ",,,,,16,91900,13000,NVIDIA H100 80GB HBM3,5,1\n"
      ",,8,16,16,8,3,3,1,1,1,1,1,1,1,bf16,nhwc,9,3,2,1,1,backward_data,\"graph:38[k2=1,k14=0]\",1,"
      "0.25,0,0,,,,,,16,91900,13000,NVIDIA H100 80GB HBM3,5,0\n";
  const auto read = ParseMeasurementsCsv(text, "m.csv", "");
  ASSERT_TRUE(read.ok()) << read.message();
  ASSERT_EQ(read->measurements.size(), 2u);
  EXPECT_TRUE(read->measurements[1].problem.HasEvenPads());
  SqliteStore store({Path()});
  ASSERT_EQ(*store.Add(read->measurements), 2u);
  ConvolutionProblem asked = Problem(256);
  asked.alignment = 16;
  ASSERT_EQ(store.Read(asked, kPlatform)->rows.size(), 1u);
  EXPECT_EQ(store.Read(asked, kPlatform)->rows[0].micro,
            (MicroConfiguration{"legacy:1", 32, 0.5, 4096, true}));
  EXPECT_EQ(WriteMeasurementsCsv({*store.List(), {}}), text);
}

}  // namespace
}  // namespace ucudnn::db
