// A program with one convolution of whole numbers, on the stand-in's real arithmetic, of which the
// pieces of one algorithm can be made wrong, and the interposer it meets, over a store that fails
// on demand.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "compared_problem.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "interposer/interposer.h"
#include "memory_store.h"
#include "shim/host/hostgpu.h"
#include "tests/unit/cudnn/standin.h"
#include "tuning/measure.h"

namespace ucudnn::interposer {

using Values = std::vector<float>;

constexpr int kImages = 8;

// What is wrong with the pieces (calls of fewer than kImages images) of one algorithm.
struct Wrong {
  int algorithm = -1;  // none
  enum class How { kOffByOneImage, kIgnoresBeta } how = How::kOffByOneImage;
};

inline Wrong& TheWrong() {
  static Wrong wrong;
  return wrong;
}

struct Seen {
  int algorithm, images;
  const void* y;
  const void* workspace;
};
inline std::vector<Seen>& TheCalls() {
  static std::vector<Seen> calls;
  return calls;
}

inline int ImagesOf(cudnnTensorDescriptor_t descriptor) {
  cudnnDataType_t type;
  int rank, extents[8], strides[8];
  EXPECT_EQ(cudnnGetTensorNdDescriptor(descriptor, 8, &type, &rank, extents, strides),
            CUDNN_STATUS_SUCCESS);
  return extents[0];
}

inline ConvolutionProblem Problem(Operation operation) {
  ConvolutionProblem problem;
  problem.operation = operation;
  problem.n = kImages;
  problem.c = 4;
  problem.k = 8;
  problem.x = {1, 8, 8};
  problem.w = {1, 3, 3};
  problem.pad = {0, 1, 1};
  problem.alignment = cudnn::kLegacyAlignment;
  SetPackedStrides(problem);
  return problem;
}

inline cudnnStatus_t Forward(cudnnHandle_t handle, const void* alpha,
                             cudnnTensorDescriptor_t x_desc, const void* x,
                             cudnnFilterDescriptor_t w_desc, const void* w,
                             cudnnConvolutionDescriptor_t convolution,
                             cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes,
                             const void* beta, cudnnTensorDescriptor_t y_desc, void* y) {
  const int images = ImagesOf(x_desc);
  TheCalls().push_back({algorithm, images, y, workspace});
  const Wrong& wrong = TheWrong();
  const bool off =
      wrong.how == Wrong::How::kOffByOneImage && algorithm == wrong.algorithm && images < kImages;
  // Every image from the next one's data, as far as there are any.
  const size_t image = size_t{4} * 8 * 8 * sizeof(float);
  const bool shifted = off && hostgpuBytesFrom(x) >= image * (images + 1);
  const void* const from = static_cast<const char*>(x) + (shifted ? image : 0);
  return cudnnConvolutionForward(handle, alpha, x_desc, from, w_desc, w, convolution, algorithm,
                                 workspace, bytes, beta, y_desc, y);
}

inline cudnnStatus_t BackwardFilter(cudnnHandle_t handle, const void* alpha,
                                    cudnnTensorDescriptor_t x_desc, const void* x,
                                    cudnnTensorDescriptor_t y_desc, const void* y,
                                    cudnnConvolutionDescriptor_t convolution,
                                    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                    size_t bytes, const void* beta, cudnnFilterDescriptor_t w_desc,
                                    void* w) {
  static const float kZero = 0;
  const int images = ImagesOf(x_desc);
  TheCalls().push_back({algorithm, images, w, workspace});
  const Wrong& wrong = TheWrong();
  if (wrong.how == Wrong::How::kIgnoresBeta && algorithm == wrong.algorithm && images < kImages) {
    beta = &kZero;
  }
  return cudnnConvolutionBackwardFilter(handle, alpha, x_desc, x, y_desc, y, convolution, algorithm,
                                        workspace, bytes, beta, w_desc, w);
}

inline cudnn::Functions WrongStandIn() {
  cudnn::Functions functions = cudnn::test::StandIn();
  functions.cudnnConvolutionForward = Forward;
  functions.cudnnConvolutionBackwardFilter = BackwardFilter;
  return functions;
}

// Fails at one operation.
class FailingStore : public test::MemoryStore {
 public:
  Result<planning::KernelMeasurements> Read(const ConvolutionProblem& problem,
                                            const planning::Platform& platform) override {
    if (Fails()) return Status::Error("the disk is gone");
    return MemoryStore::Read(problem, platform);
  }
  Status Write(const ConvolutionProblem& problem, const planning::Platform& platform,
               const std::vector<planning::Measurement>& rows,
               const std::vector<int>& complete_sizes) override {
    if (Fails()) return Status::Error("the disk is full");
    return MemoryStore::Write(problem, platform, rows, complete_sizes);
  }
  Status MarkVerified(const ConvolutionProblem& problem, const planning::Platform& platform,
                      const std::vector<MicroConfiguration>& rows) override {
    if (Fails()) return Status::Error("the disk is full");
    return MemoryStore::MarkVerified(problem, platform, rows);
  }

