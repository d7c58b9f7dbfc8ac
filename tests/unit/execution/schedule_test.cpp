#include "execution/schedule.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "tests/support/engines.h"
#include "tests/support/problem.h"
#include "tests/support/recording_cudnn.h"

namespace ucudnn::execution {
namespace {

using cudnn::ConvolutionCall;
using test::kOperations;
using test::RecordedCall;
using test::ThisRecording;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr size_t kPlannedBytes = 300, kUndividedBytes = 200;
constexpr int kUndividedAlgorithm = 0;

MicroConfiguration Micro(int algorithm, int micro_batch, size_t workspace_bytes) {
  return {"legacy:" + std::to_string(algorithm), micro_batch, 1, workspace_bytes, true};
}

// Returns a plan of 4 + 4 + 2 images. `beside` bytes of each piece's workspace are for the sum of
// partials.
Configuration ThreePieces(size_t beside = 0) {
  return {{{Micro(1, 4, beside + kPlannedBytes), 2}, {Micro(2, 2, beside + 100), 1}}};
}

ConvolutionProblem Problem(Operation operation, DataType type = DataType::kFloat) {
  return test::ProblemWith({.operation = operation,
                            .n = 10,
                            .c = 3,
                            .k = 5,
                            .x = {1, 6, 7},
                            .pad = {0, 1, 0},
                            .type = type});
}

void* Pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }
uintptr_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// Makes and runs one call of `problem`. Its addresses lie far apart, and nothing dereferences them.
class Harness {
 public:
  explicit Harness(const ConvolutionProblem& problem,
                   const Configuration& configuration = ThreePieces(),
                   const MicroConfiguration& undivided = Micro(kUndividedAlgorithm, 10,
                                                               kUndividedBytes))
      : problem_(problem), descriptors_(functions_) {
    ThisRecording() = {};
    EXPECT_TRUE(descriptors_.Create(problem).ok());
    auto made = test::LegacySchedule(functions_, problem, configuration, undivided);
    EXPECT_TRUE(made.ok()) << made.message();
    schedule_ = std::move(*made);
    call.operation = problem.operation;
    call.descriptors = descriptors_.get();
    call.x = Pointer(0x10000000);
    call.w = Pointer(0x20000000);
    call.y = Pointer(0x30000000);
    call.algorithm = 7;
    call.workspace = Pointer(0x40000000);
    call.workspace_bytes = kPlannedBytes;
    SetScales(1, 0);
  }

  void SetScales(double alpha, double beta) {
    scales_[0] = alpha;
    scales_[1] = beta;
    narrow_scales_[0] = static_cast<float>(alpha);
    narrow_scales_[1] = static_cast<float>(beta);
    const bool wide = problem_.type == DataType::kDouble;
    call.alpha = wide ? static_cast<const void*>(&scales_[0]) : &narrow_scales_[0];
    call.beta = wide ? static_cast<const void*>(&scales_[1]) : &narrow_scales_[1];
  }
  void SetBias(float alpha2, void* z, void* bias = Pointer(0x60000000)) {
    alpha2_ = alpha2;
    bias_ = {&alpha2_, call.descriptors.y, z, nullptr, bias, nullptr};
    call.bias = &bias_;
  }
  // Makes `call` pass the fused operand `operand` at `pointer`, as calls of graph plans do.
  void SetFused(const cudnn::FusedOperand& operand, void* pointer) {
    fused_operand_ = operand;
    fused_.operands = {&fused_operand_, 1};
    fused_.pointers[0] = pointer;
    call.fused = &fused_;
  }

  cudnnStatus_t Run() { return schedule_->Run(call, outcome); }
  const Schedule& schedule() const { return *schedule_; }
  static const std::vector<RecordedCall>& calls() { return ThisRecording().calls; }

  ConvolutionCall call;
  Outcome outcome = Outcome::kNotAttempted;

 private:
  const cudnn::Functions functions_ = test::RecordingFunctions();
  const ConvolutionProblem problem_;
  cudnn::OwnedDescriptors descriptors_;
  std::unique_ptr<Schedule> schedule_;
  double scales_[2];
  float narrow_scales_[2];
  float alpha2_ = 0;
  cudnn::BiasActivation bias_;
  cudnn::FusedOperand fused_operand_;
  cudnn::FusedPointers fused_;
};

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf, DataType::kBfloat16,
                               DataType::kDouble};

