// An ordinary cuDNN program that knows nothing of ucudnn. It trains a small network of convolutions
// with biases and ReLUs, in fp64:
//
//   3x3, 7x7 with stride 2, 3x3 with dilation 2, 1x1
//
// With WORLD_SIZE processes, process RANK loads its stripe of every image, on device LOCAL_RANK.
// Without these variables, the process loads whole images. The loss is half the sum of the squares
// of the output. The program prints each row of the output and of dL/dx with its position in the
// whole image, and the sums of the first filters and biases. Numbers are rounded to nine digits. So
// the lines of all processes together equal the lines of one process with whole images.
//
//   striped_cnn [HEIGHT [STEPS]]
//
// With ANNOUNCE, each process prints its rank and process id after its first step. Process
// SLEEP_RANK sleeps for SLEEP_SECONDS after half of the steps. With WIDTH_PARTS=2, ranks 2i and
// 2i + 1 hold the left and the right half of the same rows, and each half of a row is printed as a
// line. With PAIR_SUM, the program also sums numbers over pairs of processes after each layer
// (pair_sum.h). With EMPTY, the last process has no rows.
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
#include "descriptors.h"
#include "device_numbers.h"
#include "pair_sum.h"

namespace {

using Numbers = DeviceNumbers<double>;

constexpr int kBatch = 3;
constexpr int kWidth = 12;  // the width of the whole image
constexpr double kRate = 1e-4;
constexpr double kOne = 1, kZero = 0;

cudnnHandle_t handle;
void* workspace = nullptr;
constexpr size_t kWorkspaceBytes = size_t{8} << 20;

// n x channels x height x width numbers on the device.
struct Tensor {
  int channels, height, width;
  cudnnTensorDescriptor_t descriptor;
  Numbers numbers;

