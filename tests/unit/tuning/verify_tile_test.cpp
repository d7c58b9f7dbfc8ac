// Tests the comparison of single tiles on the stand-in. Right tiles are trusted, even if the
// undivided convolution exceeds the memory for measuring. An engine that reads or writes beyond its
// tile is not trusted.
#include "tuning/verify_tile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "convolution/partial_sums.h"
#include "shim/host/hostgpu.h"
#include "tests/support/memory_store.h"
#include "tile_setting.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::tuning {
namespace {

using planning::Proof;

constexpr char kNoFolder[] = "/nonexistent";

// Does something wrong after an engine has computed `part`.
using Fault = void (*)(const ConvolutionProblem& part, const cudnn::ConvolutionCall& call);

float* HostOf(const void* pointer, int64_t offset) {
  auto* const begin = static_cast<float*>(hostgpuHostAlias(pointer));
  return begin == nullptr ? nullptr : begin + offset;
}

class FaultyPiece : public cudnn::Piece {
 public:
  FaultyPiece(std::unique_ptr<cudnn::Piece> right, const ConvolutionProblem& part, Fault fault)
      : right_(std::move(right)), part_(part), fault_(fault) {}
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call, bool adds) const override {
    const cudnnStatus_t status = right_->Run(call, adds);
    cudaStream_t stream = nullptr;
    EXPECT_EQ(::cudnnGetStream(call.handle, &stream), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    fault_(part_, call);
    return status;
  }
  size_t workspace_bytes() const override { return right_->workspace_bytes(); }

 private:
  const std::unique_ptr<cudnn::Piece> right_;
  const ConvolutionProblem part_;
  const Fault fault_;
};

// These engines compute tiles wrongly, but the undivided convolution correctly.
class FaultyEngines : public cudnn::GraphEngines {
 public:
  FaultyEngines(const cudnn::Functions& functions, cudnnHandle_t handle,
                const cudnn::GraphTemplate& plan, Fault fault)
      : GraphEngines(functions, cudnn::PlanDevice{handle, nullptr}, {&plan}),
        whole_(plan.convolution.problem),
        fault_(fault) {}
  Result<std::unique_ptr<cudnn::Piece>> MakePiece(const ConvolutionProblem& part,
                                                  const EngineId& engine,
                                                  const cudnn::PieceScales& scales,
                                                  size_t workspace_bytes) override {
    auto piece = GraphEngines::MakePiece(part, engine, scales, workspace_bytes);
    if (!piece.ok() || (part.x == whole_.x && part.k == whole_.k)) return piece;
    return std::unique_ptr<cudnn::Piece>(new FaultyPiece(std::move(*piece), part, fault_));
  }

