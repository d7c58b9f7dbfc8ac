// An ordinary cuDNN program, written as a user would write it without knowing of ucudnn: it trains
// a small network of convolutions with biases and ReLUs,
//
//   3x3, 7x7 with stride 2, 3x3 with dilation 2, 1x1,
//
// and each process loads its stripe of every image: with WORLD_SIZE processes, process RANK loads
// its own, on device LOCAL_RANK; without these variables the process loads the whole. The loss is
// half the sum of squares, in fp64. The program prints the output row by row, with its place in the
// whole image, the rows of dL/dx, and the sums of the first filters and biases, each rounded to
// nine digits, so that the lines of all processes together can be compared with the lines of one
// process that has the whole image.
//
//   striped_cnn [HEIGHT [STEPS]]
//
// With ANNOUNCE set, each process says which one it is when it has made its first step. Process
// SLEEP_RANK sleeps for SLEEP_SECONDS half-way. With WIDTH_PARTS=2, processes hold halves of rows,
// the left one first, and each half is a line. With PAIR_SUM, the program also sums numbers over
// pairs of processes after each layer, as pair_sum.h says. With EMPTY, the last process has no
// rows.
#include <cuda_runtime.h>
#include <cudnn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "check_calls.h"
#include "pair_sum.h"

namespace {

constexpr int kBatch = 3;
constexpr int kWidth = 12;  // of the whole image
constexpr double kRate = 1e-4;
constexpr double kOne = 1, kZero = 0;

cudnnHandle_t handle;
void* workspace = nullptr;
constexpr size_t kWorkspaceBytes = size_t{8} << 20;

int Variable(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : otherwise;
}

// n x channels x height x width numbers on the device.
struct Tensor {
  int channels, height, width;
  cudnnTensorDescriptor_t descriptor = nullptr;
  double* data = nullptr;

  Tensor(int channels, int height, int width) : channels(channels), height(height), width(width) {
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&descriptor));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, kBatch,
                                           channels, height, width));
    CHECK_CUDA(cudaMalloc(&data, Count() * sizeof(double)));
    CHECK_CUDA(cudaMemset(data, 0, Count() * sizeof(double)));
  }
  size_t Count() const {
    return static_cast<size_t>(kBatch) * static_cast<size_t>(channels * height * width);
  }
  std::vector<double> Read() const {
    std::vector<double> host(Count());
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(host.data(), data, Count() * sizeof(double), cudaMemcpyDeviceToHost));
    return host;
  }
  // Prints one line for each row and each group of `columns` columns: the row's number in the whole
  // image, the first column's, and a weighted sum of the group's values.
  void PrintRows(const char* name, int first_row, int first_column, int columns) const {
    const std::vector<double> host = Read();
    for (int row = 0; row < height; ++row) {
      for (int first = 0; first < width; first += columns) {
        double sum = 0;
        for (int plane = 0; plane < kBatch * channels; ++plane) {
          for (int column = first; column < first + columns; ++column) {
            sum += host[static_cast<size_t>((plane * height + row) * width + column)] *
                   (1 + (plane + first_column + column) % 7);
          }
        }
        std::printf("%s row %d from %d: %.9g\n", name, first_row + row, first_column + first, sum);
      }
    }
  }
};

// Returns a number that depends on the place in the whole image alone.
double Pixel(int plane, int row, int column) {
  const uint32_t mixed = static_cast<uint32_t>(plane * 7919 + row * 104729 + column * 1299709);
  return static_cast<double>(mixed * 2654435761u >> 20) / 2048 - 1;
}

