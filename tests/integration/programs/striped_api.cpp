// Calls ucudnn's own functions; linked with libucudnn. Each process asks which part of an image it
// holds, convolves its stripe, asks which rows it needs, and fetches rows next to its stripe. Rank
// 0 also convolves an image that only it has. Then every process convolves, pools and normalises a
// small picture of its own, and a picture that all processes have whole. The program exits with 1
// if a result differs from plain loops, or from an unsplit call.
//
//   striped_api                        this process is a rank, or the only one
//   striped_api handles|devices RANKS  each rank is a thread with its own handle, or its own device
//   striped_api queries                first, only rank 0 asks for algorithms and workspace
#include <cuda_runtime.h>
#include <ucudnn/ucudnn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "check_calls.h"
#include "descriptors.h"
#include "device_numbers.h"

namespace {

using Numbers = DeviceNumbers<float>;

constexpr int kWidth = 6, kRows = 4;  // the extents of a process's stripe
constexpr float kOne = 1, kZero = 0;
const std::vector<float> kFilter = {1, 2, 3, -1, 0, 1, 2, -2, 1};

float Pixel(int row, int column) { return static_cast<float>((row * 5 + column * 3) % 7 - 3); }

// Returns `rows` rows of the picture, from row `first` on.
std::vector<float> Rows(int first, int rows) {
  std::vector<float> pixels;
  for (int i = 0; i < rows * kWidth; ++i) pixels.push_back(Pixel(first + i / kWidth, i % kWidth));
  return pixels;
}

// Returns one element of the convolution of the picture's first `height` rows with kFilter.
float Expected(int height, int row, int column) {
  float sum = 0;
  for (int i = 0; i < 9; ++i) {
    const int r = row + i / 3 - 1, c = column + i % 3 - 1;
    if (r >= 0 && r < height && c >= 0 && c < kWidth) sum += kFilter[i] * Pixel(r, c);
  }
  return sum;
}

// Descriptors of an image with one channel, and of a convolution with a `size` x `size` filter. The
// convolution's result is as large as the image.
struct SameConvolution {
  cudnnTensorDescriptor_t image;
  cudnnFilterDescriptor_t filter;
  cudnnConvolutionDescriptor_t convolution;

  SameConvolution(int rows, int columns, int size)
      : image(MakeTensor(CUDNN_DATA_FLOAT, 1, 1, rows, columns)),
        filter(MakeFilter(CUDNN_DATA_FLOAT, 1, 1, size)),
        convolution(MakeConvolution(CUDNN_DATA_FLOAT, size / 2)) {}
  ~SameConvolution() {
    CHECK_CUDNN(cudnnDestroyConvolutionDescriptor(convolution));
    CHECK_CUDNN(cudnnDestroyFilterDescriptor(filter));
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(image));
  }
  SameConvolution(const SameConvolution&) = delete;
};

// Convolves `rows` rows, from row `first` on, of a picture with `height` rows. Returns whether the
// result equals the plain loops' result. With `is_whole`, declares the image's descriptor
// replicated.
bool Convolve(cudnnHandle_t handle, int first, int rows, int height, bool is_whole = false) {
  const Numbers x(Rows(first, rows)), y(x.count()), w(kFilter);
  const SameConvolution same_size(rows, kWidth, 3);
  const auto& [image, filter, convolution] = same_size;
  if (is_whole) CHECK_CUDNN(ucudnnSpatialDeclareReplicatedTensor(image, 1));
  CHECK_CUDNN(ucudnnConvolutionForward(handle, &kOne, image, x.data(), filter, w.data(),
                                       convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                       nullptr, 0, &kZero, image, y.data()));
  if (is_whole) CHECK_CUDNN(ucudnnSpatialDeclareReplicatedTensor(image, 0));
  const std::vector<float> result = y.Read();
  bool same = true;
  for (int i = 0; i < rows * kWidth; ++i) {
    const float expected = Expected(height, first + i / kWidth, i % kWidth);
    same = same && result[static_cast<size_t>(i)] == expected;
  }
  return same;
}

