// Tests an algorithm that the program names, and that no engine can replace: within the limit no
// undivided engine is as exact. The algorithm's own pieces keep the promise, once they have run in
// this process and were compared with the undivided algorithm.
#include <gmock/gmock.h>

#include <functional>
#include <set>
#include <string>

#include "legacy_program.h"

namespace ucudnn::interposer {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kOnlyEngine = 1;

Options OfTotal(size_t total_bytes) {
  Options options = Planned();
  options.engines = EngineSet::kLegacy;
  options.total_workspace = total_bytes;
  return options;
}

size_t NeedOfPairs() {
  static const size_t need = Program(Operation::kForward, Planned()).Need(kOnlyEngine, 2);
  return need;
}

// The store has measurements of the named algorithm only.
struct Named : Program {
  explicit Named(bool verified = false, size_t limit_bytes = NeedOfPairs())
      : Named(Within(limit_bytes, EngineSet::kLegacy), verified) {
    EXPECT_GT(need, limit_bytes);
  }
  explicit Named(const Options& options, bool verified = false,
                 cudnn::Functions table = WrongStandIn())
      : Program(Operation::kForward, options, table) {
    need = Need(kOnlyEngine, kImages);
    for (const auto& [images, time_ms] : {std::pair(kImages, 10.0), std::pair(2, 1.0)}) {
      StoreRow({{"legacy:1", images, time_ms, Need(kOnlyEngine, images), true}, 5, verified});
    }
    TheCalls().clear();
  }

  size_t ToldBytes() { return WorkspaceOf(kOnlyEngine); }
  // Returns the reason of the kernel that was reported first.
  std::string Reason() { return ReportJson()["kernels"][0]["reason"]; }
  void ExpectPairs() {
    EXPECT_THAT(OnCallersData(),
                AllOf(SizeIs(kImages / 2), Each(Field(&Seen::algorithm, kOnlyEngine))));
  }

