// An interposer over a recording cuDNN and the stand-in driver. Its store says that algorithm 0 is
// slow and that algorithm 1 is fast in pieces. Call() names algorithm 0.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "cudnn/descriptors.h"
#include "interposer/interposer.h"
#include "program_parts.h"
#include "tests/support/device.h"
#include "tests/support/memory_store.h"
#include "tests/support/problem.h"
#include "tests/support/recording_cudnn.h"

namespace ucudnn::test {

// Returns a call on addresses that are never read or written.
inline cudnn::ConvolutionCall CallOf(cudnnHandle_t handle, const cudnn::Descriptors& descriptors) {
  static const float one = 1, zero = 0;
  cudnn::ConvolutionCall call;
  call.handle = handle;
  call.descriptors = descriptors;
  call.alpha = &one;
  call.beta = &zero;
  call.x = reinterpret_cast<void*>(0x10000000);
  call.w = reinterpret_cast<void*>(0x20000000);
  call.y = reinterpret_cast<void*>(0x30000000);
  return call;
}

struct PlannedSetting {
  static constexpr int kImages = 16;
  static constexpr size_t kPieceBytes = 4096;

  explicit PlannedSetting(cudnn::Functions table, int pieces, Options with = {})
      : functions(table), options(WithPrimedSizes(with)) {
    ThisRecording() = {};
    MakeContextCurrent();
    Measured(Problem(), pieces);
    EXPECT_EQ(interposer.sessions().Create(&handle), CUDNN_STATUS_SUCCESS);
    EXPECT_TRUE(descriptors.Create(Problem()).ok());
  }
  ~PlannedSetting() { interposer.sessions().Destroy(handle); }

  // Stores a long time of algorithm 0 for `problem`, and a short one of algorithm 1 in `pieces`
  // pieces.
  void Measured(const ConvolutionProblem& problem, int pieces) {
    StoreRows(store, functions, problem,
              {{{"legacy:0", kImages, 100, 0, true}, 5, true},
               {{"legacy:1", kImages / pieces, 1, kPieceBytes, true}, 5, true}},
              {kImages / pieces, kImages});
  }
  static ConvolutionProblem Problem() {
    return ProblemWith({.n = kImages, .alignment = cudnn::kLegacyAlignment});
  }
  static Options WithPrimedSizes(Options options) {
    // Policy kAuto would look for sizes that the store does not have.
    if (options.policy == BatchSizePolicy::kAuto) options.policy = BatchSizePolicy::kPowerOfTwo;
    return options;
  }
  static Options NotMeasuring() {
    Options options;
    options.tuning.on = false;
    return options;
  }
  // Returns options with which the process may measure and compare, but has no time to do so: what
  // is not stored stays unknown.
  static Options WithoutTime() {
    Options options;
    options.tuning.kernel_seconds = 0;
    return options;
  }

  nlohmann::json Report() { return nlohmann::json::parse(interposer.report().Json("on", 0)); }
  // Makes `call` through the interposer and returns what the library was called with.
  const std::vector<RecordedCall>& Run(const cudnn::ConvolutionCall& call) {
    ThisRecording() = {};
    EXPECT_EQ(interposer.legacy().Convolve(call), CUDNN_STATUS_SUCCESS);
    return ThisRecording().calls;
  }
  cudnn::ConvolutionCall Call(size_t workspace_bytes = kPieceBytes) const {
    cudnn::ConvolutionCall call = CallOf(handle, descriptors.get());
    call.workspace = reinterpret_cast<void*>(0x40000000);
    call.workspace_bytes = workspace_bytes;
    return call;
  }

  const cudnn::Functions functions;
  const Options options;
  MemoryStore store;
  interposer::Interposer interposer{options, functions, cuda::GetDriver(), &store};
  cudnn::OwnedDescriptors descriptors{functions};
  cudnnHandle_t handle = nullptr;
};

}  // namespace ucudnn::test
