// An interposer over a recording cuDNN and the stand-in driver. Its store says that algorithm 0,
// which the tests name, is slow, and that algorithm 1 is fast in pieces.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include "cudnn/descriptors.h"
#include "interposer/interposer.h"
#include "tests/support/device.h"
#include "tests/support/memory_store.h"
#include "tests/support/problem.h"
#include "tests/support/recording_cudnn.h"
#include "tuning/measure.h"

namespace ucudnn::test {

struct PlannedSetting {
  static constexpr int kImages = 16;
  static constexpr size_t kPieceBytes = 4096;

  explicit PlannedSetting(cudnn::Functions table, int pieces, Options with = {})
      : functions(table), options(WithPrimedSizes(with)) {
    ThisRecording() = {};
    MakeContextCurrent();
    const auto platform = tuning::DescribePlatform(*cuda::GetDriver(), functions);
    EXPECT_TRUE(platform.ok()) << platform.message();
    EXPECT_TRUE(store
                    .Write(Problem(), *platform,
                           {{{"legacy:0", kImages, 100, 0, true}, 5, true},
                            {{"legacy:1", kImages / pieces, 1, kPieceBytes, true}, 5, true}},
                           {kImages / pieces, kImages})
                    .ok());
    EXPECT_EQ(interposer.sessions().Create(&handle), CUDNN_STATUS_SUCCESS);
    EXPECT_TRUE(descriptors.Create(Problem()).ok());
  }
  ~PlannedSetting() { interposer.sessions().Destroy(handle); }

  static ConvolutionProblem Problem() {
    return ProblemWith({.n = kImages, .alignment = cudnn::kLegacyAlignment});
  }
  static Options WithPrimedSizes(Options options) {
    // Policy auto would ask for other sizes.
    if (options.policy == BatchSizePolicy::kAuto) options.policy = BatchSizePolicy::kPowerOfTwo;
    return options;
  }
  static Options NotMeasuring() {
    Options options;
    options.tuning.on = false;
    return options;
  }

  cudnn::ConvolutionCall Call(size_t workspace_bytes = kPieceBytes) const {
    static const float one = 1, zero = 0;
    cudnn::ConvolutionCall call;
    call.handle = handle;
    call.descriptors = descriptors.get();
    call.alpha = &one;
    call.beta = &zero;
    call.x = reinterpret_cast<void*>(0x10000000);
    call.w = reinterpret_cast<void*>(0x20000000);
    call.y = reinterpret_cast<void*>(0x30000000);
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
