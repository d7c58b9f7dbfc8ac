#include "convolution.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "../integration/programs/descriptors.h"

namespace ucudnn::gpu_tests {
namespace {

int OutputSize(const Shape& shape) {
  return (shape.size + 2 * shape.pad - shape.filter) / shape.stride + 1;
}

size_t Count(int a, int b, int c, int d) { return size_t{1} * a * b * c * d; }

// Returns the indices that the elements of `cell` have in the uncut tensor, which has n images of c
// channels and size x size pixels. The order is that of the cell's own memory.
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
  // The axes are in the order of memory; the first one changes slowest.
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

// Returns a hash of both arguments. The values of two seeds do not correlate, so a sum of products
// of such values stays small.
uint32_t Random(uint32_t seed, uint32_t index) {
  uint32_t bits = index * 0x9e3779b9u + seed * 0x85ebca6bu;
  bits = (bits ^ bits >> 16) * 0x7feb352du;
  bits = (bits ^ bits >> 15) * 0x846ca68bu;
  return bits ^ bits >> 16;
}

// Store() converts floats to elements in device memory. Load() converts them back.
template <typename Element>
void Store(void* device, const std::vector<float>& floats) {
  const std::vector<Element> elements(floats.begin(), floats.end());
  Check(cudaMemcpy(device, elements.data(), elements.size() * sizeof(Element),
                   cudaMemcpyHostToDevice),
        "cudaMemcpy");
}
template <typename Element>
void Load(const void* device, std::vector<float>& floats) {
  std::vector<Element> elements(floats.size());
  Check(cudaMemcpy(elements.data(), device, elements.size() * sizeof(Element),
                   cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(elements[i]);
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
  if (type_ == CUDNN_DATA_DOUBLE) return Store<double>(device_, floats);
  if (type_ == CUDNN_DATA_FLOAT) return Store<float>(device_, floats);
  if (type_ == CUDNN_DATA_HALF) return Store<__half>(device_, floats);
  Store<__nv_bfloat16>(device_, floats);
}

// In each of the types, an element with all bits set is a NaN.
void Buffer::FillWithNan() {
  Check(cudaMemset(device_, 0xff, count_ * ElementBytes(type_)), "cudaMemset");
}

std::vector<float> Buffer::Values() const {
  std::vector<float> floats(count_);
  if (type_ == CUDNN_DATA_DOUBLE) Load<double>(device_, floats);
  if (type_ == CUDNN_DATA_FLOAT) Load<float>(device_, floats);
  if (type_ == CUDNN_DATA_HALF) Load<__half>(device_, floats);
  if (type_ == CUDNN_DATA_BFLOAT16) Load<__nv_bfloat16>(device_, floats);
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
  // Most elements are 0. So sums are exact in every type, and Winograd's rounding errors in 16 bits
  // are small.
  x_.FillWithSmallIntegers(1, 8, Places(layout, shape.n, shape.c, shape.size, cell));
  w_.FillWithSmallIntegers(2, 16);
  y_.FillWithSmallIntegers(3, 16, Places(layout, shape.n, shape.k, OutputSize(shape), cell));
  const int rows = OutputSize(shape) / cell.rows, columns = OutputSize(shape) / cell.columns;
  x_descriptor_ =
      MakeTensor(type, shape.n, shape.c, shape.size / cell.rows, shape.size / cell.columns, layout);
  y_descriptor_ = MakeTensor(type, shape.n, shape.k, rows, columns, layout);
  w_descriptor_ = MakeFilter(type, shape.k, shape.c / shape.groups, shape.filter, layout);
  convolution_ =
      MakeConvolution(type == CUDNN_DATA_DOUBLE ? type : CUDNN_DATA_FLOAT, shape.pad, shape.stride);
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
  // CUDNN_STATUS_NOT_SUPPORTED has sub-codes. Codes of one category are equal when divided by 1000.
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

void ForEachCase(std::span<const Shape> shapes, std::span<const cudnnDataType_t> types,
                 size_t workspace_bytes, const std::function<void(const Case&)>& body) {
  cudnnHandle_t handle;
  Check(cudnnCreate(&handle), "cudnnCreate");
  void* workspace = nullptr;
  if (workspace_bytes > 0) Check(cudaMalloc(&workspace, workspace_bytes), "cudaMalloc");
  for (const Shape& shape : shapes) {
    for (const cudnnDataType_t type : types) {
      for (const auto layout : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
        for (const Operation operation : kOperations) {
          body({shape, type, layout, operation, handle, workspace});
        }
      }
    }
  }
  Check(cudaFree(workspace), "cudaFree");
  Check(cudnnDestroy(handle), "cudnnDestroy");
}

void Convolution::Run(void* workspace, float beta) {
  Check(TryToRun(workspace, beta), Name(operation_));
}

}  // namespace ucudnn::gpu_tests
