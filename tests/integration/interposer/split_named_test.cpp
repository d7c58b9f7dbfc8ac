// Tests all functions of cuDNN that compute with images, in two programs. In the first, images are
// split over two threads: a correct call is exact, or it returns NOT_SUPPORTED and one line of the
// log names it. In the second, UCUDNN_SPATIAL is invalid: all calls return NOT_SUPPORTED, and one
// line of the log says why.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <string>
#include <utility>
#include <vector>

#include "libraries.h"
#include "local_calls.h"
#include "split_rank.h"
#include "suites.h"
#include "tests/support/problem.h"

// cuDNN's headers deprecate functions that newer releases may drop.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ucudnn::test {
namespace {

struct NamedCall {
  const char* name;
  cudnnStatus_t status;
  std::string said;  // the real library's last error; empty if the call did not reach that library
};

std::string LastError() {
  char text[256] = {};
  cudnnGetLastErrorString(text, sizeof text);
  return text;
}

// Calls `function` with null or zero arguments. A function that is not split is refused before its
// arguments are read; the real library would return BAD_PARAM. Mode 0 of softmax is
// CUDNN_SOFTMAX_MODE_INSTANCE, which also sums over positions.
template <typename... Arguments>
cudnnStatus_t CallWithNothing(cudnnStatus_t (*function)(cudnnHandle_t, Arguments...),
                              cudnnHandle_t handle) {
  LastError();  // clears the error of an earlier call
  return function(handle, Arguments()...);
}
#define CALL_WITH_NOTHING(name) \
  NamedCall { #name, CallWithNothing(&name, handle), LastError() }

// Calls all functions of the legacy API that combine several positions and that ucudnn does not
// split.
std::vector<NamedCall> CallWhatIsNotSplit(cudnnHandle_t handle) {
  return {CALL_WITH_NOTHING(cudnnCTCLoss),
          CALL_WITH_NOTHING(cudnnCTCLoss_v8),
          CALL_WITH_NOTHING(cudnnDivisiveNormalizationBackward),
          CALL_WITH_NOTHING(cudnnDivisiveNormalizationForward),
          CALL_WITH_NOTHING(cudnnFusedOpsExecute),
          CALL_WITH_NOTHING(cudnnIm2Col),
          CALL_WITH_NOTHING(cudnnMultiHeadAttnBackwardData),
          CALL_WITH_NOTHING(cudnnMultiHeadAttnBackwardWeights),
          CALL_WITH_NOTHING(cudnnMultiHeadAttnForward),
          CALL_WITH_NOTHING(cudnnNormalizationBackward),
          CALL_WITH_NOTHING(cudnnNormalizationForwardTraining),
          CALL_WITH_NOTHING(cudnnRNNBackwardData_v8),
          CALL_WITH_NOTHING(cudnnRNNBackwardWeights_v8),
          CALL_WITH_NOTHING(cudnnRNNForward),
          CALL_WITH_NOTHING(cudnnReduceTensor),
          CALL_WITH_NOTHING(cudnnSoftmaxBackward),
          CALL_WITH_NOTHING(cudnnSoftmaxForward),
          CALL_WITH_NOTHING(cudnnSpatialTfGridGeneratorBackward),
          CALL_WITH_NOTHING(cudnnSpatialTfGridGeneratorForward),
          CALL_WITH_NOTHING(cudnnSpatialTfSamplerBackward),
          CALL_WITH_NOTHING(cudnnSpatialTfSamplerForward)};
}

// Calls functions that compute each position separately, so they are right on a stripe.
std::vector<NamedCall> CallWhatIsLocal(cudnnHandle_t handle) {
  return {CALL_WITH_NOTHING(cudnnBatchNormalizationForwardInference),
          CALL_WITH_NOTHING(cudnnLRNCrossChannelBackward),
          CALL_WITH_NOTHING(cudnnLRNCrossChannelForward),
          CALL_WITH_NOTHING(cudnnNormalizationForwardInference)};
}
// Calls batch normalisation with fused operations, forward and backward. ucudnn refuses it without
// reading its arguments.
std::vector<NamedCall> CallFusedNorms(cudnnHandle_t handle) {
  const float one = 1;
  float numbers[4] = {};
  std::vector<NamedCall> calls;
  for (const auto& [mode, operations] :
       {std::pair(CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN_ACTIVATION),
        std::pair(CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION),
        std::pair(CUDNN_BATCHNORM_PER_ACTIVATION, CUDNN_BATCHNORM_OPS_BN_ACTIVATION)}) {
    calls.push_back({"cudnnBatchNormalizationForwardTrainingEx",
                     cudnnBatchNormalizationForwardTrainingEx(
                         handle, mode, operations, &one, &one, nullptr, numbers, nullptr, nullptr,
                         nullptr, numbers, nullptr, numbers, numbers, 1, nullptr, nullptr, 1e-5,
                         nullptr, nullptr, nullptr, nullptr, 0, nullptr, 0),
                     ""});
    calls.push_back(
        {"cudnnBatchNormalizationBackwardEx",
         cudnnBatchNormalizationBackwardEx(
             handle, mode, operations, &one, &one, &one, &one, nullptr, numbers, nullptr, numbers,
             nullptr, numbers, nullptr, nullptr, nullptr, numbers, nullptr, numbers, numbers,
             numbers, numbers, 1e-5, nullptr, nullptr, nullptr, nullptr, 0, nullptr, 0),
         ""});
  }
  return calls;
}

// Calls split functions with null or zero arguments. The calls must return the status that the real
// functions return.
std::vector<NamedCall> CallSplitOnesWithNothing(cudnnHandle_t handle) {
  return {CALL_WITH_NOTHING(cudnnPoolingForward),
          CALL_WITH_NOTHING(cudnnPoolingBackward),
          CALL_WITH_NOTHING(cudnnBatchNormalizationForwardTraining),
          CALL_WITH_NOTHING(cudnnBatchNormalizationForwardTrainingEx),
          CALL_WITH_NOTHING(cudnnBatchNormalizationBackward),
          CALL_WITH_NOTHING(cudnnBatchNormalizationBackwardEx)};
}

#undef CALL_WITH_NOTHING

// Calls a pooling gradient whose output overwrites an input. Does not access the memory.
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

// Runs a convolution in a capture of the rank's stream. Expects that the graph has nodes only if
// the call succeeded.
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

// Returns a problem that no rank has called outside of a capture.
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

// Calls functions that are not split, functions that are local, and split functions with wrong
// arguments.
void ExpectRefusedOrLocal(const SplitRank& rank) {
  for (const NamedCall& call : CallWhatIsNotSplit(rank.handle())) {
    EXPECT_EQ(call.status, CUDNN_STATUS_NOT_SUPPORTED) << call.name;
    EXPECT_EQ(call.said, "") << call.name;
  }
  for (const NamedCall& call : CallFusedNorms(rank.handle())) {
    EXPECT_EQ(call.status, CUDNN_STATUS_NOT_SUPPORTED) << call.name;
  }
  for (const NamedCall& call : CallSplitOnesWithNothing(rank.handle())) {
    EXPECT_EQ(call.status, CUDNN_STATUS_BAD_PARAM) << call.name;
  }
  for (const NamedCall& call : CallWhatIsLocal(rank.handle()))
    EXPECT_NE(call.said, "") << call.name;
  ExpectChannelSoftmax(rank.handle(), rank.stream());
  ExpectNormOfPositions(rank.handle(), rank.stream());
}

class Split : public testing::Test {};

TEST_F(Split, CallsAreExactOrNamed) {
  std::vector<Expected> expected;
  for (const Operation operation : kOperations) expected.emplace_back(operation);
  const Expected fused_expected(Operation::kForward, Extra::kRelu);
  // A `Convolution` copies its operands on the legacy stream, which invalidates captures on other
  // threads. So no thread may use its Convolution while another thread captures.
  std::barrier together(kRanks);
  struct Leaving {
    std::barrier<>& together;
    ~Leaving() { together.arrive_and_drop(); }
  };
  OnThreads(kRanks, [&](int number) {
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
      ExpectRefusedOrLocal(rank);
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
  for (const NamedCall& call : CallWhatIsNotSplit(nullptr)) {
    EXPECT_EQ(LinesWith(std::string(call.name) + " is not split"), 1) << call.name;
  }
  for (const NamedCall& call : CallWhatIsLocal(nullptr)) EXPECT_EQ(LinesWith(call.name), 0);
  for (const char* text :
       {"an activation or an addition is fused behind it", "z and y differ in shape",
        "has no native CUDA graph", "dx lies where x or dy does",
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
    for (const auto& more : {CallWhatIsLocal(rank.handle()), CallFusedNorms(rank.handle()),
                             CallSplitOnesWithNothing(rank.handle())}) {
      calls.insert(calls.end(), more.begin(), more.end());
    }
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
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"Split", {{"UCUDNN_SPATIAL", "h2"}, {"UCUDNN_SPATIAL_TRANSPORT", "loopback"}}},
       {"Broken", {{"UCUDNN_SPATIAL", "h4x"}}}},
      {{"UCUDNN_TUNE", "off"}, {"UCUDNN_REPORT", ""}});
}
