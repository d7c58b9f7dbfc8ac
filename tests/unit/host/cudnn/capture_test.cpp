// Tests calls on a capturing stream: they are recorded with their scalars and pointers, and a
// replay reads what the memory holds at that time.
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {
namespace {

constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                     Operation::kBackwardFilter};

class Capture : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    for (cudaGraphExec_t exec : execs_) EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(other_), cudaSuccess);
  }
  cudaGraphExec_t Record(const std::function<void()>& calls) {
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    calls();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    execs_.push_back(exec);
    return exec;
  }
  // Waits for everything else first, fills on the default stream included.
  void Replay(cudaGraphExec_t exec) {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(exec, other_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  }

  cudaStream_t stream_ = nullptr, other_ = nullptr;
  std::vector<cudaGraphExec_t> execs_;
};

TEST_F(Capture, ReplaysOfEveryAlgorithmComputeWhatACallWould) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int ran = 0;
  for (const Operation operation : kOperations)
    for (const DataType type : {DataType::kFloat, DataType::kHalf})
      for (int algorithm = 0; algorithm < AlgorithmCount(operation); ++algorithm) {
        ConvolutionCase c;
        c.operation = operation;
        c.type = type;
        c.alpha = 2;
        c.beta = -1;
        Convolution convolution(c);
        size_t bytes = 0;
        if (convolution.WorkspaceSize(algorithm, &bytes) != CUDNN_STATUS_SUCCESS) continue;
        SCOPED_TRACE("operation " + std::to_string(static_cast<int>(operation)) + " algorithm " +
                     std::to_string(algorithm));
        ++ran;
        cudnnSetStream(convolution.handle, stream_);
        convolution.FillAll(random);
        const DeviceBytes workspace(bytes);
        const cudaGraphExec_t exec = Record([&] {
          EXPECT_EQ(convolution.Run(algorithm, workspace.data, bytes), CUDNN_STATUS_SUCCESS);
        });
        EXPECT_TRUE(convolution.Result().Matches()) << "capturing computes nothing";
        for (int replay = 0; replay < 3; ++replay) {
          convolution.FillAll(random);
          convolution.ComputeExpected();
          if (bytes > 0) {
            EXPECT_EQ(cudaMemset(workspace.data, 0xFF, bytes), cudaSuccess);
          }
          Replay(exec);
          EXPECT_TRUE(convolution.Result().Matches()) << "replay " << replay;
        }
      }
  EXPECT_GE(ran, 12) << "each operation, in two types, has at least two engines";
}

