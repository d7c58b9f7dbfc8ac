#include "tuning/verify.h"

#include <cuda.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "convolution/engine_name.h"
#include "convolution/partial_sums.h"
#include "cudnn/legacy_engines.h"
#include "shim/host/hostgpu.h"
#include "tests/support/compared_problem.h"
#include "tests/support/device.h"
#include "tests/support/engines.h"
#include "tests/support/faulty_cudnn.h"
#include "tests/support/random_problem.h"
#include "tests/support/seeded_random.h"
#include "tests/support/stand_in.h"
#include "tuning/tuning_handle.h"

namespace ucudnn::tuning {
namespace {

using test::ComparedProblem;
using test::Fault;
using test::FreeBytes;
using test::kOperations;
using test::WriteByte;
using ::testing::HasSubstr;

constexpr DataType kVerified[] = {DataType::kFloat, DataType::kHalf, DataType::kBfloat16,
                                  DataType::kDouble};

class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest() { device_ = {cuda::GetDriver(), &functions_, test::MakeContextCurrent(), {}}; }
  ~VerifyTest() override {
    for (const char* site : {"alloc", "stream", "event", "handle", "query", "convolution"}) {
      hostgpuInjectFault(site, 0);
    }
  }

  std::vector<cudnn::EngineChoice> EnginesOf(const ConvolutionProblem& problem) {
    TuningHandle handle(*device_.driver, functions_);
    EXPECT_TRUE(handle.Create().ok());
    cudnn::LegacyEngines engines(functions_, handle.get());
    return test::Choices(engines, problem);
  }

  // Returns `engine` for `images` images with the workspace of a piece. If the engine does not
  // support this many images, returns an empty engine.
  MicroConfiguration Micro(ConvolutionProblem problem, const EngineId& engine, int images) {
    const int n = std::exchange(problem.n, images);
    for (const cudnn::EngineChoice& choice : EnginesOf(problem)) {
      if (choice.engine != engine) continue;
      const MicroConfiguration whole = {engine, images, 1, choice.workspace_bytes, true};
      return SumsPartials(problem) && images < n ? AsPartial(problem, whole, 0) : whole;
    }
    return {};
  }

  Verification Verify(const ConvolutionProblem& problem, const Configuration& configuration,
                      const MicroConfiguration& undivided, const MeasureLimits& budget = {}) {
    return VerifyPlan(device_, problem, configuration, undivided, budget, LegacyScope());
  }

  // Verifies pieces of 4 + 4 + 2 images by `engine` against the undivided algorithm 0.
  Verification VerifyThree(const ConvolutionProblem& problem, const EngineId& engine = "legacy:1",
                           const MeasureLimits& budget = {}) {
    const Configuration configuration = {
        {{Micro(problem, engine, 4), 2}, {Micro(problem, engine, 2), 1}}};
    return Verify(problem, configuration, Micro(problem, "legacy:0", problem.n), budget);
  }

  // Runs `verify` while device_ has `functions` instead of the stand-in's.
  template <typename Run>
  auto With(const cudnn::Functions& functions, const Run& verify) {
    device_.functions = &functions;
    const auto verified = verify();
    device_.functions = &functions_;
    return verified;
  }

  Verification VerifyFaulty(const ConvolutionProblem& problem, const Fault& fault,
                            const EngineId& engine = "legacy:1") {
    return With(test::FaultyStandIn(fault), [&] { return VerifyThree(problem, engine); });
  }

  const cudnn::Functions functions_ = test::StandIn();
  Device device_;
};

TEST_F(VerifyTest, RightPlansOfEveryOperationAndTypeAreEqual) {
  for (const Operation operation : kOperations) {
    for (const DataType type : kVerified) {
      for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
        for (const int groups : {1, 2}) {
          ConvolutionProblem problem = ComparedProblem(operation, type);
          problem.layout = layout;
          problem.groups = groups;
          problem.dilation = {1, groups, 1};
          problem.stride = {1, 1, groups};
          SetPackedStrides(problem);
          const size_t before = FreeBytes();
          const Verification verification = VerifyThree(problem, "legacy:0");
          EXPECT_EQ(verification.result, ComparisonResult::kEqual)
              << Describe(problem) << ": " << verification.message;
          EXPECT_EQ(FreeBytes(), before);
        }
      }
    }
  }
}

