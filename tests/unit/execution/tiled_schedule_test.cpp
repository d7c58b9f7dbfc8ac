// Compares tiles with the plan of the undivided convolution, in the stand-in's arithmetic. The data
// are small integers, so every bit of the output must be the same, and no other memory may change.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "convolution/partial_sums.h"
#include "cudnn/graph_engines.h"
#include "execution/schedule.h"
#include "tests/support/cases.h"
#include "tests/support/device.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"
#include "tests/support/random_grid.h"
#include "tests/support/stand_in.h"
#include "tuning/verify.h"

namespace ucudnn::execution {
namespace {

using test::FusedStep;
using test::Graph;
using test::GraphOptions;
using Reads = FusedStep::Reads;

using Bytes = std::vector<std::byte>;

// Encodes `number` in `type`. In 16-bit types it must be -1, 0 or 1.
void Encode(DataType type, int number, std::byte* to) {
  const auto narrow = static_cast<float>(number);
  if (type == DataType::kDouble) {
    const double wide = number;
    std::memcpy(to, &wide, sizeof wide);
  } else if (type == DataType::kFloat) {
    std::memcpy(to, &narrow, sizeof narrow);
  } else {
    const uint16_t one = type == DataType::kHalf ? 0x3c00 : 0x3f80;
    const auto bits = static_cast<uint16_t>(number == 0 ? 0 : number < 0 ? one | 0x8000 : one);
    std::memcpy(to, &bits, sizeof bits);
  }
}

// Holds a tensor in device memory, between zones that nobody may write.
class Memory {
 public:
  explicit Memory(Bytes content) : content_(std::move(content)) {
    EXPECT_EQ(cuMemAlloc(&address_, content_.size() + 2 * kZone), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8(address_, 0xa5, content_.size() + 2 * kZone), CUDA_SUCCESS);
    Restore();
  }
  ~Memory() { cuMemFree(address_); }
  Memory(const Memory&) = delete;

  void Restore() {
    if (content_.empty()) return;
    EXPECT_EQ(cuMemcpyHtoD(address_ + kZone, content_.data(), content_.size()), CUDA_SUCCESS);
  }
  // Reads the memory with both zones.
  Bytes Read() const {
    Bytes all(content_.size() + 2 * kZone);
    EXPECT_EQ(cuMemcpyDtoH(all.data(), address_, all.size()), CUDA_SUCCESS);
    return all;
  }
  void* data() const { return reinterpret_cast<void*>(address_ + kZone); }

 private:
  static constexpr size_t kZone = 512;
  const Bytes content_;
  CUdeviceptr address_ = 0;
};

size_t ElementsOf(const ConvolutionProblem& problem, int64_t channels, const Spatial& extents,
                  const Strides& strides) {
  return static_cast<size_t>(ViewSpan(problem.n, channels, extents, strides));
}

// Runs plans of undivided convolutions, and the same convolutions in tiles.
class TiledRuns : public test::DeviceTest {
 protected:
  TiledRuns() { EXPECT_EQ(functions_.cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS); }
  ~TiledRuns() override { EXPECT_EQ(functions_.cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS); }

  // Draws -1, 0 and 1, mostly 0, so that every type holds the numbers, and sums of hundreds of
  // their products, exactly.
  Bytes Numbers(DataType type, size_t elements) {
    const size_t element = ElementBytes(type);
    Bytes bytes(elements * element);
    for (size_t i = 0; i < elements; ++i) {
      Encode(type, grids_.Draw(0, 3) == 0 ? grids_.Draw(-1, 1) : 0, bytes.data() + i * element);
    }
    return bytes;
  }