 private:
  const ConvolutionProblem whole_;
  const Fault fault_;
};

// Adds 0 times the element behind the last row to the output, like an engine that reads one row too
// many. The output changes only if this element is NaN.
void ReadOneRowMore(const ConvolutionProblem& part, const cudnn::ConvolutionCall& call) {
  const bool data = part.operation == Operation::kBackwardData;
  const int64_t rows = data ? OutputExtents(part)[1] : part.x[1];
  const float* const beyond =
      HostOf(data ? call.y : call.x, rows * (data ? part.y_strides : part.x_strides)[3]);
  // There may be no device memory behind the tensor's end.
  if (beyond == nullptr) return;
  *HostOf(call.*cudnn::OutputOf(part.operation), 0) += 0 * *beyond;
}

// Writes to the channel behind the tile's last channel.
void WriteOneChannelMore(const ConvolutionProblem& part, const cudnn::ConvolutionCall& call) {
  const bool data = part.operation == Operation::kBackwardData;
  const bool filter = part.operation == Operation::kBackwardFilter;
  const int64_t channels = data ? part.c : part.k;
  const int64_t stride = data     ? part.x_strides[1]
                         : filter ? int64_t{part.c} * part.w[0] * part.w[1] * part.w[2]
                                  : part.y_strides[1];
  float* const beyond = HostOf(call.*cudnn::OutputOf(part.operation), channels * stride);
  if (beyond != nullptr) *beyond = 1;
}

// Writes the first channel's first element to the second channel.
void ShiftChannels(const ConvolutionProblem& part, const cudnn::ConvolutionCall& call) {
  const bool data = part.operation == Operation::kBackwardData;
  const int64_t stride = data ? part.x_strides[1] : part.y_strides[1];
  void* const output = call.*cudnn::OutputOf(part.operation);
  *HostOf(output, stride) = *HostOf(output, 0);
}

// Adds 0 times the element behind the last row of the first fused operand to the output, as
// ReadOneRowMore does with x or dy.
void ReadOneFusedRowMore(const ConvolutionProblem& part, const cudnn::ConvolutionCall& call) {
  const bool data = part.operation == Operation::kBackwardData;
  const int64_t rows = data ? part.x[1] : OutputExtents(part)[1];
  const float* const beyond =
      HostOf(call.fused->pointers[0], rows * (data ? part.x_strides : part.y_strides)[3]);
  if (beyond != nullptr) *HostOf(call.*cudnn::OutputOf(part.operation), 0) += 0 * *beyond;
}

// Writes to an operand that may only be read.
void WriteFused(const ConvolutionProblem&, const cudnn::ConvolutionCall& call) {
  *HostOf(call.fused->pointers[0], 0) = 3;
}

// Waits for 5 ms if a tile of Image lies in the whole tensor, where channels are 64 * 64 elements
// apart. Does not wait for the tile's SlackTwin.
void WaitInPlace(const ConvolutionProblem& part, const cudnn::ConvolutionCall&) {
  if (part.x_strides[1] == 64 * 64) usleep(5'000);
}

class VerifyTileTest : public TileTest {
 protected:
  GraphScope FaultyScope(const cudnn::GraphTemplate& plan, Fault fault) {
    GraphScope scope = ScopeOf({plan});
    scope.make = [&plan, fault, this](cudnnHandle_t handle) {
      return std::make_unique<FaultyEngines>(functions_, handle, plan, fault);
    };
    return scope;
  }

  // Returns a division, without times, in which the plan's engine runs all tiles of the grid. The
  // division has no tiles if the engine does not support all of them.
  Division Divide(const ConvolutionProblem& whole, const TileGrid& grid,
                  const cudnn::GraphTemplate& plan, int64_t most_span = kMostViewSpan) {
    auto tiles = CutIntoTiles(whole, grid, most_span);
    EXPECT_TRUE(tiles.ok()) << tiles.message();
    const bool sums = SumsPartials(whole) && tiles->AddUp();
    Division division({}, std::make_shared<const Tiles>(std::move(*tiles)));
    cudnn::GraphEngines engines(functions_, {handle_, nullptr}, {&plan});
    for (size_t kind = 0; kind < division.tiles->kinds.size(); ++kind) {
      const TileKind& of = division.tiles->kinds[kind];
      const auto piece = engines.MakePiece(of.problem, plan.convolution.engine,
                                           {.are_plain = true, .may_add = !sums},
                                           std::numeric_limits<size_t>::max());
      if (!piece.ok()) return Division({});
      MicroConfiguration micro = {plan.convolution.engine, of.problem.n, 1,
                                  (*piece)->workspace_bytes() + PackedBytes(of), true};
      if (sums) micro.workspace_bytes += PartialSumBytes(whole);
      micro.tile = of.lengths;
      division.configuration.runs.push_back({micro, division.tiles->CountOf(kind)});
    }
    return division;
  }

  // Verifies each kind of tile alone. Returns the first verification whose result is not kEqual, if
  // there is one.
  Verification VerifyKinds(const ConvolutionProblem& whole, const Division& division,
                           const EngineScope& scope, const MeasureLimits& limits = {}) {
    for (size_t kind = 0; kind < division.tiles->kinds.size(); ++kind) {
      Verification verification =
          VerifyTile(device(), ComparedTileOf(whole, division, kind), limits, scope);
      if (verification.result != ComparisonResult::kEqual) return verification;
    }
    return {ComparisonResult::kEqual, ""};
  }
  // Expects that the plan's tiles are right: once as views, and once with packed copies of all
  // tensors that span more than a few rows. Returns in how many of these cases the engine supports
  // the tiles.
  int ExpectEqual(const cudnn::GraphTemplate& plan, const TileGrid& grid) {
    const ConvolutionProblem& whole = plan.convolution.problem;
    int compared = 0;
    for (const int64_t most_span : {kMostViewSpan, int64_t{200}}) {
      const Division division = Divide(whole, grid, plan, most_span);
      if (division.tiles == nullptr) continue;
      const Verification verification = VerifyKinds(whole, division, ScopeOf({plan}));
      EXPECT_EQ(verification.result, ComparisonResult::kEqual) << verification.message;
      ++compared;
    }
    return compared;
  }
};

ConvolutionProblem Small(Operation operation, DataType type, Layout layout, int rank = 2) {
  return test::ProblemWith({.operation = operation,
                            .spatial_rank = rank,
                            .n = 1,
                            .c = 8,
                            .k = 8,
                            .x = {rank == 3 ? 7 : 1, 12, 11},
                            .w = {rank == 3 ? 3 : 1, 3, 3},
                            .pad = {rank == 3 ? 1 : 0, 1, 1},
                            .stride = {1, 2, 1},
                            .type = type,
                            .layout = layout,
                            .alignment = 16});
}

TEST_F(VerifyTileTest, RightTilesAreEqual) {
  const size_t before = test::FreeBytes();
  int compared[2] = {};
  for (const Operation operation : test::kOperations) {
    for (const DataType type : {DataType::kFloat, DataType::kBfloat16}) {
      for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
        for (const TileGrid& grid : {TileGrid{.spatial = {1, 3, 1}},
                                     {.spatial = {1, 2, 2}},
                                     {.k = 2},
                                     {.spatial = {3, 2, 1}}}) {
          const ConvolutionProblem problem =
              Small(operation, type, layout, grid.spatial[0] > 1 ? 3 : 2);
          SCOPED_TRACE(Describe(problem));
          if (!CutIntoTiles(problem, grid).ok()) continue;
          for (const int engine : {0, 1}) {
            compared[engine] += ExpectEqual(PlanOf(problem, engine), grid);
          }
        }
      }
    }
  }
  EXPECT_GE(compared[0], 60);
  EXPECT_GE(compared[1], 30);
  EXPECT_EQ(test::FreeBytes(), before);
}

using Reads = test::FusedStep::Reads;
using Steps = std::vector<test::FusedStep>;

// Returns options that fuse a residual and operands that differ by channel and by column. For
// backward_data, returns options that fuse the gradient of a ReLU, which reads the ReLU's image.
test::GraphOptions Fused(Operation operation) {
  test::GraphOptions options;
  options.steps = operation == Operation::kBackwardData
                      ? Steps{{CUDNN_POINTWISE_RELU_BWD, Reads::kWhole, {}}}
                      : Steps{{CUDNN_POINTWISE_ADD, Reads::kWhole, {}},
                              {CUDNN_POINTWISE_ADD, Reads::kChannel, {}},
                              {CUDNN_POINTWISE_ADD, Reads::kRow, {}},
                              {CUDNN_POINTWISE_RELU_FWD, Reads::kNothing, {}}};
  return options;
}

TEST_F(VerifyTileTest, RightTilesOfFusedPlansAreEqual) {
  const size_t before = test::FreeBytes();
  int compared = 0;
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    for (const DataType type : {DataType::kFloat, DataType::kBfloat16}) {
      for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
        for (const TileGrid& grid : {TileGrid{.spatial = {1, 3, 1}}, {.spatial = {1, 2, 2}}}) {
          const ConvolutionProblem problem = Small(operation, type, layout);
          SCOPED_TRACE(Describe(problem));
          for (const int engine : {0, 1}) {
            compared += ExpectEqual(PlanOf(problem, engine, Fused(operation)), grid);
          }
        }
      }
    }
  }
  EXPECT_GE(compared, 48);
  EXPECT_EQ(test::FreeBytes(), before);
}

