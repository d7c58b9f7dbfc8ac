// Shared parts of the programs and settings in this folder's tests: rows that they store, the
// budget of their device, and streams on which their handles' calls are captured.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "interposer/interposer.h"
#include "tests/support/must.h"
#include "tuning/measure.h"

namespace ucudnn::test {

// Returns the platform that consists of the current device and the cuDNN of `functions`.
inline planning::Platform PlatformOf(const cudnn::Functions& functions) {
  return Must(tuning::DescribePlatform(*cuda::GetDriver(), functions));
}

// Stores `rows` as measured on the current device.
inline void StoreRows(planning::MeasurementStore& store, const cudnn::Functions& functions,
                      const ConvolutionProblem& problem,
                      const std::vector<planning::Measurement>& rows,
                      const std::vector<int>& complete_sizes = {}) {
  const Status status = store.Write(problem, PlatformOf(functions), rows, complete_sizes);
  ASSERT_TRUE(status.ok()) << status.message();
}

// Returns the budget of the current device.
inline interposer::WorkspaceBudget& BudgetOf(interposer::Interposer& interposer) {
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  const cudnn::Functions& functions = interposer.functions();
  return *interposer.budgets().Of({cuda::GetDriver(), &functions, context, PlatformOf(functions)});
}

// A stream that only `handle` uses, and the graphs that are captured on it.
class HandleStream {
 public:
  HandleStream(interposer::Interposer& interposer, cudnnHandle_t handle)
      : sessions_(interposer.sessions()), handle_(handle) {
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(sessions_.SetStream(handle_, stream_), CUDNN_STATUS_SUCCESS);
  }
  ~HandleStream() {
    DestroyGraphs();
    EXPECT_EQ(sessions_.SetStream(handle_, nullptr), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
  }
  HandleStream(const HandleStream&) = delete;
  HandleStream& operator=(const HandleStream&) = delete;

  CUstream get() const { return stream_; }
  // Captures what `work` enqueues. This object owns the graph.
  CUgraph Capture(const std::function<void()>& work,
                  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    EXPECT_EQ(cuStreamBeginCapture(stream_, mode), CUDA_SUCCESS);
    work();
    EXPECT_EQ(cuStreamEndCapture(stream_, &graphs_.emplace_back()), CUDA_SUCCESS);
    return graphs_.back();
  }
  void DestroyGraphs() {
    for (const CUgraph graph : graphs_) EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    graphs_.clear();
  }

 private:
  interposer::Sessions& sessions_;
  const cudnnHandle_t handle_;
  CUstream stream_ = nullptr;
  std::vector<CUgraph> graphs_;
};

inline size_t NodesOf(CUgraph graph) {
  size_t nodes = 0;
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
  return nodes;
}

}  // namespace ucudnn::test
