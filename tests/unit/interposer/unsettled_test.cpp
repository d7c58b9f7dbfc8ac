// Tests decisions that are taken while some sizes are not measured, plans are not compared, or
// graphs are being captured.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "interposer/interposer.h"
#include "planned_setting.h"

namespace ucudnn::interposer {
namespace {

using test::PlannedSetting;
using test::ThisRecording;
using ::testing::SizeIs;

constexpr size_t kNeed = 2 * PlannedSetting::kPieceBytes;

// Returns recording functions in which only forward algorithm 0 needs a workspace.
cudnn::Functions Needy() {
  cudnn::Functions functions = test::RecordingFunctions();
  functions.cudnnGetConvolutionForwardWorkspaceSize =
      [](cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
         cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t algorithm,
         size_t* bytes) {
        *bytes = algorithm == 0 ? kNeed : 0;
        return CUDNN_STATUS_SUCCESS;
      };
  return functions;
}

Options WithinAPiece() {
  Options options = PlannedSetting::WithoutTime();
  options.workspace_limit = PlannedSetting::kPieceBytes;
  return options;
}

// A kernel that the setting's store does not know.
struct OtherKernel {
  explicit OtherKernel(PlannedSetting& of) : setting(of), descriptors(of.functions) {
    problem.k = 16;
    SetPackedStrides(problem);
    EXPECT_TRUE(descriptors.Create(problem).ok());
  }
  void Know(const std::vector<planning::Measurement>& rows) {
    test::StoreRows(setting.store, setting.functions, problem, rows, {PlannedSetting::kImages});
  }
  cudnn::ConvolutionCall Call(size_t bytes) const {
    cudnn::ConvolutionCall call = setting.Call(bytes);
    call.descriptors = descriptors.get();
    return call;
  }

  PlannedSetting& setting;
  ConvolutionProblem problem = PlannedSetting::Problem();
  cudnn::OwnedDescriptors descriptors;
};

// Expects one undivided call of algorithm 0, which needs kNeed bytes.
void ExpectUndividedInItsNeed(const std::vector<test::RecordedCall>& calls) {
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].algorithm, 0);
  EXPECT_EQ(calls[0].images, PlannedSetting::kImages);
  EXPECT_EQ(calls[0].workspace_bytes, kNeed);
}

TEST(Unsettled, AnAlgorithmThatWasNotMeasuredIsNotReplaced) {
  PlannedSetting setting(test::RecordingFunctions(), 4, PlannedSetting::NotMeasuring());
  cudnn::ConvolutionCall call = setting.Call();
  call.algorithm = 2;  // not measured, so it may be the fastest
  ASSERT_THAT(setting.Run(call), SizeIs(1));
  EXPECT_EQ(ThisRecording().calls[0].algorithm, 2);
}

// Sizes 1, 2 and 8 are not known, so the decision will be taken anew.
TEST(Unsettled, WhatRanOutsideIsCaptured) {
  PlannedSetting setting(test::RecordingFunctions(), 4, PlannedSetting::WithoutTime());
  for (int i = 0; i < 2; ++i) setting.interposer.legacy().Convolve(setting.Call());
  ASSERT_THAT(ThisRecording().calls, SizeIs(8));
  test::HandleStream stream(setting.interposer, setting.handle);
  stream.Capture([&] { EXPECT_THAT(setting.Run(setting.Call()), SizeIs(4)); });
}

TEST(Unsettled, PiecesThatNothingReplacesDoNotRunBeforeTheyAreCompared) {
  PlannedSetting setting(Needy(), 4, WithinAPiece());
  OtherKernel kernel(setting);
  kernel.Know({{{"legacy:0", 16, 2, kNeed, true}, 5, false},
               {{"legacy:0", 4, 1, PlannedSetting::kPieceBytes, true}, 5, false}});
  cudnn::ConvolutionCall call = kernel.Call(kNeed);
  call.x = reinterpret_cast<void*>(0x10000008);  // misaligned, so only algorithm 0 accepts it
  ExpectUndividedInItsNeed(setting.Run(call));
}

