// One convolution as a test describes it, its operands in device memory, and the result that naive
// loops compute. Data are small integers: every type and every order of summation is exact.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "shim/host/engines/element.h"

namespace hostgpu::test {

using Index = std::array<int, 5>;  // n, c, d, h, w (filters: k, c/groups, t, r, s)

enum class Layout { kNchw, kNhwc, kPadded };

inline cudnnDataType_t CudnnType(DataType type) {
  switch (type) {
    case DataType::kHalf:
      return CUDNN_DATA_HALF;
    case DataType::kBfloat16:
      return CUDNN_DATA_BFLOAT16;
    case DataType::kDouble:
      return CUDNN_DATA_DOUBLE;
    case DataType::kInt8:
      return CUDNN_DATA_INT8;
    case DataType::kInt32:
      return CUDNN_DATA_INT32;
    case DataType::kFloat:
      break;
  }
  return CUDNN_DATA_FLOAT;
}

inline cudnnDataType_t ComputeType(DataType type) {
  return type == DataType::kDouble ? CUDNN_DATA_DOUBLE
         : type == DataType::kInt8 ? CUDNN_DATA_INT32
                                   : CUDNN_DATA_FLOAT;
}

// A tensor or filter on the device with a copy on the host that says what it should hold. Memory
// between its elements and behind it is part of the copy: nothing may write there.
class DeviceTensor {
 public:
  static constexpr size_t kSlack = 64;

  DeviceTensor(const Index& dims, Layout layout, DataType type) : dims(dims), type(type) {
    const auto axes =
        layout == Layout::kNhwc ? std::array{1, 4, 3, 2, 0} : std::array{4, 3, 2, 1, 0};
    int64_t stride = layout == Layout::kPadded ? 2 : 1;
    for (int axis : axes) {
      strides[axis] = static_cast<int>(stride);
      stride *= dims[axis];
      if (layout == Layout::kPadded) stride += 3;
    }
    elements_ = 1;
    for (int i = 0; i < 5; ++i) elements_ += int64_t{strides[i]} * (dims[i] - 1);
    bytes.resize(elements_ * ElementSize() + kSlack, 0x6D);
    EXPECT_EQ(cudaMalloc(&data, bytes.size()), cudaSuccess);
  }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;
  ~DeviceTensor() { cudaFree(data); }

