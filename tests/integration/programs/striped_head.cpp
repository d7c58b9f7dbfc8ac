// A program, linked with libucudnn, in which each process holds a stripe of every image. After a
// global average or a gather, each process holds a whole copy of the tensor. The program computes,
// in fp64 and with gradients:
//
//   a = 3x3 convolution of x                           stripes
//   z = 1x1 convolution of the average of a            copies (squeeze and excitation)
//   logits = 1x1 convolution of the average of a * z   copies (the head of a ResNet)
//   c = 3x3 convolution of all rows of a, gathered     copies
//   loss = half the sum of the squares of logits and c
//
// The program itself computes averages and products, and gathers with ucudnnSpatialExchange.
// UCUDNN_SPATIAL_ONE=replicated declares tensors of one row to be copies. The program itself
// declares c, and the input of the convolution that computes c, to be copies. Every process prints
// the gradients of all filters, and its rows of dL/dx. Without duplicates, the lines of all
// processes equal the lines of one process with the whole image.
#include <cuda_runtime.h>
#include <ucudnn/ucudnn.h>

#include <cstdio>
#include <vector>

#include "check_calls.h"
#include "descriptors.h"
#include "device_numbers.h"

namespace {

// kSize is a power of two, so that averages are exact.
constexpr int kImages = 2, kSize = 8;
constexpr double kOne = 1, kZero = 0;

cudnnHandle_t handle;

using Numbers = std::vector<double>;

double Pixel(int seed, int plane, int row, int column) {
  return (seed * 5 + plane * 3 + row * 7 + column * 11 + row * column) % 5 - 2;
}

struct Tensor {
  int channels, rows, columns;
  cudnnTensorDescriptor_t descriptor;
  DeviceNumbers<double> numbers;

  Tensor(int channels, int rows, int columns, const Numbers& given = {})
      : channels(channels),
        rows(rows),
        columns(columns),
        descriptor(MakeTensor(CUDNN_DATA_DOUBLE, kImages, channels, rows, columns)),
        numbers(static_cast<size_t>(planes() * rows * columns)) {
    if (!given.empty()) numbers.Write(given);
  }

  double* data() const { return numbers.data(); }
  int planes() const { return kImages * channels; }
  size_t At(int plane, int row, int column) const {
    return static_cast<size_t>((plane * rows + row) * columns + column);
  }
};

// A convolution whose result has the extents of its image.
class Layer {
 public:
  Layer(int channels, int filters, int size, int seed)
      : filter_(MakeFilter(CUDNN_DATA_DOUBLE, filters, channels, size)),
        convolution_(MakeConvolution(CUDNN_DATA_DOUBLE, size / 2)),
        weights_(static_cast<size_t>(filters * channels * size * size)),
        gradient_(weights_.count()) {
    Numbers weights(weights_.count());
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = Pixel(seed, static_cast<int>(i), 0, 0);
    weights_.Write(weights);
  }

  void Forward(const Tensor& x, const Tensor& y) {
    CHECK_CUDNN(ucudnnConvolutionForward(
        handle, &kOne, x.descriptor, x.data(), filter_, weights_.data(), convolution_,
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &kZero, y.descriptor, y.data()));
  }
  void Backward(const char* name, const Tensor& x, const Tensor& dy, const Tensor& dx) {
    CHECK_CUDNN(ucudnnConvolutionBackwardFilter(
        handle, &kOne, x.descriptor, x.data(), dy.descriptor, dy.data(), convolution_,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, nullptr, 0, &kZero, filter_, gradient_.data()));
    CHECK_CUDNN(ucudnnConvolutionBackwardData(
        handle, &kOne, filter_, weights_.data(), dy.descriptor, dy.data(), convolution_,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, &kZero, dx.descriptor, dx.data()));
    std::printf("gradient of %s: %.9g\n", name, gradient_.WeightedSum());
  }