// After a piece of another plan failed, pieces that were never compared do not run either.
TEST(Unsettled, AFailedKernelRunsNoPiecesThatWereNotCompared) {
  PlannedSetting setting(Needy(), 4, WithinAPiece());
  OtherKernel kernel(setting);
  kernel.Know({{{"legacy:0", 16, 2, kNeed, true}, 5, false},
               {{"legacy:0", 4, 1, PlannedSetting::kPieceBytes, true}, 5, false},
               {{"legacy:1", 16, 2, 0, true}, 5, true},
               {{"legacy:1", 4, 0.1, PlannedSetting::kPieceBytes, true}, 5, true}});
  cudnn::ConvolutionCall call = kernel.Call(kNeed);
  ThisRecording().fail_at = 1;
  EXPECT_EQ(setting.interposer.legacy().Convolve(call), CUDNN_STATUS_SUCCESS);
  ASSERT_THAT(ThisRecording().calls, SizeIs(3)) << "two pieces and what takes their place";
  call.x = reinterpret_cast<void*>(0x10000008);  // misaligned, so only algorithm 0 accepts it
  ExpectUndividedInItsNeed(setting.Run(call));
}

// An undivided engine that fits into the workspace of the pieces may be far slower than the
// caller's algorithm.
TEST(Unsettled, UntilAPlanIsComparedTheCallersOwnAlgorithmRuns) {
  PlannedSetting setting(test::RecordingFunctions(), 4, PlannedSetting::WithoutTime());
  OtherKernel kernel(setting);
  kernel.Know({{{"legacy:1", 16, 10, 2 * PlannedSetting::kPieceBytes, true}, 5, true},
               {{"legacy:1", 4, 1, PlannedSetting::kPieceBytes, true}, 5, false},
               {{"legacy:0", 16, 100, 0, true}, 5, true}});
  cudnn::ConvolutionCall call = kernel.Call(2 * PlannedSetting::kPieceBytes);
  call.algorithm = 1;
  ASSERT_THAT(setting.Run(call), SizeIs(1));
  EXPECT_EQ(ThisRecording().calls[0].algorithm, 1);
}

TEST(Unsettled, APlanThatRunsStaysUntilABetterOneIsCompared) {
  PlannedSetting setting(test::RecordingFunctions(), 4, PlannedSetting::WithoutTime());
  OtherKernel kernel(setting);
  kernel.Know({{{"legacy:0", 16, 100, 0, true}, 5, true},
               {{"legacy:1", 4, 5, PlannedSetting::kPieceBytes, true}, 5, true}});
  const auto pieces = [&] { return setting.Run(kernel.Call(PlannedSetting::kPieceBytes)).size(); };
  EXPECT_EQ(pieces(), 4u);
  kernel.Know({{{"legacy:1", 8, 1, PlannedSetting::kPieceBytes, true}, 5, false}});
  for (int call = 0; call < 40; ++call) EXPECT_EQ(pieces(), 4u) << call;
}

TEST(Unsettled, ACallerThatChoseTheSmallerOfTwoPromisesIsNotOutOfMemory) {
  Options options = PlannedSetting::NotMeasuring();
  options.workspace_limit_auto = true;
  PlannedSetting setting(test::RecordingFunctions(), 4, options);
  OtherKernel kernel(setting);
  kernel.Know({{{"legacy:1", 16, 2, 16, true}, 5, true},
               {{"legacy:1", 16, 2, 16, true}, 5, true},
               {{"legacy:1", 8, 0.5, 4096, true}, 5, true},
               {{"legacy:1", 4, 0.4, 64, true}, 5, true}});
  for (const size_t bytes : {64, 4096}) {
    const auto answer = setting.interposer.legacy().FindAlgorithms(
        Operation::kForward, setting.handle, kernel.descriptors.get(), bytes);
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->front().workspace_bytes, bytes);
  }
  cudnn::ConvolutionCall call = kernel.Call(64);
  call.algorithm = 1;
  EXPECT_THAT(setting.Run(call), SizeIs(4));
  const auto report = setting.Report();
  EXPECT_THAT(report["fallbacks"], SizeIs(0)) << report;
}