// NoteCall adds an entry for each convolution call of a comparison: the number of images, and
// whether the call adds to the output.
std::vector<std::pair<int, bool>> compared;
void NoteCall(const cudnn::ConvolutionCall& call) {
  cudnnDataType_t type;
  int rank = 0, extents[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX];
  ASSERT_EQ(::cudnnGetTensorNdDescriptor(call.descriptors.y, CUDNN_DIM_MAX, &type, &rank, extents,
                                         strides),
            CUDNN_STATUS_SUCCESS);
  compared.emplace_back(extents[0], *static_cast<const float*>(call.beta) != 0);
}

TEST_F(VerifyTest, EachRunOfAFilterGradientReplacesAndAdds) {
  compared.clear();
  const ConvolutionProblem problem = ComparedProblem(Operation::kBackwardFilter);
  EXPECT_EQ(VerifyFaulty(problem, {.at = -1, .later = NoteCall}).result, ComparisonResult::kEqual);
  EXPECT_THAT(compared,
              testing::ElementsAre(std::pair(10, false), std::pair(4, false), std::pair(4, true),
                                   std::pair(2, true), std::pair(2, false), std::pair(4, true),
                                   std::pair(4, true)));
}

TEST_F(VerifyTest, AWholeFilterGradientIsAddedToItself) {
  compared.clear();
  const ConvolutionProblem problem = ComparedProblem(Operation::kBackwardFilter);
  const MicroConfiguration whole = Micro(problem, "legacy:1", problem.n);
  const auto verify = [&](const Fault& fault) {
    return With(test::FaultyStandIn(fault), [&] {
      return Verify(problem, {{{whole, 1}}}, Micro(problem, "legacy:0", problem.n)).result;
    });
  };
  EXPECT_EQ(verify({.at = -1, .later = NoteCall}), ComparisonResult::kEqual);
  EXPECT_THAT(compared, testing::ElementsAre(std::pair(10, false), std::pair(10, true),
                                             std::pair(10, false), std::pair(10, true)));
  // Here the second run of the plan has beta 0, so it replaces the output of the first run.
  static constexpr float kZero = 0;
  EXPECT_EQ(verify({.at = 3, .before = [](cudnn::ConvolutionCall& call) { call.beta = &kZero; }}),
            ComparisonResult::kDifferent);
}

TEST_F(VerifyTest, GapsOfStridedTensorsStayUntouched) {
  for (const Operation operation : kOperations) {
    ConvolutionProblem problem = ComparedProblem(operation);
    problem.x_strides = {1400, 160, 160, 16, 1};
    problem.y_strides = {3000, 170, 170, 18, 1};
    EXPECT_EQ(VerifyThree(problem).result, ComparisonResult::kEqual);
  }
  ConvolutionProblem problem = ComparedProblem(Operation::kForward);
  problem.y_strides = {3000, 170, 170, 18, 1};
  const Verification verification = VerifyFaulty(
      problem, {2, [](const cudnn::ConvolutionCall& call) {
                  WriteByte(static_cast<char*>(call.y) + 4 * 17);  // a row has 18 elements, 12 used
                }});
  EXPECT_EQ(verification.result, ComparisonResult::kTrespassed);
  EXPECT_THAT(verification.message, HasSubstr("byte 48068 of the output"));
}

TEST_F(VerifyTest, AWrongElementIsFoundWhereItIs) {
  for (const Operation operation : kOperations) {
    for (const DataType type : kVerified) {
      const ConvolutionProblem problem = ComparedProblem(operation, type);
      static bool corrupt_partial;
      corrupt_partial = SumsPartials(problem);
      // Flips the lowest bit of one element, the smallest step of its type. The lowest bits of a
      // partial vanish in the sum, so in a partial a bit of the exponent is flipped.
      const Verification verification =
          VerifyFaulty(problem,
                       {3,
                        [](const cudnn::ConvolutionCall& call) {
                          auto* const byte = static_cast<unsigned char*>(
                              hostgpuHostAlias(call.*cudnn::OutputOf(call.operation)));
                          ASSERT_NE(byte, nullptr);
                          byte[corrupt_partial ? 1 : 0] ^= corrupt_partial ? 0x40 : 1;
                        }},
                       "legacy:0");
      EXPECT_EQ(verification.result, ComparisonResult::kDifferent) << Describe(problem);
      EXPECT_THAT(verification.message, HasSubstr("1 of "));
      if (operation != Operation::kBackwardFilter) {
        EXPECT_THAT(verification.message, HasSubstr("(8, 0, 0, 0, 0) of piece 2 by " +
                                                    EngineName(operation, "legacy:0")));
      }
    }
  }
}