TEST_F(VerifyTileTest, AnEngineThatReadsOneFusedRowMoreOrWritesOneIsRejected) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      const ConvolutionProblem problem = Small(operation, DataType::kFloat, layout);
      SCOPED_TRACE(Describe(problem));
      const cudnn::GraphTemplate plan = PlanOf(problem, 0, Fused(operation));
      const ConvolutionProblem& whole = plan.convolution.problem;
      const Division division = Divide(whole, {.spatial = {1, 3, 1}}, plan);
      const Verification reads =
          VerifyKinds(whole, division, FaultyScope(plan, ReadOneFusedRowMore));
      EXPECT_EQ(reads.result, ComparisonResult::kDifferent) << reads.message;
      EXPECT_NE(reads.message.find("nan"), std::string::npos) << reads.message;
      const Verification writes = VerifyKinds(whole, division, FaultyScope(plan, WriteFused));
      EXPECT_EQ(writes.result, ComparisonResult::kTrespassed) << writes.message;
      EXPECT_NE(writes.message.find("input"), std::string::npos) << writes.message;
    }
  }
}

// If the tile lies in the whole tensor, an engine that reads one row too many reads a finite number
// there, so its output is right. The fault shows only because VerifyTile surrounds tiles with NaNs.
TEST_F(VerifyTileTest, AnEngineThatReadsOneRowMoreIsRejected) {
  for (const Operation operation : test::kOperations) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      const ConvolutionProblem problem = Small(operation, DataType::kFloat, layout);
      SCOPED_TRACE(Describe(problem));
      const cudnn::GraphTemplate plan = PlanOf(problem, 0);
      const ConvolutionProblem& whole = plan.convolution.problem;
      const Division division = Divide(whole, {.spatial = {1, 3, 1}}, plan);
      const GraphScope scope = FaultyScope(plan, ReadOneRowMore);
      const Verification verification = VerifyKinds(whole, division, scope);
      EXPECT_EQ(verification.result, ComparisonResult::kDifferent) << verification.message;
      EXPECT_NE(verification.message.find("nan"), std::string::npos) << verification.message;
      const MicroConfiguration undivided = {plan.convolution.engine, 1, 1, size_t{1} << 20, true};
      EXPECT_EQ(VerifyPlan(device(), whole, division, undivided, {}, scope).result,
                ComparisonResult::kEqual);
    }
  }
}