 private:
  cudnnFilterDescriptor_t filter_;
  cudnnConvolutionDescriptor_t convolution_;
  DeviceNumbers<double> weights_, gradient_;
};

// Returns all rows of the image. `stripe` has this process's rows, from row `first` on.
Numbers Gather(const Tensor& stripe, int first) {
  const int beside = kSize - stripe.rows;
  if (beside == 0) return stripe.numbers.Read();
  const Tensor wide(stripe.channels, kSize + beside, stripe.columns);
  CHECK_CUDNN(ucudnnSpatialExchange(handle, stripe.descriptor, stripe.data(), wide.descriptor,
                                    wide.data()));
  const Numbers numbers = wide.numbers.Read();
  Numbers all;
  for (int plane = 0; plane < stripe.planes(); ++plane) {
    for (int row = 0; row < kSize; ++row) {
      const size_t at = wide.At(plane, row + beside - first, 0);
      for (int column = 0; column < stripe.columns; ++column) {
        all.push_back(numbers[at + static_cast<size_t>(column)]);
      }
    }
  }
  return all;
}

// Returns each plane's average.
Numbers Averages(const Numbers& all, int planes) {
  const size_t positions = all.size() / static_cast<size_t>(planes);
  Numbers averages(static_cast<size_t>(planes));
  for (size_t i = 0; i < all.size(); ++i) averages[i / positions] += all[i];
  for (double& average : averages) average /= static_cast<double>(positions);
  return averages;
}

// Returns the values of x, whose first row is row `first` of the image.
Numbers Image(const Tensor& x, int first) {
  Numbers image(x.numbers.count());
  for (int plane = 0; plane < x.planes(); ++plane) {
    for (int row = 0; row < x.rows; ++row) {
      for (int column = 0; column < kSize; ++column) {
        image[x.At(plane, row, column)] = Pixel(1, plane, first + row, column);
      }
    }
  }
  return image;
}

void PrintRows(const Tensor& dx, int first) {
  const Numbers result = dx.numbers.Read();
  for (int row = 0; row < dx.rows; ++row) {
    double sum = 0;
    for (int plane = 0; plane < dx.planes(); ++plane) {
      for (int column = 0; column < kSize; ++column) {
        sum += result[dx.At(plane, row, column)] * (1 + (plane * 3 + column) % 7);
      }
    }
    std::printf("dx row %d: %.9g\n", first + row, sum);
  }
}

}  // namespace

int main() {
  ucudnnSpatialCell_t cell = {};
  cell.struct_size = sizeof cell;
  if (ucudnnSpatialGetCell(&cell) != CUDNN_STATUS_SUCCESS) cell.h_parts = 1;
  const int rows = kSize / cell.h_parts, first = rows * cell.h;
  CHECK_CUDA(cudaSetDevice(Variable("LOCAL_RANK", 0)));
  CHECK_CUDNN(ucudnnCreate(&handle));
  Tensor x(3, rows, kSize), a(4, rows, kSize), da(4, rows, kSize), dx(3, rows, kSize);
  x.numbers.Write(Image(x, first));
  Layer trunk(3, 4, 3, 2), excitation(4, 4, 1, 3), head(4, 5, 1, 4), whole(4, 2, 3, 5);

  trunk.Forward(x, a);
  const Numbers all = Gather(a, first);
  const Tensor squeezed(4, 1, 1, Averages(all, a.planes())), z(4, 1, 1);
  excitation.Forward(squeezed, z);
  const Numbers scale = z.numbers.Read();
  Numbers excited = all;
  const size_t positions = kSize * kSize;
  for (size_t i = 0; i < excited.size(); ++i) excited[i] *= scale[i / positions];
  const Tensor pooled(4, 1, 1, Averages(excited, a.planes())), logits(5, 1, 1);
  head.Forward(pooled, logits);
  const Tensor gathered(4, kSize, kSize, all), c(2, kSize, kSize), dgathered(4, kSize, kSize);
  CHECK_CUDNN(ucudnnSpatialDeclareReplicated(1));
  whole.Forward(gathered, c);
  whole.Backward("the filter behind the gather", gathered, c, dgathered);
  CHECK_CUDNN(ucudnnSpatialDeclareReplicated(0));

  // Since the loss is half a sum of squares, dL/dlogits equals logits.
  const Tensor dpooled(4, 1, 1), dsqueezed(4, 1, 1);
  head.Backward("the head", pooled, logits, dpooled);
  const Numbers average = squeezed.numbers.Read(), dp = dpooled.numbers.Read();
  Numbers dscale(average.size());
  for (size_t i = 0; i < dscale.size(); ++i) dscale[i] = dp[i] * average[i];
  const Tensor dz(4, 1, 1, dscale);
  excitation.Backward("the excitation", squeezed, dz, dsqueezed);
  const Numbers ds = dsqueezed.numbers.Read(), dg = dgathered.numbers.Read();
  Numbers slope(da.numbers.count());
  for (int plane = 0; plane < da.planes(); ++plane) {
    const auto at = static_cast<size_t>(plane);
    const double spread = (dp[at] * scale[at] + ds[at]) / static_cast<double>(positions);
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < kSize; ++column) {
        slope[da.At(plane, row, column)] = spread + dg[gathered.At(plane, first + row, column)];
      }
    }
  }
  da.numbers.Write(slope);
  trunk.Backward("the trunk", x, da, dx);
  PrintRows(dx, first);
  CHECK_CUDNN(ucudnnDestroy(handle));
  return 0;
}