// Pools a picture of five rows, and normalises it in training, forward and backward. Returns all
// inputs and results. With `is_whole`, declares the image's descriptor replicated.
std::vector<float> PoolAndNormalise(cudnnHandle_t handle, bool is_whole) {
  constexpr int rows = 5;
  constexpr size_t count = rows * kWidth, numbers = 8;
  std::vector<float> host(6 * count + numbers, 1);
  for (size_t i = 0; i < 2 * count; ++i) {  // fills x and dy
    host[i] = Pixel(static_cast<int>(i) / kWidth, static_cast<int>(i) % kWidth);
  }
  const Numbers memory(host);
  float *const x = memory.data(), *const dy = x + count;
  float *const pooled = dy + count, *const dx = pooled + count;
  float *const y = dx + count, *const dx_of_norm = y + count,
               *const of_channel = dx_of_norm + count;
  const SameConvolution same_size(rows, kWidth, 3);
  cudnnPoolingDescriptor_t window = nullptr;
  CHECK_CUDNN(cudnnCreatePoolingDescriptor(&window));
  CHECK_CUDNN(cudnnSetPooling2dDescriptor(window, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 3, 3,
                                          1, 1, 1, 1));
  cudnnTensorDescriptor_t channel = nullptr, image = same_size.image;
  CHECK_CUDNN(cudnnCreateTensorDescriptor(&channel));
  CHECK_CUDNN(cudnnDeriveBNTensorDescriptor(channel, image, CUDNN_BATCHNORM_SPATIAL));
  if (is_whole) CHECK_CUDNN(ucudnnSpatialDeclareReplicatedTensor(image, 1));
  CHECK_CUDNN(cudnnPoolingForward(handle, window, &kOne, image, x, &kZero, image, pooled));
  CHECK_CUDNN(cudnnPoolingBackward(handle, window, &kOne, image, pooled, image, dy, image, x,
                                   &kZero, image, dx));
  // `of_channel` points to eight numbers: scale, bias, running mean, running variance, saved mean,
  // saved inverse standard deviation, dscale and dbias.
  CHECK_CUDNN(cudnnBatchNormalizationForwardTraining(
      handle, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, image, x, image, y, channel, of_channel,
      of_channel + 1, 0.5, of_channel + 2, of_channel + 3, 1e-3, of_channel + 4, of_channel + 5));
  CHECK_CUDNN(cudnnBatchNormalizationBackward(handle, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, &kOne,
                                              &kZero, image, x, image, dy, image, dx_of_norm,
                                              channel, of_channel, of_channel + 6, of_channel + 7,
                                              1e-3, of_channel + 4, of_channel + 5));
  if (is_whole) CHECK_CUDNN(ucudnnSpatialDeclareReplicatedTensor(image, 0));
  host = memory.Read();
  CHECK_CUDNN(cudnnDestroyTensorDescriptor(channel));
  CHECK_CUDNN(cudnnDestroyPoolingDescriptor(window));
  return host;
}

// Convolves with `handle`, which belongs to no rank or to the rank of another thread. Returns
// whether the call is refused.
bool IsRefused(cudnnHandle_t handle) {
  const Numbers memory(1);
  const SameConvolution same_size(1, 1, 1);
  const auto& [image, filter, convolution] = same_size;
  return ucudnnConvolutionForward(handle, &kOne, image, memory.data(), filter, memory.data(),
                                  convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0,
                                  &kZero, image, memory.data()) == CUDNN_STATUS_NOT_SUPPORTED;
}

// Requests the stripe with one more column on both sides and with five more rows above and below. A
// neighbour has fewer than five rows. Returns whether each element is right: inside the picture,
// which has `height` rows, it must equal the picture's element, and outside it must be 0.
bool Exchange(cudnnHandle_t handle, int first, int height) {
  constexpr int kMore = 5, kBeside = 1;
  constexpr int rows = kRows + 2 * kMore, columns = kWidth + 2 * kBeside;
  const Numbers x(Rows(first, kRows)), y(rows * columns);
  const auto stripe = MakeTensor(CUDNN_DATA_FLOAT, 1, 1, kRows, kWidth);
  const auto with_rows = MakeTensor(CUDNN_DATA_FLOAT, 1, 1, rows, columns);
  CHECK_CUDNN(ucudnnSpatialExchange(handle, stripe, x.data(), with_rows, y.data()));
  const std::vector<float> all = y.Read();
  bool same = true;
  for (int i = 0; i < rows * columns; ++i) {
    const int row = first + i / columns - kMore, column = i % columns - kBeside;
    const bool inside = row >= 0 && row < height && column >= 0 && column < kWidth;
    same = same && all[static_cast<size_t>(i)] == (inside ? Pixel(row, column) : 0);
  }
  CHECK_CUDNN(cudnnDestroyTensorDescriptor(with_rows));
  CHECK_CUDNN(cudnnDestroyTensorDescriptor(stripe));
  return same;
}