  // Returns the plan of a random engine. Returns nullopt if there is no such plan, or if the engine
  // may round because its numeric class is not kDirect.
  std::optional<cudnn::GraphTemplate> PlanOf(const ConvolutionProblem& problem,
                                             const GraphOptions& options) {
    const Graph graph(problem, options, functions_, {handle_, nullptr});
    if (!graph.ok()) return std::nullopt;
    const auto plan = graph.Plan(grids_.Draw(0, graph.EngineCount() - 1));
    if (!plan) return std::nullopt;
    auto read = cudnn::ReadTemplate(functions_, plan->get());
    // With one image and one channel, an operand that all images share is as large as the output,
    // so ReadTemplate may refuse the plan.
    EXPECT_TRUE(read.ok() || (problem.n == 1 && (problem.c == 1 || problem.k == 1)))
        << read.message();
    if (!read.ok() || read->numeric != NumericClass::kDirect) return std::nullopt;
    return std::move(*read);
  }

  GraphOptions RandomOptions(const ConvolutionProblem& problem) {
    GraphOptions options;
    options.x_alignment = options.w_alignment = options.y_alignment = problem.alignment;
    const bool may_fuse =
        problem.operation != Operation::kBackwardFilter && problem.type != DataType::kDouble;
    if (may_fuse && grids_.Draw(0, 1) == 0) {
      const auto aligned = [&](FusedStep step) {
        step.alignment = problem.alignment;
        options.steps.push_back(step);
      };
      if (grids_.Draw(0, 1) == 0) aligned({CUDNN_POINTWISE_MUL, Reads::kChannel, {}});
      if (grids_.Draw(0, 1) == 0) aligned({CUDNN_POINTWISE_ADD, Reads::kWhole, {}});
      if (grids_.Draw(0, 1) == 0) aligned({CUDNN_POINTWISE_ADD, Reads::kChannel, {}});
      if (grids_.Draw(0, 2) == 0) aligned({CUDNN_POINTWISE_ADD, Reads::kRow, {}});
      if (grids_.Draw(0, 2) == 0) aligned({CUDNN_POINTWISE_RELU_BWD, Reads::kWhole, {}});
      aligned({CUDNN_POINTWISE_RELU_FWD, Reads::kNothing, {}});
      return options;
    }
    options.alpha = grids_.Draw(1, 2);
    options.beta = grids_.Draw(-1, 1);
    return options;
  }

  // Returns a configuration with one run for each kind of tile, in exactly the workspace that its
  // piece needs. The configuration has no runs if the engine does not support a kind.
  Configuration RunsOf(const cudnn::GraphTemplate& plan, const Tiles& cut) {
    const ConvolutionProblem& whole = plan.convolution.problem;
    cudnn::GraphEngines engines(functions_, {handle_, nullptr}, {&plan});
    const bool sums = SumsPartials(whole) && cut.AddUp();
    const cudnn::PieceScales scales = {.are_plain = sums, .may_add = !sums && cut.AddUp()};
    Configuration configuration;
    for (size_t kind = 0; kind < cut.kinds.size(); ++kind) {
      const TileKind& of = cut.kinds[kind];
      const auto piece = engines.MakePiece(of.problem, plan.convolution.engine, scales,
                                           std::numeric_limits<size_t>::max());
      if (!piece.ok()) return {};
      MicroConfiguration micro = {plan.convolution.engine, of.problem.n, 1,
                                  (*piece)->workspace_bytes() + PackedBytes(of), true};
      micro.tile = of.lengths;
      if (sums) micro = AsPartial(whole, micro, 0);
      configuration.runs.push_back({micro, cut.CountOf(kind)});
    }
    return configuration;
  }