TEST_F(VerifyTest, ImagesMixedUpAreDifferent) {
  for (const Operation operation : kOperations) {
    const Verification verification = VerifyFaulty(
        ComparedProblem(operation), {2, nullptr, [](cudnn::ConvolutionCall& call) {
                                       // The call's tensor begins one image too early.
                                       if (call.operation == Operation::kBackwardData) {
                                         call.y = static_cast<char*>(call.y) - 4 * 16 * 108;
                                       } else {
                                         call.x = static_cast<char*>(call.x) - 4 * 8 * 108;
                                       }
                                     }});
    EXPECT_EQ(verification.result, ComparisonResult::kDifferent) << OperationName(operation);
  }
}

// Verify distinguishes wrong results from Winograd's rounding. It does so even in fp16, in which
// Winograd also stores its transformed tiles.
TEST_F(VerifyTest, ImagesMixedUpByWinogradAreDifferent) {
  for (const DataType type : {DataType::kFloat, DataType::kHalf}) {
    ConvolutionProblem problem = ComparedProblem(Operation::kForward, type);
    problem.c = 64;
    SetPackedStrides(problem);
    if (Micro(problem, "legacy:6", 4).engine.empty()) GTEST_SKIP() << "oneDNN has no Winograd here";
    EXPECT_EQ(VerifyThree(problem, "legacy:6").result, ComparisonResult::kEqual);
    const Verification verification = VerifyFaulty(
        problem,
        {2, nullptr,
         [](cudnn::ConvolutionCall& call) { call.x = static_cast<char*>(call.x) - 2 * 64 * 108; }},
        "legacy:6");
    EXPECT_EQ(verification.result, ComparisonResult::kDifferent) << DataTypeName(type);
  }
}

// If a partial overflows, the plan is wrong, even if the exact sum of all partials would not
// overflow.
TEST_F(VerifyTest, APartialThatOverflowsIsDifferent) {
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    static uint16_t infinity;
    infinity = type == DataType::kHalf ? 0x7c00 : 0x7f80;
    const ConvolutionProblem problem = ComparedProblem(Operation::kBackwardFilter, type);
    const Verification verification =
        VerifyFaulty(problem,
                     {2,
                      [](const cudnn::ConvolutionCall& call) {
                        std::memcpy(hostgpuHostAlias(call.w), &infinity, sizeof infinity);
                      }},
                     "legacy:0");
    EXPECT_EQ(verification.result, ComparisonResult::kDifferent) << DataTypeName(type);
    EXPECT_THAT(verification.message, HasSubstr("1 of "));
  }
}

TEST_F(VerifyTest, APieceThatWritesBesideItsPartialIsNamed) {
  const ConvolutionProblem problem = ComparedProblem(Operation::kBackwardFilter, DataType::kHalf);
  const Verification verification =
      VerifyFaulty(problem, {1, [](const cudnn::ConvolutionCall& call) {
                               // Writes the byte behind the partial. The partial has 16 filters of
                               // 8 channels and 3x3 taps, which is a multiple of 256 bytes.
                               WriteByte(static_cast<char*>(call.w) + 2 * 16 * 8 * 9);
                             }});
  EXPECT_EQ(verification.result, ComparisonResult::kTrespassed);
  EXPECT_THAT(verification.message, HasSubstr("behind the end of the sum of partials"));
}

TEST_F(VerifyTest, ASumThatCannotBeEnqueuedIsNoVerdict) {
  cudnn::Functions functions = functions_;
  functions.cudnnOpTensor = [](auto...) { return CUDNN_STATUS_NOT_SUPPORTED; };
  const Verification verification = With(functions, [&] {
    return VerifyThree(ComparedProblem(Operation::kBackwardFilter, DataType::kHalf));
  });
  EXPECT_EQ(verification.result, ComparisonResult::kNotCompared);
  EXPECT_THAT(verification.message, HasSubstr("the sum of partials of the plan"));
}

