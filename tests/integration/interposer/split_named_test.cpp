// Everything of cuDNN that looks at an image, called by a program whose images are split over two
// threads, and by one whose UCUDNN_SPATIAL cannot be read: a call is exact, or it is NOT_SUPPORTED
// and a line names it.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "libraries.h"
#include "split_rank.h"
#include "suites.h"
#include "tests/support/problem.h"

// The headers are those of the oldest release that is served, and mark what newer ones may drop.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ucudnn::test {
namespace {

struct NamedCall {
  const char* name;
  cudnnStatus_t status;
};

// Calls `function` with nothing: it is refused before an argument is looked at, where the real
// library would say BAD_PARAM. A softmax of mode 0 is over positions.
template <typename... Arguments>
cudnnStatus_t CallWithNothing(cudnnStatus_t (*function)(cudnnHandle_t, Arguments...),
                              cudnnHandle_t handle) {
  return function(handle, Arguments()...);
}
#define CALL_WITH_NOTHING(name) \
  NamedCall { #name, CallWithNothing(&name, handle) }

std::vector<NamedCall> CallWhatIsNotSplit(cudnnHandle_t handle) {
  return {CALL_WITH_NOTHING(cudnnSoftmaxForward), CALL_WITH_NOTHING(cudnnReduceTensor),
          CALL_WITH_NOTHING(cudnnDivisiveNormalizationForward),
          CALL_WITH_NOTHING(cudnnNormalizationForwardTraining)};
}

// Right on a stripe.
NamedCall CallInference(cudnnHandle_t handle) {
  return CALL_WITH_NOTHING(cudnnBatchNormalizationForwardInference);
}
// With an activation behind it; what it is given is never read.
cudnnStatus_t CallFusedNorm(cudnnHandle_t handle) {
  const float one = 1;
  float numbers[4] = {};
  return cudnnBatchNormalizationForwardTrainingEx(
      handle, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN_ACTIVATION, &one, &one, nullptr,
      numbers, nullptr, nullptr, nullptr, numbers, nullptr, numbers, numbers, 1, nullptr, nullptr,
      1e-5, nullptr, nullptr, nullptr, nullptr, 0, nullptr, 0);
}

// Without arguments, as the real ones answer.
std::vector<NamedCall> CallSplitOnesWithNothing(cudnnHandle_t handle) {
  return {CALL_WITH_NOTHING(cudnnPoolingForward),
          CALL_WITH_NOTHING(cudnnPoolingBackward),
          CALL_WITH_NOTHING(cudnnBatchNormalizationForwardTraining),
          CALL_WITH_NOTHING(cudnnBatchNormalizationForwardTrainingEx),
          CALL_WITH_NOTHING(cudnnBatchNormalizationBackward),
          CALL_WITH_NOTHING(cudnnBatchNormalizationBackwardEx)};
}

#undef CALL_WITH_NOTHING

// The gradient of a pooling that overwrites what it reads; what it is given is never read.
cudnnStatus_t CallPoolingOverItself(cudnnHandle_t handle) {
  const float one = 1, zero = 0;
  float numbers[4] = {};
  cudnnPoolingDescriptor_t pooling = nullptr;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  EXPECT_EQ(cudnnCreatePoolingDescriptor(&pooling), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2,
                                        0, 0, 2, 2),
            CUDNN_STATUS_SUCCESS);
  for (const auto& [tensor, extent] : {std::pair(&x, 8), std::pair(&y, 4)}) {
    EXPECT_EQ(cudnnCreateTensorDescriptor(tensor), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetTensor4dDescriptor(*tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, extent,
                                         extent),
              CUDNN_STATUS_SUCCESS);
  }
  const cudnnStatus_t status = cudnnPoolingBackward(handle, pooling, &one, y, numbers + 1, y,
                                                    numbers + 2, x, numbers, &zero, x, numbers);
  EXPECT_EQ(cudnnDestroyPoolingDescriptor(pooling), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnDestroyTensorDescriptor(x), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnDestroyTensorDescriptor(y), CUDNN_STATUS_SUCCESS);
  return status;
}

// A convolution in a capture of the rank's stream: it is in the graph where it is no error.
cudnnStatus_t CallCaptured(SplitRank& rank, Convolution& convolution) {
  EXPECT_EQ(cudaStreamBeginCapture(rank.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  const cudnnStatus_t status = convolution.RunOn(rank.handle(), DropIn(), 0, nullptr, 0);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(rank.stream(), &graph), cudaSuccess);
  size_t nodes = 1;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes > 0, status == CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return status;
}

// No rank has called it outside of a capture.
ConvolutionProblem NewProblem() {
  ConvolutionProblem problem = LayerOf(Operation::kForward, kRows);
  ++problem.k;
  SetPackedStrides(problem);
  return problem;
}

cudnnStatus_t CallNative(SplitRank& rank) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  const cudnnStatus_t status = rank.Populate(graph);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return status;
}

long LinesWith(const std::string& text) {
  const std::vector<std::string> lines = LogLines();
  return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(text) != std::string::npos;
  });
}