  // Compares the undivided convolution with its tiles. Returns false if the case cannot run.
  // `most_span` is passed to CutIntoTiles.
  bool Check(const ConvolutionProblem& problem, const TileGrid& grid, int64_t most_span) {
    const GraphOptions options = RandomOptions(problem);
    const auto plan = PlanOf(problem, options);
    if (!plan) return false;
    const ConvolutionProblem& whole = plan->convolution.problem;
    auto cut = CutIntoTiles(whole, grid, most_span);
    if (!cut.ok() || cut->tiles.size() == 1) return false;
    const auto tiles = std::make_shared<const Tiles>(std::move(*cut));
    Division division(RunsOf(*plan, *tiles), tiles);
    if (division.configuration.runs.empty()) return false;
    cudnn::GraphEngines engines(functions_, {handle_, nullptr}, {&*plan});
    const auto made = [&](const Division& of) {
      return Schedule::Make(
          engines,
          {whole, of, {}, plan->convolution.operands, {}, {cuda::GetDriver(), &functions_}});
    };
    const auto tiled = made(division);
    if (!tiled.ok()) {
      // A plan with fused operands cannot run in tiles whose output is packed.
      EXPECT_TRUE(packs(*tiles) && !plan->convolution.operands.empty()) << tiled.message();
      return false;
    }
    const MicroConfiguration undivided = {plan->convolution.engine, whole.n, 1, kAmple, true};
    const auto reference = made(Configuration{{{undivided, 1}}});
    EXPECT_TRUE(reference.ok()) << reference.message();
    if (!reference.ok()) return false;
    packed_ += (*tiled)->packs_tiles();
    summed_ += (*tiled)->sums_partials();
    fused_ += !plan->convolution.operands.empty();
    CompareRuns(*plan, options, **reference, **tiled, division.configuration.WorkspaceBytes());
    return true;
  }

  static bool packs(const Tiles& tiles) {
    for (const TileKind& kind : tiles.kinds) {
      if (PackedBytes(kind) > 0) return true;
    }
    return false;
  }

  void CompareRuns(const cudnn::GraphTemplate& plan, const GraphOptions& options,
                   const Schedule& reference, const Schedule& tiled, size_t workspace_bytes) {
    const ConvolutionProblem& whole = plan.convolution.problem;
    const size_t filter =
        size_t(whole.k) * (whole.c / whole.groups) * whole.w[0] * whole.w[1] * whole.w[2];
    Memory x(Numbers(whole.type, ElementsOf(whole, whole.c, whole.x, whole.x_strides)));
    Memory w(Numbers(whole.type, filter));
    Memory y(
        Numbers(whole.type, ElementsOf(whole, whole.k, OutputExtents(whole), whole.y_strides)));
    std::vector<std::unique_ptr<Memory>> read;
    cudnn::FusedPointers fused;
    fused.operands = plan.convolution.operands;
    for (const cudnn::FusedOperand& operand : fused.operands) {
      const size_t elements = operand.Bytes(whole.n) / ElementBytes(operand.type);
      read.push_back(std::make_unique<Memory>(Numbers(operand.type, elements)));
      fused.pointers[read.size() - 1] = read.back()->data();
    }
    const float narrow[] = {static_cast<float>(options.alpha), static_cast<float>(options.beta)};
    const bool wide = whole.type == DataType::kDouble;
    cudnn::ConvolutionCall call;
    call.operation = whole.operation;
    call.handle = handle_;
    call.alpha = wide ? static_cast<const void*>(&options.alpha) : &narrow[0];
    call.beta = wide ? static_cast<const void*>(&options.beta) : &narrow[1];
    call.x = x.data();
    call.w = w.data();
    call.y = y.data();
    call.fused = &fused;
    const auto run = [&](const Schedule& schedule, size_t bytes) {
      for (Memory* memory : {&x, &w, &y}) memory->Restore();
      const Memory workspace{Bytes(bytes)};
      call.workspace = workspace.data();
      call.workspace_bytes = bytes;
      Outcome outcome = Outcome::kNotAttempted;
      EXPECT_EQ(schedule.Run(call, outcome), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(outcome, Outcome::kPlanned);
      EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      std::vector<Bytes> all = {x.Read(), w.Read(), y.Read()};
      for (const auto& memory : read) all.push_back(memory->Read());
      const Bytes guarded = workspace.Read();
      all.emplace_back(guarded.begin(), guarded.begin() + 512);
      all.emplace_back(guarded.end() - 512, guarded.end());
      return all;
    };
    const std::vector<Bytes> expected = run(reference, kAmple);
    const std::vector<Bytes> computed = run(tiled, workspace_bytes);
    ASSERT_EQ(computed.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(computed[i] == expected[i]) << "memory " << i;
    }
  }

  static constexpr size_t kAmple = size_t{4} << 20;
  const cudnn::Functions functions_ = test::StandInGraphs();
  cudnnHandle_t handle_ = nullptr;
  test::RandomGrids grids_{kSeed};
  int packed_ = 0, summed_ = 0, fused_ = 0;
  static constexpr uint64_t kSeed = 351;
};

TEST_F(TiledRuns, ComputeWhatTheWholeDoes) {
  const int cases = test::Cases(20000, 600);
  int checked = 0, drawn = 0;
  for (; checked < cases; ++drawn) {
    const ConvolutionProblem problem = grids_.Problem();
    const TileGrid grid = grids_.Grid(problem);
    const int64_t most_span = grids_.Draw(0, 4) == 0 ? grids_.Draw(0, 200) : kMostViewSpan;
    SCOPED_TRACE(test::Text(problem, grid) + ", views of " + std::to_string(most_span) + ", case " +
                 std::to_string(drawn) + " of seed " + std::to_string(kSeed));
    checked += Check(problem, grid, most_span);
    if (HasFailure()) return;
  }
  std::printf(
      "%d kernels in tiles: %d with packed ones, %d with partial sums, %d fused; of %d "
      "drawn\n",
      checked, packed_, summed_, fused_, drawn);
  EXPECT_GT(packed_, cases / 20);
  EXPECT_GT(summed_, cases / 20);
  EXPECT_GT(fused_, cases / 20);
}

// Changes `call` so that a piece which should compute `part` computes something else.
using Spoil = void (*)(const ConvolutionProblem& part, cudnn::ConvolutionCall& call);

class SpoiltPiece : public cudnn::Piece {
 public:
  SpoiltPiece(std::unique_ptr<cudnn::Piece> right, const ConvolutionProblem& part, Spoil spoil)
      : right_(std::move(right)), part_(part), spoil_(spoil) {}
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call, bool adds) const override {
    cudnn::ConvolutionCall spoilt = call;
    spoil_(part_, spoilt);
    return right_->Run(spoilt, adds);
  }
  size_t workspace_bytes() const override { return right_->workspace_bytes(); }

