// A named algorithm that no undivided engine as exact can replace within the limit: its own pieces
// keep the promise, once they have run in this process and were compared with all of it.
#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "wrong_stand_in.h"

namespace ucudnn::interposer {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int kNamed = 1;

// The number of the call, counted from now, that fails; negative: none does.
int& FailingCall() {
  static int call = -1;
  return call;
}

cudnnStatus_t FailingForward(cudnnHandle_t handle, const void* alpha,
                             cudnnTensorDescriptor_t x_desc, const void* x,
                             cudnnFilterDescriptor_t w_desc, const void* w,
                             cudnnConvolutionDescriptor_t convolution,
                             cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes,
                             const void* beta, cudnnTensorDescriptor_t y_desc, void* y) {
  if (FailingCall() >= 0 && FailingCall()-- == 0) return CUDNN_STATUS_EXECUTION_FAILED;
  return Forward(handle, alpha, x_desc, x, w_desc, w, convolution, algorithm, workspace, bytes,
                 beta, y_desc, y);
}

cudnn::Functions FailingStandIn() {
  cudnn::Functions functions = WrongStandIn();
  functions.cudnnConvolutionForward = FailingForward;
  return functions;
}

Options Within(size_t limit_bytes) {
  Options options = Planned();
  options.engines = EngineSet::kLegacy;
  options.workspace_limit = limit_bytes;
  return options;
}

size_t NeedOfPairs() {
  static const size_t need = Program(Operation::kForward, Planned()).Need(kNamed, 2);
  return need;
}

// Of all engines the store knows the named one alone.
struct Named : Program {
  explicit Named(bool verified = false, size_t limit_bytes = NeedOfPairs())
      : Program(Operation::kForward, Within(limit_bytes), FailingStandIn()) {
    FailingCall() = -1;
    need = Need(kNamed, kImages);
    for (const auto& [images, time_ms] : {std::pair(kImages, 10.0), std::pair(2, 1.0)}) {
      StoreRow({{"legacy:1", images, time_ms, Need(kNamed, images), true}, 5, verified});
    }
    EXPECT_GT(need, limit_bytes);
    TheCalls().clear();
  }

  size_t Told() {
    size_t bytes = 0;
    EXPECT_EQ(interposer.legacy().WorkspaceSize(Operation::kForward, handle(), descriptors(),
                                                kNamed, &bytes),
              CUDNN_STATUS_SUCCESS);
    return bytes;
  }
  void ExpectPairs() {
    EXPECT_THAT(OnCallersData(), AllOf(SizeIs(kImages / 2), Each(Field(&Seen::algorithm, kNamed))));
  }