// Expects every piece at the offset of its images, in the plan's order, with its own workspace
// size.
void ExpectThreePieces(const ConvolutionProblem& problem) {
  SCOPED_TRACE(Describe(problem));
  const bool sums = SumsPartials(problem);
  const size_t beside = sums ? PartialSumBytes(problem) : 0;
  Harness harness(problem, ThreePieces(beside));
  harness.call.workspace_bytes += beside;
  harness.SetScales(0.5, 2);
  ASSERT_EQ(harness.Run(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(harness.outcome, Outcome::kPlanned);
  ASSERT_THAT(Harness::calls(), SizeIs(3));
  const int images[] = {4, 4, 2}, algorithms[] = {1, 1, 2};
  const size_t workspaces[] = {kPlannedBytes, kPlannedBytes, 100};
  int begin = 0;
  for (int i = 0; i < 3; ++i) {
    const RecordedCall& piece = Harness::calls()[i];
    const size_t element = ElementBytes(problem.type);
    EXPECT_EQ(piece.operation, problem.operation);
    EXPECT_EQ(piece.images, images[i]);
    EXPECT_EQ(piece.algorithm, algorithms[i]);
    EXPECT_EQ(Address(piece.x), Address(harness.call.x) + begin * problem.x_strides[0] * element);
    EXPECT_EQ(Address(piece.y), Address(harness.call.y) + begin * problem.y_strides[0] * element);
    EXPECT_EQ(Address(piece.w), sums ? Address(harness.call.workspace) + AccumulatorBytes(problem)
                                     : Address(harness.call.w));
    EXPECT_EQ(Address(piece.workspace), Address(harness.call.workspace) + beside);
    EXPECT_EQ(piece.workspace_bytes, workspaces[i]);
    EXPECT_EQ(piece.alpha, sums ? 1 : 0.5);
    if (sums) {
      EXPECT_EQ(piece.beta, 0);
    }
    begin += images[i];
  }
}

TEST(Schedule, PiecesLieWhereTheirImagesAre) {
  for (const Operation operation : kOperations) {
    for (const DataType type : kTypes) ExpectThreePieces(Problem(operation, type));
  }
}

TEST(Schedule, PiecesFollowTheCallersStrides) {
  for (const Operation operation : kOperations) {
    ConvolutionProblem problem = Problem(operation);
    problem.x_strides[0] += 11;
    problem.y_strides[0] *= 3;
    ExpectThreePieces(problem);
  }
}

TEST(Schedule, PiecesOfVolumesAndChannelsLast) {
  for (const Operation operation : kOperations) {
    ConvolutionProblem problem = Problem(operation);
    problem.layout = Layout::kNhwc;
    SetPackedStrides(problem);
    ExpectThreePieces(problem);
    problem = Problem(operation);
    problem.spatial_rank = 3;
    problem.x[0] = 4;
    problem.w[0] = 2;
    SetPackedStrides(problem);
    ExpectThreePieces(problem);
  }
}

TEST(Schedule, BackwardFilter_BetaAppliesOnce) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
    Harness harness(Problem(Operation::kBackwardFilter, type));
    harness.SetScales(1, 0.25);
    ASSERT_EQ(harness.Run(), CUDNN_STATUS_SUCCESS);
    ASSERT_THAT(Harness::calls(), SizeIs(3));
    EXPECT_EQ(Harness::calls()[0].beta, 0.25);
    EXPECT_EQ(Harness::calls()[1].beta, 1);
    EXPECT_EQ(Harness::calls()[2].beta, 1);
  }
}

// Computes a gradient of a 16-bit filter in three pieces.
class Summed : public Harness {
 public:
  explicit Summed(const ConvolutionProblem& problem = Problem(Operation::kBackwardFilter,
                                                              DataType::kHalf),
                  const MicroConfiguration& undivided = Micro(kUndividedAlgorithm, 10,
                                                              kUndividedBytes))
      : Harness(problem, ThreePieces(PartialSumBytes(problem)), undivided) {
    call.workspace_bytes = PartialSumBytes(problem) + kPlannedBytes;
  }
  static const std::vector<test::RecordedSum>& sums() { return ThisRecording().sums; }
};