TEST_F(Capture, WrongMemoryIsAnErrorOfThatCallAlone) {
  std::mt19937 random(12);
  Convolution convolution{ConvolutionCase{}};
  cudnnSetStream(convolution.handle, stream_);
  convolution.FillAll(random);
  const DeviceBytes nothing(16);
  testing::internal::CaptureStderr();
  const cudaGraphExec_t exec = Record([&] {
    EXPECT_EQ(
        convolution.RunAt(0, nullptr, 0, nothing.data, convolution.w.data, convolution.y.data),
        CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    EXPECT_EQ(convolution.RunAt(0, nullptr, 0, static_cast<char*>(convolution.x.data) + 1,
                                convolution.w.data, convolution.y.data),
              CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    EXPECT_EQ(convolution.Run(0, nullptr, 0), CUDNN_STATUS_SUCCESS);
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  convolution.ComputeExpected();
  Replay(exec);
  EXPECT_TRUE(convolution.Result().Matches());
}

TEST_F(Capture, ScalarsAreThoseOfTheCall) {
  ConvolutionCase c;
  c.alpha = 3;
  Convolution convolution(c);
  std::mt19937 random(1);
  convolution.FillAll(random);
  cudnnSetStream(convolution.handle, stream_);
  float alpha = 3, beta = 0;
  const cudaGraphExec_t exec = Record([&] {
    EXPECT_EQ(
        cudnnConvolutionForward(convolution.handle, &alpha, convolution.x_desc, convolution.x.data,
                                convolution.w_desc, convolution.w.data, convolution.conv_desc,
                                CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &beta,
                                convolution.y_desc, convolution.y.data),
        CUDNN_STATUS_SUCCESS);
  });
  alpha = 100;
  beta = 100;
  convolution.ComputeExpected();
  Replay(exec);
  EXPECT_TRUE(convolution.y.Matches());
}

TEST_F(Capture, NothingBehindTheNeededWorkspaceIsTouchedByAReplay) {
  ConvolutionCase c;
  Convolution convolution(c);
  std::mt19937 random(2);
  convolution.FillAll(random);
  cudnnSetStream(convolution.handle, stream_);
  int hungry = 0;
  for (int algorithm = 0; algorithm < AlgorithmCount(c.operation); ++algorithm) {
    size_t needed = 0;
    if (convolution.WorkspaceSize(algorithm, &needed) != CUDNN_STATUS_SUCCESS || needed == 0) {
      continue;
    }
    ++hungry;
    constexpr size_t kTail = 4096;
    const DeviceBytes workspace(needed + kTail);
    const cudaGraphExec_t exec = Record([&] {
      EXPECT_EQ(convolution.Run(algorithm, workspace.data, needed - 1),
                CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
      EXPECT_EQ(convolution.Run(algorithm, workspace.data, needed + kTail), CUDNN_STATUS_SUCCESS);
    });
    ASSERT_EQ(cudaMemset(workspace.data, 0x3C, needed + kTail), cudaSuccess);
    Replay(exec);
    std::vector<unsigned char> after(needed + kTail);
    ASSERT_EQ(cudaMemcpy(after.data(), workspace.data, after.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(std::vector<unsigned char>(after.begin() + needed, after.end()),
              std::vector<unsigned char>(kTail, 0x3C));
    EXPECT_NE(std::vector<unsigned char>(after.begin(), after.begin() + needed),
              std::vector<unsigned char>(needed, 0x3C));
  }
  EXPECT_GE(hungry, 1);
}

// A layer with everything around it is captured. The calls made directly leave the same bits.
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
    EXPECT_EQ(convolution.Run(0, nullptr, 0), 0);
    EXPECT_EQ(cudnnAddTensor(handle, &one, bias_desc, bias.data, &one, y, convolution.y.data), 0);
    EXPECT_EQ(cudnnScaleTensor(handle, y, convolution.y.data, &half), 0);
    EXPECT_EQ(cudnnActivationForward(handle, activation, &one, y, convolution.y.data, &zero, y,
                                     activated.data),
              0);
    EXPECT_EQ(cudnnSetTensor(handle, y, gradient.data, &two), 0);
    EXPECT_EQ(cudnnActivationBackward(handle, activation, &one, y, activated.data, y, gradient.data,
                                      y, convolution.y.data, &zero, y, gradient.data),
              0);
    EXPECT_EQ(
        cudnnConvolutionBackwardBias(handle, &one, y, gradient.data, &zero, bias_desc, bias.data),
        0);
    cudnnActivationDescriptor_t relu = nullptr;
    cudnnCreateActivationDescriptor(&relu);
    cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0);
    EXPECT_EQ(
        cudnnConvolutionBiasActivationForward(
            handle, &one, convolution.x_desc, convolution.x.data, convolution.w_desc,
            convolution.w.data, convolution.conv_desc, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
            nullptr, 0, &half, y, gradient.data, bias_desc, bias.data, relu, y, convolution.y.data),
        0);
    cudnnDestroyActivationDescriptor(relu);  // what was recorded needs no descriptor
  };
  const auto results = [&] {
    std::vector<std::vector<unsigned char>> all;
    for (DeviceTensor* tensor : {&convolution.y, &activated, &gradient, &bias}) {
      all.emplace_back(tensor->bytes.size());
      EXPECT_EQ(
          cudaMemcpy(all.back().data(), tensor->data, all.back().size(), cudaMemcpyDeviceToHost),
          cudaSuccess);
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
  const cudaGraphExec_t exec = Record(layer);
  for (const unsigned seed : {2u, 3u}) {
    fill(seed);
    layer();
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
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
    ConvolutionCase c;
    c.operation = operation;
    Convolution one(c), two(c);
    size_t bytes = 0;
    ASSERT_EQ(one.WorkspaceSize(1, &bytes), CUDNN_STATUS_SUCCESS);
    const DeviceBytes first(bytes), second(bytes);
    std::mt19937 random(4);
    one.FillAll(random);
    two.FillAll(random);
    cudnnSetStream(one.handle, stream_);
    cudnnSetStream(two.handle, stream_);
    const cudaGraphExec_t graph_one = Record([&] { EXPECT_EQ(one.Run(1, first.data, bytes), 0); });
    const cudaGraphExec_t graph_two = Record([&] { EXPECT_EQ(two.Run(1, second.data, bytes), 0); });
    one.ComputeExpected();
    two.ComputeExpected();
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(cudaGraphLaunch(graph_one, stream_), cudaSuccess);
      EXPECT_EQ(cudaGraphLaunch(graph_two, other_), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
    EXPECT_TRUE(one.Result().Matches());
    EXPECT_TRUE(two.Result().Matches());
  }
}

TEST_F(Capture, MeasuringOnACapturingStreamBreaksTheCaptureAndReturns) {
  ConvolutionCase c;
  Convolution convolution(c);
  std::mt19937 random(5);
  convolution.FillAll(random);
  cudnnSetStream(convolution.handle, stream_);
  for (const bool own_buffers : {false, true}) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
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
  EXPECT_EQ(convolution.Run(0, nullptr, 0), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(Capture, AGraphIsRefusedOnceAnOperandIsGone) {
  ConvolutionCase c;
  Convolution convolution(c);
  std::mt19937 random(6);
  convolution.FillAll(random);
  cudnnSetStream(convolution.handle, stream_);
  size_t bytes = 0;
  ASSERT_EQ(convolution.WorkspaceSize(1, &bytes), CUDNN_STATUS_SUCCESS);
  ASSERT_GT(bytes, 0u);
  cudaGraphExec_t needs = nullptr, does_not = nullptr;
  {
    const DeviceBytes workspace(bytes);
    needs = Record([&] { EXPECT_EQ(convolution.Run(1, workspace.data, bytes), 0); });
    does_not = Record([&] { EXPECT_EQ(convolution.Run(0, workspace.data, bytes), 0); });
    Replay(needs);
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaGraphLaunch(needs, stream_), cudaErrorIllegalAddress);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("freed since"), std::string::npos);
  convolution.ComputeExpected();
  Replay(does_not);  // algorithm 0 needs no workspace, whatever was passed
  EXPECT_TRUE(convolution.y.Matches());
}

TEST_F(Capture, ACallOnABrokenCaptureFails) {
  ConvolutionCase c;
  Convolution convolution(c);
  cudnnSetStream(convolution.handle, stream_);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(convolution.Run(0, nullptr, 0), CUDNN_STATUS_EXECUTION_FAILED_CUDART);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(convolution.Run(0, nullptr, 0), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(Capture, DestroyingAHandleSynchronisesTheDevice) {
  cudnnHandle_t handle = nullptr;
  ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace hostgpu::test
