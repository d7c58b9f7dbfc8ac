// Tests ConfirmConfiguration, which asks engines whether they support a workspace plan's
// configuration. The engines are fakes.
#include "interposer/pinned/confirm_configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "convolution/partial_sums.h"
#include "convolution/tiles.h"
#include "tests/support/problem.h"

namespace ucudnn::interposer {
namespace {

using testing::HasSubstr;

const EngineId kEngine = EngineId::Legacy{1, std::nullopt};
constexpr size_t kBytes = 100;  // workspace of kEngine for each image

class FakeEngines : public cudnn::Engines {
 public:
  Result<std::vector<cudnn::ListedEngine>> List(const ConvolutionProblem& part) override {
    if (silent) return Status::Error("out of memory");
    std::vector<cudnn::ListedEngine> listed(2);
    listed[0].choice = {EngineId::Legacy{0, std::nullopt}, NumericClass::kDirect, true, 0};
    listed[1].choice = {kEngine, NumericClass::kWinograd, true,
                        kBytes * static_cast<size_t>(part.n)};
    return listed;
  }
  Result<std::unique_ptr<cudnn::Piece>> MakePiece(const ConvolutionProblem&, const EngineId&,
                                                  const cudnn::PieceScales&, size_t) override {
    return Status::Error("it is only asked");
  }
  Result<std::unique_ptr<cudnn::PartialSum>> MakeSum(const ConvolutionProblem&) override {
    return Status::Error("it is only asked");
  }