// After each piece, its partial is added to the sum in fp32. Alpha and beta apply to the finished
// sum alone.
TEST(Schedule, PartialsOfSixteenBitsAreSummedApart) {
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    const ConvolutionProblem problem = Problem(Operation::kBackwardFilter, type);
    const cudnnDataType_t narrow = type == DataType::kHalf ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
    Summed harness(problem);
    harness.SetScales(0.5, 2);
    ASSERT_EQ(harness.Run(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(harness.outcome, Outcome::kPlanned);
    ASSERT_THAT(Summed::sums(), SizeIs(4));
    void* const sum = harness.call.workspace;
    for (int i = 0; i < 3; ++i) {
      const test::RecordedSum& added = Summed::sums()[i];
      EXPECT_EQ(added.after, i + 1);
      EXPECT_EQ(added.input, Harness::calls()[i].w);
      EXPECT_EQ(added.output, sum);
      EXPECT_EQ(added.from, narrow);
      EXPECT_EQ(added.to, CUDNN_DATA_FLOAT);
      EXPECT_EQ(added.elements, 5 * 3 * 3 * 3);
      EXPECT_EQ(added.alpha, 1);
      EXPECT_EQ(added.beta, i == 0 ? 0 : 1);
    }
    const test::RecordedSum& stored = Summed::sums()[3];
    EXPECT_EQ(stored.after, 3);
    EXPECT_EQ(stored.input, sum);
    EXPECT_EQ(stored.output, harness.call.w);
    EXPECT_EQ(stored.from, CUDNN_DATA_FLOAT);
    EXPECT_EQ(stored.to, narrow);
    EXPECT_EQ(stored.alpha, 0.5);
    EXPECT_EQ(stored.beta, 2);
  }
}

// Returns the steps that ForEach visits, as "piece 0", "sum 0 adds", "store".
std::vector<std::string> StepsOf(const Schedule& schedule, size_t first) {
  std::vector<std::string> steps;
  schedule.ForEach(
      [&](const Step& step) {
        std::string text = step.kind == Step::Kind::kPiece ? "piece"
                           : step.kind == Step::Kind::kSum ? "sum"
                                                           : "store";
        if (step.part != nullptr) text += " " + std::to_string(step.part->number);
        steps.push_back(text + (step.adds ? " adds" : ""));
        return true;
      },
      first);
  return steps;
}

TEST(Schedule, AnyPieceMayComeFirst) {
  using ::testing::ElementsAre;
  const Harness forward(Problem(Operation::kForward));
  EXPECT_THAT(StepsOf(forward.schedule(), 0), ElementsAre("piece 0", "piece 1", "piece 2"));
  EXPECT_THAT(StepsOf(forward.schedule(), 2), ElementsAre("piece 2", "piece 0", "piece 1"));
  const Harness gradient(Problem(Operation::kBackwardFilter));
  EXPECT_THAT(StepsOf(gradient.schedule(), 1),
              ElementsAre("piece 1", "piece 0 adds", "piece 2 adds"));
  const Summed sums;
  EXPECT_THAT(StepsOf(sums.schedule(), 1), ElementsAre("piece 1", "sum 1", "piece 0", "sum 0 adds",
                                                       "piece 2", "sum 2 adds", "store"));
}

TEST(Schedule, AVisitEndsWhereItIsTold) {
  const Summed sums;
  for (int most = 1; most <= 7; ++most) {
    int seen = 0;
    EXPECT_EQ(sums.schedule().ForEach([&](const Step&) { return ++seen < most; }), false);
    EXPECT_EQ(seen, most);
  }
}

TEST(Schedule, OnePieceIsNoPartial) {
  Harness harness(Problem(Operation::kBackwardFilter, DataType::kHalf), {{{Micro(1, 10, 300), 1}}});
  harness.SetScales(0.5, 2);
  ASSERT_EQ(harness.Run(), CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(ThisRecording().sums, SizeIs(0));
  ASSERT_THAT(Harness::calls(), SizeIs(1));
  EXPECT_EQ(Harness::calls()[0].w, harness.call.w);
  EXPECT_EQ(Harness::calls()[0].workspace_bytes, 300u);
  EXPECT_EQ(Harness::calls()[0].beta, 2);
}

TEST(Schedule, BetaAppliesToEveryPieceOfABatchedOutput) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    Harness harness(Problem(operation));
    harness.SetScales(1, 0.25);
    ASSERT_EQ(harness.Run(), CUDNN_STATUS_SUCCESS);
    for (const RecordedCall& piece : Harness::calls()) EXPECT_EQ(piece.beta, 0.25);
  }
}

