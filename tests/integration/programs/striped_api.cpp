// A program that speaks to ucudnn itself, linked with libucudnn: each process asks which part of an
// image it holds, convolves its stripe, evaluates an image of its own on rank 0 alone, and
// convolves a small picture that every process has whole. Exits 1 where a result differs from plain
// loops.
#include <cuda_runtime.h>
#include <ucudnn/ucudnn.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check_calls.h"

namespace {

constexpr int kWidth = 6, kRows = 4;  // of each process's stripe
constexpr float kOne = 1, kZero = 0;
const float kFilter[9] = {1, 2, 3, -1, 0, 1, 2, -2, 1};

cudnnHandle_t handle;

float Pixel(int row, int column) { return static_cast<float>((row * 5 + column * 3) % 7 - 3); }

// What a 3x3 filter makes of rows 0 to `height` of the picture, at one place.
float Expected(int height, int row, int column) {
  float sum = 0;
  for (int i = 0; i < 9; ++i) {
    const int r = row + i / 3 - 1, c = column + i % 3 - 1;
    if (r >= 0 && r < height && c >= 0 && c < kWidth) sum += kFilter[i] * Pixel(r, c);
  }
  return sum;
}

// Convolves `rows` rows that begin at row `first` of a picture of `height`. Returns whether each is
// what plain loops give.
bool Convolve(int first, int rows, int height) {
  const size_t count = static_cast<size_t>(rows * kWidth);
  std::vector<float> host(count);
  for (size_t i = 0; i < count; ++i) {
    host[i] = Pixel(first + static_cast<int>(i) / kWidth, static_cast<int>(i) % kWidth);
  }
  float *x = nullptr, *y = nullptr, *w = nullptr;
  CHECK_CUDA(cudaMalloc(&x, count * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&y, count * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&w, sizeof kFilter));
  CHECK_CUDA(cudaMemcpy(x, host.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy(w, kFilter, sizeof kFilter, cudaMemcpyHostToDevice));
  cudnnTensorDescriptor_t image;
  cudnnFilterDescriptor_t filter;
  cudnnConvolutionDescriptor_t convolution;
  CHECK_CUDNN(cudnnCreateTensorDescriptor(&image));
  CHECK_CUDNN(
      cudnnSetTensor4dDescriptor(image, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, rows, kWidth));
  CHECK_CUDNN(cudnnCreateFilterDescriptor(&filter));
  CHECK_CUDNN(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, 1, 3, 3));
  CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&convolution));
  CHECK_CUDNN(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1,
                                              CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  CHECK_CUDNN(ucudnnConvolutionForward(handle, &kOne, image, x, filter, w, convolution,
                                       CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &kZero,
                                       image, y));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaMemcpy(host.data(), y, count * sizeof(float), cudaMemcpyDeviceToHost));
  bool same = true;
  for (size_t i = 0; i < count; ++i) {
    const int row = static_cast<int>(i) / kWidth, column = static_cast<int>(i) % kWidth;
    same = same && host[i] == Expected(height, first + row, column);
  }
  CHECK_CUDNN(cudnnDestroyConvolutionDescriptor(convolution));
  CHECK_CUDNN(cudnnDestroyFilterDescriptor(filter));
  CHECK_CUDNN(cudnnDestroyTensorDescriptor(image));
  for (float* memory : {x, y, w}) CHECK_CUDA(cudaFree(memory));
  return same;
}

bool Report(const char* what, int rank, bool same) {
  std::printf("rank %d: %s %s\n", rank, what, same ? "exact" : "WRONG");
  return same;
}

}  // namespace

int main() {
  ucudnnSpatialCell_t cell = {};
  cell.struct_size = sizeof cell;
  if (ucudnnSpatialGetCell(&cell) != CUDNN_STATUS_SUCCESS) {
    std::printf("%s\n", ucudnnGetLastError());
    cell.ranks = cell.h_parts = 1;
  }
  CHECK_CUDNN(ucudnnCreate(&handle));
  const int height = kRows * cell.h_parts, first = kRows * cell.h;
  bool same = Report("a stripe is", cell.rank, Convolve(first, kRows, height));
  CHECK_CUDNN(ucudnnSpatialEnable(0));
  if (cell.rank == 0) {
    // A whole picture of its own, of which the others know nothing.
    for (int i = 0; i < 3; ++i) {
      same = Report("an evaluation is", cell.rank, Convolve(0, 9, 9)) && same;
    }
  }
  CHECK_CUDNN(ucudnnSpatialEnable(1));
  CHECK_CUDNN(ucudnnSpatialDeclareReplicated(1));
  same = Report("a whole picture is", cell.rank, Convolve(0, 5, 5)) && same;
  CHECK_CUDNN(ucudnnSpatialDeclareReplicated(0));
  same = Report("a stripe again is", cell.rank, Convolve(first, kRows, height)) && same;
  CHECK_CUDNN(ucudnnDestroy(handle));
  return same ? 0 : 1;
}