TEST_F(VerifyTileTest, AnEngineThatWritesOneChannelOffIsRejected) {
  int cut = 0;
  for (const Operation operation : test::kOperations) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      for (const TileGrid& grid : {TileGrid{.spatial = {1, 3, 1}}, {.k = 2}}) {
        const ConvolutionProblem problem = Small(operation, DataType::kFloat, layout);
        SCOPED_TRACE(Describe(problem));
        if (!CutIntoTiles(problem, grid).ok()) continue;
        ++cut;
        const cudnn::GraphTemplate plan = PlanOf(problem, 0);
        const ConvolutionProblem& whole = plan.convolution.problem;
        const Division division = Divide(whole, grid, plan);
        const Verification more =
            VerifyKinds(whole, division, FaultyScope(plan, WriteOneChannelMore));
        // In NHWC the element behind the last channel is the first channel of the next pixel.
        EXPECT_TRUE(more.result == ComparisonResult::kTrespassed ||
                    more.result == ComparisonResult::kDifferent)
            << more.message;
        if (operation == Operation::kBackwardFilter) continue;
        EXPECT_EQ(VerifyKinds(whole, division, FaultyScope(plan, ShiftChannels)).result,
                  ComparisonResult::kDifferent);
      }
    }
  }
  EXPECT_GE(cut, 6);
}