  size_t ElementSize() const {
    return WithNumber(type, [](auto element) { return sizeof element; });
  }
  double At(const Index& at) const {
    return WithNumber(type, [&](auto element) -> double {
      std::memcpy(&element, &bytes[Offset(at)], sizeof element);
      return Load(element);
    });
  }
  void Set(const Index& at, double value) {
    WithNumber(type, [&](auto element) {
      Store(element, static_cast<Accumulator<decltype(element)>>(value));
      std::memcpy(&bytes[Offset(at)], &element, sizeof element);
    });
  }
  template <class Body>
  void ForEach(const Body& body) const {
    Index at;
    for (at[0] = 0; at[0] < dims[0]; ++at[0])
      for (at[1] = 0; at[1] < dims[1]; ++at[1])
        for (at[2] = 0; at[2] < dims[2]; ++at[2])
          for (at[3] = 0; at[3] < dims[3]; ++at[3])
            for (at[4] = 0; at[4] < dims[4]; ++at[4]) body(at);
  }
  void Fill(std::mt19937& random) {
    std::uniform_int_distribution<int> values(-1, 1);
    ForEach([&](const Index& at) { Set(at, values(random)); });
    Upload();
  }
  void Upload() {
    ASSERT_EQ(cudaMemcpy(data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  // Returns whether the device holds exactly what the host copy says, gaps included.
  bool Matches() const {
    std::vector<unsigned char> now(bytes.size());
    EXPECT_EQ(cudaMemcpy(now.data(), data, now.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    return now == bytes;
  }

  const Index dims;
  Index strides{};
  const DataType type;
  void* data = nullptr;
  std::vector<unsigned char> bytes;

 private:
  size_t Offset(const Index& at) const {
    int64_t offset = 0;
    for (int i = 0; i < 5; ++i) offset += int64_t{strides[i]} * at[i];
    return offset * ElementSize();
  }
  int64_t elements_;
};

using Values = std::map<Index, double>;

inline Values ValuesOf(const DeviceTensor& tensor) {
  Values values;
  tensor.ForEach([&](const Index& at) { values[at] = tensor.At(at); });
  return values;
}

struct ConvolutionCase {
  Operation operation = Operation::kForward;
  DataType type = DataType::kFloat;
  std::optional<DataType> y_type = std::nullopt;  // if it differs from `type`
  int spatial = 2;
  Layout layout = Layout::kNchw;
  Index x = {2, 4, 1, 6, 5};
  Index w = {4, 4, 1, 3, 2};
  // Padding behind the last pixel in addition to `pad`; only graphs have it.
  std::array<int, 3> more_pad = {0, 0, 0};
  std::array<int, 3> pad = {0, 0, 0}, stride = {1, 1, 1}, dilation = {1, 1, 1};
  int groups = 1;
  bool flip = false;
  double alpha = 1, beta = 0;

  Index Output() const {
    Index y = {x[0], w[0], 1, 1, 1};
    for (int i = 0; i < 3; ++i) {
      y[i + 2] =
          (x[i + 2] + 2 * pad[i] + more_pad[i] - (w[i + 2] - 1) * dilation[i] - 1) / stride[i] + 1;
    }
    return y;
  }
};

// Handle and descriptors of a case.
class Convolution {
 public:
  explicit Convolution(const ConvolutionCase& c)
      : problem(c),
        x(c.x, c.layout, c.type),
        w(c.w, c.layout == Layout::kNhwc ? Layout::kNhwc : Layout::kNchw, c.type),
        y(c.Output(), c.layout, c.y_type.value_or(c.type)) {
    EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    cudnnCreateTensorDescriptor(&x_desc);
    cudnnCreateTensorDescriptor(&y_desc);
    cudnnCreateFilterDescriptor(&w_desc);
    cudnnCreateConvolutionDescriptor(&conv_desc);
    Describe(x_desc, x);
    Describe(y_desc, y);
    const auto w_dims = Pick(w.dims);
    const int axes = static_cast<int>(w_dims.size());
    EXPECT_EQ(
        cudnnSetFilterNdDescriptor(
            w_desc, CudnnType(c.type),
            c.layout == Layout::kNhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, axes, w_dims.data()),
        CUDNN_STATUS_SUCCESS);
    const int from = 3 - c.spatial;
    EXPECT_EQ(cudnnSetConvolutionNdDescriptor(conv_desc, c.spatial, c.pad.data() + from,
                                              c.stride.data() + from, c.dilation.data() + from,
                                              c.flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION,
                                              ComputeType(c.type)),
              CUDNN_STATUS_SUCCESS);
    cudnnSetConvolutionGroupCount(conv_desc, c.groups);
  }
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;
  ~Convolution() {
    cudnnDestroyConvolutionDescriptor(conv_desc);
    cudnnDestroyFilterDescriptor(w_desc);
    cudnnDestroyTensorDescriptor(y_desc);
    cudnnDestroyTensorDescriptor(x_desc);
    cudnnDestroy(handle);
  }

  void FillAll(std::mt19937& random) {
    x.Fill(random);
    w.Fill(random);
    y.Fill(random);
  }

  cudnnStatus_t WorkspaceSize(int algorithm, size_t* bytes) {
    switch (problem.operation) {
      case Operation::kForward:
        return cudnnGetConvolutionForwardWorkspaceSize(
            handle, x_desc, w_desc, conv_desc, y_desc,
            static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), bytes);
      case Operation::kBackwardData:
        return cudnnGetConvolutionBackwardDataWorkspaceSize(
            handle, w_desc, y_desc, conv_desc, x_desc,
            static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), bytes);
      default:
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(
            handle, x_desc, y_desc, conv_desc, w_desc,
            static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), bytes);
    }
  }

  cudnnStatus_t Run(int algorithm, void* workspace, size_t workspace_bytes) {
    return RunAt(algorithm, workspace, workspace_bytes, x.data, w.data, y.data);
  }

  // Runs on operands at other addresses.
  cudnnStatus_t RunAt(int algorithm, void* workspace, size_t workspace_bytes, void* x_data,
                      void* w_data, void* y_data) {
    const float alpha32 = static_cast<float>(problem.alpha),
                beta32 = static_cast<float>(problem.beta);
    const bool wide = problem.type == DataType::kDouble;
    const void* alpha = wide ? static_cast<const void*>(&problem.alpha) : &alpha32;
    const void* beta = wide ? static_cast<const void*>(&problem.beta) : &beta32;
    switch (problem.operation) {
      case Operation::kForward:
        return cudnnConvolutionForward(handle, alpha, x_desc, x_data, w_desc, w_data, conv_desc,
                                       static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), workspace,
                                       workspace_bytes, beta, y_desc, y_data);
      case Operation::kBackwardData:
        return cudnnConvolutionBackwardData(handle, alpha, w_desc, w_data, y_desc, y_data,
                                            conv_desc,
                                            static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm),
                                            workspace, workspace_bytes, beta, x_desc, x_data);
      default:
        return cudnnConvolutionBackwardFilter(
            handle, alpha, x_desc, x_data, y_desc, y_data, conv_desc,
            static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), workspace, workspace_bytes,
            beta, w_desc, w_data);
    }
  }

