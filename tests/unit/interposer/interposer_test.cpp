#include "interposer/interposer.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "planned_setting.h"

namespace ucudnn::interposer {
namespace {

using test::PlannedSetting;
using test::ThisRecording;
using ::testing::SizeIs;

Options With(Mode mode) {
  Options options = PlannedSetting::NotMeasuring();
  options.mode = mode;
  return options;
}

PlannedSetting Divided() {
  return PlannedSetting(test::RecordingFunctions(), 4, PlannedSetting::NotMeasuring());
}

// Expects that the call reached the real library unchanged.
void ExpectAsAsked(const cudnn::ConvolutionCall& call) {
  ASSERT_THAT(ThisRecording().calls, SizeIs(1));
  const test::RecordedCall& seen = ThisRecording().calls[0];
  EXPECT_EQ(seen.algorithm, call.algorithm);
  EXPECT_EQ(seen.images, PlannedSetting::kImages);
  EXPECT_EQ(seen.workspace, call.workspace);
  EXPECT_EQ(seen.workspace_bytes, call.workspace_bytes);
}

TEST(Interposer, DividesWhatIsFasterInPieces) {
  PlannedSetting setting = Divided();
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(setting.Run(setting.Call()), SizeIs(4));
    EXPECT_EQ(ThisRecording().calls[3].images, 4);
    EXPECT_EQ(ThisRecording().calls[3].algorithm, 1);
  }
  EXPECT_EQ(setting.Report()["kernels"][0]["calls"], 2);
  EXPECT_EQ(setting.store.reads, 1);
}

TEST(Interposer, ACallThatPassesLessRunsAsAsked) {
  PlannedSetting setting = Divided();
  const cudnn::ConvolutionCall call = setting.Call(PlannedSetting::kPieceBytes - 1);
  EXPECT_EQ(setting.interposer.legacy().Convolve(call), CUDNN_STATUS_SUCCESS);
  ExpectAsAsked(call);
}

TEST(Interposer, NoDriverNoModeAndNoPointersForward) {
  PlannedSetting setting = Divided();
  Interposer without_driver(setting.options, setting.functions, nullptr, &setting.store);
  EXPECT_EQ(without_driver.legacy().Convolve(setting.Call()), CUDNN_STATUS_SUCCESS);
  ExpectAsAsked(setting.Call());

  ThisRecording() = {};
  cudnn::ConvolutionCall no_output = setting.Call();
  no_output.y = nullptr;
  setting.interposer.legacy().Convolve(no_output);
  ExpectAsAsked(no_output);

  PlannedSetting off(test::RecordingFunctions(), 4, With(Mode::kOff));
  EXPECT_EQ(off.interposer.legacy().Convolve(off.Call()), CUDNN_STATUS_SUCCESS);
  ExpectAsAsked(off.Call());
  EXPECT_TRUE(off.interposer.report().empty());
}

TEST(Interposer, ObservingRecordsAndChangesNothing) {
  PlannedSetting setting(test::RecordingFunctions(), 4, With(Mode::kObserve));
  EXPECT_EQ(setting.interposer.legacy().Convolve(setting.Call()), CUDNN_STATUS_SUCCESS);
  ExpectAsAsked(setting.Call());
  EXPECT_EQ(setting.Report()["kernels"][0]["calls"], 1);
  EXPECT_EQ(setting.store.reads, 0);
}

TEST(Interposer, AFailedPieceBarsThePlan) {
  PlannedSetting setting = Divided();
  ThisRecording().fail_at = 2;
  EXPECT_EQ(setting.interposer.legacy().Convolve(setting.Call()), CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(ThisRecording().calls, SizeIs(4));  // three pieces, then the undivided call
  ASSERT_THAT(setting.Run(setting.Call()), SizeIs(1));
  EXPECT_EQ(ThisRecording().calls[0].images, PlannedSetting::kImages);
  EXPECT_THAT(setting.Report()["fallbacks"], SizeIs(1));
}

TEST(Interposer, AFailureWhileAccumulatingIsTheRealError) {
  PlannedSetting setting = Divided();
  const float half = 0.5;
  cudnn::ConvolutionCall call = setting.Call();
  call.beta = &half;
  ThisRecording().fail_at = 1;
  EXPECT_EQ(setting.interposer.legacy().Convolve(call), CUDNN_STATUS_EXECUTION_FAILED);
  EXPECT_THAT(ThisRecording().calls, SizeIs(2));
}

TEST(Interposer, AStoreThatFailsCostsThePlanNotTheCall) {
  PlannedSetting setting = Divided();
  setting.store.read_fails = true;
  EXPECT_EQ(setting.interposer.legacy().Convolve(setting.Call()), CUDNN_STATUS_SUCCESS);
  ExpectAsAsked(setting.Call());
}

TEST(Interposer, WhatFindReportsIsWhatRuns) {
  PlannedSetting setting = Divided();
  const auto answer = setting.interposer.legacy().FindAlgorithms(
      Operation::kForward, setting.handle, setting.descriptors.get(), PlannedSetting::kPieceBytes);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->front().algorithm, 1);
  EXPECT_EQ(answer->front().workspace_bytes, PlannedSetting::kPieceBytes);
  for (const auto& line : *answer) EXPECT_LE(line.workspace_bytes, PlannedSetting::kPieceBytes);
  size_t again = 0;
  EXPECT_EQ(setting.interposer.legacy().WorkspaceSize(Operation::kForward, setting.handle,
                                                      setting.descriptors.get(), 1, &again),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(again, PlannedSetting::kPieceBytes);
  cudnn::ConvolutionCall call = setting.Call();
  call.algorithm = 1;
  EXPECT_THAT(setting.Run(call), SizeIs(4));
}

// The plan for algorithm 0 has a piece of algorithm 1, which accepts no misaligned pointer. So a
// call with a misaligned pointer runs algorithm 0 alone, which accepts any pointer.
TEST(Interposer, MisalignedPointersKeepToTheCallersAlgorithm) {
  Options options = PlannedSetting::NotMeasuring();
  options.policy = BatchSizePolicy::kAll;
  PlannedSetting setting(test::RecordingFunctions(), 4, options);
  test::StoreRows(setting.store, setting.functions, PlannedSetting::Problem(),
                  {{{"legacy:0", 12, 0.5, 0, true}, 5, true}}, {12});
  const auto answer = setting.interposer.legacy().FindAlgorithms(
      Operation::kForward, setting.handle, setting.descriptors.get(), PlannedSetting::kPieceBytes);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->front().algorithm, 0);
  EXPECT_EQ(answer->front().workspace_bytes, PlannedSetting::kPieceBytes);
  cudnn::ConvolutionCall call = setting.Call();
  call.x = reinterpret_cast<void*>(0x10000008);
  for (const test::RecordedCall& seen : setting.Run(call)) EXPECT_EQ(seen.algorithm, 0);
}

TEST(Interposer, FindWithoutRoomReportsNoMoreThanTheCallerHas) {
  PlannedSetting setting = Divided();
  const auto answer = setting.interposer.legacy().FindAlgorithms(
      Operation::kForward, setting.handle, setting.descriptors.get(), 0);
  ASSERT_TRUE(answer);
  for (const auto& line : *answer) EXPECT_EQ(line.workspace_bytes, 0u);
}

TEST(Interposer, ADestroyedHandleTakesItsDecisionsAlong) {
  PlannedSetting setting = Divided();
  setting.interposer.legacy().Convolve(setting.Call());
  ASSERT_EQ(setting.interposer.sessions().Destroy(setting.handle), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(setting.interposer.sessions().Create(&setting.handle), CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(setting.Run(setting.Call()), SizeIs(4));
}

TEST(Interposer, FourThreadsWithHandlesOfTheirOwn) {
  PlannedSetting setting = Divided();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&setting] {
      test::MakeContextCurrent();
      cudnn::ConvolutionCall call = setting.Call();
      cudnn::OwnedDescriptors own(setting.functions);
      ASSERT_TRUE(own.Create(PlannedSetting::Problem()).ok());
      call.descriptors = own.get();
      for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(setting.interposer.sessions().Create(&call.handle), CUDNN_STATUS_SUCCESS);
        ThisRecording() = {};
        for (int k = 0; k < 5; ++k) setting.interposer.legacy().Convolve(call);
        EXPECT_EQ(ThisRecording().calls.size(), 20u);
        setting.interposer.sessions().Destroy(call.handle);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ucudnn::interposer
