// Tests the reading of workspace plans. Wrong content is refused with a message that names the
// place in the file.
#include "planning/workspace_plan.h"

#include <gmock/gmock.h>

#include <fstream>

#include "convolution/tiles.h"

namespace ucudnn::planning {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string PieceJson(int size, int count, size_t bytes, const char* engine = "legacy:1") {
  return std::string(R"({"engine":")") + engine + R"(","workspace_bytes":)" +
         std::to_string(bytes) + R"(,"piece_ms":0.5,"micro_batch":)" + std::to_string(size) +
         R"(,"count":)" + std::to_string(count) + "}";
}

std::string Kernel(int channels, const std::string& pieces, const std::string& segment,
                   const std::string& after = "") {
  return R"({"op":"forward","problem":{"n":8,"c":)" + std::to_string(channels) +
         R"(,"h":9,"w":9,"k":4,"r":3,"s":3,"align":16},"api":"legacy","plan":[)" + pieces +
         R"(],"segment":)" + segment + R"(,"order_after":[)" + after + "]}";
}

std::string File(const std::string& budget, const std::string& kernels,
                 const std::string& division = "shared") {
  return R"({"format":"ucudnn-workspace-plan","version":2,"cudnn":91900,"device":"D",)" + budget +
         R"(,"division":")" + division + R"(","kernels":[)" + kernels + "]}";
}

const std::string kPieces = PieceJson(3, 2, 100) + "," + PieceJson(2, 1, 40, "legacy:0");

TEST(WorkspacePlan, ReadsWhatWorkspaceWrites) {
  const auto plan = ParseWorkspacePlan(File(
      R"("total_bytes":1000)", Kernel(3, kPieces, "7") + "," + Kernel(4, PieceJson(8, 1, 0), "2") +
                                   "," + Kernel(5, PieceJson(4, 2, 60), "7")));
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_EQ(plan->device, "D");
  EXPECT_EQ(plan->cudnn, 91900);
  EXPECT_EQ(plan->total_bytes, 1000u);
  EXPECT_EQ(plan->division, WorkspaceDivision::kShared);
  ASSERT_EQ(plan->kernels.size(), 3u);
  EXPECT_EQ(plan->kernels[0].configuration.Images(), 8);
  EXPECT_FALSE(plan->kernels[0].configuration.IsTiled());
  EXPECT_EQ(plan->kernels[0].configuration.runs[1].micro.engine, "legacy:0");
  EXPECT_EQ(plan->kernels[0].segment, plan->kernels[2].segment);
  ASSERT_EQ(plan->segments.size(), 2u);
  EXPECT_EQ(plan->segments[plan->kernels[0].segment].bytes, 100u);
  EXPECT_EQ(plan->reserved_bytes, 100u);
}

// 8 images of 9 rows are cut into 4 parts: an edge of 3 rows, 2 parts of 2 rows, an edge of 2 rows.
constexpr const char* kTiles =
    R"({"engine":"graph:62","micro_batch":1,"tile":{"h":3},"border":"h-","count":8,)"
    R"("workspace_bytes":50,"piece_ms":0.5},)"
    R"({"engine":"graph:1","micro_batch":1,"tile":{"h":2},"count":16,)"
    R"("workspace_bytes":70,"piece_ms":0.25},)"
    R"({"engine":"graph:62","micro_batch":1,"tile":{"h":2},"border":"h+","count":8,)"
    R"("workspace_bytes":60,"piece_ms":0.5})";

std::string TiledKernel(const std::string& tiles = kTiles) {
  std::string kernel = Kernel(3, tiles, "0");
  kernel.replace(kernel.find("\"s\":3"), 5, "\"s\":3,\"pad_h\":1,\"pad_w\":1");
  return kernel;
}

TEST(WorkspacePlan, ReadsTiles) {
  const auto plan = ParseWorkspacePlan(File(R"("total_bytes":1000)", TiledKernel()));
  ASSERT_TRUE(plan.ok()) << plan.message();
  const WorkspacePlanKernel& kernel = plan->kernels[0];
  EXPECT_EQ(kernel.configuration.grid, (TileGrid{.n = 8, .spatial = {1, 4, 1}}));
  const auto division = DivisionOf(kernel.problem, kernel.configuration);
  ASSERT_TRUE(division.ok()) << division.message();
  EXPECT_EQ(division->tiles->tiles.size(), 32u);
  EXPECT_EQ(kernel.configuration.TimeMs(), 8 * 0.5 + 16 * 0.25 + 8 * 0.5);
  EXPECT_EQ(plan->reserved_bytes, 70u);
}

TEST(WorkspacePlan, TilesThatAreNoDivisionAreRefused) {
  const auto refusal = [](const std::string& was, const std::string& is) {
    std::string tiles = kTiles;
    tiles.replace(tiles.find(was), was.size(), is);
    return ParseWorkspacePlan(File(R"("total_bytes":1000)", TiledKernel(tiles))).message();
  };
  EXPECT_THAT(refusal("\"count\":16", "\"count\":15"), HasSubstr("kernels[0].plan has tiles"));
  EXPECT_THAT(refusal("{\"h\":3}", "{\"h\":2}"), HasSubstr("kernels[0].plan has tiles"));
  EXPECT_THAT(refusal("{\"h\":3}", "{\"h\":0}"), HasSubstr("kernels[0].plan[0].tile.h"));
  EXPECT_THAT(refusal("{\"h\":3}", "3"), HasSubstr("kernels[0].plan[0].tile"));
  EXPECT_THAT(refusal("{\"h\":3}", "{\"w\":3}"), HasSubstr("kernels[0].plan"));
  EXPECT_THAT(refusal("\"tile\":{\"h\":3},", ""), HasSubstr("kernels[0].plan[0].tile"));
  EXPECT_THAT(refusal("h-", "h+"), HasSubstr("kernels[0].plan[0].border"));
  EXPECT_THAT(refusal("\"count\":16", "\"count\":257"), HasSubstr("kernels[0].plan[1].count"));
}

TEST(WorkspacePlan, FindsAKernelWhateverItsAlignment) {
  const auto plan = ParseWorkspacePlan(File(R"("limit_bytes":null)", Kernel(3, kPieces, "null")));
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_FALSE(plan->total_bytes);
  ConvolutionProblem problem = plan->kernels[0].problem;
  problem.alignment = 64;
  EXPECT_EQ(plan->Find(problem, Api::kLegacy), 0);
  problem.n = 4;
  EXPECT_EQ(plan->Find(problem, Api::kLegacy), -1) << "the mini-batch counts";
}

TEST(WorkspacePlan, GraphsFollowTheirOwnKernelElseTheLegacyOne) {
  const std::string legacy = Kernel(3, kPieces, "0");
  std::string graph = Kernel(3, PieceJson(4, 2, 60, "graph:38[k2=1]"), "1");
  graph.replace(graph.find("\"legacy\""), 8, "\"graph\"");
  const auto both = ParseWorkspacePlan(File(R"("total_bytes":1000)", legacy + "," + graph));
  ASSERT_TRUE(both.ok()) << both.message();
  const ConvolutionProblem problem = both->kernels[0].problem;
  EXPECT_EQ(both->Find(problem, Api::kLegacy), 0);
  EXPECT_EQ(both->Find(problem, Api::kGraph), 1);
  EXPECT_EQ(both->segments[both->kernels[1].segment].bytes, 60u);
  EXPECT_EQ(both->reserved_bytes, 160u);
  const auto one = ParseWorkspacePlan(File(R"("total_bytes":1000)", legacy));
  ASSERT_TRUE(one.ok()) << one.message();
  EXPECT_EQ(one->Find(problem, Api::kGraph), 0);
  const auto other = ParseWorkspacePlan(File(R"("total_bytes":1000)", graph));
  ASSERT_TRUE(other.ok()) << other.message();
  EXPECT_EQ(other->Find(problem, Api::kLegacy), -1);
}

TEST(WorkspacePlan, SaysForWhichOtherBatchesItHasAKernel) {
  std::string of_four = Kernel(3, PieceJson(4, 1, 60), "null"), other = Kernel(5, kPieces, "null");
  of_four.replace(of_four.find("\"n\":8"), 5, "\"n\":4");
  const auto plan = ParseWorkspacePlan(
      File(R"("limit_bytes":null)", Kernel(3, kPieces, "null") + "," + other + "," + of_four));
  ASSERT_TRUE(plan.ok()) << plan.message();
  ConvolutionProblem problem = plan->kernels[0].problem;
  problem.n = 2;
  problem.alignment = 64;
  EXPECT_THAT(plan->BatchesOf(problem, Api::kLegacy), ElementsAre(4, 8));
  EXPECT_THAT(plan->BatchesOf(problem, Api::kGraph), ElementsAre(4, 8)) << "graphs follow it, too";
  problem.c = 7;
  EXPECT_TRUE(plan->BatchesOf(problem, Api::kLegacy).empty());
}

TEST(WorkspacePlan, OfLayersOfOneShapeTheFirstCounts) {
  const auto plan =
      ParseWorkspacePlan(File(R"("total_bytes":1000)",
                              Kernel(3, kPieces, "0") + "," + Kernel(3, PieceJson(8, 1, 999), "1") +
                                  "," + Kernel(4, PieceJson(8, 1, 10), "2", "0,1")));
  ASSERT_TRUE(plan.ok()) << plan.message();
  ASSERT_EQ(plan->kernels.size(), 2u);
  EXPECT_EQ(plan->reserved_bytes, 110u) << "what nobody uses takes nothing";
  EXPECT_THAT(plan->kernels[1].order_after, ElementsAre(0));
}

TEST(WorkspacePlan, ASegmentIsOrderedOnlyWhereAllItsKernelsAre) {
  const auto ordered = [](const std::string& of_first, const std::string& of_second) {
    const auto plan =
        ParseWorkspacePlan(File(R"("total_bytes":1000)", Kernel(3, kPieces, "0", of_first) + "," +
                                                             Kernel(4, kPieces, "0", of_second)));
    EXPECT_TRUE(plan.ok()) << plan.message();
    return plan.ok() && plan->segments[0].ordered;
  };
  EXPECT_TRUE(ordered("0,1", "1,0,0"));
  EXPECT_FALSE(ordered("", ""));
  EXPECT_FALSE(ordered("0,1", "0")) << "the second runs beside itself";
  EXPECT_FALSE(ordered("0", "0,1")) << "the first of the next iteration";
}

TEST(WorkspacePlan, LayersOfOneShapeAreOrderedOnlyWhereEachAndEachOfTheOthersAre) {
  const auto ordered = [](const std::string& of_first, const std::string& of_twin,
                          const std::string& of_other) {
    const auto plan = ParseWorkspacePlan(
        File(R"("total_bytes":1000)", Kernel(3, kPieces, "0", of_first) + "," +
                                          Kernel(3, kPieces, "1", of_twin) + "," +
                                          Kernel(4, kPieces, "0", of_other)));
    EXPECT_TRUE(plan.ok()) << plan.message();
    return plan.ok() && plan->segments[0].ordered;
  };
  EXPECT_TRUE(ordered("0,1,2", "0,1,2", "0,1,2"));
  EXPECT_FALSE(ordered("0,2", "1", "0,2")) << "each twin comes after itself only";
  EXPECT_FALSE(ordered("0,1,2", "0,1,2", "1,2")) << "after one of the twins only";
  EXPECT_FALSE(ordered("0,1,2", "0,1", "0,1,2"));
}

std::string OnLanes(std::string kernel, const std::string& lanes) {
  return kernel.insert(1, R"("lanes":)" + lanes + ",");
}

TEST(WorkspacePlan, ASegmentHasACopyForEachStream) {
  const std::string one = OnLanes(Kernel(3, kPieces, "0"), "2");
  const std::string most = OnLanes(Kernel(4, PieceJson(8, 1, 10), "0"), "3");
  const std::string other = Kernel(5, PieceJson(8, 1, 200), "1");
  const auto read = [](const std::string& total, const std::string& kernels) {
    return ParseWorkspacePlan(File(R"("total_bytes":)" + total, kernels));
  };
  const auto plan = read("500", one + "," + most + "," + other);
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_EQ(plan->segments[0].copies, 3u);
  EXPECT_EQ(plan->segments[1].copies, 1u);
  EXPECT_EQ(plan->reserved_bytes, 500u);
  EXPECT_THAT(read("499", one + "," + most + "," + other).message(),
              HasSubstr("more than the total_bytes"));
  const auto ordered = read("100", OnLanes(Kernel(3, kPieces, "0", "0"), "4096"));
  ASSERT_TRUE(ordered.ok()) << "all lanes use the same bytes: " << ordered.message();
  EXPECT_EQ(ordered->segments[0].copies, 1u);
  EXPECT_EQ(ordered->reserved_bytes, 100u);
  // 4096 lanes of 2^62 bytes are more bytes than size_t can count.
  const std::string much = OnLanes(Kernel(3, PieceJson(8, 1, size_t{1} << 62), "0"), "4096");
  EXPECT_THAT(read(std::to_string(size_t{1} << 62), much).message(),
              HasSubstr("more than the total_bytes"));
  for (const char* wrong : {"0", "-1", "4097", "1.5", "[0,1]", "\"2\""}) {
    EXPECT_THAT(read("500", OnLanes(Kernel(3, kPieces, "0"), wrong)).message(),
                HasSubstr("kernels[0].lanes"))
        << wrong;
  }
}

TEST(WorkspacePlan, WhatIsWrongIsNamedByItsPlace) {
  const std::string total = R"("total_bytes":1000)", limit = R"("limit_bytes":1000)";
  const std::pair<std::string, const char*> files[] = {
      {"", "no JSON"},
      {"[]", "expected an object"},
      {R"({"format":"ucudnn-report","version":1})", "format"},
      {R"({"format":"ucudnn-workspace-plan","version":1})",
       "version is 1; expected 2: an older ucudnn wrote it; plan again with `ucudnn workspace -o`"},
      {File(total, Kernel(3, kPieces, "0")).substr(0, 300), "no JSON"},
      {File(R"("total_bytes":0)", Kernel(3, kPieces, "0")), "total_bytes"},
      {File(R"("total_bytes":-1)", Kernel(3, kPieces, "0")), "total_bytes"},
      {File(total, Kernel(3, kPieces, "0"), "other"), "division"},
      {File(total, Kernel(3, kPieces, "null")), "kernels[0].segment"},
      {File(limit, Kernel(3, kPieces, "0")), "kernels[0].segment"},
      {File(limit, Kernel(0, kPieces, "null")), "kernels[0].problem makes no convolution"},
      {File(limit, Kernel(3, "", "null")), "kernels[0].plan"},
      {File(limit, Kernel(3, PieceJson(3, 2, 1), "null")), "fewer images than the 8"},
      {File(limit, Kernel(3, PieceJson(3, 3, 1), "null")), "more images than the 8"},
      {File(limit, Kernel(3, PieceJson(8, 2000000000, 1), "null")), "plan[0].count"},
      {File(limit, Kernel(3, PieceJson(0, 1, 1), "null")), "plan[0].micro_batch"},
      {File(limit, Kernel(3, PieceJson(8, 1, size_t{1} << 63), "null")), "workspace_bytes"},
      {File(limit, Kernel(3, kPieces, "null", "1")), "order_after[0]"},
      {File(total,
            Kernel(3, PieceJson(8, 1, 600), "0") + "," + Kernel(4, PieceJson(8, 1, 600), "1")),
       "more than the total_bytes"},
  };
  for (const auto& [text, place] : files) {
    const auto plan = ParseWorkspacePlan(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_THAT(plan.message(), HasSubstr(place));
  }
}

TEST(WorkspacePlan, OnlyARegularFileIsRead) {
  const std::string path = ::testing::TempDir() + "pinned.json";
  EXPECT_THAT(ReadWorkspacePlan(path + ".absent").message(), HasSubstr("pinned.json.absent"));
  EXPECT_THAT(ReadWorkspacePlan("/dev/zero").message(), HasSubstr("no regular file"));
  std::ofstream(path) << File(R"("limit_bytes":5)", "");
  const auto plan = ReadWorkspacePlan(path);
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_EQ(plan->limit_bytes, 5u);
}

}  // namespace
}  // namespace ucudnn::planning