  // Runs with a bias of zeros and an identity activation, and expects the undivided result.
  void ExpectIdentity(size_t bytes) {
    static const float kZero = 0;
    constexpr int kFilters = 8;
    CUdeviceptr zeros;
    ASSERT_EQ(cuMemAlloc(&zeros, kFilters * sizeof(float)), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD8(zeros, 0, kFilters * sizeof(float)), CUDA_SUCCESS);
    cudnn::BiasActivation bias;
    bias.alpha2 = &kZero;
    bias.bias = reinterpret_cast<const void*>(zeros);
    bias.z_descriptor = descriptors().y;
    cudnnTensorDescriptor_t per_filter;
    ASSERT_EQ(functions.cudnnCreateTensorDescriptor(&per_filter), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnSetTensor4dDescriptor(per_filter, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1,
                                         kFilters, 1, 1),
              CUDNN_STATUS_SUCCESS);
    bias.bias_descriptor = per_filter;
    ASSERT_EQ(cudnnCreateActivationDescriptor(&bias.activation), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnSetActivationDescriptor(bias.activation, CUDNN_ACTIVATION_IDENTITY,
                                           CUDNN_NOT_PROPAGATE_NAN, 0),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(Output([&](cudnn::ConvolutionCall& call) {
                call = Call(kOnlyEngine, bytes);
                bias.z = call.y;
                call.bias = &bias;
              }),
              Expected());
    EXPECT_EQ(cudnnDestroyActivationDescriptor(bias.activation), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(functions.cudnnDestroyTensorDescriptor(per_filter), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cuMemFree(zeros), CUDA_SUCCESS);
  }

  size_t need = 0;
};

TEST(NamedPieces, AreToldAndRunInsideTheLimit) {
  Named program;
  EXPECT_EQ(program.ToldBytes(), NeedOfPairs());
  program.ExpectRight(kOnlyEngine, NeedOfPairs());
  program.ExpectPairs();
  EXPECT_EQ(program.Fallbacks(), "[]");
  EXPECT_EQ(program.ReportJson()["kernels"][0]["workspace_bytes"], NeedOfPairs());
}

TEST(NamedPieces, OfAWarmStoreRunOnceBeforeTheSizeIsTold) {
  Named program(true);
  EXPECT_EQ(program.ToldBytes(), NeedOfPairs());
  EXPECT_THAT(TheCalls(), testing::Contains(Field(&Seen::images, 2)));
  EXPECT_THAT(TheCalls(), testing::Contains(Field(&Seen::images, kImages)));
  const size_t runs = TheCalls().size();
  EXPECT_EQ(program.ToldBytes(), NeedOfPairs());
  EXPECT_THAT(TheCalls(), SizeIs(runs)) << "once";
}

TEST(NamedPieces, ThatAreWrongAreNeverTold) {
  Named program;
  TheWrong() = {kOnlyEngine, Wrong::How::kOffByOneImage};
  EXPECT_EQ(program.ToldBytes(), program.need);
  EXPECT_THAT(program.Fallbacks(), AllOf(HasSubstr("a divided plan is wrong and never used"),
                                         HasSubstr("cannot be brought under the workspace limit")));
  program.ExpectRight(kOnlyEngine, program.need);
}

TEST(NamedPieces, ServeScaledCalls) {
  Named program;
  ASSERT_EQ(program.ToldBytes(), NeedOfPairs());
  static const float kTwo = 2;
  TheCalls().clear();
  const Values twice = program.Output([&](cudnn::ConvolutionCall& call) {
    call.algorithm = kOnlyEngine;
    call.workspace_bytes = NeedOfPairs();
    call.alpha = &kTwo;
  });
  for (size_t i = 0; i < twice.size(); ++i) ASSERT_EQ(twice[i], 2 * program.Expected()[i]);
  program.ExpectPairs();
}

// The stand-in accepts misaligned pointers only with an algorithm that needs no workspace.
// ConvolveMisalignedPairs copies misaligned pairs of images to aligned memory, so that the named
// algorithm accepts them.
constexpr size_t kImageBytes = size_t{4} * 64 * sizeof(float);
cudnnStatus_t ConvolveMisalignedPairs(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x_descriptor, const void* x,
                                      cudnnFilterDescriptor_t w_descriptor, const void* w,
                                      cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_descriptor, void* y) {
  const auto convolve = [&](const void* image) {
    return WrongStandIn().cudnnConvolutionForward(handle, alpha, x_descriptor, image, w_descriptor,
                                                  w, convolution, algorithm, workspace,
                                                  workspace_bytes, beta, y_descriptor, y);
  };
  if (cudnn::IsAligned(x)) return convolve(x);
  CUdeviceptr aligned;
  EXPECT_EQ(cuMemAlloc(&aligned, 2 * kImageBytes), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoD(aligned, reinterpret_cast<CUdeviceptr>(x), 2 * kImageBytes), CUDA_SUCCESS);
  const cudnnStatus_t status = convolve(reinterpret_cast<const void*>(aligned));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(aligned), CUDA_SUCCESS);
  return status;
}

TEST(NamedPieces, ServeMisalignedCalls) {
  cudnn::Functions functions = WrongStandIn();
  functions.cudnnConvolutionForward = ConvolveMisalignedPairs;
  Named program(Within(NeedOfPairs(), EngineSet::kLegacy), false, functions);
  ASSERT_EQ(program.ToldBytes(), NeedOfPairs());
  CUdeviceptr memory;
  ASSERT_EQ(cuMemAlloc(&memory, sizeof(float) + kImages * kImageBytes), CUDA_SUCCESS);
  const CUdeviceptr misaligned = memory + sizeof(float);
  TheCalls().clear();
  const Values output = program.Output([&](cudnn::ConvolutionCall& call) {
    call.algorithm = kOnlyEngine;
    call.workspace_bytes = NeedOfPairs();
    EXPECT_EQ(
        cuMemcpyDtoD(misaligned, reinterpret_cast<CUdeviceptr>(call.x), kImages * kImageBytes),
        CUDA_SUCCESS);
    call.x = reinterpret_cast<void*>(misaligned);
  });
  EXPECT_EQ(output, program.Expected());
  program.ExpectPairs();
  EXPECT_EQ(program.Fallbacks(), "[]");
  EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
}

TEST(NamedPieces, ThatFailReturnTheirErrorAndNothingTakesTheirPlace) {
  for (const int failing : {0, 1}) {
    SCOPED_TRACE(failing);
    Named program;
    ASSERT_EQ(program.ToldBytes(), NeedOfPairs());
    TheCalls().clear();
    TheWrong().failing_forward = failing;
    EXPECT_EQ(program.interposer.legacy().Convolve(program.Call(kOnlyEngine, NeedOfPairs())),
              CUDNN_STATUS_EXECUTION_FAILED);
    EXPECT_THAT(TheCalls(), SizeIs(failing)) << "no other engine ran";
    EXPECT_THAT(program.Fallbacks(), HasSubstr("its error is returned"));
    TheWrong().failing_forward = -1;
    program.ExpectRight(kOnlyEngine, NeedOfPairs());
  }
}

TEST(NamedPieces, AreToldAsTheAnswerOfFindAndGetWhereNothingElseFits) {
  for (const bool find : {false, true}) {
    SCOPED_TRACE(find);
    Named program;
    const auto answer = find ? program.Found() : program.Gotten();
    ASSERT_TRUE(answer);
    ASSERT_THAT(*answer, testing::Not(testing::IsEmpty()));
    EXPECT_EQ(answer->front().algorithm, kOnlyEngine);
    EXPECT_EQ(answer->front().workspace_bytes, NeedOfPairs());
    program.ExpectRight(kOnlyEngine, NeedOfPairs());
    program.ExpectPairs();
  }
}

TEST(NamedPieces, RunUnaskedInPlaceOfACallOverTheLimit) {
  Named program;
  program.ExpectRight(kOnlyEngine, program.need);
  program.ExpectPairs();
  EXPECT_EQ(program.Fallbacks(), "[]");
}

TEST(NamedPieces, MayBeCapturedAtTheFirstCall) {
  Named program;
  test::HandleStream stream(program.interposer, program.handle());
  ASSERT_EQ(program.ToldBytes(), NeedOfPairs());
  TheCalls().clear();
  stream.Capture([&] {
    EXPECT_EQ(program.interposer.legacy().Convolve(program.Call(kOnlyEngine, NeedOfPairs())),
              CUDNN_STATUS_SUCCESS);
  });
  program.ExpectPairs();
}

TEST(NamedPieces, AreNotToldInsideACapture) {
  Named program;
  test::HandleStream stream(program.interposer, program.handle());
  stream.Capture([&] { EXPECT_EQ(program.ToldBytes(), program.need); });
  EXPECT_THAT(TheCalls(), SizeIs(0));
}

TEST(NamedPieces, ThatDoNotFitTheMeasuringMemoryAreNotTold) {
  Options options = Within(NeedOfPairs(), EngineSet::kLegacy);
  options.tuning.memory_bytes = 1;
  Program program(Operation::kForward, options);
  for (const auto& [images, time_ms] : {std::pair(kImages, 10.0), std::pair(2, 1.0)}) {
    program.Store(kOnlyEngine, images, time_ms);
  }
  EXPECT_EQ(program.WorkspaceOf(kOnlyEngine), program.Need(kOnlyEngine, kImages));
  EXPECT_THAT(program.Fallbacks(), HasSubstr("cannot be brought under the workspace limit"));
}

// Algorithm 0 needs no workspace, but only algorithm 1 supports an identity activation.
TEST(NamedPieces, TheLeastSizeThatAnIdentityActivationCanKeepIsTold) {
  Named program(false, 0);
  program.StoreRow({{"legacy:0", kImages, 20, 0, true}, 5, true});
  const size_t told = program.ToldBytes();
  EXPECT_EQ(told, NeedOfPairs());
  EXPECT_LT(told, program.need);
  program.ExpectRight(kOnlyEngine, told);
  EXPECT_THAT(program.Reason(), HasSubstr("the least that serves an identity activation, too"));
  EXPECT_THAT(program.Fallbacks(), HasSubstr("it must serve an identity activation, too, which no "
                                             "other algorithm does"));
  program.ExpectIdentity(told);
}

TEST(NamedPieces, WhatAnIdentityActivationKeepsInsideTheLimitIsNoFallback) {
  Named program;
  program.StoreRow({{"legacy:0", kImages, 0.5, 0, true}, 5, true});
  EXPECT_EQ(program.ToldBytes(), NeedOfPairs());
  program.ExpectRight(kOnlyEngine, NeedOfPairs());
  EXPECT_THAT(program.Reason(), HasSubstr("the least that serves an identity activation, too"));
  program.ExpectIdentity(NeedOfPairs());
  EXPECT_EQ(program.Fallbacks(), "[]");
}

// If any pieces fit a fourth of the total workspace, at most a fourth is assured. Here pairs of
// images fit a fourth, but all images do not.
size_t Total() { return 4 * NeedOfPairs(); }

std::set<const void*> Workspaces() {
  std::set<const void*> workspaces;
  for (const Seen& call : TheCalls()) workspaces.insert(call.workspace);
  return workspaces;
}

TEST(NamedPieces, OfABudgetAskNothingOfTheProgram) {
  Named program(OfTotal(Total()));
  EXPECT_EQ(program.ToldBytes(), 0u);
  program.ExpectRight(kOnlyEngine, 0);
  program.ExpectPairs();
  EXPECT_EQ(program.Fallbacks(), "[]");
  const auto report = program.ReportJson();
  EXPECT_EQ(report["kernels"][0]["workspace_bytes"], 0u);
  EXPECT_EQ(report["kernels"][0]["owned_workspace_bytes"], NeedOfPairs());
  EXPECT_LE(report["total_workspace"]["total_workspace_bytes"], Total());
}

TEST(NamedPieces, OfABudgetAreToldAsTheAnswerOfFind) {
  Named program(OfTotal(Total()));
  const auto answer = program.Found();
  ASSERT_TRUE(answer);
  ASSERT_THAT(*answer, SizeIs(1)) << "all others need workspace of the program's";
  EXPECT_EQ(answer->front().algorithm, kOnlyEngine);
  EXPECT_EQ(answer->front().workspace_bytes, 0u);
  program.ExpectRight(kOnlyEngine, 0);
}

TEST(NamedPieces, OfABudgetServeAnIdentityActivation) {
  Named program(OfTotal(Total()));
  program.StoreRow({{"legacy:0", kImages, 20, 0, true}, 5, true});
  EXPECT_EQ(program.ToldBytes(), 0u);
  program.ExpectIdentity(0);
  EXPECT_EQ(program.Fallbacks(), "[]");
  program.ExpectRight(kOnlyEngine, 0);
}

TEST(NamedPieces, OfABudgetHaveMemoryInEveryCapture) {
  Named program(OfTotal(Total()));
  test::HandleStream stream(program.interposer, program.handle());
  ASSERT_EQ(program.ToldBytes(), 0u);
  TheCalls().clear();
  constexpr int kCaptures = 6;
  const auto capture = [&] {
    stream.Capture([&] {
      for (int call = 0; call < 2; ++call) {
        EXPECT_EQ(program.interposer.legacy().Convolve(program.Call(kOnlyEngine, 0)),
                  CUDNN_STATUS_SUCCESS);
      }
    });
  };
  for (int i = 0; i < kCaptures; ++i) capture();
  EXPECT_THAT(TheCalls(),
              AllOf(SizeIs(2 * kCaptures * kImages / 2), Each(Field(&Seen::algorithm, kOnlyEngine)),
                    Each(Field(&Seen::workspace, testing::NotNull()))));
  const std::set<const void*> captured = Workspaces();
  EXPECT_THAT(captured, SizeIs(kCaptures)) << "graphs may run beside each other";
  program.ExpectRight(kOnlyEngine, 0);
  EXPECT_THAT(
      Workspaces(),
      AllOf(SizeIs(1),
            Each(testing::ResultOf(
                [&](const void* workspace) { return captured.contains(workspace); }, false))));
  stream.DestroyGraphs();
  TheCalls().clear();
  capture();
  EXPECT_TRUE(captured.contains(*Workspaces().begin())) << "no graph has it any more";
}

TEST(NamedPieces, ThatFindNoRoomInTheBudgetAreNotTold) {
  Named program(OfTotal(NeedOfPairs() - 1));
  EXPECT_EQ(program.ToldBytes(), program.need);
  EXPECT_THAT(program.Fallbacks(), HasSubstr("cannot be brought under the workspace limit"));
  program.ExpectRight(kOnlyEngine, program.need);
}

}  // namespace
}  // namespace ucudnn::interposer