// The process has no time to measure, so it asks the store again whether another process has
// measured.
TEST(Unsettled, IsDecidedAnewAtTwiceTheCalls) {
  PlannedSetting setting(test::RecordingFunctions(), 4, PlannedSetting::WithoutTime());
  OtherKernel kernel(setting);
  const auto run = [&] {
    const int before = setting.store.reads;
    setting.Run(kernel.Call(PlannedSetting::kPieceBytes));
    return setting.store.reads > before;
  };
  std::vector<int> anew;
  for (int call = 1; call <= 100; ++call) {
    if (run()) anew.push_back(call);
    EXPECT_THAT(ThisRecording().calls, SizeIs(1));
  }
  // The kernel is decided at the first call, after two calls (UCUDNN_TUNE sets this number), and
  // then whenever the number of calls has doubled.
  EXPECT_THAT(anew, testing::ElementsAre(1, 3, 5, 9, 17, 33, 65));
  kernel.Know({{{"legacy:0", 16, 100, 0, true}, 5, true},
               {{"legacy:1", 4, 1, PlannedSetting::kPieceBytes, true}, 5, true}});
  for (int call = 101; call <= 128; ++call) {
    EXPECT_FALSE(run());
    EXPECT_THAT(ThisRecording().calls, SizeIs(1));
  }
  EXPECT_TRUE(run());
  EXPECT_THAT(ThisRecording().calls, SizeIs(4));
  // The report counts the calls of all decisions.
  const auto report = setting.Report();
  ASSERT_THAT(report["kernels"], SizeIs(1)) << report;
  EXPECT_EQ(report["kernels"][0]["calls"], 129);
}

// By its measurements the failed plan is the fastest, but measurements do not prove that it works.
TEST(Unsettled, APlanThatFailedIsNotTakenAgain) {
  PlannedSetting setting(test::RecordingFunctions(), 4, PlannedSetting::WithoutTime());
  OtherKernel kernel(setting);
  kernel.Know({{{"legacy:0", 16, 100, 0, true}, 5, true},
               {{"legacy:1", 4, 1, PlannedSetting::kPieceBytes, true}, 5, true}});
  const auto run = [&](int fail_at) {
    ThisRecording() = {};
    ThisRecording().fail_at = fail_at;
    EXPECT_EQ(setting.interposer.legacy().Convolve(kernel.Call(PlannedSetting::kPieceBytes)),
              CUDNN_STATUS_SUCCESS);
    return ThisRecording().calls.size();
  };
  EXPECT_EQ(run(-1), 4u);
  EXPECT_EQ(run(1), 3u) << "two pieces and what takes their place";
  for (int call = 3; call <= 100; ++call) EXPECT_EQ(run(-1), 1u) << call;
  // Another handle does not run the failed plan, either.
  cudnnHandle_t other = nullptr;
  ASSERT_EQ(setting.interposer.sessions().Create(&other), CUDNN_STATUS_SUCCESS);
  cudnn::ConvolutionCall call = kernel.Call(PlannedSetting::kPieceBytes);
  call.handle = other;
  EXPECT_THAT(setting.Run(call), SizeIs(1));
  setting.interposer.sessions().Destroy(other);
  EXPECT_THAT(setting.interposer.report().Json("on", 0),
              testing::HasSubstr("a piece of a plan failed"));
}

// In a capture nothing can be measured, so ucudnn knows no engine that keeps the limit.
TEST(Unsettled, ARefusalInACaptureDoesNotOutliveIt) {
  Options options = PlannedSetting::WithoutTime();
  options.workspace_limit = PlannedSetting::kPieceBytes;
  options.strict_limit = true;
  PlannedSetting setting(Needy(), 4, options);
  OtherKernel kernel(setting);
  {
    test::HandleStream stream(setting.interposer, setting.handle);
    stream.Capture([&] {
      EXPECT_EQ(setting.interposer.legacy().Convolve(kernel.Call(kNeed)),
                CUDNN_STATUS_NOT_SUPPORTED);
    });
  }
  kernel.Know({{{"legacy:1", 16, 2, PlannedSetting::kPieceBytes, true}, 5, true}});
  ASSERT_THAT(setting.Run(kernel.Call(kNeed)), SizeIs(1));
  EXPECT_EQ(ThisRecording().calls[0].algorithm, 1);
}

}  // namespace
}  // namespace ucudnn::interposer