TEST_F(VerifyTest, AFilterGradientThatDoesNotAddUpIsDifferent) {
  static const float kZero = 0;
  const Verification verification =
      VerifyFaulty(ComparedProblem(Operation::kBackwardFilter),
                   {2, nullptr, [](cudnn::ConvolutionCall& call) { call.beta = &kZero; }});
  EXPECT_EQ(verification.result, ComparisonResult::kDifferent);
}

// Runs the right piece with an x that begins one element too late.
class ShiftedPiece : public cudnn::Piece {
 public:
  explicit ShiftedPiece(std::unique_ptr<cudnn::Piece> right) : right_(std::move(right)) {}
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call, bool adds) const override {
    cudnn::ConvolutionCall shifted = call;
    shifted.x = static_cast<char*>(call.x) + sizeof(float);
    return right_->Run(shifted, adds);
  }
  size_t workspace_bytes() const override { return right_->workspace_bytes(); }

 private:
  const std::unique_ptr<cudnn::Piece> right_;
};

// These legacy engines shift x in pieces, but not in the undivided call.
class ShiftedEngines : public cudnn::LegacyEngines {
 public:
  ShiftedEngines(const cudnn::Functions& functions, cudnnHandle_t handle, int whole)
      : LegacyEngines(functions, handle), whole_(whole) {}
  Result<std::unique_ptr<cudnn::Piece>> MakePiece(const ConvolutionProblem& part,
                                                  const EngineId& engine,
                                                  const cudnn::PieceScales& scales,
                                                  size_t workspace_bytes) override {
    auto piece = LegacyEngines::MakePiece(part, engine, scales, workspace_bytes);
    if (!piece.ok() || part.n == whole_) return piece;
    return std::unique_ptr<cudnn::Piece>(new ShiftedPiece(std::move(*piece)));
  }

 private:
  const int whole_;
};

// Verify runs the same Schedule of pieces that calls run later.
TEST_F(VerifyTest, AFaultOfPiecesAloneIsFound) {
  for (const Operation operation : kOperations) {
    const ConvolutionProblem problem = ComparedProblem(operation);
    const MixedScope shifted = {NumericClass::kDirect, [&](cudnnHandle_t handle) {
                                  return std::make_unique<ShiftedEngines>(functions_, handle,
                                                                          problem.n);
                                }};
    const Configuration configuration = {
        {{Micro(problem, "legacy:0", 4), 2}, {Micro(problem, "legacy:0", 2), 1}}};
    const MicroConfiguration undivided = Micro(problem, "legacy:0", problem.n);
    const auto verify = [&](const EngineScope& scope) {
      return VerifyPlan(device_, problem, configuration, undivided, {}, scope).result;
    };
    EXPECT_EQ(verify(LegacyScope()), ComparisonResult::kEqual) << OperationName(operation);
    EXPECT_NE(verify(shifted), ComparisonResult::kEqual) << OperationName(operation);
    EXPECT_NE(verify(shifted), ComparisonResult::kNotCompared) << OperationName(operation);
  }
}

TEST_F(VerifyTest, AnOutputLeftUnwrittenIsDifferent) {
  for (const Operation operation : kOperations) {
    const Verification verification = VerifyFaulty(
        ComparedProblem(operation), {1, [](const cudnn::ConvolutionCall& call) {
                                       auto* const bytes = static_cast<unsigned char*>(
                                           hostgpuHostAlias(call.*cudnn::OutputOf(call.operation)));
                                       std::memset(bytes, 0xff, 4);
                                     }});
    EXPECT_EQ(verification.result, ComparisonResult::kDifferent) << OperationName(operation);
    EXPECT_THAT(verification.message, HasSubstr("nan"));
  }
}