TEST_F(VerifyTileTest, TakesNoMoreMemoryThanItMay) {
  const ConvolutionProblem problem = Small(Operation::kForward, DataType::kFloat, Layout::kNchw);
  const cudnn::GraphTemplate plan = PlanOf(problem, 0);
  const Division division = Divide(plan.convolution.problem, {.spatial = {1, 3, 1}}, plan);
  MeasureLimits limits;
  limits.memory_bytes = 4096;
  const Verification little =
      VerifyKinds(plan.convolution.problem, division, ScopeOf({plan}), limits);
  EXPECT_EQ(little.result, ComparisonResult::kNotCompared);
  EXPECT_NE(little.message.find("device memory"), std::string::npos) << little.message;
  limits.memory_bytes = std::numeric_limits<size_t>::max();
  limits.deadline = Clock::now();
  EXPECT_EQ(VerifyKinds(plan.convolution.problem, division, ScopeOf({plan}), limits).result,
            ComparisonResult::kNotCompared);
}

// At 16384 x 16384 the channels of x lie so far apart that a tile's view of them spans 2^31 bytes
// or more.
TEST_F(VerifyTileTest, LongViewsAreComparedWithTheirOwnStrides) {
  for (const int extent : {8192, 16384}) {
    ConvolutionProblem whole =
        test::ProblemWith({.n = 1, .c = 4, .k = 4, .x = {1, extent, extent}, .alignment = 16});
    auto tiles = CutIntoTiles(whole, {.spatial = {1, 64, 1}});
    ASSERT_TRUE(tiles.ok()) << tiles.message();
    Division division({}, std::make_shared<const Tiles>(std::move(*tiles)));
    const TileKind& of = division.tiles->kinds[0];
    MicroConfiguration micro = {"graph:0", 1, 1, 0, true};
    micro.tile = of.lengths;
    division.configuration.runs.push_back({micro, 1});
    const ComparedTile compared = ComparedTileOf(whole, division, 0);
    EXPECT_EQ(compared.around, extent == 8192 ? SlackTwin(of) : of.problem);
    EXPECT_EQ(compared.kind.problem, compared.around);
    EXPECT_EQ(compared.around.x_strides[1] == whole.x_strides[1], extent == 16384);
  }
}

class LongViewTest : public VerifyTileTest {};

// Verifies a tile whose view of x has two channels that lie 2^31 bytes apart in memory.
TEST_F(LongViewTest, IsComparedBetweenNansToo) {
  if (std::getenv("UCUDNN_TEST_LONG_VIEWS") == nullptr) {
    GTEST_SKIP() << "runs for measured_tiles_full_test, since it takes 6 GiB";
  }
  ConvolutionProblem problem = Small(Operation::kForward, DataType::kFloat, Layout::kNchw);
  problem.c = 2;
  SetPackedStrides(problem);
  problem.x_strides[1] = int64_t{1} << 29;
  problem.x_strides[0] = int64_t{2} << 29;
  const cudnn::GraphTemplate plan = PlanOf(problem, 0);
  const ConvolutionProblem& whole = plan.convolution.problem;
  const Division division = Divide(whole, {.spatial = {1, 3, 1}}, plan);
  const ComparedTile tile = ComparedTileOf(whole, division, 1);
  ASSERT_EQ(tile.around.x_strides[1], int64_t{1} << 29);
  MeasureLimits limits;
  limits.memory_bytes = size_t{1} << 31;
  EXPECT_EQ(VerifyTile(device(), tile, limits, ScopeOf({plan})).result,
            ComparisonResult::kNotCompared);
  const Verification right = VerifyTile(device(), tile, {}, ScopeOf({plan}));
  EXPECT_EQ(right.result, ComparisonResult::kEqual) << right.message;
  const Verification wrong = VerifyTile(device(), tile, {}, FaultyScope(plan, ReadOneRowMore));
  EXPECT_EQ(wrong.result, ComparisonResult::kDifferent) << wrong.message;
}