  bool silent = false;
};

// 8 images of 3 elements: with an alignment of 8 bytes, fp32 pieces may begin at every second
// image.
ConvolutionProblem Problem(Operation operation = Operation::kForward,
                           DataType type = DataType::kFloat) {
  return test::ProblemWith({.operation = operation,
                            .c = 1,
                            .k = 1,
                            .x = {1, 1, 3},
                            .w = {1, 1, 1},
                            .pad = {0, 0, 0},
                            .type = type,
                            .alignment = 8});
}

Run Pieces(int micro_batch, int count, size_t bytes, EngineId engine = kEngine) {
  return {{std::move(engine), micro_batch, 1.5, bytes, false}, count};
}

ConfirmedConfiguration Confirm(const std::vector<Run>& runs, FakeEngines& engines,
                               const ConvolutionProblem& problem = Problem()) {
  return ConfirmConfiguration(problem, {runs}, std::vector<cudnn::Engines*>(runs.size(), &engines));
}

// The tile's lengths belong to no grid, so the configuration is refused. If the lengths were
// ignored, an engine without workspace would compute the whole image once for each tile.
TEST(ConfirmConfiguration, TilesOfNoGridAreNotFollowed) {
  FakeEngines engines;
  auto tiles = Pieces(8, 3, 0, EngineId::Legacy{0, std::nullopt});
  tiles.micro.tile.spatial = {0, 0, 1};
  EXPECT_THAT(Confirm({tiles}, engines).status.message(), HasSubstr("no grid's"));
}

// The grid has two kinds of tile, at the upper and at the lower edge. If the problem has padding,
// each tile is padded on one side only, which the legacy API cannot do.
TEST(ConfirmConfiguration, EveryKindOfTileIsAsked) {
  for (const int pad : {0, 1}) {
    const ConvolutionProblem problem = test::ProblemWith({.n = 1, .pad = {0, pad, pad}});
    const TileGrid grid = {.spatial = {1, 2, 1}};
    const auto tiles = CutIntoTiles(problem, grid);
    ASSERT_TRUE(tiles.ok()) << tiles.message();
    Configuration configuration{{}, grid};
    for (size_t kind = 0; kind < tiles->kinds.size(); ++kind) {
      configuration.runs.push_back(Pieces(1, tiles->CountOf(kind), kBytes));
      configuration.runs.back().micro.tile = tiles->kinds[kind].lengths;
    }
    FakeEngines engines;
    const auto confirm = [&] {
      return ConfirmConfiguration(
          problem, configuration,
          std::vector<cudnn::Engines*>(configuration.runs.size(), &engines));
    };
    const ConfirmedConfiguration confirmed = confirm();
    EXPECT_FALSE(confirmed.unanswered);
    EXPECT_EQ(confirmed.status.ok(), pad == 0) << confirmed.status.message();
    if (pad > 0) {
      EXPECT_THAT(confirmed.status.message(), HasSubstr("the same padding on both sides"));
      continue;
    }
    EXPECT_EQ(confirmed.configuration.grid, grid);
    EXPECT_EQ(confirmed.configuration.runs[0].micro.tile, tiles->kinds[0].lengths);
    configuration.runs.back().micro.workspace_bytes = kBytes - 1;
    EXPECT_THAT(confirm().status.message(), HasSubstr("needs 100 bytes of workspace, not 99"));
    configuration.runs.back().count += 1;
    EXPECT_FALSE(confirm().status.ok());
  }
}

TEST(ConfirmConfiguration, TakesFromTheLibraryWhatItSaysOfEveryPiece) {
  FakeEngines engines;
  const ConfirmedConfiguration confirmed = Confirm({Pieces(2, 2, 900), Pieces(4, 1, 400)}, engines);
  ASSERT_TRUE(confirmed.status.ok()) << confirmed.status.message();
  ASSERT_EQ(confirmed.configuration.runs.size(), 2u);
  EXPECT_EQ(confirmed.configuration.runs[0].micro,
            (MicroConfiguration{kEngine, 2, 1.5, 200, true}));
  EXPECT_EQ(confirmed.configuration.runs[0].count, 2);
  EXPECT_EQ(confirmed.configuration.runs[1].micro.workspace_bytes, 400u);
  EXPECT_EQ(confirmed.numeric, std::vector(2, NumericClass::kWinograd));
}

TEST(ConfirmConfiguration, APieceThatNeedsMoreThanItMayContradictsIt) {
  FakeEngines engines;
  const ConfirmedConfiguration confirmed = Confirm({Pieces(2, 2, 200), Pieces(4, 1, 399)}, engines);
  EXPECT_EQ(confirmed.status.message(),
            "IMPLICIT_PRECOMP_GEMM (legacy:1) for 4 images needs 400 bytes of workspace, not 399");
  EXPECT_FALSE(confirmed.unanswered);
}

TEST(ConfirmConfiguration, OnlyTheLastPieceMayEndBetweenLegalBoundaries) {
  const ConvolutionProblem problem = Problem();
  ASSERT_EQ(LegalStep(problem), 2);
  FakeEngines engines;
  EXPECT_TRUE(Confirm({Pieces(2, 2, 900), Pieces(4, 1, 900)}, engines).status.ok());
  EXPECT_TRUE(Confirm({Pieces(4, 1, 900), Pieces(3, 1, 900)}, engines).status.ok());
  for (const auto& runs : {std::vector{Pieces(3, 1, 900), Pieces(4, 1, 900)},
                           std::vector{Pieces(2, 1, 900), Pieces(3, 2, 900)}}) {
    EXPECT_THAT(Confirm(runs, engines).status.message(),
                HasSubstr("3 images: pieces here have a multiple of 2"));
  }
}

TEST(ConfirmConfiguration, APartialNeedsRoomForTheSum) {
  const ConvolutionProblem problem = Problem(Operation::kBackwardFilter, DataType::kHalf);
  const size_t sum = PartialSumBytes(problem);
  ASSERT_GT(sum, 0u);
  const int step = LegalStep(problem);
  FakeEngines engines;
  const size_t need = sum + kBytes * static_cast<size_t>(step);
  const int count = problem.n / step;
  EXPECT_TRUE(Confirm({Pieces(step, count, need)}, engines, problem).status.ok());
  EXPECT_FALSE(Confirm({Pieces(step, count, need - 1)}, engines, problem).status.ok());
}

TEST(ConfirmConfiguration, AnEngineThatTheLibraryLacksContradictsIt) {
  FakeEngines engines;
  const EngineId unknown = EngineId::Legacy{7, std::nullopt};
  const ConfirmedConfiguration confirmed = Confirm({Pieces(8, 1, 900, unknown)}, engines);
  EXPECT_THAT(confirmed.status.message(), HasSubstr("no such engine"));
  EXPECT_FALSE(confirmed.unanswered);
}

TEST(ConfirmConfiguration, ALibraryThatDoesNotAnswerContradictsNothing) {
  FakeEngines engines;
  engines.silent = true;
  const ConfirmedConfiguration confirmed = Confirm({Pieces(8, 1, 900)}, engines);
  EXPECT_EQ(confirmed.status.message(),
            "IMPLICIT_PRECOMP_GEMM (legacy:1) for 8 images: out of memory");
  EXPECT_TRUE(confirmed.unanswered);
}

}  // namespace
}  // namespace ucudnn::interposer