class Layer {
 public:
  Layer(const Tensor& x, int filters, int size, int stride, int dilation, int seed) : x_(x) {
    const int pad = dilation * (size - 1) / 2;
    CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&convolution_));
    CHECK_CUDNN(cudnnSetConvolution2dDescriptor(convolution_, pad, pad, stride, stride, dilation,
                                                dilation, CUDNN_CROSS_CORRELATION,
                                                CUDNN_DATA_DOUBLE));
    CHECK_CUDNN(cudnnCreateFilterDescriptor(&filter_));
    CHECK_CUDNN(cudnnSetFilter4dDescriptor(filter_, CUDNN_DATA_DOUBLE, CUDNN_TENSOR_NCHW, filters,
                                           x.channels, size, size));
    int n = 0, c = 0, h = 0, w = 0;
    CHECK_CUDNN(
        cudnnGetConvolution2dForwardOutputDim(convolution_, x.descriptor, filter_, &n, &c, &h, &w));
    y_ = std::make_unique<Tensor>(c, h, w);
    dy_ = std::make_unique<Tensor>(c, h, w);
    count_ = static_cast<size_t>(filters * x.channels * size * size);
    std::vector<double> host(count_);
    for (size_t i = 0; i < count_; ++i) host[i] = Pixel(seed, static_cast<int>(i), 1) / 4;
    CHECK_CUDA(cudaMalloc(&weights_, count_ * sizeof(double)));
    CHECK_CUDA(cudaMalloc(&gradient_, count_ * sizeof(double)));
    CHECK_CUDA(cudaMemcpy(weights_, host.data(), count_ * sizeof(double), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemset(gradient_, 0, count_ * sizeof(double)));
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&bias_descriptor_));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(bias_descriptor_, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE,
                                           1, filters, 1, 1));
    biases_ = static_cast<size_t>(filters);
    for (double** zeros : {&bias_, &bias_gradient_}) {
      CHECK_CUDA(cudaMalloc(zeros, biases_ * sizeof(double)));
      CHECK_CUDA(cudaMemset(*zeros, 0, biases_ * sizeof(double)));
    }
  }

  Tensor& y() { return *y_; }
  Tensor& dy() { return *dy_; }

  void Forward(cudnnActivationDescriptor_t relu) {
    cudnnConvolutionFwdAlgoPerf_t found;
    int count = 0;
    CHECK_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(handle, x_.descriptor, filter_, convolution_,
                                                       y_->descriptor, 1, &count, &found));
    CHECK_CUDNN(cudnnConvolutionForward(handle, &kOne, x_.descriptor, x_.data, filter_, weights_,
                                        convolution_, found.algo, workspace, kWorkspaceBytes,
                                        &kZero, y_->descriptor, y_->data));
    CHECK_CUDNN(
        cudnnAddTensor(handle, &kOne, bias_descriptor_, bias_, &kOne, y_->descriptor, y_->data));
    if (relu == nullptr) return;
    CHECK_CUDNN(cudnnActivationForward(handle, relu, &kOne, y_->descriptor, y_->data, &kZero,
                                       y_->descriptor, y_->data));
  }
  void Backward(cudnnActivationDescriptor_t relu, Tensor* dx) {
    if (relu != nullptr) {
      CHECK_CUDNN(cudnnActivationBackward(handle, relu, &kOne, y_->descriptor, y_->data,
                                          dy_->descriptor, dy_->data, y_->descriptor, y_->data,
                                          &kZero, dy_->descriptor, dy_->data));
    }
    cudnnConvolutionBwdFilterAlgoPerf_t filter;
    cudnnConvolutionBwdDataAlgoPerf_t data;
    int count = 0;
    CHECK_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        handle, x_.descriptor, dy_->descriptor, convolution_, filter_, 1, &count, &filter));
    // Half of the last step's gradient stays, as momentum.
    const double momentum = 0.5;
    CHECK_CUDNN(cudnnConvolutionBackwardFilter(
        handle, &kOne, x_.descriptor, x_.data, dy_->descriptor, dy_->data, convolution_,
        filter.algo, workspace, kWorkspaceBytes, &momentum, filter_, gradient_));
    CHECK_CUDNN(cudnnConvolutionBackwardBias(handle, &kOne, dy_->descriptor, dy_->data, &momentum,
                                             bias_descriptor_, bias_gradient_));
    CHECK_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(
        handle, filter_, dy_->descriptor, convolution_, dx->descriptor, 1, &count, &data));
    CHECK_CUDNN(cudnnConvolutionBackwardData(handle, &kOne, filter_, weights_, dy_->descriptor,
                                             dy_->data, convolution_, data.algo, workspace,
                                             kWorkspaceBytes, &kZero, dx->descriptor, dx->data));
  }
  void Learn() {
    Step(weights_, gradient_, count_);
    Step(bias_, bias_gradient_, biases_);
  }
  void PrintSums() const {
    PrintSum("first filters", weights_, count_);
    PrintSum("first biases", bias_, biases_);
  }

 private:
  static void Step(double* values, const double* gradient, size_t count) {
    std::vector<double> host(count), slope(count);
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(host.data(), values, count * sizeof(double), cudaMemcpyDeviceToHost));
    CHECK_CUDA(cudaMemcpy(slope.data(), gradient, count * sizeof(double), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; ++i) host[i] -= kRate * slope[i];
    CHECK_CUDA(cudaMemcpy(values, host.data(), count * sizeof(double), cudaMemcpyHostToDevice));
  }
  static void PrintSum(const char* name, const double* values, size_t count) {
    std::vector<double> host(count);
    CHECK_CUDA(cudaMemcpy(host.data(), values, count * sizeof(double), cudaMemcpyDeviceToHost));
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += host[i] * static_cast<double>(1 + i % 13);
    std::printf("%s: %.9g\n", name, sum);
  }

  const Tensor& x_;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  cudnnFilterDescriptor_t filter_ = nullptr;
  std::unique_ptr<Tensor> y_, dy_;
  size_t count_ = 0;
  double* weights_ = nullptr;
  double* gradient_ = nullptr;
  cudnnTensorDescriptor_t bias_descriptor_ = nullptr;
  size_t biases_ = 0;
  double* bias_ = nullptr;
  double* bias_gradient_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const int height = argc > 1 ? std::atoi(argv[1]) : 32;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 3;
  const int rank = Variable("RANK", 0), ranks = Variable("WORLD_SIZE", 1);
  const int halves = Variable("WIDTH_PARTS", 1), parts = ranks > 1 ? halves : 1;
  const bool is_empty = Variable("EMPTY", 0) != 0;
  const int rows = is_empty ? (rank + 1 < ranks ? height : 0) : height * parts / ranks;
  const int first = rank / parts * rows;
  const int columns = kWidth / parts, left = rank % parts * columns;
  if ((rows * ranks != height * parts && !is_empty) || rows % 2 != 0) {
    std::fprintf(stderr, "striped_cnn: %d rows are not %d even stripes\n", height, ranks / parts);
    return 2;
  }
  CHECK_CUDA(cudaSetDevice(Variable("LOCAL_RANK", 0)));
  CHECK_CUDNN(cudnnCreate(&handle));
  CHECK_CUDA(cudaMalloc(&workspace, kWorkspaceBytes));
  cudnnActivationDescriptor_t relu = nullptr;
  CHECK_CUDNN(cudnnCreateActivationDescriptor(&relu));
  CHECK_CUDNN(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));

  Tensor x(3, rows, columns), dx(3, rows, columns);
  std::vector<double> image(x.Count());
  size_t next = 0;
  for (int plane = 0; plane < kBatch * 3; ++plane) {
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column)
        image[next++] = Pixel(plane, first + row, left + column);
    }
  }
  CHECK_CUDA(cudaMemcpy(x.data, image.data(), x.Count() * sizeof(double), cudaMemcpyHostToDevice));

  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::make_unique<Layer>(x, 6, 3, 1, 1, 1));
  layers.push_back(std::make_unique<Layer>(layers.back()->y(), 8, 7, 2, 1, 2));
  layers.push_back(std::make_unique<Layer>(layers.back()->y(), 6, 3, 1, 2, 3));
  layers.push_back(std::make_unique<Layer>(layers.back()->y(), 4, 1, 1, 1, 4));
  const char* const kind = std::getenv("PAIR_SUM");
  const auto sum = kind != nullptr ? std::make_unique<PairSum>(kind, rank, ranks) : nullptr;
  for (int step = 0; step < steps; ++step) {
    if (step == 1 && Variable("ANNOUNCE", 0) != 0) {
      std::printf("rank %d is process %d\n", rank, static_cast<int>(getpid()));
      std::fflush(stdout);
    }
    if (step == steps / 2 && rank == Variable("SLEEP_RANK", -1)) {
      sleep(static_cast<unsigned>(Variable("SLEEP_SECONDS", 0)));
    }
    for (auto& layer : layers) {
      layer->Forward(layer == layers.back() ? nullptr : relu);
      if (sum) sum->Enqueue();
    }
    // The gradient of half the sum of squares is the output.
    Tensor& out = layers.back()->y();
    CHECK_CUDA(cudaMemcpy(layers.back()->dy().data, out.data, out.Count() * sizeof(double),
                          cudaMemcpyDeviceToDevice));
    for (size_t i = layers.size(); i-- > 0;) {
      layers[i]->Backward(i + 1 == layers.size() ? nullptr : relu,
                          i > 0 ? &layers[i - 1]->dy() : &dx);
      if (sum) sum->Enqueue();
    }
    for (auto& layer : layers) layer->Learn();
  }
  layers.back()->y().PrintRows("y", first / 2, left / 2, kWidth / halves / 2);
  dx.PrintRows("dx", first, left, kWidth / halves);
  if (rank == 0) layers.front()->PrintSums();
  if (sum) sum->End();
  CHECK_CUDNN(cudnnDestroy(handle));
  return 0;
}