  Tensor(int channels, int height, int width)
      : channels(channels),
        height(height),
        width(width),
        descriptor(MakeTensor(CUDNN_DATA_DOUBLE, kBatch, channels, height, width)),
        numbers(static_cast<size_t>(kBatch) * static_cast<size_t>(channels * height * width)) {}
  double* data() const { return numbers.data(); }
  // Prints a line for each group of `columns` columns in each row. The line says where the row and
  // the group's first column are in the whole image, and has a weighted sum of the group's values.
  void PrintRows(const char* name, int first_row, int first_column, int columns) const {
    const std::vector<double> host = numbers.Read();
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

// Returns a number that depends only on the position in the whole image.
double Pixel(int plane, int row, int column) {
  const uint32_t mixed = static_cast<uint32_t>(plane * 7919 + row * 104729 + column * 1299709);
  return static_cast<double>(mixed * 2654435761u >> 20) / 2048 - 1;
}

class Layer {
 public:
  Layer(const Tensor& x, int filters, int size, int stride, int dilation, int seed)
      : x_(x),
        convolution_(
            MakeConvolution(CUDNN_DATA_DOUBLE, dilation * (size - 1) / 2, stride, dilation)),
        filter_(MakeFilter(CUDNN_DATA_DOUBLE, filters, x.channels, size)),
        weights_(static_cast<size_t>(filters * x.channels * size * size)),
        gradient_(weights_.count()),
        bias_descriptor_(MakeTensor(CUDNN_DATA_DOUBLE, 1, filters, 1, 1)),
        bias_(static_cast<size_t>(filters)),
        bias_gradient_(bias_.count()) {
    int n = 0, c = 0, h = 0, w = 0;
    CHECK_CUDNN(
        cudnnGetConvolution2dForwardOutputDim(convolution_, x.descriptor, filter_, &n, &c, &h, &w));
    y_ = std::make_unique<Tensor>(c, h, w);
    dy_ = std::make_unique<Tensor>(c, h, w);
    std::vector<double> host(weights_.count());
    for (size_t i = 0; i < host.size(); ++i) host[i] = Pixel(seed, static_cast<int>(i), 1) / 4;
    weights_.Write(host);
  }

  Tensor& y() { return *y_; }
  Tensor& dy() { return *dy_; }

  void Forward(cudnnActivationDescriptor_t relu) {
    cudnnConvolutionFwdAlgoPerf_t found;
    int count = 0;
    CHECK_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(handle, x_.descriptor, filter_, convolution_,
                                                       y_->descriptor, 1, &count, &found));
    CHECK_CUDNN(cudnnConvolutionForward(handle, &kOne, x_.descriptor, x_.data(), filter_,
                                        weights_.data(), convolution_, found.algo, workspace,
                                        kWorkspaceBytes, &kZero, y_->descriptor, y_->data()));
    CHECK_CUDNN(cudnnAddTensor(handle, &kOne, bias_descriptor_, bias_.data(), &kOne, y_->descriptor,
                               y_->data()));
    if (relu == nullptr) return;
    CHECK_CUDNN(cudnnActivationForward(handle, relu, &kOne, y_->descriptor, y_->data(), &kZero,
                                       y_->descriptor, y_->data()));
  }
  void Backward(cudnnActivationDescriptor_t relu, Tensor* dx) {
    if (relu != nullptr) {
      CHECK_CUDNN(cudnnActivationBackward(handle, relu, &kOne, y_->descriptor, y_->data(),
                                          dy_->descriptor, dy_->data(), y_->descriptor, y_->data(),
                                          &kZero, dy_->descriptor, dy_->data()));
    }
    cudnnConvolutionBwdFilterAlgoPerf_t filter;
    cudnnConvolutionBwdDataAlgoPerf_t data;
    int count = 0;
    CHECK_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        handle, x_.descriptor, dy_->descriptor, convolution_, filter_, 1, &count, &filter));
    // Momentum: half of what gradient_ holds from earlier steps is added.
    const double momentum = 0.5;
    CHECK_CUDNN(cudnnConvolutionBackwardFilter(
        handle, &kOne, x_.descriptor, x_.data(), dy_->descriptor, dy_->data(), convolution_,
        filter.algo, workspace, kWorkspaceBytes, &momentum, filter_, gradient_.data()));
    CHECK_CUDNN(cudnnConvolutionBackwardBias(handle, &kOne, dy_->descriptor, dy_->data(), &momentum,
                                             bias_descriptor_, bias_gradient_.data()));
    CHECK_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(
        handle, filter_, dy_->descriptor, convolution_, dx->descriptor, 1, &count, &data));
    CHECK_CUDNN(cudnnConvolutionBackwardData(
        handle, &kOne, filter_, weights_.data(), dy_->descriptor, dy_->data(), convolution_,
        data.algo, workspace, kWorkspaceBytes, &kZero, dx->descriptor, dx->data()));
  }
  void Learn() {
    Step(weights_, gradient_);
    Step(bias_, bias_gradient_);
  }
  void PrintSums() const {
    std::printf("first filters: %.9g\n", weights_.WeightedSum());
    std::printf("first biases: %.9g\n", bias_.WeightedSum());
  }

 private:
  static void Step(Numbers& values, const Numbers& gradient) {
    std::vector<double> host = values.Read();
    const std::vector<double> slope = gradient.Read();
    for (size_t i = 0; i < host.size(); ++i) host[i] -= kRate * slope[i];
    values.Write(host);
  }

  const Tensor& x_;
  cudnnConvolutionDescriptor_t convolution_;
  cudnnFilterDescriptor_t filter_;
  std::unique_ptr<Tensor> y_, dy_;
  Numbers weights_, gradient_;
  cudnnTensorDescriptor_t bias_descriptor_;
  Numbers bias_, bias_gradient_;
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
  std::vector<double> image(x.numbers.count());
  size_t next = 0;
  for (int plane = 0; plane < kBatch * 3; ++plane) {
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column)
        image[next++] = Pixel(plane, first + row, left + column);
    }
  }
  x.numbers.Write(image);

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
    CHECK_CUDA(cudaMemcpy(layers.back()->dy().data(), out.data(),
                          out.numbers.count() * sizeof(double), cudaMemcpyDeviceToDevice));
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