// If the undivided convolution cannot be compared, tiles whose kinds were each compared alone may
// run to fit a limit, but not to gain time.
TEST_F(VerifyTileTest, TilesOfAWholeThatExceedsTheMemoryAreTrustedToFit) {
  struct Kernel {
    Operation operation;
    bool fused = false;
  };
  for (const auto& [operation, fused] : {Kernel{Operation::kForward},
                                         {Operation::kBackwardData},
                                         {Operation::kBackwardFilter},
                                         {Operation::kForward, true},
                                         {Operation::kBackwardData, true}}) {
    const ConvolutionProblem problem = Image(operation, DataType::kFloat);
    SCOPED_TRACE(Describe(problem) + (fused ? " fused" : ""));
    const cudnn::GraphTemplate plan =
        PlanOf(problem, 0, fused ? Fused(operation) : test::GraphOptions());
    const ConvolutionProblem& whole = plan.convolution.problem;
    const Division division = Divide(whole, {.spatial = {1, 16, 1}}, plan);
    const MicroConfiguration undivided = {plan.convolution.engine, 1, 1, size_t{1} << 20, true};
    Tuning bounds;
    bounds.kernel_seconds = bounds.process_seconds = 600;
    bounds.memory_bytes = cudnn::ImageBytes(whole) + cudnn::OutputBytes(whole);
    MeasuredKernels kernels(nullptr, bounds, kNoFolder);
    const auto verify = [&](MeasuredKernels& by, bool need_whole, const GraphScope& scope) {
      return by.Verify(device(), whole,
                       {division.configuration, undivided, Proof::kOnce, need_whole}, scope);
    };
    const planning::Trust gains = verify(kernels, true, ScopeOf({plan}));
    EXPECT_EQ(gains.kind, planning::Trust::Kind::kUnknown);
    EXPECT_NE(gains.message.find("device memory"), std::string::npos) << gains.message;
    const planning::Trust fits = verify(kernels, false, ScopeOf({plan}));
    EXPECT_EQ(fits.kind, planning::Trust::Kind::kTrusted) << fits.message;
    EXPECT_EQ(verify(kernels, true, ScopeOf({plan})).kind, planning::Trust::Kind::kUnknown);
    MeasuredKernels others(nullptr, bounds, kNoFolder);
    EXPECT_EQ(verify(others, false, FaultyScope(plan, ReadOneRowMore)).kind,
              planning::Trust::Kind::kWrong);
    // If the memory suffices for the undivided convolution, it is compared with its tiles.
    bounds.memory_bytes = size_t{1} << 30;
    MeasuredKernels roomy(nullptr, bounds, kNoFolder);
    EXPECT_EQ(verify(roomy, true, ScopeOf({plan})).kind, planning::Trust::Kind::kTrusted);
    MeasuredKernels wrong(nullptr, bounds, kNoFolder);
    EXPECT_EQ(verify(wrong, true, FaultyScope(plan, ReadOneRowMore)).kind,
              planning::Trust::Kind::kWrong);
  }
}

// A comparison by an earlier process is not repeated, unless Proof::kHere demands a run in this
// process.
TEST_F(VerifyTileTest, AStoreTellsWhatWasCompared) {
  const std::vector<cudnn::GraphTemplate> plans = {
      PlanOf(Image(Operation::kForward, DataType::kFloat), 0)};
  const cudnn::GraphTemplate& plan = plans[0];
  const ConvolutionProblem& whole = plan.convolution.problem;
  const Division division = Divide(whole, {.spatial = {1, 16, 1}}, plan);
  const MicroConfiguration undivided = {plan.convolution.engine, 1, 1, size_t{1} << 20, true};
  test::MemoryStore store;
  Tuning bounds;
  bounds.kernel_seconds = bounds.process_seconds = 600;
  const auto verify = [&](const GraphScope& scope, bool need_whole, size_t memory_bytes,
                          Proof proof = Proof::kOnce) {
    bounds.memory_bytes = memory_bytes;
    MeasuredKernels kernels(&store, bounds, kNoFolder);
    const planning::Compare question{division.configuration, undivided, proof, need_whole};
    return kernels.Verify(device(), whole, question, scope).kind;
  };
  using Kind = planning::Trust::Kind;
  const GraphScope right = ScopeOf(plans), faulty = FaultyScope(plan, ReadOneRowMore);
  const size_t scarce = cudnn::ImageBytes(whole) + cudnn::OutputBytes(whole);
  constexpr size_t kRoom = size_t{1} << 30;
  EXPECT_EQ(verify(faulty, false, kRoom), Kind::kWrong);
  EXPECT_TRUE(store.notes.empty());
  EXPECT_EQ(verify(right, false, scarce), Kind::kTrusted);
  ASSERT_EQ(store.notes.size(), 1u);
  // The store's note says that the kinds of tiles were compared alone. That suffices unless
  // `need_whole` is set.
  EXPECT_EQ(verify(faulty, false, scarce), Kind::kTrusted);
  EXPECT_EQ(verify(right, false, scarce, Proof::kKnown), Kind::kTrusted);
  EXPECT_EQ(verify(right, true, scarce), Kind::kUnknown);
  EXPECT_EQ(verify(faulty, true, kRoom), Kind::kWrong);
  EXPECT_EQ(verify(right, true, kRoom), Kind::kTrusted);
  EXPECT_EQ(verify(faulty, true, kRoom), Kind::kTrusted);
  EXPECT_EQ(verify(faulty, true, kRoom, Proof::kHere), Kind::kWrong);
  // A process with less memory compares only the kinds of tiles. The note that the undivided
  // convolution was compared stays.
  EXPECT_EQ(verify(right, false, scarce, Proof::kHere), Kind::kTrusted);
  EXPECT_EQ(verify(faulty, true, kRoom), Kind::kTrusted);
  store.notes[0].note = "nothing that this program says";
  EXPECT_EQ(verify(faulty, false, kRoom), Kind::kWrong);
}