 private:
  const std::unique_ptr<cudnn::Piece> right_;
  const ConvolutionProblem part_;
  const Spoil spoil_;
};

// These engines spoil the pieces of one kind of tile, whose problem is `spoilt`.
class SpoiltEngines : public cudnn::GraphEngines {
 public:
  SpoiltEngines(const cudnn::Functions& functions, cudnnHandle_t handle,
                const cudnn::GraphTemplate& plan, const ConvolutionProblem& spoilt, Spoil spoil)
      : GraphEngines(functions, {handle, nullptr}, {&plan}), spoilt_(spoilt), spoil_(spoil) {}
  Result<std::unique_ptr<cudnn::Piece>> MakePiece(const ConvolutionProblem& part,
                                                  const EngineId& engine,
                                                  const cudnn::PieceScales& scales,
                                                  size_t workspace_bytes) override {
    auto piece = GraphEngines::MakePiece(part, engine, scales, workspace_bytes);
    if (!piece.ok() || spoil_ == nullptr || part != spoilt_) return piece;
    return std::unique_ptr<cudnn::Piece>(new SpoiltPiece(std::move(*piece), part, spoil_));
  }

 private:
  const ConvolutionProblem spoilt_;
  const Spoil spoil_;
};

void* Elements(void* pointer, const ConvolutionProblem& part, int64_t elements) {
  return static_cast<char*>(pointer) + elements * static_cast<int64_t>(ElementBytes(part.type));
}

void ReadTheRowsBeyond(const ConvolutionProblem& part, cudnn::ConvolutionCall& call) {
  call.x = Elements(call.x, part, part.x_strides[3]);
}
void ReadTheRowsOfDyBeyond(const ConvolutionProblem& part, cudnn::ConvolutionCall& call) {
  call.y = Elements(call.y, part, part.y_strides[3]);
}
void WriteToTheNextChannel(const ConvolutionProblem& part, cudnn::ConvolutionCall& call) {
  call.y = Elements(call.y, part, part.y_strides[1]);
}
void WriteToTheNextChannelOfDx(const ConvolutionProblem& part, cudnn::ConvolutionCall& call) {
  call.x = Elements(call.x, part, part.x_strides[1]);
}
void WriteTwoTapsBeyond(const ConvolutionProblem& part, cudnn::ConvolutionCall& call) {
  call.w = Elements(call.w, part, 2);
}

class TiledFaults : public TiledRuns {
 protected:
  tuning::Verification Verify(const cudnn::GraphTemplate& plan, const Division& division,
                              size_t spoilt, Spoil spoil) {
    const ConvolutionProblem& whole = plan.convolution.problem;
    const tuning::GraphScope scope = {
        plan.convolution.engine, NumericClass::kDirect, {}, [&](cudnnHandle_t handle) {
          return std::make_unique<SpoiltEngines>(functions_, handle, plan,
                                                 division.tiles->kinds[spoilt].problem, spoil);
        }};
    const MicroConfiguration undivided = {plan.convolution.engine, whole.n, 1, kAmple, true};
    return tuning::VerifyPlan({cuda::GetDriver(), &functions_, context, {}}, whole, division,
                              undivided, {}, scope);
  }
};

// Verify compares the undivided convolution with the same pieces that a Schedule executes later, so
// Verify must notice a wrong kind of tile.
TEST_F(TiledFaults, AreFoundInEveryKindOfTile) {
  using tuning::ComparisonResult;
  for (const Operation operation : test::kOperations) {
    const std::vector<Spoil> spoils =
        operation == Operation::kForward
            ? std::vector<Spoil>{ReadTheRowsBeyond, WriteToTheNextChannel}
        : operation == Operation::kBackwardData
            ? std::vector<Spoil>{ReadTheRowsOfDyBeyond, WriteToTheNextChannelOfDx}
            : std::vector<Spoil>{ReadTheRowsBeyond, ReadTheRowsOfDyBeyond, WriteTwoTapsBeyond};
    for (const DataType type : {DataType::kFloat, DataType::kBfloat16}) {
      for (const int64_t most_span : {kMostViewSpan, int64_t{0}}) {
        const ConvolutionProblem problem = test::ProblemWith({.operation = operation,
                                                              .n = 1,
                                                              .c = 8,
                                                              .k = 16,
                                                              .x = {1, 12, 12},
                                                              .type = type,
                                                              .alignment = 4});
        SCOPED_TRACE(Describe(problem) + ", views of " + std::to_string(most_span));
        GraphOptions options;
        options.x_alignment = options.w_alignment = options.y_alignment = problem.alignment;
        const Graph graph(problem, options, functions_, {handle_, nullptr});
        const auto finalized = graph.Plan(0);
        ASSERT_TRUE(finalized);
        const auto plan = cudnn::ReadTemplate(functions_, finalized->get());
        ASSERT_TRUE(plan.ok()) << plan.message();
        auto cut = CutIntoTiles(plan->convolution.problem, {.spatial = {1, 4, 1}}, most_span);
        ASSERT_TRUE(cut.ok()) << cut.message();
        ASSERT_EQ(cut->kinds.size(), 3u);
        ASSERT_EQ(packs(*cut), most_span == 0);
        const auto tiles = std::make_shared<const Tiles>(std::move(*cut));
        const Division division(RunsOf(*plan, *tiles), tiles);
        ASSERT_EQ(division.configuration.runs.size(), 3u);
        const tuning::Verification right = Verify(*plan, division, 0, nullptr);
        EXPECT_EQ(right.result, ComparisonResult::kEqual) << right.message;
        for (const Spoil spoil : spoils) {
          for (size_t kind = 0; kind < 3; ++kind) {
            const tuning::Verification found = Verify(*plan, division, kind, spoil);
            EXPECT_TRUE(found.result == ComparisonResult::kDifferent ||
                        found.result == ComparisonResult::kTrespassed)
                << "kind " << kind << ": " << found.message;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ucudnn::execution
