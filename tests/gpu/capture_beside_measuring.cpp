// In this program one thread captures convolutions in global mode, as PyTorch does, again and
// again. Another thread calls cudnnFind...Ex, which measures under ucudnn. A convolution runs once
// before it is captured, and its graph is replayed. The program prints how many captures succeeded,
// how many convolutions were found meanwhile, and whether all replays equal the first run. The exit
// code is 1 if a replay differs, no convolution was found, or a call fails.
//
// With `global` the other thread calls cudnnFind...Ex in global capture mode, which is the default
// of every thread. Otherwise it calls cudnnFind...Ex in relaxed mode. In global mode a thread's
// unsafe calls (such as cudaMalloc) break the captures of other threads, unless the calling code
// changes the mode. ucudnn changes the mode when it measures; cuDNN does not.
//
//   capture_beside_measuring [BATCH [global]]
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "convolution.h"

namespace {

using namespace ucudnn::gpu_tests;  // NOLINT: a short program

constexpr size_t kWorkspace = size_t{64} << 20;
constexpr int kFewestCaptures = 5;

void SetCaptureMode(cudaStreamCaptureMode mode) {
  Check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
}

// Finds convolutions that were not measured before. The capture mode is `finding` while cuDNN
// searches. The thread's own allocations and frees are made in relaxed mode, so that they break no
// capture.
void FindMany(int batch, cudaStreamCaptureMode finding, std::atomic<int>& found) {
  SetCaptureMode(cudaStreamCaptureModeRelaxed);
  cudnnHandle_t handle;
  cudaStream_t stream;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  Check(cudnnCreate(&handle), "cudnnCreate");
  Check(cudnnSetStream(handle, stream), "cudnnSetStream");
  void* workspace = nullptr;
  Check(cudaMalloc(&workspace, kWorkspace), "cudaMalloc");
  for (const int channels : {16, 24, 32, 40}) {
    const Shape shape{"", batch, channels, 14, 32, 3, 1, 1, 1};
    Convolution convolution(handle, shape, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                            Operation::kForward);
    SetCaptureMode(finding);
    if (convolution.Find(workspace, kWorkspace)) ++found;
    SetCaptureMode(cudaStreamCaptureModeRelaxed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int batch = argc > 1 ? std::atoi(argv[1]) : 128;
  if (batch < 2) {
    std::fprintf(stderr, "usage: capture_beside_measuring [BATCH [global]], BATCH at least 2\n");
    return 2;
  }
  cudnnHandle_t handle;
  cudaStream_t stream;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  Check(cudnnCreate(&handle), "cudnnCreate");
  void* workspace = nullptr;
  Check(cudaMalloc(&workspace, kWorkspace), "cudaMalloc");
  const Shape shape{"", batch, 32, 14, 64, 3, 1, 1, 1};
  Convolution convolution(handle, shape, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, Operation::kForward);
  if (!convolution.Find(workspace, kWorkspace)) return 1;
  Check(cudnnSetStream(handle, stream), "cudnnSetStream");
  convolution.Run(workspace, 0);
  Check(cudaStreamSynchronize(stream), "the eager run");
  const std::vector<float> expected = convolution.output().Values();

  std::atomic<int> found = 0;
  std::atomic<bool> done = false;
  const bool global = argc > 2 && std::strcmp(argv[2], "global") == 0;
  std::thread finder([&] {
    FindMany(batch, global ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeRelaxed, found);
    done = true;
  });
  int captures = 0;
  bool equal = true;
  while (!done || captures < kFewestCaptures) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    convolution.Run(workspace, 0);
    Check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    Check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
    convolution.output().FillWithNan();
    Check(cudaStreamSynchronize(nullptr), "filling the output");
    Check(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
    Check(cudaStreamSynchronize(stream), "a replay");
    equal = equal && convolution.output().Values() == expected;
    Check(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
    Check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    ++captures;
  }
  finder.join();
  std::printf("%d captures, %d found, %s\n", captures, found.load(), equal ? "equal" : "DIFFERENT");
  return equal && found > 0 ? 0 : 1;
}
