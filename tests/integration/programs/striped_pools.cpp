// An ordinary cuDNN program that knows nothing of ucudnn. Each process holds a stripe of rows of
// every image, by its RANK. Only calls of cuDNN combine several rows. The program runs forward and
// backward, in fp64:
//
//   3x3 convolution, batch normalisation, max pooling 3x3 with stride 2, batch normalisation (Ex),
//   average pooling 2x2, global average, 1x1 convolution
//
// The loss is half the sum of the squares of the result. All processes have a copy of the result,
// since UCUDNN_SPATIAL_ONE=replicated says that maps of one row are copies. Each process prints the
// result, the gradients of filters, scales and biases, the statistics, and its rows of dL/dx.
// Without duplicates, the lines of all processes equal the lines of one process with the whole
// image.
//
//   striped_pools [STEPS [graph]]
//
// The filters change between steps. With "graph", all steps after the first are launches of one
// CUDA graph.
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check_calls.h"
#include "descriptors.h"
#include "device_numbers.h"

namespace {

using Numbers = DeviceNumbers<double>;

constexpr int kImages = 2, kSize = 32;
constexpr double kOne = 1, kZero = 0, kEpsilon = 1e-3;

cudnnHandle_t handle;

double Pixel(int seed, int plane, int row, int column) {
  return (seed * 5 + plane * 3 + row * 7 + column * 11 + row * column) % 17 - 8;
}

void PrintSum(const char* name, const Numbers& numbers) {
  std::printf("%s: %.17g\n", name, numbers.WeightedSum());
}

// A tensor and its gradient.
struct Tensor {
  int channels, rows, columns;
  Numbers values, gradient;
  cudnnTensorDescriptor_t descriptor;

  Tensor(int of_channels, int of_rows, int of_columns)
      : channels(of_channels),
        rows(of_rows),
        columns(of_columns),
        values(static_cast<size_t>(kImages * channels * rows * columns)),
        gradient(values.count()),
        descriptor(MakeTensor(CUDNN_DATA_DOUBLE, kImages, channels, rows, columns)) {}
  ~Tensor() { cudnnDestroyTensorDescriptor(descriptor); }
  size_t At(int plane, int row, int column) const {
    return static_cast<size_t>((plane * rows + row) * columns + column);
  }
};

class Convolution {
 public:
  Convolution(int channels, int filters, int size, int seed)
      : weights_(static_cast<size_t>(filters * channels * size * size)),
        gradient_(weights_.count()),
        filter_(MakeFilter(CUDNN_DATA_DOUBLE, filters, channels, size)),
        convolution_(MakeConvolution(CUDNN_DATA_DOUBLE, size / 2)),
        numbers_(MakeTensor(CUDNN_DATA_DOUBLE, 1, 1, 1, static_cast<int>(weights_.count()))) {
    std::vector<double> weights(weights_.count());
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = Pixel(seed, static_cast<int>(i), 0, 0);
    weights_.Write(weights);
  }
  void Forward(const Tensor& x, const Tensor& y) {
    CHECK_CUDNN(cudnnConvolutionForward(handle, &kOne, x.descriptor, x.values.data(), filter_,
                                        weights_.data(), convolution_,
                                        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0,
                                        &kZero, y.descriptor, y.values.data()));
  }
  void Backward(const Tensor& x, const Tensor& y) {
    CHECK_CUDNN(cudnnConvolutionBackwardFilter(
        handle, &kOne, x.descriptor, x.values.data(), y.descriptor, y.gradient.data(), convolution_,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, nullptr, 0, &kZero, filter_, gradient_.data()));
    CHECK_CUDNN(cudnnConvolutionBackwardData(
        handle, &kOne, filter_, weights_.data(), y.descriptor, y.gradient.data(), convolution_,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, &kZero, x.descriptor, x.gradient.data()));
  }
  void Learn() {
    constexpr double kRate = -1e-4;
    CHECK_CUDNN(cudnnAddTensor(handle, &kRate, numbers_, gradient_.data(), &kOne, numbers_,
                               weights_.data()));
  }
  void Print(const char* name) const { PrintSum(name, gradient_); }

