#include "convolution.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

namespace ucudnn::gpu_tests {
namespace {

int OutputSize(const Shape& shape) {
  return (shape.size + 2 * shape.pad - shape.filter) / shape.stride + 1;
}

size_t Count(int a, int b, int c, int d) { return size_t{1} * a * b * c * d; }

// Returns the cell's places in a tensor of n x c images of size x size.
std::vector<size_t> Places(cudnnTensorFormat_t layout, int n, int c, int size, const Cell& cell) {
  struct Axis {
    int first, end;
    size_t stride;
  };
  const bool channels_last = layout == CUDNN_TENSOR_NHWC;
  const int height = size / cell.rows, width = size / cell.columns;
  const size_t pixel = channels_last ? Count(c, 1, 1, 1) : 1;
  const Axis images{0, n, Count(c, size, size, 1)};
  const Axis channels{0, c, channels_last ? 1 : Count(size, size, 1, 1)};
  const Axis rows{height * cell.row, height * (cell.row + 1), pixel * size};
  const Axis columns{width * cell.column, width * (cell.column + 1), pixel};
  // The axes are in the order of memory, the slowest first.
  const std::array axes = channels_last ? std::array{images, rows, columns, channels}
                                        : std::array{images, channels, rows, columns};
  std::vector<size_t> places = {0};
  for (const Axis& axis : axes) {
    std::vector<size_t> finer;
    finer.reserve(places.size() * static_cast<size_t>(axis.end - axis.first));
    for (const size_t place : places) {
      for (int i = axis.first; i < axis.end; ++i) finer.push_back(place + i * axis.stride);
    }
    places = std::move(finer);
  }
  return places;
}

size_t ElementBytes(cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

// Converts normal numbers and zero, since the data are small whole numbers. What is too small to be
// normal in fp16 counts as zero.
uint16_t ToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) == 0) return 0;
  const uint32_t exponent = ((bits >> 23) & 0xff) - 127 + 15;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3ff));
}

float FromHalf(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t mantissa = half & 0x3ffu;
  uint32_t bits = sign;
  if (exponent == 0x1f) {
    bits |= 0x7f800000u | mantissa << 13;
  } else if (exponent != 0) {
    bits |= (exponent - 15 + 127) << 23 | mantissa << 13;
  }
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint16_t ToBfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

// Mixes well, so that buffers of different seeds do not correlate and sums stay small.
uint32_t Random(uint32_t seed, uint32_t index) {
  uint32_t bits = index * 0x9e3779b9u + seed * 0x85ebca6bu;
  bits = (bits ^ bits >> 16) * 0x7feb352du;
  bits = (bits ^ bits >> 15) * 0x846ca68bu;
  return bits ^ bits >> 16;
}

float FromBfloat(uint16_t bfloat) {
  const uint32_t bits = uint32_t{bfloat} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

void Check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, cudnnGetErrorString(status));
  std::exit(1);
}

const char* Name(Operation operation) {
  static constexpr const char* kNames[] = {"forward", "backward_data", "backward_filter"};
  return kNames[static_cast<int>(operation)];
}

const char* Name(cudnnDataType_t type) {
  if (type == CUDNN_DATA_DOUBLE) return "fp64";
  return type == CUDNN_DATA_FLOAT ? "fp32" : type == CUDNN_DATA_HALF ? "fp16" : "bf16";
}

const char* Name(cudnnTensorFormat_t layout) {
  return layout == CUDNN_TENSOR_NCHW ? "nchw" : "nhwc";
}

std::vector<size_t> OutputPlaces(const Shape& shape, cudnnTensorFormat_t layout,
                                 Operation operation, const Cell& cell) {
  if (operation == Operation::kForward) {
    return Places(layout, shape.n, shape.k, OutputSize(shape), cell);
  }
  if (operation == Operation::kBackwardData) {
    return Places(layout, shape.n, shape.c, shape.size, cell);
  }
  std::vector<size_t> places(Count(shape.k, shape.c / shape.groups, shape.filter, shape.filter));
  std::iota(places.begin(), places.end(), size_t{0});
  return places;
}

void WholeNumbers::Add(float value) {
  const double whole = std::nearbyint(value);
  const double off = std::fabs(value - whole);
  if (!(off <= off_whole)) off_whole = std::isfinite(value) ? off : INFINITY;
  const long long number = std::isfinite(value) ? static_cast<long long>(whole) : INT64_MIN;
  checksum = (checksum ^ static_cast<unsigned long long>(number)) * 1099511628211u;
}