// Tests ucudnnSpatialGetRows on this rank's stripe. Returns whether its rows are right for a filter
// with three taps, and whether it refuses a filter that cannot be split and wrong arguments.
bool KnowsRows(const ucudnnSpatialCell_t& cell) {
  const std::vector<int64_t> extents(static_cast<size_t>(cell.h_parts), kRows);
  ucudnnSpatialAxis_t axis = {sizeof axis,  UCUDNN_FORWARD, 3, 1, 1, 1,
                              cell.h_parts, extents.data()};
  ucudnnSpatialRows_t rows = {};
  rows.struct_size = sizeof rows;
  CHECK_CUDNN(ucudnnSpatialGetRows(&axis, cell.h, &rows));
  const int64_t begin = kRows * cell.h, end = begin + kRows, height = kRows * cell.h_parts;
  bool same = rows.x_begin == begin && rows.x_end == end && rows.y_begin == begin &&
              rows.y_end == end && rows.needed_begin == std::max<int64_t>(0, begin - 1) &&
              rows.needed_end == std::min<int64_t>(height, end + 1);
  axis.pad = 0;  // without padding, results at each cut would be missing
  const bool refused = ucudnnSpatialGetRows(&axis, cell.h, &rows) == CUDNN_STATUS_NOT_SUPPORTED;
  same = same && refused == (cell.h_parts > 1);
  axis.filter = 0;
  return same && ucudnnSpatialGetRows(&axis, cell.h, &rows) == CUDNN_STATUS_BAD_PARAM &&
         ucudnnSpatialGetRows(nullptr, 0, &rows) == CUDNN_STATUS_BAD_PARAM;
}

// Runs ranks as threads of this process. Returns whether every result is right.
bool OnThreads(bool by_handle, int ranks) {
  std::atomic<bool> same = true;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      CHECK_CUDA(cudaSetDevice(by_handle ? 0 : rank));
      cudnnHandle_t handle;
      CHECK_CUDNN(ucudnnCreate(&handle));
      if (by_handle) CHECK_CUDNN(ucudnnSpatialJoin(handle, rank));
      // This thread has made no call from which ucudnn could know its rank.
      if (ucudnnSpatialEnable(0) != CUDNN_STATUS_NOT_SUPPORTED) same = false;
      for (int i = 0; i < 2; ++i) {
        if (!Convolve(handle, kRows * rank, kRows, kRows * ranks)) same = false;
      }
      ucudnnSpatialCell_t cell = {};
      cell.struct_size = sizeof cell;
      CHECK_CUDNN(ucudnnSpatialGetCell(&cell));
      if (cell.rank != rank || cell.h != rank) same = false;
      // Rank 0 convolves a picture of its own, while the other ranks' calls stay split.
      if (rank == 0) {
        CHECK_CUDNN(ucudnnSpatialEnable(0));
        if (!Convolve(handle, 0, 9, 9)) same = false;
        CHECK_CUDNN(ucudnnSpatialEnable(1));
      }
      if (!Convolve(handle, kRows * rank, kRows, kRows * ranks)) same = false;
      if (by_handle) {
        cudnnHandle_t other;
        CHECK_CUDNN(ucudnnCreate(&other));
        if (!IsRefused(other)) same = false;
        CHECK_CUDNN(ucudnnSpatialJoin(other, (rank + 1) % ranks));
        if (!IsRefused(other)) same = false;
        CHECK_CUDNN(ucudnnDestroy(other));
      }
      CHECK_CUDNN(ucudnnDestroy(handle));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d ranks on threads %s\n", ranks, same ? "exact" : "WRONG");
  return same;
}