// An engine may be fast where a tile is measured alone, and slow where the tile lies in the whole
// tensors.
TEST_F(VerifyTileTest, TilesThatAreSlowerInPlaceAreTrustedOnlyWhereTheyNeedNotBeFaster) {
  const std::vector<cudnn::GraphTemplate> plans = {
      PlanOf(Image(Operation::kForward, DataType::kFloat), 0)};
  const cudnn::GraphTemplate& plan = plans[0];
  const ConvolutionProblem& whole = plan.convolution.problem;
  const Division division = Divide(whole, {.spatial = {1, 4, 1}}, plan);
  const MicroConfiguration undivided = {plan.convolution.engine, 1, 1, size_t{1} << 20, true};
  test::MemoryStore store;
  Tuning bounds;
  bounds.kernel_seconds = bounds.process_seconds = 600;
  const GraphScope slow = FaultyScope(plan, WaitInPlace);
  const auto verify = [&](const GraphScope& scope, const MicroConfiguration& faster_than,
                          Proof proof = Proof::kOnce, size_t memory_bytes = size_t{1} << 30) {
    bounds.memory_bytes = memory_bytes;
    MeasuredKernels kernels(&store, bounds, kNoFolder);
    return kernels.Verify(device(), whole,
                          {division.configuration, undivided, proof, false, faster_than}, scope);
  };
  using Kind = planning::Trust::Kind;
  EXPECT_EQ(verify(slow, {}).kind, Kind::kTrusted);
  // The comparison is known, but the tiles were not yet timed in the whole tensors.
  EXPECT_EQ(verify(slow, undivided, Proof::kKnown).kind, Kind::kUnknown);
  // If the whole tensors exceed the memory, tiles cannot be timed in them.
  const size_t scarce = cudnn::ImageBytes(whole) + cudnn::OutputBytes(whole);
  EXPECT_EQ(verify(slow, undivided, Proof::kOnce, scarce).kind, Kind::kTrusted);
  const planning::Trust slower = verify(slow, undivided);
  EXPECT_EQ(slower.kind, Kind::kSlower);
  EXPECT_EQ(slower.message.find("tiles are not faster in place: "), 0u) << slower.message;
  // Later questions of any process get the verdict that the store has noted.
  for (const Proof proof : {Proof::kOnce, Proof::kKnown}) {
    const planning::Trust again = verify(ScopeOf(plans), undivided, proof);
    EXPECT_EQ(again.message, slower.message);
    EXPECT_EQ(again.kind, Kind::kSlower);
  }
  ASSERT_EQ(store.notes.size(), 2u);
  store.notes[1].note = "faster";
  EXPECT_EQ(verify(slow, undivided, Proof::kKnown).kind, Kind::kTrusted);
}

}  // namespace
}  // namespace ucudnn::tuning