  DeviceTensor& Result() {
    switch (problem.operation) {
      case Operation::kForward:
        return y;
      case Operation::kBackwardData:
        return x;
      default:
        return w;
    }
  }

  // Writes what the call must leave into the result's host copy.
  void ComputeExpected() {
    DeviceTensor& result = Result();
    std::vector<double> sums(result.bytes.size(), 0);
    const auto slot = [&](const Index& at) -> double& {
      size_t index = 0;
      for (int i = 0; i < 5; ++i) index = index * result.dims[i] + at[i];
      return sums[index];
    };
    const int k_per_group = w.dims[0] / problem.groups;
    y.ForEach([&](const Index& o) {
      for (int c = 0; c < w.dims[1]; ++c) {
        Index f = {o[1], c, 0, 0, 0};
        for (f[2] = 0; f[2] < w.dims[2]; ++f[2])
          for (f[3] = 0; f[3] < w.dims[3]; ++f[3])
            for (f[4] = 0; f[4] < w.dims[4]; ++f[4]) {
              Index i = {o[0], o[1] / k_per_group * w.dims[1] + c, 0, 0, 0};
              bool inside = true;
              for (int a = 2; a < 5; ++a) {
                const int tap = problem.flip ? w.dims[a] - 1 - f[a] : f[a];
                i[a] = o[a] * problem.stride[a - 2] - problem.pad[a - 2] +
                       tap * problem.dilation[a - 2];
                inside = inside && i[a] >= 0 && i[a] < x.dims[a];
              }
              if (!inside) continue;
              switch (problem.operation) {
                case Operation::kForward:
                  slot(o) += x.At(i) * w.At(f);
                  break;
                case Operation::kBackwardData:
                  slot(i) += y.At(o) * w.At(f);
                  break;
                case Operation::kBackwardFilter:
                  slot(f) += x.At(i) * y.At(o);
                  break;
              }
            }
      }
    });
    result.ForEach([&](const Index& at) {
      result.Set(at,
                 problem.alpha * slot(at) + (problem.beta == 0 ? 0 : problem.beta * result.At(at)));
    });
  }

  // Returns n, c, [d,] h, w.
  std::vector<int> Pick(const Index& of) const {
    std::vector<int> picked(of.begin(), of.end());
    if (problem.spatial == 2) picked.erase(picked.begin() + 2);
    return picked;
  }

  const ConvolutionCase problem;
  DeviceTensor x, w, y;
  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t x_desc, y_desc;
  cudnnFilterDescriptor_t w_desc;
  cudnnConvolutionDescriptor_t conv_desc;

 private:
  void Describe(cudnnTensorDescriptor_t descriptor, const DeviceTensor& tensor) {
    const auto dims = Pick(tensor.dims), strides = Pick(tensor.strides);
    EXPECT_EQ(
        cudnnSetTensorNdDescriptor(descriptor, CudnnType(tensor.type),
                                   static_cast<int>(dims.size()), dims.data(), strides.data()),
        CUDNN_STATUS_SUCCESS);
  }
};

inline int AlgorithmCount(Operation operation) {
  return operation == Operation::kForward ? 8 : operation == Operation::kBackwardData ? 6 : 7;
}

// A device allocation that frees itself.
struct DeviceBytes {
  explicit DeviceBytes(size_t bytes) {
    if (bytes > 0) {
      EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess);
    }
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data); }
  void* data = nullptr;
};

}  // namespace hostgpu::test