 private:
  Numbers weights_, gradient_;
  cudnnFilterDescriptor_t filter_;
  cudnnConvolutionDescriptor_t convolution_;
  cudnnTensorDescriptor_t numbers_;
};

class Pooling {
 public:
  Pooling(cudnnPoolingMode_t mode, int rows, int columns, int pad, int stride) {
    CHECK_CUDNN(cudnnCreatePoolingDescriptor(&pooling_));
    CHECK_CUDNN(cudnnSetPooling2dDescriptor(pooling_, mode, CUDNN_NOT_PROPAGATE_NAN, rows, columns,
                                            pad, pad, stride, stride));
  }
  void Forward(const Tensor& x, const Tensor& y) {
    CHECK_CUDNN(cudnnPoolingForward(handle, pooling_, &kOne, x.descriptor, x.values.data(), &kZero,
                                    y.descriptor, y.values.data()));
  }
  void Backward(const Tensor& x, const Tensor& y) {
    CHECK_CUDNN(cudnnPoolingBackward(handle, pooling_, &kOne, y.descriptor, y.values.data(),
                                     y.descriptor, y.gradient.data(), x.descriptor, x.values.data(),
                                     &kZero, x.descriptor, x.gradient.data()));
  }

 private:
  cudnnPoolingDescriptor_t pooling_ = nullptr;
};

// A batch normalisation in training. With `is_ex`, uses cuDNN's functions whose names end in Ex.
class Norm {
 public:
  Norm(int channels, bool is_ex)
      : is_ex_(is_ex),
        numbers_(MakeTensor(CUDNN_DATA_DOUBLE, 1, channels, 1, 1)),
        scale_(static_cast<size_t>(channels), 0.5),
        bias_(scale_.count(), 1),
        mean_(scale_.count()),
        variance_(scale_.count(), 1),
        saved_mean_(scale_.count()),
        saved_inverse_(scale_.count()),
        dscale_(scale_.count()),
        dbias_(scale_.count()) {}
  void Forward(const Tensor& x, const Tensor& y) {
    constexpr double kFactor = 0.25;
    const cudnnBatchNormMode_t mode = CUDNN_BATCHNORM_SPATIAL;
    if (is_ex_) {
      CHECK_CUDNN(cudnnBatchNormalizationForwardTrainingEx(
          handle, mode, CUDNN_BATCHNORM_OPS_BN, &kOne, &kZero, x.descriptor, x.values.data(),
          nullptr, nullptr, y.descriptor, y.values.data(), numbers_, scale_.data(), bias_.data(),
          kFactor, mean_.data(), variance_.data(), kEpsilon, saved_mean_.data(),
          saved_inverse_.data(), nullptr, nullptr, 0, nullptr, 0));
    } else {
      CHECK_CUDNN(cudnnBatchNormalizationForwardTraining(
          handle, mode, &kOne, &kZero, x.descriptor, x.values.data(), y.descriptor, y.values.data(),
          numbers_, scale_.data(), bias_.data(), kFactor, mean_.data(), variance_.data(), kEpsilon,
          saved_mean_.data(), saved_inverse_.data()));
    }
  }
  void Backward(const Tensor& x, const Tensor& y) {
    const cudnnBatchNormMode_t mode = CUDNN_BATCHNORM_SPATIAL;
    if (is_ex_) {
      CHECK_CUDNN(cudnnBatchNormalizationBackwardEx(
          handle, mode, CUDNN_BATCHNORM_OPS_BN, &kOne, &kZero, &kOne, &kZero, x.descriptor,
          x.values.data(), nullptr, nullptr, y.descriptor, y.gradient.data(), nullptr, nullptr,
          x.descriptor, x.gradient.data(), numbers_, scale_.data(), bias_.data(), dscale_.data(),
          dbias_.data(), kEpsilon, saved_mean_.data(), saved_inverse_.data(), nullptr, nullptr, 0,
          nullptr, 0));
    } else {
      CHECK_CUDNN(cudnnBatchNormalizationBackward(
          handle, mode, &kOne, &kZero, &kOne, &kZero, x.descriptor, x.values.data(), y.descriptor,
          y.gradient.data(), x.descriptor, x.gradient.data(), numbers_, scale_.data(),
          dscale_.data(), dbias_.data(), kEpsilon, saved_mean_.data(), saved_inverse_.data()));
    }
  }
  void Print() const {
    const char* const names[2][4] = {{"mean", "variance", "dscale", "dbias"},
                                     {"mean (Ex)", "variance (Ex)", "dscale (Ex)", "dbias (Ex)"}};
    const Numbers* const printed[] = {&mean_, &variance_, &dscale_, &dbias_};
    for (int i = 0; i < 4; ++i) PrintSum(names[is_ex_ ? 1 : 0][i], *printed[i]);
  }

