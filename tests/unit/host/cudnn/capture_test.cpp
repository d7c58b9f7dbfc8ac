// Tests calls on a capturing stream: a graph keeps their scalars and pointers, and a replay reads
// what the memory holds at that time.
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {
namespace {

class Capture : public testing::Test {
 protected:
  Executable Record(const std::function<void()>& calls) { return Captured(stream_, calls); }
  // Waits for all other work, such as fills on the default stream, and then replays `exec`.
  void Replay(const Executable& exec) {
    EXPECT_OK(cudaDeviceSynchronize());
    exec.Run(other_);
  }

  Stream stream_, other_;
};

TEST_F(Capture, ReplaysOfEveryAlgorithmComputeWhatACallWould) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int ran = 0;
  for (const Operation operation : kOperations)
    for (const DataType type : {DataType::kFloat, DataType::kHalf})
      for (int algorithm = 0; algorithm < AlgorithmCount(operation); ++algorithm) {
        ConvolutionCase c{.operation = operation, .type = type, .alpha = 2, .beta = -1};
        Convolution convolution(c);
        size_t bytes = 0;
        if (convolution.WorkspaceSize(algorithm, &bytes) != CUDNN_STATUS_SUCCESS) continue;
        SCOPED_TRACE("operation " + std::to_string(static_cast<int>(operation)) + " algorithm " +
                     std::to_string(algorithm));
        ++ran;
        cudnnSetStream(convolution.handle, stream_);
        convolution.FillAll(random);
        const DeviceMemory workspace(bytes);
        const Executable exec =
            Record([&] { EXPECT_OK(convolution.Run(algorithm, workspace.data, bytes)); });
        EXPECT_TRUE(convolution.Result().Matches()) << "capturing computes nothing";
        for (int replay = 0; replay < 3; ++replay) {
          convolution.FillAll(random);
          convolution.ComputeExpected();
          if (bytes > 0) {
            EXPECT_OK(cudaMemset(workspace.data, 0xFF, bytes));
          }
          Replay(exec);
          EXPECT_TRUE(convolution.Result().Matches()) << "replay " << replay;
        }
      }
  EXPECT_GE(ran, 12) << "each operation, in two types, has at least two engines";
}

TEST_F(Capture, WrongMemoryIsAnErrorOfThatCallAlone) {
  Convolution convolution(ConvolutionCase{}, 12);
  cudnnSetStream(convolution.handle, stream_);
  const DeviceMemory nothing(16);
  testing::internal::CaptureStderr();
  const Executable exec = Record([&] {
    EXPECT_EQ(
        convolution.RunAt(0, nullptr, 0, nothing.data, convolution.w.data, convolution.y.data),
        CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    EXPECT_EQ(convolution.RunAt(0, nullptr, 0, static_cast<char*>(convolution.x.data) + 1,
                                convolution.w.data, convolution.y.data),
              CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    EXPECT_OK(convolution.Run(0, nullptr, 0));
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  convolution.ComputeExpected();
  Replay(exec);
  EXPECT_TRUE(convolution.Result().Matches());
}

TEST_F(Capture, ScalarsAreThoseOfTheCall) {
  ConvolutionCase c{.alpha = 3};
  Convolution convolution(c, 1);
  cudnnSetStream(convolution.handle, stream_);
  float alpha = 3, beta = 0;
  const Executable exec = Record([&] {
    EXPECT_OK(cudnnConvolutionForward(
        convolution.handle, &alpha, convolution.x_desc, convolution.x.data, convolution.w_desc,
        convolution.w.data, convolution.conv_desc, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
        nullptr, 0, &beta, convolution.y_desc, convolution.y.data));
  });
  alpha = 100;
  beta = 100;
  convolution.ComputeExpected();
  Replay(exec);
  EXPECT_TRUE(convolution.y.Matches());
}

TEST_F(Capture, NothingBehindTheNeededWorkspaceIsTouchedByAReplay) {
  ConvolutionCase c;
  Convolution convolution(c, 2);
  cudnnSetStream(convolution.handle, stream_);
  int hungry = 0;
  for (int algorithm = 0; algorithm < AlgorithmCount(c.operation); ++algorithm) {
    size_t needed = 0;
    if (convolution.WorkspaceSize(algorithm, &needed) != CUDNN_STATUS_SUCCESS || needed == 0) {
      continue;
    }
    ++hungry;
    const TailedWorkspace workspace(needed);
    const Executable exec = Record([&] {
      EXPECT_EQ(convolution.Run(algorithm, workspace.data, needed - 1),
                CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
      EXPECT_OK(convolution.Run(algorithm, workspace.data, workspace.bytes));
    });
    Replay(exec);
    workspace.ExpectOnlyTheNeedIsWritten();
  }
  EXPECT_GE(hungry, 1);
}

// Captures a convolution and elementwise calls around it. A replay must leave the same bits as
// direct calls.
TEST_F(Capture, ElementwiseCallsReplayBitForBit) {
  ConvolutionCase c;
  Convolution convolution(c);
  DeviceTensor bias({1, c.w[0], 1, 1, 1}, Layout::kNchw, c.type);
  DeviceTensor activated(c.Output(), Layout::kNchw, c.type);
  DeviceTensor gradient(c.Output(), Layout::kNchw, c.type);
  cudnnTensorDescriptor_t bias_desc = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;
  cudnnCreateTensorDescriptor(&bias_desc);
  cudnnSetTensor4dDescriptor(bias_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, c.w[0], 1, 1);
  cudnnCreateActivationDescriptor(&activation);
  cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_TANH, CUDNN_NOT_PROPAGATE_NAN, 0);
  const auto layer = [&] {
    float one = 1, zero = 0, half = 0.5f, two = 2;
    const cudnnHandle_t handle = convolution.handle;
    const cudnnTensorDescriptor_t y = convolution.y_desc;
    EXPECT_OK(convolution.Run(0, nullptr, 0));
    EXPECT_OK(cudnnAddTensor(handle, &one, bias_desc, bias.data, &one, y, convolution.y.data));
    EXPECT_OK(cudnnScaleTensor(handle, y, convolution.y.data, &half));
    EXPECT_OK(cudnnActivationForward(handle, activation, &one, y, convolution.y.data, &zero, y,
                                     activated.data));
    EXPECT_OK(cudnnSetTensor(handle, y, gradient.data, &two));
    EXPECT_OK(cudnnActivationBackward(handle, activation, &one, y, activated.data, y, gradient.data,
                                      y, convolution.y.data, &zero, y, gradient.data));
    EXPECT_OK(
        cudnnConvolutionBackwardBias(handle, &one, y, gradient.data, &zero, bias_desc, bias.data));
    cudnnActivationDescriptor_t relu = nullptr;
    cudnnCreateActivationDescriptor(&relu);
    cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0);
    EXPECT_OK(cudnnConvolutionBiasActivationForward(
        handle, &one, convolution.x_desc, convolution.x.data, convolution.w_desc,
        convolution.w.data, convolution.conv_desc, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
        nullptr, 0, &half, y, gradient.data, bias_desc, bias.data, relu, y, convolution.y.data));
    cudnnDestroyActivationDescriptor(relu);  // the graph needs no descriptor any more
  };
  const auto results = [&] {
    std::vector<std::vector<unsigned char>> all;
    for (DeviceTensor* tensor : {&convolution.y, &activated, &gradient, &bias}) {
      tensor->Download();
      all.push_back(tensor->bytes);
    }
    return all;
  };
  const auto fill = [&](unsigned seed) {
    std::mt19937 random(seed);
    convolution.FillAll(random);
    for (DeviceTensor* tensor : {&bias, &activated, &gradient}) tensor->Fill(random);
  };
  cudnnSetStream(convolution.handle, stream_);
  fill(1);
  const Executable exec = Record(layer);
  for (const unsigned seed : {2u, 3u}) {
    fill(seed);
    layer();
    EXPECT_OK(cudaStreamSynchronize(stream_));
    const auto direct = results();
    fill(seed);
    EXPECT_NE(results(), direct);
    Replay(exec);
    EXPECT_EQ(results(), direct);
  }
  cudnnDestroyActivationDescriptor(activation);
  cudnnDestroyTensorDescriptor(bias_desc);
}

TEST_F(Capture, TwoGraphsReplayAtOnce) {
  for (const Operation operation : kOperations) {
    ConvolutionCase c{.operation = operation};
    Convolution one(c), two(c);
    size_t bytes = 0;
    ASSERT_OK(one.WorkspaceSize(1, &bytes));
    const DeviceMemory first(bytes), second(bytes);
    std::mt19937 random(4);
    one.FillAll(random);
    two.FillAll(random);
    cudnnSetStream(one.handle, stream_);
    cudnnSetStream(two.handle, stream_);
    const Executable graph_one = Record([&] { EXPECT_OK(one.Run(1, first.data, bytes)); });
    const Executable graph_two = Record([&] { EXPECT_OK(two.Run(1, second.data, bytes)); });
    one.ComputeExpected();
    two.ComputeExpected();
    for (int i = 0; i < 20; ++i) {
      EXPECT_OK(cudaGraphLaunch(graph_one, stream_));
      EXPECT_OK(cudaGraphLaunch(graph_two, other_));
    }
    EXPECT_OK(cudaStreamSynchronize(stream_));
    EXPECT_OK(cudaStreamSynchronize(other_));
    EXPECT_TRUE(one.Result().Matches());
    EXPECT_TRUE(two.Result().Matches());
  }
}

TEST_F(Capture, MeasuringOnACapturingStreamBreaksTheCaptureAndReturns) {
  ConvolutionCase c;
  Convolution convolution(c, 5);
  cudnnSetStream(convolution.handle, stream_);
  for (const bool own_buffers : {false, true}) {
    ASSERT_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
    int returned = 0;
    cudnnConvolutionFwdAlgoPerf_t results[8];
    const cudnnStatus_t status =
        own_buffers
            ? cudnnFindConvolutionForwardAlgorithm(convolution.handle, convolution.x_desc,
                                                   convolution.w_desc, convolution.conv_desc,
                                                   convolution.y_desc, 8, &returned, results)
            : cudnnFindConvolutionForwardAlgorithmEx(
                  convolution.handle, convolution.x_desc, convolution.x.data, convolution.w_desc,
                  convolution.w.data, convolution.conv_desc, convolution.y_desc, convolution.y.data,
                  8, &returned, results, nullptr, 0);
    EXPECT_NE(status, CUDNN_STATUS_SUCCESS) << own_buffers;
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  }
  EXPECT_OK(convolution.Run(0, nullptr, 0));
  EXPECT_OK(cudaStreamSynchronize(stream_));
}

TEST_F(Capture, AGraphIsRefusedOnceAnOperandIsGone) {
  ConvolutionCase c;
  Convolution convolution(c, 6);
  cudnnSetStream(convolution.handle, stream_);
  size_t bytes = 0;
  ASSERT_OK(convolution.WorkspaceSize(1, &bytes));
  ASSERT_GT(bytes, 0u);
  auto workspace = std::make_unique<DeviceMemory>(bytes);
  const Executable needs = Record([&] { EXPECT_OK(convolution.Run(1, workspace->data, bytes)); });
  const Executable does_not =
      Record([&] { EXPECT_OK(convolution.Run(0, workspace->data, bytes)); });
  Replay(needs);
  workspace.reset();
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaGraphLaunch(needs, stream_), cudaErrorIllegalAddress);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("freed since"), std::string::npos);
  convolution.ComputeExpected();
  Replay(does_not);  // algorithm 0 ignores the workspace that it was given
  EXPECT_TRUE(convolution.y.Matches());
}

TEST_F(Capture, ACallOnABrokenCaptureFails) {
  ConvolutionCase c;
  Convolution convolution(c);
  cudnnSetStream(convolution.handle, stream_);
  ASSERT_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(convolution.Run(0, nullptr, 0), CUDNN_STATUS_EXECUTION_FAILED_CUDART);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_OK(convolution.Run(0, nullptr, 0));
  EXPECT_OK(cudaStreamSynchronize(stream_));
}

TEST_F(Capture, DestroyingAHandleSynchronisesTheDevice) {
  cudnnHandle_t handle = nullptr;
  ASSERT_OK(cudnnCreate(&handle));
  ASSERT_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  EXPECT_OK(cudnnDestroy(handle));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace hostgpu::test
