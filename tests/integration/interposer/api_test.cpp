// Tests <ucudnn/ucudnn.h> and <ucudnn/handle.h> in a program that is also linked with the drop-in.
// Calls of cuDNN's functions and calls of ucudnn's functions share one session, one set of promises
// and one report.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <type_traits>

#include "layer.h"
#include "libraries.h"
#include "protocol.h"
#include "queries.h"
#include "report_file.h"
#include "suites.h"

// This header overloads names of cuDNN's functions. It is included last, because the headers above
// take the addresses of these functions.
#include <ucudnn/handle.h>

namespace ucudnn::test {
namespace {

using testing::HasSubstr;

// Returns a table with ucudnn's functions. Where ucudnn has no function, the table has the
// stand-in's.
const cudnn::Functions& Wrapped() {
  static const cudnn::Functions functions = [] {
    cudnn::Functions wrapped = Undivided();
#define WRAPPED(name) wrapped.cudnn##name = &::ucudnn##name;
    WRAPPED(Create)
    WRAPPED(Destroy)
    WRAPPED(SetStream)
    WRAPPED(ConvolutionForward)
    WRAPPED(ConvolutionBiasActivationForward)
    WRAPPED(ConvolutionBackwardData)
    WRAPPED(ConvolutionBackwardFilter)
    WRAPPED(GetConvolutionForwardWorkspaceSize)
    WRAPPED(GetConvolutionBackwardDataWorkspaceSize)
    WRAPPED(GetConvolutionBackwardFilterWorkspaceSize)
    WRAPPED(GetConvolutionForwardAlgorithm_v7)
    WRAPPED(GetConvolutionBackwardDataAlgorithm_v7)
    WRAPPED(GetConvolutionBackwardFilterAlgorithm_v7)
    WRAPPED(FindConvolutionForwardAlgorithm)
    WRAPPED(FindConvolutionBackwardDataAlgorithm)
    WRAPPED(FindConvolutionBackwardFilterAlgorithm)
    WRAPPED(FindConvolutionForwardAlgorithmEx)
    WRAPPED(FindConvolutionBackwardDataAlgorithmEx)
    WRAPPED(FindConvolutionBackwardFilterAlgorithmEx)
#undef WRAPPED
    return wrapped;
  }();
  return functions;
}

// The answer to Choose(): the status, an algorithm, and the workspace that is reported for the
// algorithm. Choose() asks as programs do that were written for cuDNN 7.
struct Chosen {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  int algorithm = -1;
  size_t bytes = 0;
};
template <typename Handle>
Chosen Choose(Convolution& convolution, int preference, size_t limit) {
  const Handle handle = convolution.handle();
  const cudnn::Descriptors& d = convolution.descriptors();
  Chosen chosen;
  const auto ask = [&](auto algorithm, auto preferred, auto get, auto need, auto... of) {
    preferred = static_cast<decltype(preferred)>(preference);
    chosen.status = get(handle, of..., preferred, limit, &algorithm);
    if (chosen.status != CUDNN_STATUS_SUCCESS) return;
    chosen.algorithm = algorithm;
    EXPECT_EQ(need(handle, of..., algorithm, &chosen.bytes), CUDNN_STATUS_SUCCESS);
  };
  switch (convolution.problem().operation) {
    case Operation::kForward:
      ask(
          cudnnConvolutionFwdAlgo_t{}, cudnnConvolutionFwdPreference_t{},
          [](auto... given) { return cudnnGetConvolutionForwardAlgorithm(given...); },
          [](auto... given) { return cudnnGetConvolutionForwardWorkspaceSize(given...); }, d.x, d.w,
          d.convolution, d.y);
      break;
    case Operation::kBackwardData:
      ask(
          cudnnConvolutionBwdDataAlgo_t{}, cudnnConvolutionBwdDataPreference_t{},
          [](auto... given) { return cudnnGetConvolutionBackwardDataAlgorithm(given...); },
          [](auto... given) { return cudnnGetConvolutionBackwardDataWorkspaceSize(given...); }, d.w,
          d.y, d.convolution, d.x);
      break;
    case Operation::kBackwardFilter:
      ask(
          cudnnConvolutionBwdFilterAlgo_t{}, cudnnConvolutionBwdFilterPreference_t{},
          [](auto... given) { return cudnnGetConvolutionBackwardFilterAlgorithm(given...); },
          [](auto... given) { return cudnnGetConvolutionBackwardFilterWorkspaceSize(given...); },
          d.x, d.y, d.convolution, d.w);
      break;
  }
  return chosen;
}

constexpr int kNoWorkspace = CUDNN_CONVOLUTION_FWD_NO_WORKSPACE;
constexpr int kFastest = CUDNN_CONVOLUTION_FWD_PREFER_FASTEST;
constexpr int kWithin = CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT;

class Wrapper : public Protocol {};

TEST_F(Wrapper, HandlesAreValuesLikeCudnns) {
  static_assert(std::is_trivially_copyable_v<UcudnnHandle_t>);
  UcudnnHandle_t handles[2] = {};
  EXPECT_EQ(handles[0], nullptr);
  handles[0] = NULL;  // NOLINT(modernize-use-nullptr): old frameworks write NULL
  EXPECT_EQ(cudnnCreate(handles), CUDNN_STATUS_SUCCESS);
  EXPECT_NE(handles[0], nullptr);
  handles[1] = handles[0];
  EXPECT_EQ(handles[1], handles[0]);
  const OwnStream stream(cudaStreamDefault);
  cudaStream_t read = nullptr;
  EXPECT_EQ(cudnnSetStream(handles[0], stream.get()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnGetStream(handles[1], &read), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(read, stream.get());
  EXPECT_EQ(cudnnDestroy(handles[1]), CUDNN_STATUS_SUCCESS);
  UcudnnHandle_t* const none = nullptr;
  cudnnHandle_t* const real_none = nullptr;
  EXPECT_EQ(cudnnCreate(none), cudnnCreate(real_none));
}

TEST_F(Wrapper, DividesOnceWhicheverWayACallComesIn) {
  for (const Operation operation : kOperations)
    for (const Question question : kQuestions) {
      SCOPED_TRACE(OperationName(operation));
      Convolution convolution(LayerProblem(operation));
      const GuardedMemory workspace(kTightBytes);
      const Answer answer =
          Ask(Wrapped(), question, convolution, 20, workspace.data(), kTightBytes);
      ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
      ASSERT_FALSE(answer.algorithms.empty());
      const cudnn::AlgorithmPerformance& told = answer.algorithms[0];
      UseMath(convolution, told.math);
      EXPECT_EQ(ReportedNeed(convolution, told.algorithm), told.workspace_bytes);
      const long pieces = RunAndCompare(convolution, told.algorithm, told.workspace_bytes);
      EXPECT_EQ(RunAndCompare(convolution, told.algorithm, told.workspace_bytes, {}, Wrapped()),
                pieces);
      if (question == Question::kFindEx) {
        EXPECT_GE(pieces, 2);
      }
    }
}

TEST_F(Wrapper, RemovedFunctionsDivideWithinTheCallersLimit) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    const Chosen fastest = Choose<UcudnnHandle_t>(convolution, kFastest, 0);
    ASSERT_EQ(fastest.status, CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(RunAndCompare(convolution, fastest.algorithm, fastest.bytes, {}, Wrapped()), 1);

    const Chosen within = Choose<UcudnnHandle_t>(convolution, kWithin, kTightBytes);
    ASSERT_EQ(within.status, CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(within.algorithm, 1);
    EXPECT_GT(within.bytes, 0u);
    EXPECT_LE(within.bytes, kTightBytes);
    EXPECT_GE(RunAndCompare(convolution, within.algorithm, within.bytes, {}, Wrapped()), 2);

    const Chosen without = Choose<UcudnnHandle_t>(convolution, kNoWorkspace, SIZE_MAX);
    ASSERT_EQ(without.status, CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(without.bytes, 0u);
    RunAndCompare(convolution, without.algorithm, 0, {}, Wrapped());
  }
}

TEST_F(Wrapper, RemovedFunctionsServeCudnnsHandleWithinTheRanking) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    for (const int preference : {kNoWorkspace, kFastest, kWithin}) {
      const Chosen chosen = Choose<cudnnHandle_t>(convolution, preference, kTightBytes);
      ASSERT_EQ(chosen.status, CUDNN_STATUS_SUCCESS);
      if (preference != kFastest) {
        EXPECT_LE(chosen.bytes, preference == kWithin ? kTightBytes : 0u);
      }
      RunAndCompare(convolution, chosen.algorithm, chosen.bytes);
    }
    for (const int preference : {-1, 3}) {
      EXPECT_EQ(Choose<cudnnHandle_t>(convolution, preference, 0).status, CUDNN_STATUS_BAD_PARAM);
    }
  }
}

TEST_F(Wrapper, RemovedFunctionsRefuseWithTheReason) {
  Convolution convolution(LayerProblem(Operation::kForward));
  const cudnn::Descriptors& d = convolution.descriptors();
  EXPECT_EQ(Choose<UcudnnHandle_t>(convolution, 3, 0).status, CUDNN_STATUS_BAD_PARAM);
  EXPECT_THAT(ucudnnGetLastError(), HasSubstr("3"));
  EXPECT_EQ(ucudnnGetConvolutionForwardAlgorithm(convolution.handle(), d.x, d.w, d.convolution, d.y,
                                                 CUDNN_CONVOLUTION_FWD_NO_WORKSPACE, 0, nullptr),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_THAT(ucudnnGetLastError(), HasSubstr("null"));
  cudnnConvolutionFwdAlgo_t algorithm;
  EXPECT_EQ(ucudnnGetConvolutionForwardAlgorithm(nullptr, d.x, d.w, d.convolution, d.y,
                                                 CUDNN_CONVOLUTION_FWD_NO_WORKSPACE, 0, &algorithm),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(
      ucudnnGetConvolutionForwardAlgorithm(convolution.handle(), d.x, nullptr, d.convolution, d.y,
                                           CUDNN_CONVOLUTION_FWD_NO_WORKSPACE, 0, &algorithm),
      CUDNN_STATUS_BAD_PARAM);
}

// A kernel that never ran outside of a capture is not captured in pieces. ucudnn must notice the
// capture although it did not see cudnnSetStream.
TEST_F(Wrapper, SeesACaptureOnAStreamThatWasSetPastIt) {
  Convolution convolution(LayerProblem(Operation::kForward));
  const Chosen chosen = Choose<UcudnnHandle_t>(convolution, kWithin, kTightBytes);
  ASSERT_EQ(chosen.algorithm, 1);
  const GuardedMemory workspace(chosen.bytes);
  const OwnStream stream;
  ASSERT_EQ(Undivided().cudnnSetStream(convolution.handle(), stream.get()), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed), cudaSuccess);
  ConvolutionsRun();
  EXPECT_EQ(convolution.Run(Wrapped(), chosen.algorithm, workspace.data(), chosen.bytes),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(ConvolutionsRun(), 1);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(Undivided().cudnnSetStream(convolution.handle(), nullptr), CUDNN_STATUS_SUCCESS);
}

TEST_F(Wrapper, LimitMayChangeAndOtherOptionsMayNot) {
  Convolution convolution(LayerProblem(Operation::kForward));
  EXPECT_EQ(ucudnnSetWorkspaceLimit(kTightBytes), CUDNN_STATUS_SUCCESS);
  const Answer tight = Ask(Wrapped(), Question::kGet, convolution, 20);
  ASSERT_FALSE(tight.algorithms.empty());
  for (const auto& told : tight.algorithms) EXPECT_LE(told.workspace_bytes, kTightBytes);
  EXPECT_GE(RunAndCompare(convolution, tight.algorithms[0].algorithm,
                          tight.algorithms[0].workspace_bytes, {}, Wrapped()),
            2);
  EXPECT_EQ(ucudnnSetOption("UCUDNN_WORKSPACE_LIMIT", "0"), CUDNN_STATUS_SUCCESS);
  for (const auto& told : Ask(DropIn(), Question::kGet, convolution, 20).algorithms) {
    EXPECT_EQ(told.workspace_bytes, 0u);
  }
  EXPECT_EQ(ucudnnSetWorkspaceLimit(UCUDNN_NO_LIMIT), CUDNN_STATUS_SUCCESS);
  const Answer free = Ask(Wrapped(), Question::kFind, convolution, 1);
  ASSERT_EQ(free.algorithms.size(), 1u);
  EXPECT_GT(free.algorithms[0].workspace_bytes, kTightBytes);
  // The promise that was made under the old limit is kept.
  EXPECT_GE(RunAndCompare(convolution, tight.algorithms[0].algorithm,
                          tight.algorithms[0].workspace_bytes, {}, Wrapped()),
            2);

  EXPECT_EQ(ucudnnSetOption("UCUDNN_WORKSPACE_LIMIT", "auto"), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(ucudnnSetBatchSizePolicy(UCUDNN_POLICY_ALL), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_THAT(ucudnnGetLastError(), HasSubstr("UCUDNN_BATCH_SIZE_POLICY='all'"));
  EXPECT_THAT(ucudnnGetLastError(), HasSubstr("before"));
}

TEST_F(Wrapper, PlansStatisticsAndTheReportAreReadBack) {
  // No other test uses this mini-batch size, so the kernel is new.
  constexpr int kImages = 8;
  Convolution convolution(LayerProblem(Operation::kBackwardFilter, kImages));
  const size_t limit = *RealNeed(convolution, 1) - 1;
  const cudnn::Descriptors& d = convolution.descriptors();
  const auto plan = [&](int requested, int* returned, ucudnnMicroBatches_t* batches) {
    return ucudnnGetPlan(UCUDNN_BACKWARD_FILTER, d.x, d.w, d.convolution, d.y, requested, returned,
                         batches);
  };
  int kinds = -1;
  EXPECT_EQ(plan(0, &kinds, nullptr), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_THAT(ucudnnGetLastError(), HasSubstr("not called yet: backward_filter"));
  EXPECT_EQ(kinds, -1);

  EXPECT_EQ(ucudnnSetLayerName("second \"layer\"", d.x, d.w, d.convolution, d.y),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(ucudnnSetLayerName("conv1", d.x, d.w, d.convolution, d.y), CUDNN_STATUS_SUCCESS);
  const Chosen chosen = Choose<UcudnnHandle_t>(convolution, kWithin, limit);
  ASSERT_EQ(chosen.status, CUDNN_STATUS_SUCCESS);
  ucudnnStatistics_t before = {sizeof before};
  ASSERT_EQ(ucudnnGetStatistics(&before), CUDNN_STATUS_SUCCESS);
  const long pieces = RunAndCompare(convolution, chosen.algorithm, chosen.bytes, {}, Wrapped());
  ASSERT_GE(pieces, 2);
  EXPECT_EQ(RunAndCompare(convolution, chosen.algorithm, chosen.bytes), pieces);

  ASSERT_EQ(plan(0, &kinds, nullptr), CUDNN_STATUS_SUCCESS);
  ASSERT_GE(kinds, 1);
  std::vector<ucudnnMicroBatches_t> batches(kinds + 1);
  std::memset(batches.data(), 0x55, sizeof(ucudnnMicroBatches_t) * batches.size());
  batches[0].struct_size = sizeof batches[0];
  ASSERT_EQ(plan(kinds + 1, &kinds, batches.data()), CUDNN_STATUS_SUCCESS);
  int images = 0, count = 0;
  for (int i = 0; i < kinds; ++i) {
    images += batches[i].micro_batch * batches[i].count;
    count += batches[i].count;
    EXPECT_EQ(std::string(batches[i].engine).rfind("legacy:", 0), 0u) << batches[i].engine;
    EXPECT_LE(batches[i].workspace_bytes, chosen.bytes);
    EXPECT_GT(batches[i].piece_ms, 0);
    EXPECT_EQ(batches[i].struct_size, sizeof batches[i]);
  }
  EXPECT_EQ(images, kImages);
  EXPECT_EQ(count, pieces);
  EXPECT_EQ(batches[kinds].micro_batch, 0x55555555);

  ucudnnStatistics_t after = {sizeof after};
  ASSERT_EQ(ucudnnGetStatistics(&after), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(after.kernels - before.kernels, 1);
  EXPECT_EQ(after.divided_kernels - before.divided_kernels, 1);
  EXPECT_EQ(after.calls - before.calls, 2);
  EXPECT_EQ(after.divided_calls - before.divided_calls, 2);
  EXPECT_EQ(after.fallbacks, 0);

  size_t bytes = 0;
  ASSERT_EQ(ucudnnGetReport(nullptr, &bytes), CUDNN_STATUS_SUCCESS);
  std::string text(bytes, '?');
  size_t room = bytes - 1;
  EXPECT_EQ(ucudnnGetReport(text.data(), &room), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(room, bytes);
  EXPECT_EQ(text, std::string(bytes, '?'));
  ASSERT_EQ(ucudnnGetReport(text.data(), &room), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(std::strlen(text.c_str()), bytes - 1);
  const auto kernels = KernelsOf(nlohmann::json::parse(text.c_str()), convolution.problem());
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0]["calls"], 2);
  EXPECT_EQ(kernels[0]["layers"], nlohmann::json({"conv1", "second \"layer\""}));
  EXPECT_EQ(Pieces(kernels[0]), pieces);
}

TEST_F(Wrapper, UnusableArgumentsAreRefusedInWords) {
  Convolution convolution(LayerProblem(Operation::kForward));
  const cudnn::Descriptors& d = convolution.descriptors();
  EXPECT_EQ(ucudnnSetOption(nullptr, "1"), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnSetOption("UCUDNN_CHECK", nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnSetOption("UCUDNN_NOTHING", "1"), CUDNN_STATUS_BAD_PARAM);
  EXPECT_THAT(ucudnnGetLastError(), HasSubstr("UCUDNN_NOTHING"));
  EXPECT_EQ(ucudnnSetOption("UCUDNN_WORKSPACE_LIMIT", "many"), CUDNN_STATUS_BAD_PARAM);
  EXPECT_THAT(ucudnnGetLastError(), HasSubstr("UCUDNN_WORKSPACE_LIMIT='many'"));
  EXPECT_EQ(ucudnnSetOption("UCUDNN_WORKSPACE_LIMIT", std::string(1 << 20, '9').c_str()),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnSetBatchSizePolicy(static_cast<ucudnnBatchSizePolicy_t>(4)),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnSetTotalWorkspace(0) == CUDNN_STATUS_SUCCESS, false);
  EXPECT_EQ(ucudnnDeclareOrder(nullptr, nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnEndRecording(nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_THAT(ucudnnGetLastError(), HasSubstr("ucudnnEndRecording: a handle is a null pointer"));
  EXPECT_EQ(ucudnnSetLayerName(nullptr, d.x, d.w, d.convolution, d.y), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnSetLayerName("conv", nullptr, d.w, d.convolution, d.y), CUDNN_STATUS_BAD_PARAM);
  int kinds = 0;
  ucudnnMicroBatches_t batches = {sizeof batches};
  EXPECT_EQ(ucudnnGetPlan(UCUDNN_FORWARD, d.x, d.w, d.convolution, d.y, 1, nullptr, &batches),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnGetPlan(UCUDNN_FORWARD, d.x, d.w, d.convolution, d.y, 1, &kinds, nullptr),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnGetPlan(UCUDNN_FORWARD, d.x, d.w, d.convolution, d.y, -1, &kinds, &batches),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnGetPlan(static_cast<ucudnnOperation_t>(3), d.x, d.w, d.convolution, d.y, 1,
                          &kinds, &batches),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnGetPlan(UCUDNN_FORWARD, d.x, d.w, nullptr, d.y, 1, &kinds, &batches),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnGetStatistics(nullptr), CUDNN_STATUS_BAD_PARAM);
  for (const size_t off : {~size_t{0}, size_t{1}, ~sizeof(ucudnnStatistics_t)}) {
    batches.struct_size = sizeof batches + off;
    EXPECT_EQ(ucudnnGetPlan(UCUDNN_FORWARD, d.x, d.w, d.convolution, d.y, 1, &kinds, &batches),
              CUDNN_STATUS_BAD_PARAM);
    EXPECT_THAT(ucudnnGetLastError(), HasSubstr("ucudnnGetPlan: struct_size is "));
    ucudnnStatistics_t statistics = {sizeof statistics + off, -1};
    EXPECT_EQ(ucudnnGetStatistics(&statistics), CUDNN_STATUS_BAD_PARAM);
    EXPECT_THAT(ucudnnGetLastError(), HasSubstr("ucudnnGetStatistics: struct_size is "));
    EXPECT_EQ(statistics.kernels, -1);
  }
  EXPECT_EQ(ucudnnGetReport(nullptr, nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ucudnnConvolutionForward(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                     CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, nullptr,
                                     nullptr, nullptr),
            Undivided().cudnnConvolutionForward(
                nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, nullptr, nullptr, nullptr));
}

// Returns `total_workspace` of the current report.
nlohmann::json Budget() {
  size_t bytes = 0;
  EXPECT_EQ(ucudnnGetReport(nullptr, &bytes), CUDNN_STATUS_SUCCESS);
  std::string text(bytes, '?');
  EXPECT_EQ(ucudnnGetReport(text.data(), &bytes), CUDNN_STATUS_SUCCESS);
  return nlohmann::json::parse(text.c_str())["total_workspace"];
}

// Tests one budget for all kernels, with handles of ucudnn's type.
class Recording : public Protocol {};

TEST_F(Recording, EndsWhenTheProgramSaysSo) {
  UcudnnHandle_t handle = nullptr;
  ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(ucudnnEndRecording(handle), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_THAT(ucudnnGetLastError(), HasSubstr("no convolution ran yet"));
  {
    Convolution convolution(LayerProblem(Operation::kForward));
    convolution.UseHandle(handle);
    RunAndCompare(convolution, 1, 0);
    EXPECT_EQ(Budget()["divided"], false);
    ASSERT_EQ(ucudnnEndRecording(handle), CUDNN_STATUS_SUCCESS) << ucudnnGetLastError();
    EXPECT_EQ(Budget()["divided"], true);
    EXPECT_EQ(Budget()["kernels"], 1);
    RunAndCompare(convolution, 1, 0, {}, Wrapped());
    EXPECT_EQ(ucudnnEndRecording(handle), CUDNN_STATUS_SUCCESS) << "again";
    const size_t reserved = Budget()["total_workspace_bytes"];
    EXPECT_GT(reserved, 0u);
    EXPECT_LE(reserved, size_t{Budget()["total_bytes"]});
  }
  EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
}

class Order : public Protocol {};

TEST_F(Order, OfHandlesThatTheProgramDeclaresLetsThemShareASegment) {
  UcudnnHandle_t handles[3];
  for (UcudnnHandle_t& handle : handles) ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  const OwnStream stream(cudaStreamDefault);
  EXPECT_EQ(cudnnSetStream(handles[1], stream.get()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(ucudnnDeclareOrder(handles[0], handles[1]), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(ucudnnDeclareOrder(handles[1], handles[0]), CUDNN_STATUS_SUCCESS) << "again";
  EXPECT_EQ(ucudnnDeclareOrder(handles[2], nullptr), CUDNN_STATUS_BAD_PARAM);
  {
    Convolution convolution(LayerProblem(Operation::kForward));
    for (const UcudnnHandle_t& handle : {handles[0], handles[1]}) {
      convolution.UseHandle(handle);
      RunAndCompare(convolution, 1, 0, {}, Wrapped());  // waits for the device
    }
    EXPECT_EQ(ucudnnDeclareOrder(handles[2], handles[0]), CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_THAT(ucudnnGetLastError(), HasSubstr("ran on one of the handles before"));
    ASSERT_EQ(ucudnnEndRecording(handles[1]), CUDNN_STATUS_SUCCESS) << ucudnnGetLastError();
    for (const UcudnnHandle_t& handle : {handles[0], handles[1]}) {
      convolution.UseHandle(handle);
      RunAndCompare(convolution, 1, 0);
    }
    const auto kernels = KernelsOf(ReadReport(), convolution.problem());
    ASSERT_EQ(kernels.size(), 1u);
    const size_t used = kernels[0]["owned_workspace_bytes"];
    EXPECT_GT(used, 0u);
    const size_t of_calls =
        size_t{Budget()["total_workspace_bytes"]} - size_t{Budget()["capture_bytes"]};
    EXPECT_EQ(of_calls, used) << "one segment for both";
  }
  for (const UcudnnHandle_t& handle : handles) {
    EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  }
}

// Tests options that a program sets before its first cuDNN call.
class Early : public testing::Test {};

TEST_F(Early, OptionsSetByCallsWinOverTheEnvironment) {
  // Programs name layers while they build the network; naming a layer must not fix the options yet.
  cudnn::OwnedDescriptors named(Undivided());
  ASSERT_TRUE(named.Create(LayerProblem(Operation::kForward)).ok());
  const cudnn::Descriptors& d = named.get();
  EXPECT_EQ(ucudnnSetLayerName("early", d.x, d.w, d.convolution, d.y), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(ucudnnSetOption("UCUDNN_REAL_CUDNN", "another.so"), CUDNN_STATUS_NOT_SUPPORTED);

  const std::string report = Folder() + "/elsewhere.json";
  EXPECT_EQ(ucudnnSetOption("UCUDNN_REPORT", report.c_str()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(ucudnnSetBatchSizePolicy(UCUDNN_POLICY_UNDIVIDED), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(ucudnnSetWorkspaceLimit(1 << 20), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(ucudnnSetOption("UCUDNN_TUNE", "later"), CUDNN_STATUS_BAD_PARAM);
  EXPECT_THAT(ucudnnGetLastError(), HasSubstr("first, after:N"));

  Convolution convolution(LayerProblem(Operation::kForward));
  const Answer answer = Ask(DropIn(), Question::kGet, convolution, 20);
  ASSERT_FALSE(answer.algorithms.empty());
  const auto& told = answer.algorithms[0];
  EXPECT_EQ(RunAndCompare(convolution, told.algorithm, told.workspace_bytes), 1);
  EXPECT_EQ(ucudnnSetOption("UCUDNN_TUNE", "off"), CUDNN_STATUS_NOT_SUPPORTED);

  EXPECT_TRUE(ReadReport().is_null());
  const auto kernels = KernelsOf(ReadReport(report), convolution.problem());
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0]["limit_bytes"], 1 << 20);
  EXPECT_EQ(kernels[0]["layers"], nlohmann::json({"early"}));
}

class SwitchedOff : public testing::Test {};

TEST_F(SwitchedOff, EverythingIsTheRealLibrarys) {
  ASSERT_EQ(ucudnnSetOption("UCUDNN_MODE", "off"), CUDNN_STATUS_SUCCESS);
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Convolution convolution(LayerProblem(operation));
    const Chosen chosen = Choose<UcudnnHandle_t>(convolution, kWithin, kTightBytes);
    ASSERT_EQ(chosen.status, CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(chosen.bytes, RealNeed(convolution, chosen.algorithm));
    EXPECT_LE(chosen.bytes, kTightBytes);
    EXPECT_EQ(RunAndCompare(convolution, chosen.algorithm, chosen.bytes, {}, Wrapped()), 1);
  }
  EXPECT_TRUE(ReadReport().is_null());
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  return ucudnn::test::RunSuites(argc, argv,
                                 {{"Wrapper", {{"UCUDNN_TUNE", "off"}}},
                                  {"Recording", {{"UCUDNN_TOTAL_WORKSPACE", "64MiB"}}},
                                  {"Order", {{"UCUDNN_TOTAL_WORKSPACE", "64MiB"}}},
                                  {"Early", {{"UCUDNN_WORKSPACE_LIMIT", "0"}}},
                                  {"SwitchedOff", {}}});
}
