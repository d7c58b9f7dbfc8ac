// Tests EnginesOfPart, which finds engines for a tile of a large convolution. The convolution has
// tensors of 2^31 elements, and only the library's engine 0 supports it undivided. Uses the real
// library, without a GPU.
#include "cudnn/part_engines.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>

#include "convolution/tiles.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"

namespace ucudnn::cudnn {
namespace {

using test::DescribedDevice;
using test::Graph;
using test::GraphOptions;
using test::ProblemWith;
using test::RealCudnn;

// x and y have 128 * 4096 * 4096 = 2^31 elements each.
ConvolutionProblem Vast(Operation operation, DataType type = DataType::kBfloat16) {
  return ProblemWith({.operation = operation,
                      .n = 1,
                      .c = 128,
                      .k = 128,
                      .x = {1, 4096, 4096},
                      .type = type,
                      .layout = Layout::kNhwc,
                      .alignment = 16});
}

GraphOptions Fused(bool fused) {
  GraphOptions options;
  options.bias = options.relu = fused;
  return options;
}

// Returns the only engine that the library has for `whole`.
GraphTemplate OwnOf(const ConvolutionProblem& whole, const GraphOptions& options = {}) {
  const Graph graph(whole, options);
  std::optional<GraphTemplate> own;
  for (int engine = 0; engine < graph.EngineCount(); ++engine) {
    const auto plan = graph.Plan(engine);
    if (!plan) continue;
    auto read = ReadTemplate(RealCudnn(), plan->get());
    EXPECT_TRUE(read.ok()) << read.message();
    EXPECT_FALSE(own) << "engine " << engine << " serves it, too";
    if (!own) own = std::move(*read);
  }
  EXPECT_TRUE(own);
  return own.value_or(GraphTemplate());
}

Tiles FourOf(const ConvolutionProblem& whole) {
  auto tiles = CutIntoTiles(whole, {.spatial = {1, 4, 1}});
  EXPECT_TRUE(tiles.ok()) << tiles.message();
  return std::move(*tiles);
}

TEST(PartEngines, ServeTilesOfWhatEngine0AloneServes) {
  for (const Operation operation : test::kOperations) {
    for (const bool fused : {false, true}) {
      if (fused && operation != Operation::kForward) continue;
      SCOPED_TRACE(OperationName(operation) + std::string(fused ? " fused" : ""));
      const ConvolutionProblem whole = Vast(operation);
      const GraphOptions options = Fused(fused);
      const GraphTemplate own = OwnOf(whole, options);
      EXPECT_TRUE(own.notes.Has(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP));
      const Tiles tiles = FourOf(own.convolution.problem);
      const auto engines =
          EnginesOfPart(RealCudnn(), DescribedDevice(), own, tiles.kinds.back().problem, 3);
      EXPECT_FALSE(engines.empty());
      for (const GraphTemplate& engine : engines) {
        EXPECT_TRUE(RoundsNoWorse(engine.notes, own.notes));
        EXPECT_FALSE(MayReplace(engine, own)) << "it would, but for NaNs";
        EXPECT_EQ(engine.deterministic, true);
        const auto whole_plan =
            BuildPart(RealCudnn(), DescribedDevice(), engine, {own.convolution.problem});
        EXPECT_FALSE(whole_plan.ok()) << engine.convolution.engine;
        for (const TileKind& kind : tiles.kinds) {
          const auto built = BuildPart(RealCudnn(), DescribedDevice(), engine, {kind.problem});
          ASSERT_TRUE(built.ok()) << engine.convolution.engine << ": " << built.message();
          // An engine that first copies the tile would need more than 1 MiB of workspace.
          EXPECT_LE(*PlanWorkspace(RealCudnn(), built->get()), size_t{1} << 20);
          const auto& [index, knobs, fusion] = *engine.convolution.engine.graph();
          const auto native = Graph(kind.problem, options).Plan(static_cast<int>(index), knobs);
          ASSERT_TRUE(native);
          EXPECT_EQ(*PlanJson(RealCudnn(), built->get()), *PlanJson(RealCudnn(), native->get()));
        }
      }
    }
  }
}

TEST(PartEngines, DoNotFallToTf32) {
  size_t direct = 0;
  for (const Operation operation : test::kOperations) {
    const ConvolutionProblem whole = Vast(operation, DataType::kFloat);
    const GraphTemplate own = OwnOf(whole);
    const Tiles tiles = FourOf(own.convolution.problem);
    const ConvolutionProblem& part = tiles.kinds.back().problem;
    const auto engines = EnginesOfPart(RealCudnn(), DescribedDevice(), own, part, 16);
    for (const GraphTemplate& engine : engines) {
      EXPECT_FALSE(engine.notes.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) << engine.convolution.engine;
    }
    direct += engines.size();
    const Graph graph(part);
    int tf32 = 0;
    for (int engine = 0; engine < graph.EngineCount(); ++engine) {
      const auto plan = graph.Plan(engine);
      if (!plan) continue;
      const auto read = ReadTemplate(RealCudnn(), plan->get());
      tf32 += read.ok() && read->notes.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    }
    EXPECT_GT(tf32, 0) << "the library has none that could be taken";
  }
  EXPECT_GT(direct, 0u);
}

TEST(PartEngines, AreNoneOfWhatIsNoPart) {
  const GraphTemplate own = OwnOf(Vast(Operation::kForward));
  ConvolutionProblem other = own.convolution.problem;
  other.stride[1] = 2;
  EXPECT_TRUE(EnginesOfPart(RealCudnn(), DescribedDevice(), own, other, 3).empty());
}

}  // namespace
}  // namespace ucudnn::cudnn
