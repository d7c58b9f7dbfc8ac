// Tests executions of a plan in tiles during which one tile fails or is not written. Whichever tile
// that is, the program gets the right result or the real error.
#include <gmock/gmock.h>

#include <string>

#include "tiled_plan.h"

namespace ucudnn::interposer {
namespace {

using ::testing::HasSubstr;

// The tile that is not computed, counted from 1 (0: all are computed), and what its call returns.
struct LostTile {
  int left = 0;
  cudnnStatus_t status = CUDNN_STATUS_EXECUTION_FAILED;
};
LostTile& TheLostTile() {
  static LostTile tile;
  return tile;
}
cudnnStatus_t ExecuteButOne(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                            cudnnBackendDescriptor_t pack) {
  const auto read = cudnn::ReadTemplate(test::StandInGraphs(), plan);
  const bool is_tile = read.ok() && read->convolution.problem.x[1] < 64;
  if (is_tile && --TheLostTile().left == 0) return TheLostTile().status;
  return ::cudnnBackendExecute(handle, plan, pack);
}

// A program whose tiles have run and were compared. Programs that share `store` measure once.
class ComparedTiles : public TiledPlan {
 public:
  ComparedTiles(const ConvolutionProblem& problem, const GraphOptions& graph_options,
                const Options& options, planning::MeasurementStore* store,
                decltype(cudnn::Functions::cudnnBackendFinalize) finalize = nullptr)
      : TiledPlan(problem, graph_options, options, ExecuteButOne, finalize, store) {
    TheLostTile() = {};
    ExpectRight(1);
    ExpectTiles();
    EXPECT_EQ(Fallbacks(), "[]");
  }
  // Executes the plan without its `kth` tile and returns the status. After a success expects the
  // right result.
  cudnnStatus_t ExecuteWithout(int kth, Operands& memory) {
    memory.Fill(kth);
    TheLostTile().left = kth;
    const cudnnStatus_t status = Execute(memory);
    EXPECT_LE(TheLostTile().left, 0);
    TheLostTile() = {};
    if (status == CUDNN_STATUS_SUCCESS) {
      EXPECT_EQ(memory.Output(), Undivided(kth));
    }
    EXPECT_TRUE(memory.GuardsAreIntact());
    return status;
  }
};

TEST(GraphTileFaults, AnyTileMayFailAndTheWholeRunsFromThenOn) {
  for (const Operation operation : test::kOperations) {
    for (const DataType type : {DataType::kFloat, DataType::kBfloat16}) {
      const ConvolutionProblem problem = Image(operation, type);
      const Options options = Measuring(NeedOf(problem) / 3);
      test::MemoryStore store;
      int tiles = 1;
      for (int kth = 1; kth <= tiles; ++kth) {
        SCOPED_TRACE(Describe(problem) + ", tile " + std::to_string(kth));
        ComparedTiles plan(problem, {}, options, &store);
        tiles = plan.Pieces();
        EXPECT_EQ(plan.ExecuteWithout(kth, *plan.Memory()), CUDNN_STATUS_SUCCESS);
        EXPECT_THAT(plan.Fallbacks(), HasSubstr("this kernel runs undivided from now on"));
        TheLostTile().left = 1;
        plan.ExpectRight(1);
        EXPECT_EQ(TheLostTile().left, 1) << "no tile runs";
      }
    }
  }
}

// The library has only the engine of the tiles, whose undivided plan exceeds the limit. So no plan
// can replace failed tiles, and UCUDNN_CHECK has nothing to compare them with.
TEST(GraphTileFaults, OfTilesThatNothingReplacesAreReturned) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  Options options = Measuring(NeedOf(problem) / 3);
  for (const bool check : {false, true}) {
    options.check = check;
    ComparedTiles plan(problem, {}, options, nullptr, FinalizeOwnEngine);
    const auto memory = plan.Memory();
    const int tiles = plan.Pieces();
    for (int kth = 1; kth <= tiles; ++kth) {
      SCOPED_TRACE("tile " + std::to_string(kth) + (check ? ", checked" : ""));
      EXPECT_EQ(plan.ExecuteWithout(kth, *memory), CUDNN_STATUS_EXECUTION_FAILED);
      EXPECT_THAT(plan.Fallbacks(), HasSubstr("its error is returned"));
      plan.ExpectRight(1);
    }
    EXPECT_EQ(plan.Pieces(), tiles);
  }
}

// If the first tile fails, the undivided plan can still run. When a later tile fails, the first
// tile has already overwritten the residual, which lies in the output, so the error is returned.
TEST(GraphTileFaults, AreReturnedOnceTheResidualIsOverwritten) {
  const ConvolutionProblem problem = Image(Operation::kForward);
  const Options options = Measuring(NeedOf(problem, Fused(true)) / 3);
  test::MemoryStore store;
  for (const int kth : {1, 2}) {
    SCOPED_TRACE("tile " + std::to_string(kth));
    ComparedTiles plan(problem, Fused(true), options, &store);
    const auto memory = plan.Memory();
    memory->PutIntoOutput(test::kUidResidual);
    for (int seed = 1; seed < 3; ++seed) {
      memory->Fill(seed);
      plan.Run(*memory);
      EXPECT_EQ(memory->Output(), plan.Undivided(seed));
    }
    EXPECT_EQ(plan.ExecuteWithout(kth, *memory),
              kth == 1 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED);
    memory->Fill(3);
    plan.Run(*memory);
    EXPECT_EQ(memory->Output(), plan.Undivided(3));
  }
}

// The library reports success for a tile that it does not write.
TEST(GraphTileFaults, OfCheckedCallsAreFoundAndTheWholeRuns) {
  const ConvolutionProblem problem = Image(Operation::kBackwardData);
  Options options = Measuring(NeedOf(problem) / 3);
  options.check = true;
  ComparedTiles plan(problem, {}, options, nullptr);
  plan.ExpectRight();
  EXPECT_EQ(plan.Fallbacks(), "[]");
  TheLostTile().status = CUDNN_STATUS_SUCCESS;
  EXPECT_EQ(plan.ExecuteWithout(2, *plan.Memory()), CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(plan.Fallbacks(), HasSubstr("UCUDNN_CHECK found the plan wrong"));
  plan.ExpectRight(1);
}

}  // namespace
}  // namespace ucudnn::interposer