Buffer::Buffer(cudnnDataType_t type, size_t count) : type_(type), count_(count) {
  Check(cudaMalloc(&device_, count * ElementBytes(type)), "cudaMalloc");
}

Buffer::~Buffer() { cudaFree(device_); }

void Buffer::FillWithSmallIntegers(uint32_t seed, uint32_t sparsity,
                                   std::span<const size_t> places) {
  std::vector<float> floats(count_);
  for (size_t i = 0; i < count_; ++i) {
    const uint32_t random = Random(seed, static_cast<uint32_t>(places.empty() ? i : places[i]));
    floats[i] = random / 2 % sparsity != 0 ? 0.0f : random % 2 != 0 ? 1.0f : -1.0f;
  }
  const void* source = floats.data();
  std::vector<uint16_t> shorts;
  std::vector<double> doubles;
  if (type_ == CUDNN_DATA_DOUBLE) {
    doubles.assign(floats.begin(), floats.end());
    source = doubles.data();
  } else if (type_ != CUDNN_DATA_FLOAT) {
    for (const float value : floats) {
      shorts.push_back(type_ == CUDNN_DATA_HALF ? ToHalf(value) : ToBfloat(value));
    }
    source = shorts.data();
  }
  Check(cudaMemcpy(device_, source, count_ * ElementBytes(type_), cudaMemcpyHostToDevice),
        "cudaMemcpy");
}

// All bits set make a NaN in each of the types.
void Buffer::FillWithNan() {
  Check(cudaMemset(device_, 0xff, count_ * ElementBytes(type_)), "cudaMemset");
}

