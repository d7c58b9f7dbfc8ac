// The null library with a graph API that records executions, fails on demand, and can report one
// engine as nondeterministic. Each thread has its own GraphRecording.
#pragma once

#include <cstdint>
#include <vector>

#include "cudnn/functions.h"

namespace ucudnn::test {

// The unique identifiers of the operands in the null library's graphs.
constexpr int64_t kX = 120, kW = 119, kY = 121, kResidual = 122, kBias = 98;

struct RecordedExecution {
  int64_t engine = 0, images = 0;
  const void *x = nullptr, *w = nullptr, *y = nullptr, *residual = nullptr, *bias = nullptr;
  const void* workspace = nullptr;
  bool adds = false;            // beta = 1
  cudaGraph_t graph = nullptr;  // the graph in which the execution was added or updated

  bool operator==(const RecordedExecution&) const = default;
};

struct GraphRecording {
  std::vector<RecordedExecution> calls;
  int fail_at = -1;           // index of the call that fails
  int nondeterministic = -1;  // an engine whose notes say that it is nondeterministic
};
GraphRecording& Executions();

cudnn::Functions RecordingGraphs();

}  // namespace ucudnn::test
