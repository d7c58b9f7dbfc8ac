// Provides a kernel, the stand-in as the device, and a store, for tests of MeasuredKernels.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shim/host/hostgpu.h"
#include "tests/support/device.h"
#include "tests/support/memory_store.h"
#include "tests/support/must.h"
#include "tests/support/problem.h"
#include "tests/support/stand_in.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::tuning {

using test::FreeBytes;
using test::MemoryStore;
using test::Must;
using Rows = std::vector<MicroConfiguration>;

// The folder for locks does not exist, so other programs that measure do not wait for this one.
constexpr char kNoFolder[] = "/nonexistent";

using test::StandIn;

inline ConvolutionProblem Problem(int n = 8) {
  return test::ProblemWith({.n = n, .c = 16, .k = 16, .x = {1, 12, 12}, .alignment = 16});
}

inline std::set<EngineId> EnginesAt(const Rows& rows, int size) {
  std::set<EngineId> engines;
  for (const MicroConfiguration& row : rows) {
    if (row.micro_batch == size) engines.insert(row.engine);
  }
  return engines;
}

// Returns the row of algorithm 0 for `size` images. REQUIRES: `rows` has it.
inline MicroConfiguration RowOf(const Rows& rows, int size) {
  return *std::find_if(rows.begin(), rows.end(), [&](const MicroConfiguration& row) {
    return row.micro_batch == size && row.engine == "legacy:0";
  });
}

inline std::set<int> SizesOf(const Rows& rows) {
  std::set<int> sizes;
  for (const MicroConfiguration& row : rows) sizes.insert(row.micro_batch);
  return sizes;
}

inline Question Asking(const ConvolutionProblem& problem, bool may_measure,
                       BatchSizePolicy policy = BatchSizePolicy::kPowerOfTwo) {
  return {problem, policy, planning::RequestFor(problem, std::numeric_limits<size_t>::max(), false),
          may_measure};
}

// Is called before each forward convolution of ObservedStandIn. If it returns an error, the
// convolution returns this error and does not run. The process has one such function.
using BeforeConvolution = cudnnStatus_t (*)(cudnnConvolutionDescriptor_t convolution);
inline BeforeConvolution before_convolution = nullptr;
inline cudnn::Functions ObservedStandIn(BeforeConvolution before) {
  before_convolution = before;
  cudnn::Functions functions = StandIn();
  functions.cudnnConvolutionForward =
      [](cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc, const void* x,
         cudnnFilterDescriptor_t w_desc, const void* w, cudnnConvolutionDescriptor_t convolution,
         cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes, const void* beta,
         cudnnTensorDescriptor_t y_desc, void* y) {
        const cudnnStatus_t status = before_convolution(convolution);
        if (status != CUDNN_STATUS_SUCCESS) return status;
        return ::cudnnConvolutionForward(handle, alpha, x_desc, x, w_desc, w, convolution,
                                         algorithm, workspace, bytes, beta, y_desc, y);
      };
  return functions;
}

class MeasuredKernelsTest : public ::testing::Test {
 protected:
  MeasuredKernelsTest() {
    const CUcontext context = test::MakeContextCurrent();
    device_ = {cuda::GetDriver(), &functions_, context,
               Must(DescribePlatform(*cuda::GetDriver(), functions_))};
  }
  ~MeasuredKernelsTest() override {
    for (const char* site : {"alloc", "stream", "event", "handle", "query", "convolution"}) {
      hostgpuInjectFault(site, 0);
    }
  }

  Result<Rows> Get(MeasuredKernels& kernels, const ConvolutionProblem& problem = Problem(),
                   bool may_measure = true) const {
    MeasuredRows answer = kernels.Get(device_, Asking(problem, may_measure));
    if (!answer.status.ok()) return answer.status;
    return std::move(answer.rows);
  }
  // Compares two pieces of four images by algorithm 0 with the undivided algorithm 0. REQUIRES:
  // `rows` has algorithm 0 for 4 and for 8 images.
  planning::Trust::Kind VerifyHalves(MeasuredKernels& kernels, const Rows& rows,
                                     planning::Proof proof,
                                     const ConvolutionProblem& problem = Problem()) const {
    const Configuration halves = {{{RowOf(rows, 4), 2}}};
    return kernels.Verify(device_, problem, {halves, RowOf(rows, 8), proof}).kind;
  }
  // Stores a row of algorithm 0 for all 8 images.
  void StoreRow(MemoryStore& store, double time_ms, const std::vector<int>& complete_sizes) const {
    const planning::Measurement row = {{"legacy:0", 8, time_ms, 0, true}, 5, false};
    ASSERT_TRUE(store.Write(Problem(), device_.platform, {row}, complete_sizes).ok());
  }

  const cudnn::Functions functions_ = StandIn();
  Device device_;
  MemoryStore store_;
};

}  // namespace ucudnn::tuning