 private:
  const bool is_ex_;
  cudnnTensorDescriptor_t numbers_;
  Numbers scale_, bias_, mean_, variance_, saved_mean_, saved_inverse_, dscale_, dbias_;
};

void PrintRows(const Tensor& x, int first) {
  const std::vector<double> gradient = x.gradient.Read();
  for (int row = 0; row < x.rows; ++row) {
    double sum = 0;
    for (int plane = 0; plane < kImages * x.channels; ++plane) {
      for (int column = 0; column < x.columns; ++column) {
        sum += gradient[x.At(plane, row, column)] * (1 + (plane * 3 + column) % 7);
      }
    }
    std::printf("dx row %d: %.17g\n", first + row, sum);
  }
}

struct Network {
  const int rows;
  Tensor x{3, rows, kSize}, a{4, rows, kSize}, b{4, rows, kSize}, c{4, rows / 2, kSize / 2},
      d{4, rows / 2, kSize / 2}, e{4, rows / 4, kSize / 4}, f{4, 1, 1}, g{5, 1, 1};
  Convolution trunk{3, 4, 3, 2}, head{4, 5, 1, 4};
  Norm plain{4, false}, extended{4, true};
  Pooling maxima{CUDNN_POOLING_MAX, 3, 3, 1, 2};
  Pooling averages{CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, 2, 2, 0, 2};
  Pooling whole{CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, rows / 4, kSize / 4, 0, 1};

  Network(int of_rows, int first) : rows(of_rows) {
    std::vector<double> image(x.values.count());
    for (int plane = 0; plane < kImages * 3; ++plane) {
      for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < kSize; ++column) {
          image[x.At(plane, row, column)] = Pixel(1, plane, first + row, column);
        }
      }
    }
    x.values.Write(image);
  }
  void Step(cudaStream_t stream) {
    trunk.Forward(x, a);
    plain.Forward(a, b);
    maxima.Forward(b, c);
    extended.Forward(c, d);
    averages.Forward(d, e);
    whole.Forward(e, f);
    head.Forward(f, g);
    CHECK_CUDA(cudaMemcpyAsync(g.gradient.data(), g.values.data(),
                               g.values.count() * sizeof(double), cudaMemcpyDeviceToDevice,
                               stream));
    head.Backward(f, g);
    whole.Backward(e, f);
    averages.Backward(d, e);
    extended.Backward(c, d);
    maxima.Backward(b, c);
    plain.Backward(a, b);
    trunk.Backward(x, a);
  }
  void Learn() {
    trunk.Learn();
    head.Learn();
  }
  void Print(int first) const {
    PrintSum("result", g.values);
    head.Print("gradient of the head");
    extended.Print();
    plain.Print();
    trunk.Print("gradient of the trunk");
    PrintRows(x, first);
  }
};

// Runs all steps after the first as launches of one CUDA graph.
void LaunchSteps(Network& network, cudaStream_t stream, int steps) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launched = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  network.Learn();
  network.Step(stream);
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&launched, graph, 0));
  CHECK_CUDA(cudaGraphDestroy(graph));
  for (int step = 1; step < steps; ++step) CHECK_CUDA(cudaGraphLaunch(launched, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaGraphExecDestroy(launched));
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 1;
  const bool in_graph = argc > 2;
  const int rows = kSize / Variable("WORLD_SIZE", 1), first = rows * Variable("RANK", 0);
  CHECK_CUDA(cudaSetDevice(Variable("LOCAL_RANK", 0)));
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreate(&stream));
  CHECK_CUDNN(cudnnCreate(&handle));
  CHECK_CUDNN(cudnnSetStream(handle, stream));
  Network network(rows, first);
  CHECK_CUDA(cudaDeviceSynchronize());
  network.Step(stream);
  if (in_graph) LaunchSteps(network, stream, steps);
  for (int step = 1; step < steps && !in_graph; ++step) {
    network.Learn();
    network.Step(stream);
  }
  network.Print(first);
  CHECK_CUDNN(cudnnDestroy(handle));
  return 0;
}
