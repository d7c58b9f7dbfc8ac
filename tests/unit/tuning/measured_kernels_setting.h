// A kernel, the stand-in as the device, and a store, for tests of MeasuredKernels.
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
#include "tests/support/problem.h"
#include "tests/support/stand_in.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::tuning {

using test::FreeBytes;
using test::MemoryStore;
using Rows = std::vector<MicroConfiguration>;

// Without this folder, other programs that measure do not wait for this one.
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

// The row of algorithm 0 for `size` images. REQUIRES: `rows` has it.
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

class MeasuredKernelsTest : public ::testing::Test {
 protected:
  MeasuredKernelsTest() {
    const CUcontext context = test::MakeContextCurrent();
    const auto platform = DescribePlatform(*cuda::GetDriver(), functions_);
    EXPECT_TRUE(platform.ok()) << platform.message();
    device_ = {cuda::GetDriver(), &functions_, context, *platform};
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

  const cudnn::Functions functions_ = StandIn();
  Device device_;
  MemoryStore store_;
};

}  // namespace ucudnn::tuning