class Split : public testing::Test {};

TEST_F(Split, CallsAreExactOrNamed) {
  std::vector<Expected> expected;
  for (const Operation operation : kOperations) expected.emplace_back(operation);
  const Expected fused_expected(Operation::kForward, Extra::kRelu);
  // What a test copies to and from a device is on the legacy stream, which spoils a capture of any
  // thread: nobody copies while another one captures.
  std::barrier together(kRanks);
  struct Leaving {
    std::barrier<>& together;
    ~Leaving() { together.arrive_and_drop(); }
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < kRanks; ++number) {
    threads.emplace_back([&, number] {
      const Leaving leaving{together};
      SplitRank rank(number);
      for (int step = 0; step < 2; ++step) {
        Round round;
        rank.Call(round);
        ASSERT_TRUE(rank.MakePlan());
        rank.CallPlan(round);
        rank.Read(round);
        for (size_t i = 0; i < round.size(); ++i) {
          EXPECT_EQ(round[i].status, CUDNN_STATUS_SUCCESS) << i;
          EXPECT_EQ(round[i].values, expected[i % expected.size()].PartOf(number)) << i;
        }
        Convolution fused(LayerOf(Operation::kForward, kRows), Extra::kRelu);
        FillStripe(fused, number * kRows);
        EXPECT_EQ(fused.RunOn(rank.handle(), DropIn(), 0, nullptr, 0), CUDNN_STATUS_SUCCESS);
        EXPECT_EQ(ValuesOf(fused, fused.TakeOutput()), fused_expected.PartOf(number));
        for (const NamedCall& call : CallWhatIsNotSplit(rank.handle())) {
          EXPECT_EQ(call.status, CUDNN_STATUS_NOT_SUPPORTED) << call.name;
        }
        for (const NamedCall& call : CallSplitOnesWithNothing(rank.handle())) {
          EXPECT_EQ(call.status, CUDNN_STATUS_BAD_PARAM) << call.name;
        }
        EXPECT_EQ(CallFusedNorm(rank.handle()), CUDNN_STATUS_NOT_SUPPORTED);
        EXPECT_EQ(rank.CallRefused(), CUDNN_STATUS_NOT_SUPPORTED);
        EXPECT_EQ(CallNative(rank), CUDNN_STATUS_NOT_SUPPORTED);
        EXPECT_EQ(CallPoolingOverItself(rank.handle()), CUDNN_STATUS_NOT_SUPPORTED);
        Convolution fresh(NewProblem(), Extra::kNone);
        together.arrive_and_wait();
        EXPECT_EQ(CallCaptured(rank, rank.layer(0)), CUDNN_STATUS_NOT_SUPPORTED);
        EXPECT_EQ(CallCaptured(rank, fresh), CUDNN_STATUS_NOT_SUPPORTED);
        together.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const char* text :
       {"cudnnSoftmaxForward", "cudnnReduceTensor", "cudnnDivisiveNormalizationForward",
        "cudnnNormalizationForwardTraining", "an activation or an addition is fused behind it",
        "z and y differ in shape", "has no native CUDA graph", "dx lies where x or dy does",
        "has not run outside of a capture", "cannot be captured in a CUDA graph"}) {
    EXPECT_EQ(LinesWith(text), 1) << text;
  }
}

class Broken : public testing::Test {};

TEST_F(Broken, CallsAreAllRefusedWithOneLine) {
  SplitRank rank(0, false);
  for (int step = 0; step < 2; ++step) {
    Round round;
    rank.Call(round);
    for (const Given& given : round) EXPECT_EQ(given.status, CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_FALSE(rank.MakePlan());
    EXPECT_EQ(rank.CallRefused(), CUDNN_STATUS_NOT_SUPPORTED);
    std::vector<NamedCall> calls = CallWhatIsNotSplit(rank.handle());
    calls.push_back(CallInference(rank.handle()));
    for (const NamedCall& call : CallSplitOnesWithNothing(rank.handle())) calls.push_back(call);
    for (const NamedCall& call : calls) {
      EXPECT_EQ(call.status, CUDNN_STATUS_NOT_SUPPORTED) << call.name;
    }
    EXPECT_EQ(CallPoolingOverItself(rank.handle()), CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(CallCaptured(rank, rank.layer(0)), CUDNN_STATUS_NOT_SUPPORTED);
  }
  EXPECT_EQ(LinesWith("UCUDNN_SPATIAL"), 1);
  EXPECT_EQ(LogLines().size(), 1u);
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  const ucudnn::test::Environment tune = {{"UCUDNN_TUNE", "off"}, {"UCUDNN_REPORT", ""}};
  ucudnn::test::Environment split = tune, broken = tune;
  split.insert(split.end(), {{"UCUDNN_SPATIAL", "h2"}, {"UCUDNN_SPATIAL_TRANSPORT", "loopback"}});
  broken.emplace_back("UCUDNN_SPATIAL", "h4x");
  return ucudnn::test::RunSuites(argc, argv, {{"Split", split}, {"Broken", broken}});
}