TEST(Schedule, ZMovesWithY) {
  const ConvolutionProblem problem = Problem(Operation::kForward);
  Harness harness(problem);
  harness.SetBias(1, Pointer(0x50000000));
  ASSERT_EQ(harness.Run(), CUDNN_STATUS_SUCCESS);
  ASSERT_THAT(Harness::calls(), SizeIs(3));
  for (const RecordedCall& piece : Harness::calls()) {
    EXPECT_EQ(Address(piece.z) - 0x50000000, Address(piece.y) - Address(harness.call.y));
  }
}

TEST(Schedule, TooLittleWorkspaceIsNotAttempted) {
  for (const auto& [workspace, bytes] :
       {std::pair<void*, size_t>{Pointer(0x40000000), kPlannedBytes - 1},
        std::pair<void*, size_t>{nullptr, kPlannedBytes}}) {
    Harness harness(Problem(Operation::kForward));
    harness.call.workspace = workspace;
    harness.call.workspace_bytes = bytes;
    EXPECT_EQ(harness.Run(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(harness.outcome, Outcome::kNotAttempted);
    EXPECT_THAT(Harness::calls(), SizeIs(0));
  }
}

TEST(Schedule, APlanWithoutWorkspaceNeedsNoPointer) {
  Harness harness(Problem(Operation::kForward), {{{Micro(0, 5, 0), 2}}}, Micro(0, 10, 0));
  harness.call.workspace = nullptr;
  harness.call.workspace_bytes = 0;
  EXPECT_EQ(harness.Run(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(harness.outcome, Outcome::kPlanned);
}

// Expects the pieces up to the failed one, then the whole convolution by the undivided algorithm.
void ExpectUndividedAfter(int failed, const Harness& harness, cudnnStatus_t status) {
  EXPECT_EQ(status, CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(harness.outcome, Outcome::kUndivided);
  ASSERT_THAT(Harness::calls(), SizeIs(failed + 2));
  const RecordedCall& whole = Harness::calls().back();
  EXPECT_EQ(whole.images, 10);
  EXPECT_EQ(whole.algorithm, kUndividedAlgorithm);
  EXPECT_EQ(whole.x, harness.call.x);
  EXPECT_EQ(whole.w, harness.call.w);
  EXPECT_EQ(whole.y, harness.call.y);
  EXPECT_EQ(whole.workspace, harness.call.workspace);
  EXPECT_EQ(whole.workspace_bytes, kUndividedBytes);
}

void ExpectFailedAt(int failed, const Harness& harness, cudnnStatus_t status,
                    Outcome outcome = Outcome::kFailed) {
  EXPECT_EQ(status, CUDNN_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(harness.outcome, outcome);
  EXPECT_THAT(Harness::calls(), SizeIs(failed + 1));
}

TEST(Schedule, AnyFailedPieceOfAnOverwrittenOutputIsRerunUndivided) {
  for (const Operation operation : kOperations) {
    for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
      for (int k = 0; k < 3; ++k) {
        SCOPED_TRACE(std::string(OperationName(operation)) + " piece " + std::to_string(k));
        Harness harness(Problem(operation, type));
        ThisRecording().fail_at = k;
        const cudnnStatus_t status = harness.Run();
        ExpectUndividedAfter(k, harness, status);
        EXPECT_EQ(Harness::calls().back().beta, 0);
      }
    }
  }
}

TEST(Schedule, AnAccumulatedOutputIsRerunOnlyWhileUntouched) {
  for (const Operation operation : kOperations) {
    for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
      for (int k = 0; k < 3; ++k) {
        SCOPED_TRACE(std::string(OperationName(operation)) + " piece " + std::to_string(k));
        Harness harness(Problem(operation, type));
        harness.SetScales(1, 0.5);
        ThisRecording().fail_at = k;
        const cudnnStatus_t status = harness.Run();
        if (k == 0) {
          ExpectUndividedAfter(k, harness, status);
          EXPECT_EQ(Harness::calls().back().beta, 0.5);
        } else {
          ExpectFailedAt(k, harness, status);
        }
      }
    }
  }
}

// The output is unchanged until the finished sum is stored in it. So the undivided algorithm may
// run after a failure, even if beta is not 0 and the output overlaps an input.
TEST(Schedule, WhateverFailsBeforeASumIsStoredIsRerunUndivided) {
  for (const bool sum_fails : {false, true}) {
    for (int k = 0; k < (sum_fails ? 4 : 3); ++k) {
      SCOPED_TRACE(std::string(sum_fails ? "sum " : "piece ") + std::to_string(k));
      Summed harness;
      harness.SetScales(1, 0.5);
      harness.call.w = Pointer(Address(harness.call.x) + 4);
      (sum_fails ? ThisRecording().fail_sum_at : ThisRecording().fail_at) = k;
      const cudnnStatus_t status = harness.Run();
      ExpectUndividedAfter(std::min(k, 2), harness, status);
      EXPECT_EQ(Harness::calls().back().beta, 0.5);
      for (size_t i = 0; i < Summed::sums().size(); ++i) {
        EXPECT_EQ(Summed::sums()[i].output == harness.call.w, i == 3);
      }
    }
  }
}

TEST(Schedule, WithoutAnUndividedAlgorithmAFailedSumIsItsErrorBesideAnOutputAsItWas) {
  for (int k = 0; k < 4; ++k) {
    Summed harness(Problem(Operation::kBackwardFilter, DataType::kHalf), MicroConfiguration{});
    ThisRecording().fail_sum_at = k;
    EXPECT_NE(harness.Run(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(harness.outcome, Outcome::kNotAttempted);
  }
}

TEST(Schedule, AMisalignedWorkspaceHoldsNoPartials) {
  Summed harness;
  harness.call.workspace = Pointer(Address(harness.call.workspace) + 8);
  const cudnnStatus_t status = harness.Run();
  ExpectUndividedAfter(-1, harness, status);
}

TEST(Schedule, AWorkspaceWithoutRoomForTheSumIsRefused) {
  const ConvolutionProblem problem = Problem(Operation::kBackwardFilter, DataType::kBfloat16);
  EXPECT_THAT(
      test::LegacySchedule(test::RecordingFunctions(), problem, ThreePieces(), {}).message(),
      HasSubstr("does not hold the sum"));
}

TEST(Schedule, AnInputInTheOutputForbidsARerun) {
  for (const Operation operation : kOperations) {
    for (const bool first_input : {true, false}) {
      Harness harness(Problem(operation));
      ConvolutionCall& call = harness.call;
      void*& output = operation == Operation::kForward        ? call.y
                      : operation == Operation::kBackwardData ? call.x
                                                              : call.w;
      void*& x_like = operation == Operation::kForward ? call.x : call.y;
      void*& w_like = operation == Operation::kBackwardFilter ? call.x : call.w;
      output = Pointer(Address(first_input ? x_like : w_like) + 4);
      ThisRecording().fail_at = 1;
      const cudnnStatus_t status = harness.Run();
      ExpectFailedAt(1, harness, status);
    }
  }
}

TEST(Schedule, NeighboursInMemoryDoNotForbidARerun) {
  const ConvolutionProblem problem = Problem(Operation::kForward);
  Harness harness(problem);
  harness.call.y = Pointer(Address(harness.call.x) + cudnn::ImageBytes(problem));
  ThisRecording().fail_at = 1;
  const cudnnStatus_t status = harness.Run();
  ExpectUndividedAfter(1, harness, status);
}

TEST(Schedule, ZInTheOutputForbidsARerunOnlyWhereItIsRead) {
  for (const float alpha2 : {0.f, 1.f}) {
    Harness harness(Problem(Operation::kForward));
    harness.SetBias(alpha2, harness.call.y);
    ThisRecording().fail_at = 1;
    const cudnnStatus_t status = harness.Run();
    if (alpha2 == 0) {
      ExpectUndividedAfter(1, harness, status);
      EXPECT_EQ(Harness::calls().back().z, harness.call.y);
    } else {
      ExpectFailedAt(1, harness, status);
    }
  }
}

// The number of bytes of a fused operand follows from the operand's own strides and type, and from
// whether its elements differ from image to image.
TEST(Schedule, AFusedOperandThatReachesIntoTheOutputForbidsARerun) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardData}) {
    const ConvolutionProblem problem = Problem(operation, DataType::kHalf);
    const size_t before = 4096;
    const auto n = static_cast<size_t>(problem.n);
    const size_t image = (before - 64) / (n - 1);
    const auto elements = static_cast<int64_t>(image / sizeof(float));
    const cudnn::FusedOperand operands[] = {
        {1, DataType::kHalf, {}, before},
        {1, DataType::kHalf, {}, before + 1},
        {1, DataType::kFloat, {elements}, before - (n - 1) * image},
        {1, DataType::kFloat, {elements + 4}, image}};
    for (const cudnn::FusedOperand& operand : operands) {
      SCOPED_TRACE(operand.Bytes(problem.n));
      Harness harness(problem);
      void* const output = operation == Operation::kForward ? harness.call.y : harness.call.x;
      harness.SetFused(operand, Pointer(Address(output) - before));
      ThisRecording().fail_at = 1;
      const cudnnStatus_t status = harness.Run();
      if (operand.Bytes(problem.n) > before) {
        ExpectFailedAt(1, harness, status);
      } else {
        ExpectUndividedAfter(1, harness, status);
      }
    }
  }
}

TEST(Schedule, WithoutAnUndividedAlgorithmTheErrorIsTheRealOne) {
  for (int k = 0; k < 3; ++k) {
    Harness harness(Problem(Operation::kForward), ThreePieces(), MicroConfiguration{});
    EXPECT_FALSE(harness.schedule().has_undivided());
    ThisRecording().fail_at = k;
    // With beta = 0 the caller may run the call again, since that overwrites all of the output. So
    // the outcome is kNotAttempted.
    const cudnnStatus_t status = harness.Run();
    ExpectFailedAt(k, harness, status, Outcome::kNotAttempted);
  }
  // With beta = 1 another run would read what the pieces have changed. So the outcome is kFailed
  // once a piece has run.
  const float adds = 1;
  for (int k = 0; k < 3; ++k) {
    Harness harness(Problem(Operation::kForward), ThreePieces(), MicroConfiguration{});
    harness.call.beta = &adds;
    ThisRecording().fail_at = k;
    const cudnnStatus_t status = harness.Run();
    ExpectFailedAt(k, harness, status, k > 0 ? Outcome::kFailed : Outcome::kNotAttempted);
  }
}

TEST(Schedule, AnErrorOfTheUndividedAlgorithmReachesTheCaller) {
  Harness harness(Problem(Operation::kForward));
  ThisRecording().fail_at = 0;
  ThisRecording().error = CUDNN_STATUS_NOT_SUPPORTED;
  ConvolutionCall call = harness.call;
  EXPECT_EQ(harness.schedule().RunUndivided(call, harness.outcome), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(harness.outcome, Outcome::kUndivided);
}

TEST(Schedule, UndividedStaysInsideWhatTheCallerPassed) {
  Harness harness(Problem(Operation::kForward));
  harness.call.workspace_bytes = kUndividedBytes - 1;
  EXPECT_EQ(harness.schedule().RunUndivided(harness.call, harness.outcome), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(harness.outcome, Outcome::kNotAttempted);
  EXPECT_THAT(Harness::calls(), SizeIs(0));
}

TEST(Schedule, WhatDoesNotFitTheProblemIsRefused) {
  const cudnn::Functions functions = test::RecordingFunctions();
  const ConvolutionProblem problem = Problem(Operation::kForward);
  const Configuration short_plan{{{Micro(1, 4, 0), 2}}};
  EXPECT_THAT(test::LegacySchedule(functions, problem, short_plan, {}).message(),
              HasSubstr("8 images"));
  Configuration strange = ThreePieces();
  strange.runs[1].micro.engine = "graph:3";
  EXPECT_THAT(test::LegacySchedule(functions, problem, strange, {}).message(),
              HasSubstr("graph:3"));
}

TEST(Schedule, ADescriptorThatCannotBeMadeIsAnError) {
  cudnn::Functions functions = test::RecordingFunctions();
  functions.cudnnSetTensorNdDescriptor = [](cudnnTensorDescriptor_t, cudnnDataType_t, int,
                                            const int*,
                                            const int*) { return CUDNN_STATUS_NOT_SUPPORTED; };
  const auto schedule =
      test::LegacySchedule(functions, Problem(Operation::kForward), ThreePieces(), {});
  EXPECT_THAT(schedule.message(), HasSubstr("describing a tensor"));
}

}  // namespace
}  // namespace ucudnn::execution