std::vector<float> Buffer::Values() const {
  std::vector<float> floats(count_);
  if (type_ == CUDNN_DATA_FLOAT) {
    Check(cudaMemcpy(floats.data(), device_, count_ * 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return floats;
  }
  if (type_ == CUDNN_DATA_DOUBLE) {
    std::vector<double> doubles(count_);
    Check(cudaMemcpy(doubles.data(), device_, count_ * 8, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (size_t i = 0; i < count_; ++i) floats[i] = static_cast<float>(doubles[i]);
    return floats;
  }
  std::vector<uint16_t> shorts(count_);
  Check(cudaMemcpy(shorts.data(), device_, count_ * 2, cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (size_t i = 0; i < count_; ++i) {
    floats[i] = type_ == CUDNN_DATA_HALF ? FromHalf(shorts[i]) : FromBfloat(shorts[i]);
  }
  return floats;
}

Convolution::Convolution(cudnnHandle_t handle, const Shape& shape, cudnnDataType_t type,
                         cudnnTensorFormat_t layout, Operation operation, const Cell& cell)
    : handle_(handle),
      operation_(operation),
      type_(type),
      x_(type, Count(shape.n, shape.c, shape.size / cell.rows, shape.size / cell.columns)),
      w_(type, Count(shape.k, shape.c / shape.groups, shape.filter, shape.filter)),
      y_(type,
         Count(shape.n, shape.k, OutputSize(shape) / cell.rows, OutputSize(shape) / cell.columns)) {
  // The data are sparse, so that sums are exact in every type and Winograd's rounding in 16 bits is
  // small.
  x_.FillWithSmallIntegers(1, 8, Places(layout, shape.n, shape.c, shape.size, cell));
  w_.FillWithSmallIntegers(2, 16);
  y_.FillWithSmallIntegers(3, 16, Places(layout, shape.n, shape.k, OutputSize(shape), cell));
  Check(cudnnCreateTensorDescriptor(&x_descriptor_), "cudnnCreateTensorDescriptor");
  Check(cudnnSetTensor4dDescriptor(x_descriptor_, layout, type, shape.n, shape.c,
                                   shape.size / cell.rows, shape.size / cell.columns),
        "cudnnSetTensor4dDescriptor");
  Check(cudnnCreateTensorDescriptor(&y_descriptor_), "cudnnCreateTensorDescriptor");
  Check(cudnnSetTensor4dDescriptor(y_descriptor_, layout, type, shape.n, shape.k,
                                   OutputSize(shape) / cell.rows, OutputSize(shape) / cell.columns),
        "cudnnSetTensor4dDescriptor");
  Check(cudnnCreateFilterDescriptor(&w_descriptor_), "cudnnCreateFilterDescriptor");
  Check(cudnnSetFilter4dDescriptor(w_descriptor_, type, layout, shape.k, shape.c / shape.groups,
                                   shape.filter, shape.filter),
        "cudnnSetFilter4dDescriptor");
  Check(cudnnCreateConvolutionDescriptor(&convolution_), "cudnnCreateConvolutionDescriptor");
  Check(cudnnSetConvolution2dDescriptor(convolution_, shape.pad, shape.pad, shape.stride,
                                        shape.stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                        type == CUDNN_DATA_DOUBLE ? type : CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor");
  Check(cudnnSetConvolutionGroupCount(convolution_, shape.groups), "cudnnSetConvolutionGroupCount");
}

Convolution::~Convolution() {
  cudnnDestroyConvolutionDescriptor(convolution_);
  cudnnDestroyFilterDescriptor(w_descriptor_);
  cudnnDestroyTensorDescriptor(y_descriptor_);
  cudnnDestroyTensorDescriptor(x_descriptor_);
}

Buffer& Convolution::output() {
  switch (operation_) {
    case Operation::kForward:
      return y_;
    case Operation::kBackwardData:
      return x_;
    default:
      return w_;
  }
}

template <typename Performance, typename FindFunction>
bool Convolution::TakeFirst(FindFunction find) {
  Performance first = {};
  int count = 0;
  const cudnnStatus_t status = find(&count, &first);
  // The thousands of a status are its category: NOT_SUPPORTED has many sub-codes.
  if (status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000) return false;
  Check(status, "cudnnFindConvolution...AlgorithmEx");
  if (count == 0 || first.status != CUDNN_STATUS_SUCCESS) return false;
  algorithm_ = first.algo;
  math_ = first.mathType;
  workspace_bytes_ = first.memory;
  return true;
}

bool Convolution::Find(void* workspace, size_t bytes) {
  switch (operation_) {
    case Operation::kForward:
      return TakeFirst<cudnnConvolutionFwdAlgoPerf_t>([&](int* count, auto* first) {
        return cudnnFindConvolutionForwardAlgorithmEx(
            handle_, x_descriptor_, x_.get(), w_descriptor_, w_.get(), convolution_, y_descriptor_,
            y_.get(), 1, count, first, workspace, bytes);
      });
    case Operation::kBackwardData:
      return TakeFirst<cudnnConvolutionBwdDataAlgoPerf_t>([&](int* count, auto* first) {
        return cudnnFindConvolutionBackwardDataAlgorithmEx(
            handle_, w_descriptor_, w_.get(), y_descriptor_, y_.get(), convolution_, x_descriptor_,
            x_.get(), 1, count, first, workspace, bytes);
      });
    default:
      return TakeFirst<cudnnConvolutionBwdFilterAlgoPerf_t>([&](int* count, auto* first) {
        return cudnnFindConvolutionBackwardFilterAlgorithmEx(
            handle_, x_descriptor_, x_.get(), y_descriptor_, y_.get(), convolution_, w_descriptor_,
            w_.get(), 1, count, first, workspace, bytes);
      });
  }
}

cudnnStatus_t Convolution::TryToRun(void* workspace, float beta, float alpha) {
  const double wide[] = {alpha, beta};
  const bool is_wide = type_ == CUDNN_DATA_DOUBLE;
  const void* const alpha_of = is_wide ? static_cast<const void*>(&wide[0]) : &alpha;
  const void* const beta_of = is_wide ? static_cast<const void*>(&wide[1]) : &beta;
  Check(cudnnSetConvolutionMathType(convolution_, math_), "cudnnSetConvolutionMathType");
  switch (operation_) {
    case Operation::kForward:
      return cudnnConvolutionForward(handle_, alpha_of, x_descriptor_, x_.get(), w_descriptor_,
                                     w_.get(), convolution_,
                                     static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), workspace,
                                     workspace_bytes_, beta_of, y_descriptor_, y_.get());
    case Operation::kBackwardData:
      return cudnnConvolutionBackwardData(
          handle_, alpha_of, w_descriptor_, w_.get(), y_descriptor_, y_.get(), convolution_,
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_), workspace, workspace_bytes_,
          beta_of, x_descriptor_, x_.get());
    default:
      return cudnnConvolutionBackwardFilter(
          handle_, alpha_of, x_descriptor_, x_.get(), y_descriptor_, y_.get(), convolution_,
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_), workspace, workspace_bytes_,
          beta_of, w_descriptor_, w_.get());
  }
}

void Convolution::Run(void* workspace, float beta) {
  Check(TryToRun(workspace, beta), Name(operation_));
}

}  // namespace ucudnn::gpu_tests
