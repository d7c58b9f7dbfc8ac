// A program with one convolution of whole numbers, and the interposer that the program calls. The
// interposer's store fails on demand. The program runs on the stand-in's real arithmetic, which can
// be made wrong (tests/support/wrong_cudnn.h).
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "interposer/interposer.h"
#include "program_parts.h"
#include "tests/support/device.h"
#include "tests/support/failing_store.h"
#include "tests/support/options.h"
#include "tests/support/problem.h"
#include "tests/support/stand_in.h"
#include "tests/support/wrong_cudnn.h"

namespace ucudnn::interposer {

using test::Planned;
using test::Seen;
using test::TheCalls;
using test::TheWrong;
using test::Within;
using test::Wrong;
using test::WrongStandIn;
using Values = std::vector<float>;

constexpr int kImages = 8;

inline ConvolutionProblem Problem(Operation operation) {
  return test::ProblemWith(
      {.operation = operation, .n = kImages, .alignment = cudnn::kLegacyAlignment});
}

class Program {
 public:
  Program(Operation operation, const Options& options, cudnn::Functions table = WrongStandIn())
      : functions(table), operation_(operation), options_(options) {
    test::MakeContextCurrent();
    TheWrong() = {};
    TheCalls().clear();
    EXPECT_EQ(interposer.sessions().Create(&handle_), CUDNN_STATUS_SUCCESS);
    EXPECT_TRUE(descriptors_.Create(Problem(operation)).ok());
    const size_t elements[] = {size_t{kImages} * 4 * 64, size_t{8} * 4 * 9,
                               size_t{kImages} * 8 * 64};
    for (int i = 0; i < 3; ++i) {
      contents_[i].resize(elements[i]);
      for (size_t at = 0; at < elements[i]; ++at) {
        contents_[i][at] = static_cast<float>((at * 7 + at / 11) % 5) - 2;
      }
      EXPECT_EQ(cuMemAlloc(&buffers_[i], elements[i] * sizeof(float)), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuMemAlloc(&workspace_, kWorkspace), CUDA_SUCCESS);
    expected_ = RunWith(
        [&](const cudnn::ConvolutionCall& call) {
          cudnn::ConvolutionCall plain = call;
          plain.algorithm = 0;
          return cudnn::Convolve(test::StandIn(), plain);
        },
        0, kWorkspace);
  }
  ~Program() {
    EXPECT_EQ(interposer.sessions().Destroy(handle_), CUDNN_STATUS_SUCCESS);
    for (const CUdeviceptr buffer : buffers_) EXPECT_EQ(cuMemFree(buffer), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(workspace_), CUDA_SUCCESS);
  }

  // Stores a time of `algorithm` for `images` images, whose results were never compared.
  void Store(int algorithm, int images, double time_ms) {
    StoreRow(
        {{"legacy:" + std::to_string(algorithm), images, time_ms, Need(algorithm, images), true},
         5,
         false});
  }
  size_t Need(int algorithm, int images) {
    cudnn::OwnedDescriptors descriptors(functions);
    EXPECT_TRUE(descriptors.Create(test::WithBatch(Problem(operation_), images)).ok());
    size_t bytes = 0;
    EXPECT_EQ(
        cudnn::WorkspaceBytes(functions, operation_, handle_, descriptors.get(), algorithm, &bytes),
        CUDNN_STATUS_SUCCESS);
    return bytes;
  }

  void StoreRow(const planning::Measurement& row) {
    test::StoreRows(store, functions, Problem(operation_), {row}, {row.micro.micro_batch});
  }
  // Stores a short time for algorithm 1 in pairs of images, and a long time for algorithm 0.
  void StorePairs() {
    StoreRow({{"legacy:1", 2, 1, Need(1, 2), true}, 5, true});
    StoreRow({{"legacy:0", kImages, 100, 0, true}, 5, true});
  }
  std::vector<planning::Measurement> Stored() {
    return store.Read(Problem(operation_), test::PlatformOf(functions))->rows;
  }

  // WorkspaceOf, Found and Gotten return what the interposer answers to a program's questions about
  // its convolution.
  size_t WorkspaceOf(int algorithm) {
    size_t bytes = 0;
    EXPECT_EQ(
        interposer.legacy().WorkspaceSize(operation_, handle_, descriptors(), algorithm, &bytes),
        CUDNN_STATUS_SUCCESS);
    return bytes;
  }
  auto Found(std::optional<size_t> most_bytes = std::nullopt) {
    return interposer.legacy().FindAlgorithms(operation_, handle_, descriptors(), most_bytes);
  }
  auto Gotten() { return interposer.legacy().GetAlgorithms(operation_, handle_, descriptors()); }

  // Runs a call through the interposer and expects the undivided result.
  void ExpectRight(int algorithm = 0, size_t bytes = kWorkspace) {
    TheCalls().clear();
    const Values output = RunWith(
        [&](const cudnn::ConvolutionCall& call) { return interposer.legacy().Convolve(call); },
        algorithm, bytes);
    EXPECT_EQ(output, expected_);
  }
  cudnn::ConvolutionCall Call(int algorithm = 0, size_t bytes = kWorkspace) const {
    static const float kOne = 1, kZero = 0;
    cudnn::ConvolutionCall call;
    call.operation = operation_;
    call.handle = handle_;
    call.descriptors = descriptors_.get();
    call.alpha = &kOne;
    call.beta = &kZero;
    call.x = reinterpret_cast<void*>(buffers_[0]);
    call.w = reinterpret_cast<void*>(buffers_[1]);
    call.y = reinterpret_cast<void*>(buffers_[2]);
    call.algorithm = algorithm;
    call.workspace = bytes > 0 ? reinterpret_cast<void*>(workspace_) : nullptr;
    call.workspace_bytes = bytes;
    return call;
  }
  // Lets `change` modify a call, makes the call through the interposer and returns its output.
  // Before the call the output holds Before().
  Values Output(const std::function<void(cudnn::ConvolutionCall&)>& change) {
    return RunWith(
        [&](cudnn::ConvolutionCall call) {
          change(call);
          return interposer.legacy().Convolve(call);
        },
        0, kWorkspace);
  }
  const Values& Before() const { return contents_[Written()]; }
  const Values& Expected() const { return expected_; }
  // Returns the output after `exec`, a captured call, ran on `stream`. Before that the output holds
  // Before().
  Values Launched(CUgraphExec exec, CUstream stream) {
    return RunWith(
        [&](const cudnn::ConvolutionCall&) {
          return cuGraphLaunch(exec, stream) == CUDA_SUCCESS ? CUDNN_STATUS_SUCCESS
                                                             : CUDNN_STATUS_EXECUTION_FAILED;
        },
        0, 0);
  }
  // Returns the calls of TheCalls() that wrote into the caller's output.
  std::vector<Seen> OnCallersData() {
    const auto begin = reinterpret_cast<const char*>(buffers_[Written()]);
    std::vector<Seen> seen;
    for (const Seen& call : TheCalls()) {
      const auto* const y = static_cast<const char*>(call.y);
      if (y >= begin && y < begin + contents_[Written()].size() * sizeof(float)) {
        seen.push_back(call);
      }
    }
    return seen;
  }
  nlohmann::json ReportJson() { return nlohmann::json::parse(interposer.reporter().Text()); }
  std::string Fallbacks() { return ReportJson()["fallbacks"].dump(); }
  cudnnHandle_t handle() const { return handle_; }
  const cudnn::Descriptors& descriptors() const { return descriptors_.get(); }

  static constexpr size_t kWorkspace = 1 << 20;
  test::FailingStore store;
  const cudnn::Functions functions;

 private:
  int Written() const {
    if (operation_ == Operation::kForward) return 2;
    return operation_ == Operation::kBackwardData ? 0 : 1;
  }
  Values RunWith(const std::function<cudnnStatus_t(const cudnn::ConvolutionCall&)>& run,
                 int algorithm, size_t bytes) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(cuMemcpyHtoD(buffers_[i], contents_[i].data(), contents_[i].size() * sizeof(float)),
                CUDA_SUCCESS);
    }
    EXPECT_EQ(run(Call(algorithm, bytes)), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    Values output(contents_[Written()].size());
    EXPECT_EQ(cuMemcpyDtoH(output.data(), buffers_[Written()], output.size() * sizeof(float)),
              CUDA_SUCCESS);
    return output;
  }

  const Operation operation_;
  const Options options_;

 public:
  Interposer interposer{options_, functions, cuda::GetDriver(), &store};

 private:
  cudnn::OwnedDescriptors descriptors_{functions};
  cudnnHandle_t handle_ = nullptr;
  Values contents_[3], expected_;
  CUdeviceptr buffers_[3] = {}, workspace_ = 0;
};

}  // namespace ucudnn::interposer
