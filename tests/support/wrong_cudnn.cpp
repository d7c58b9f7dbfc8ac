#include "tests/support/wrong_cudnn.h"

#include <gtest/gtest.h>

#include <thread>

#include "shim/host/hostgpu.h"
#include "tests/support/stand_in.h"

namespace ucudnn::test {
namespace {

struct Images {
  int count;
  size_t bytes_each;  // for fp32
};

Images ImagesOf(cudnnTensorDescriptor_t descriptor) {
  cudnnDataType_t type;
  int rank, extents[8], strides[8];
  EXPECT_EQ(cudnnGetTensorNdDescriptor(descriptor, 8, &type, &rank, extents, strides),
            CUDNN_STATUS_SUCCESS);
  return {extents[0], static_cast<size_t>(strides[0]) * sizeof(float)};
}

bool IsWrong(Wrong::How how, int algorithm, int images) {
  const Wrong& wrong = TheWrong();
  return wrong.how == how && algorithm == wrong.algorithm && images < wrong.whole;
}

cudnnStatus_t NotedForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                           const void* x, cudnnFilterDescriptor_t w_desc, const void* w,
                           cudnnConvolutionDescriptor_t convolution,
                           cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes,
                           const void* beta, cudnnTensorDescriptor_t y_desc, void* y) {
  std::this_thread::sleep_for(TheWrong().forward_takes);
  int& failing = TheWrong().failing_forward;
  if (failing >= 0 && failing-- == 0) return CUDNN_STATUS_EXECUTION_FAILED;
  const Images images = ImagesOf(x_desc);
  TheCalls().push_back({algorithm, images.count, y, workspace});
  // Image i is read from the address of image i + 1, if the allocation contains one more image.
  const bool shifted = IsWrong(Wrong::How::kOffByOneImage, algorithm, images.count) &&
                       hostgpuBytesFrom(x) >= images.bytes_each * (images.count + 1);
  const void* const from = static_cast<const char*>(x) + (shifted ? images.bytes_each : 0);
  return cudnnConvolutionForward(handle, alpha, x_desc, from, w_desc, w, convolution, algorithm,
                                 workspace, bytes, beta, y_desc, y);
}

cudnnStatus_t NotedBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                  cudnnTensorDescriptor_t x_desc, const void* x,
                                  cudnnTensorDescriptor_t y_desc, const void* y,
                                  cudnnConvolutionDescriptor_t convolution,
                                  cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                  size_t bytes, const void* beta, cudnnFilterDescriptor_t w_desc,
                                  void* w) {
  static const float kZero = 0;
  const int images = ImagesOf(x_desc).count;
  TheCalls().push_back({algorithm, images, w, workspace});
  if (IsWrong(Wrong::How::kIgnoresBeta, algorithm, images)) beta = &kZero;
  return cudnnConvolutionBackwardFilter(handle, alpha, x_desc, x, y_desc, y, convolution, algorithm,
                                        workspace, bytes, beta, w_desc, w);
}

}  // namespace

Wrong& TheWrong() {
  static Wrong wrong;
  return wrong;
}

std::vector<Seen>& TheCalls() {
  static std::vector<Seen> calls;
  return calls;
}

cudnn::Functions WrongStandIn() {
  cudnn::Functions functions = StandIn();
  functions.cudnnConvolutionForward = NotedForward;
  functions.cudnnConvolutionBackwardFilter = NotedBackwardFilter;
  return functions;
}

}  // namespace ucudnn::test