// Asks for algorithms and workspaces of a convolution of a stripe, which includes measuring.
void Ask(cudnnHandle_t handle) {
  const SameConvolution same_size(kRows, kWidth, 3);
  const auto& [image, filter, convolution] = same_size;
  cudnnConvolutionFwdAlgoPerf_t forward;
  cudnnConvolutionBwdDataAlgoPerf_t data;
  cudnnConvolutionBwdFilterAlgoPerf_t gradient;
  int count = 0;
  size_t bytes = 0;
  CHECK_CUDNN(ucudnnGetConvolutionForwardAlgorithm_v7(handle, image, filter, convolution, image, 1,
                                                      &count, &forward));
  CHECK_CUDNN(ucudnnFindConvolutionForwardAlgorithm(handle, image, filter, convolution, image, 1,
                                                    &count, &forward));
  CHECK_CUDNN(ucudnnGetConvolutionForwardWorkspaceSize(handle, image, filter, convolution, image,
                                                       forward.algo, &bytes));
  CHECK_CUDNN(ucudnnGetConvolutionBackwardDataAlgorithm_v7(handle, filter, image, convolution,
                                                           image, 1, &count, &data));
  CHECK_CUDNN(ucudnnFindConvolutionBackwardDataAlgorithm(handle, filter, image, convolution, image,
                                                         1, &count, &data));
  CHECK_CUDNN(ucudnnGetConvolutionBackwardDataWorkspaceSize(handle, filter, image, convolution,
                                                            image, data.algo, &bytes));
  CHECK_CUDNN(ucudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, image, image, convolution,
                                                             filter, 1, &count, &gradient));
  CHECK_CUDNN(ucudnnFindConvolutionBackwardFilterAlgorithm(handle, image, image, convolution,
                                                           filter, 1, &count, &gradient));
  CHECK_CUDNN(ucudnnGetConvolutionBackwardFilterWorkspaceSize(handle, image, image, convolution,
                                                              filter, gradient.algo, &bytes));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    return OnThreads(std::string(argv[1]) == "handles", std::atoi(argv[2])) ? 0 : 1;
  }
  cudnnHandle_t handle;
  ucudnnSpatialCell_t cell = {};
  cell.struct_size = sizeof cell;
  if (ucudnnSpatialGetCell(&cell) != CUDNN_STATUS_SUCCESS) {
    std::printf("%s\n", ucudnnGetLastError());
    cell.ranks = cell.h_parts = 1;
  }
  CHECK_CUDNN(ucudnnCreate(&handle));
  const int height = kRows * cell.h_parts, first = kRows * cell.h;
  if (argc == 2 && cell.rank == 0) Ask(handle);
  bool same = true;
  const auto report = [&](const char* what, bool is_exact) {
    std::printf("rank %d: %s %s\n", cell.rank, what, is_exact ? "exact" : "WRONG");
    same = same && is_exact;
  };
  report("a stripe is", Convolve(handle, first, kRows, height));
  report("the geometry is", KnowsRows(cell));
  report("rows beside a stripe are", Exchange(handle, first, height));
  CHECK_CUDNN(ucudnnSpatialEnable(0));
  if (cell.rank == 0) {
    // Only rank 0 convolves a whole picture.
    for (int i = 0; i < 3; ++i) report("an evaluation is", Convolve(handle, 0, 9, 9));
  }
  CHECK_CUDNN(ucudnnSpatialEnable(1));
  // Each rank convolves a whole picture of its own, with a different height on each rank.
  CHECK_CUDNN(ucudnnSpatialEnableThread(0));
  report("a thread's own picture is", Convolve(handle, 0, 6 + cell.rank, 6 + cell.rank));
  const std::vector<float> own = PoolAndNormalise(handle, false);
  CHECK_CUDNN(ucudnnSpatialEnableThread(1));
  CHECK_CUDNN(ucudnnSpatialDeclareReplicated(1));
  report("a whole picture is", Convolve(handle, 0, 5, 5));
  report("a whole picture pooled and normalised is", PoolAndNormalise(handle, false) == own);
  CHECK_CUDNN(ucudnnSpatialDeclareReplicated(0));
  report("what its descriptor calls whole, pooled and normalised, is",
         PoolAndNormalise(handle, true) == own);
  report("a picture that its descriptor calls whole is", Convolve(handle, 0, 5, 5, true));
  report("a stripe again is", Convolve(handle, first, kRows, height));
  CHECK_CUDNN(ucudnnDestroy(handle));
  return same ? 0 : 1;
}