TEST_F(VerifyTest, WhoWritesBeyondItsMemoryIsNamed) {
  struct Case {
    const char* message;
    Fault fault;
  };
  const Case cases[] = {
      {"piece 1 of the plan by IMPLICIT_PRECOMP_GEMM (legacy:1) wrote behind the end of its "
       "workspace",
       {2,
        [](const cudnn::ConvolutionCall& call) {
          ASSERT_GT(call.workspace_bytes, 0u);
          WriteByte(static_cast<char*>(call.workspace) + call.workspace_bytes);
        }}},
      {"piece 0 of the plan by IMPLICIT_PRECOMP_GEMM (legacy:1) wrote before the beginning of its "
       "workspace",
       {1,
        [](const cudnn::ConvolutionCall& call) {
          WriteByte(static_cast<char*>(call.workspace) - 1);
        }}},
      {"piece 2 of the plan by IMPLICIT_PRECOMP_GEMM (legacy:1) wrote behind the end of the result",
       {3,
        [](const cudnn::ConvolutionCall& call) {
          WriteByte(static_cast<char*>(call.y) + 2 * 4 * 16 * 108);
        }}},
      {"the undivided call by IMPLICIT_GEMM (legacy:0) wrote before the beginning of the output",
       {0, [](const cudnn::ConvolutionCall& call) { WriteByte(static_cast<char*>(call.y) - 1); }}},
      {"an input was changed",
       {2, [](const cudnn::ConvolutionCall& call) { WriteByte(static_cast<char*>(call.x) + 5); }}},
      {"an input was changed", {3, [](const cudnn::ConvolutionCall& call) { WriteByte(call.w); }}},
  };
  for (const Case& one : cases) {
    const Verification verification = VerifyFaulty(ComparedProblem(Operation::kForward), one.fault);
    EXPECT_EQ(verification.result, ComparisonResult::kTrespassed) << one.message;
    EXPECT_EQ(verification.message, one.message);
  }
}

TEST_F(VerifyTest, ShortMemoryIsNoVerdict) {
  const ConvolutionProblem problem = ComparedProblem(Operation::kForward);
  MeasureLimits budget;
  budget.memory_bytes = 64 << 10;
  const Verification refused = VerifyThree(problem, "legacy:1", budget);
  EXPECT_EQ(refused.result, ComparisonResult::kNotCompared);
  EXPECT_THAT(refused.message, HasSubstr("64 KiB"));

  const Configuration configuration = {{{Micro(problem, "legacy:1", 10), 1}}};
  const MicroConfiguration undivided = Micro(problem, "legacy:0", 10);
  const size_t before = FreeBytes();
  for (const char* site : {"alloc", "stream", "handle", "convolution"}) {
    for (int k = 1; k <= 5; ++k) {
      hostgpuInjectFault(site, k);
      const Verification verification = Verify(problem, configuration, undivided);
      const bool fired = hostgpuFaultCount(site) >= k;
      EXPECT_EQ(verification.result,
                fired ? ComparisonResult::kNotCompared : ComparisonResult::kEqual)
          << site << ":" << k << " " << verification.message;
      EXPECT_NE(verification.message.empty(), fired);
      hostgpuInjectFault(site, 0);
      EXPECT_EQ(FreeBytes(), before);
    }
  }
}

TEST_F(VerifyTest, ADeadlineThatIsOverIsNoVerdict) {
  MeasureLimits budget;
  budget.deadline = Clock::now();
  const Verification verification =
      VerifyThree(ComparedProblem(Operation::kForward), "legacy:1", budget);
  EXPECT_EQ(verification.result, ComparisonResult::kNotCompared);
  EXPECT_EQ(verification.message, "verifying takes too long");
}

Clock::time_point& PassingDeadline() {
  static Clock::time_point deadline;
  return deadline;
}

TEST_F(VerifyTest, ADeadlineThatPassesEndsItBeforeTheNextPiece) {
  const ConvolutionProblem problem = ComparedProblem(Operation::kForward);
  const Configuration configuration = {{{Micro(problem, "legacy:0", 1), 10}}};
  const MicroConfiguration undivided = Micro(problem, "legacy:0", 10);
  static int later_pieces = 0;
  later_pieces = 0;
  const cudnn::Functions counting = test::FaultyStandIn(
      {1, [](const cudnn::ConvolutionCall&) { std::this_thread::sleep_until(PassingDeadline()); },
       nullptr, CUDNN_STATUS_SUCCESS, [](const cudnn::ConvolutionCall&) { ++later_pieces; }});
  MeasureLimits budget;
  budget.deadline = PassingDeadline() = Clock::now() + std::chrono::seconds(2);
  const Verification verification =
      With(counting, [&] { return Verify(problem, configuration, undivided, budget); });
  EXPECT_EQ(verification.result, ComparisonResult::kNotCompared);
  EXPECT_EQ(verification.message, "verifying takes too long");
  EXPECT_EQ(later_pieces, 0);
}