  size_t need = 0;
};

TEST(NamedPieces, AreToldAndRunInsideTheLimit) {
  Named program;
  EXPECT_EQ(program.Told(), NeedOfPairs());
  program.ExpectRight(kNamed, NeedOfPairs());
  program.ExpectPairs();
  EXPECT_EQ(program.Fallbacks(), "[]");
  EXPECT_EQ(program.ReportJson()["kernels"][0]["workspace_bytes"], NeedOfPairs());
}

TEST(NamedPieces, OfAWarmStoreRunOnceBeforeTheSizeIsTold) {
  Named program(true);
  EXPECT_EQ(program.Told(), NeedOfPairs());
  EXPECT_THAT(TheCalls(), testing::Contains(Field(&Seen::images, 2)));
  EXPECT_THAT(TheCalls(), testing::Contains(Field(&Seen::images, kImages)));
  const size_t runs = TheCalls().size();
  EXPECT_EQ(program.Told(), NeedOfPairs());
  EXPECT_THAT(TheCalls(), SizeIs(runs)) << "once";
}

TEST(NamedPieces, ThatAreWrongAreNeverTold) {
  Named program;
  TheWrong() = {kNamed, Wrong::How::kOffByOneImage};
  EXPECT_EQ(program.Told(), program.need);
  EXPECT_THAT(program.Fallbacks(), AllOf(HasSubstr("a divided plan is wrong and never used"),
                                         HasSubstr("cannot be brought under the workspace limit")));
  program.ExpectRight(kNamed, program.need);
}

TEST(NamedPieces, ServeScaledCalls) {
  Named program;
  ASSERT_EQ(program.Told(), NeedOfPairs());
  static const float kTwo = 2;
  TheCalls().clear();
  const Values twice = program.Output([&](cudnn::LegacyCall& call) {
    call.algorithm = kNamed;
    call.workspace_bytes = NeedOfPairs();
    call.alpha = &kTwo;
  });
  for (size_t i = 0; i < twice.size(); ++i) ASSERT_EQ(twice[i], 2 * program.Expected()[i]);
  program.ExpectPairs();
}

TEST(NamedPieces, ThatFailReturnTheirErrorAndNothingTakesTheirPlace) {
  for (const int failing : {0, 1}) {
    SCOPED_TRACE(failing);
    Named program;
    ASSERT_EQ(program.Told(), NeedOfPairs());
    TheCalls().clear();
    FailingCall() = failing;
    EXPECT_EQ(program.interposer.legacy().Convolve(program.Call(kNamed, NeedOfPairs())),
              CUDNN_STATUS_EXECUTION_FAILED);
    EXPECT_THAT(TheCalls(), SizeIs(failing)) << "no other engine ran";
    EXPECT_THAT(program.Fallbacks(), HasSubstr("its error is returned"));
    FailingCall() = -1;
    program.ExpectRight(kNamed, NeedOfPairs());
  }
}

TEST(NamedPieces, AreToldAsTheAnswerOfFindAndGetWhereNothingElseFits) {
  for (const bool find : {false, true}) {
    SCOPED_TRACE(find);
    Named program;
    LegacyCalls& legacy = program.interposer.legacy();
    const auto answer =
        find ? legacy.FindAlgorithms(Operation::kForward, program.handle(), program.descriptors(),
                                     std::nullopt)
             : legacy.GetAlgorithms(Operation::kForward, program.handle(), program.descriptors());
    ASSERT_TRUE(answer);
    ASSERT_THAT(*answer, testing::Not(testing::IsEmpty()));
    EXPECT_EQ(answer->front().algorithm, kNamed);
    EXPECT_EQ(answer->front().workspace_bytes, NeedOfPairs());
    program.ExpectRight(kNamed, NeedOfPairs());
    program.ExpectPairs();
  }
}

TEST(NamedPieces, RunUnaskedInPlaceOfACallOverTheLimit) {
  Named program;
  program.ExpectRight(kNamed, program.need);
  program.ExpectPairs();
  EXPECT_EQ(program.Fallbacks(), "[]");
}

TEST(NamedPieces, MayBeCapturedAtTheFirstCall) {
  Named program;
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(program.interposer.sessions().SetStream(program.handle(), stream),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(program.Told(), NeedOfPairs());
  TheCalls().clear();
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(program.interposer.legacy().Convolve(program.Call(kNamed, NeedOfPairs())),
            CUDNN_STATUS_SUCCESS);
  CUgraph graph;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  program.ExpectPairs();
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(program.interposer.sessions().SetStream(program.handle(), nullptr),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST(NamedPieces, AreNotToldInsideACapture) {
  Named program;
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(program.interposer.sessions().SetStream(program.handle(), stream),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(program.Told(), program.need);
  EXPECT_THAT(TheCalls(), SizeIs(0));
  CUgraph graph;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(program.interposer.sessions().SetStream(program.handle(), nullptr),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST(NamedPieces, ThatDoNotFitTheMeasuringMemoryAreNotTold) {
  Options options = Within(NeedOfPairs());
  options.tuning.memory_bytes = 1;
  Program program(Operation::kForward, options);
  for (const auto& [images, time_ms] : {std::pair(kImages, 10.0), std::pair(2, 1.0)}) {
    program.Store(kNamed, images, time_ms);
  }
  size_t bytes = 0;
  EXPECT_EQ(program.interposer.legacy().WorkspaceSize(Operation::kForward, program.handle(),
                                                      program.descriptors(), kNamed, &bytes),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(bytes, program.Need(kNamed, kImages));
  EXPECT_THAT(program.Fallbacks(), HasSubstr("cannot be brought under the workspace limit"));
}

// Algorithm 0 needs none, but no other than algorithm 1 serves an identity activation.
TEST(NamedPieces, TheLeastSizeThatAnIdentityActivationCanKeepIsTold) {
  Named program(false, 0);
  program.StoreRow({{"legacy:0", kImages, 20, 0, true}, 5, true});
  const size_t told = program.Told();
  EXPECT_EQ(told, NeedOfPairs());
  EXPECT_LT(told, program.need);
  program.ExpectRight(kNamed, told);
}

}  // namespace
}  // namespace ucudnn::interposer