  long operations = 0, failing = 0;

 private:
  bool Fails() { return ++operations == failing; }
};

// A program with one convolution of whole numbers, and the interposer it meets.
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
          return cudnn::Convolve(cudnn::test::StandIn(), plain);
        },
        0, kWorkspace);
  }
  ~Program() {
    EXPECT_EQ(interposer.sessions().Destroy(handle_), CUDNN_STATUS_SUCCESS);
    for (const CUdeviceptr buffer : buffers_) EXPECT_EQ(cuMemFree(buffer), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(workspace_), CUDA_SUCCESS);
  }

  // What the store says of `algorithm` at `images`.
  void Store(int algorithm, int images, double time_ms) {
    StoreRow(
        {{"legacy:" + std::to_string(algorithm), images, time_ms, Need(algorithm, images), true},
         5,
         false});
  }
  size_t Need(int algorithm, int images) {
    ConvolutionProblem part = Problem(operation_);
    part.n = images;
    cudnn::OwnedDescriptors descriptors(functions);
    EXPECT_TRUE(descriptors.Create(part).ok());
    size_t bytes = 0;
    EXPECT_EQ(
        cudnn::WorkspaceBytes(functions, operation_, handle_, descriptors.get(), algorithm, &bytes),
        CUDNN_STATUS_SUCCESS);
    return bytes;
  }

  void StoreRow(const planning::Measurement& row) {
    const auto platform = tuning::DescribePlatform(*cuda::GetDriver(), functions);
    ASSERT_TRUE(platform.ok());
    ASSERT_TRUE(store.Write(Problem(operation_), *platform, {row}, {row.micro.micro_batch}).ok());
  }
  std::vector<planning::Measurement> Stored() {
    const auto platform = tuning::DescribePlatform(*cuda::GetDriver(), functions);
    return store.Read(Problem(operation_), *platform)->rows;
  }

  // Runs through the interposer, and expects the undivided result.
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
  // What a call through the interposer makes of Before(), which the output holds until then.
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
  // What a captured call makes of Before() on `stream`.
  Values Launched(CUgraphExec exec, CUstream stream) {
    return RunWith(
        [&](const cudnn::ConvolutionCall&) {
          return cuGraphLaunch(exec, stream) == CUDA_SUCCESS ? CUDNN_STATUS_SUCCESS
                                                             : CUDNN_STATUS_EXECUTION_FAILED;
        },
        0, 0);
  }
  // Calls that wrote the caller's own output.
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
  nlohmann::json ReportJson() { return nlohmann::json::parse(interposer.process().ReportText()); }
  std::string Fallbacks() { return ReportJson()["fallbacks"].dump(); }
  cudnnHandle_t handle() const { return handle_; }
  const cudnn::Descriptors& descriptors() const { return descriptors_.get(); }

  static constexpr size_t kWorkspace = 1 << 20;
  FailingStore store;
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

inline Options Planned() {
  Options options;
  options.policy = BatchSizePolicy::kPowerOfTwo;
  options.tuning.on = false;
  options.lock_folder = "/dev/null";  // no file: other tests measure on the same device
  return options;
}

}  // namespace ucudnn::interposer