TEST_F(VerifyTest, WhatIsNoPlanOfTheProblemIsNoVerdict) {
  const ConvolutionProblem problem = ComparedProblem(Operation::kForward);
  const MicroConfiguration undivided = Micro(problem, "legacy:0", 10);
  EXPECT_EQ(Verify(problem, {{{Micro(problem, "legacy:0", 4), 2}}}, undivided).result,
            ComparisonResult::kNotCompared);
  EXPECT_EQ(Verify(problem, {{{undivided, 1}}}, {"graph:3", 10, 1, 0, true}).result,
            ComparisonResult::kNotCompared);
  // No engine has this number.
  EXPECT_EQ(Verify(problem, {{{undivided, 1}}}, {"legacy:77", 10, 1, 0, true}).result,
            ComparisonResult::kNotCompared);
}

// Tries every engine of the stand-in at random divisions.
TEST_F(VerifyTest, RandomRightPlansAreNeverRejected) {
  test::SeededRandom random;
  constexpr int kProblems = 300;
  int problems = 0, equal = 0, winograd = 0;
  while (problems < kProblems) {
    ConvolutionProblem problem = RandomProblem(random);
    problem.n = 1 + problem.n % 9;
    if (problems % 2 == 0) {  // so that Winograd supports the problem, too
      problem.spatial_rank = 2;
      problem.groups = 1;
      problem.x = {1, 3 + problems % 11, 4 + problems % 7};
      problem.w = {1, 3, 3};
      problem.pad = {0, 1, 1};
      problem.stride = problem.dilation = {1, 1, 1};
      SetPackedStrides(problem);
    }
    problem.compute = problem.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
    if (!ImageTensor(problem).IsNested() || !OutputTensor(problem).IsNested()) continue;
    TuningHandle handle(*device_.driver, functions_);
    ASSERT_TRUE(handle.Create().ok());
    cudnn::LegacyEngines engines(functions_, handle.get());
    const auto listed = engines.List(problem);
    if (!listed.ok() || listed->empty()) continue;
    ++problems;
    for (const auto& [choice, piece] : *listed) {
      // Pieces that begin at multiples of `step` keep the alignment.
      problem.alignment = 16;
      const int step = LegalStep(problem);
      Configuration configuration;
      for (int left = problem.n; left > 0;) {
        const int most = left / step;
        const int images =
            most > 0 ? step * std::uniform_int_distribution<int>(1, most)(random) : left;
        configuration.runs.push_back({Micro(problem, choice.engine, images), 1});
        if (configuration.runs.back().micro.engine.empty()) break;
        left -= images;
      }
      if (configuration.Images() != problem.n) continue;
      const cudnn::EngineChoice& undivided = (*listed)[random() % listed->size()].choice;
      const Verification verification =
          Verify(problem, configuration, Micro(problem, undivided.engine, problem.n));
      EXPECT_NE(verification.result, ComparisonResult::kDifferent)
          << Describe(problem) << " " << choice.engine << ": " << verification.message;
      EXPECT_NE(verification.result, ComparisonResult::kTrespassed)
          << Describe(problem) << " " << choice.engine << ": " << verification.message;
      const bool rounds =
          choice.numeric != NumericClass::kDirect || undivided.numeric != NumericClass::kDirect;
      winograd += rounds ? 1 : 0;
      equal += verification.result == ComparisonResult::kEqual ? 1 : 0;
      // Only transforms in bf16 are not compared, because their rounding may hide a wrong result.
      EXPECT_EQ(verification.result == ComparisonResult::kNotCompared,
                rounds && problem.type == DataType::kBfloat16)
          << Describe(problem) << " " << choice.engine << ": " << verification.message;
    }
  }
  EXPECT_GE(equal, kProblems);
  ConvolutionProblem served = ComparedProblem(Operation::kForward, DataType::kFloat);
  served.c = 64;
  SetPackedStrides(served);
  // oneDNN has no Winograd for processors without AVX-512.
  if (!Micro(served, "legacy:6", 4).engine.empty()) {
    EXPECT_GE(winograd, 20);
  }
}

}  // namespace
}  // namespace ucudnn::tuning
