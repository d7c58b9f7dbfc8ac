// Describes one convolution of a test, with its operands in device memory and the result that naive
// loops compute. Data are small integers, so results are exact in every type and for every order of
// summation.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "shim/host/engines/element.h"
#include "tests/unit/host/shared.h"

namespace hostgpu::test {

using Index = std::array<int, 5>;  // n, c, d, h, w (filters: k, c/groups, t, r, s)

constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                     Operation::kBackwardFilter};

enum class Layout { kNchw, kNhwc, kPadded };

inline cudnnDataType_t CudnnType(DataType type) {
  constexpr cudnnDataType_t kInOrder[] = {CUDNN_DATA_FLOAT,  CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16,
                                          CUDNN_DATA_DOUBLE, CUDNN_DATA_INT8, CUDNN_DATA_INT32};
  return kInOrder[static_cast<int>(type)];
}

inline cudnnDataType_t ComputeType(DataType type) {
  return type == DataType::kDouble ? CUDNN_DATA_DOUBLE
         : type == DataType::kInt8 ? CUDNN_DATA_INT32
                                   : CUDNN_DATA_FLOAT;
}

// Holds a tensor or filter on the device. A copy on the host has what the device should hold, also
// between elements and after the last one, where no call may write.
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
    EXPECT_OK(cudaMalloc(&data, bytes.size()));
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
  // Sets each element to value(index), and uploads the tensor.
  template <class Value>
  void FillWith(const Value& value) {
    ForEach([&](const Index& at) { Set(at, value(at)); });
    Upload();
  }
  void Fill(std::mt19937& random) {
    std::uniform_int_distribution<int> values(-1, 1);
    FillWith([&](const Index&) { return values(random); });
  }
  void Upload() { ASSERT_OK(cudaMemcpy(data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice)); }
  // Reads what the device holds into the host copy.
  void Download() {
    ASSERT_OK(cudaMemcpy(bytes.data(), data, bytes.size(), cudaMemcpyDeviceToHost));
  }
  // Returns whether the device holds exactly the bytes of the host copy, gaps included.
  bool Matches() const {
    std::vector<unsigned char> now(bytes.size());
    EXPECT_OK(cudaMemcpy(now.data(), data, now.size(), cudaMemcpyDeviceToHost));
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
  std::optional<DataType> y_type = std::nullopt;  // set if it differs from `type`
  int spatial = 2;
  Layout layout = Layout::kNchw;
  Index x = {2, 4, 1, 6, 5};
  Index w = {4, 4, 1, 3, 2};
  // More padding at the end of each axis, in addition to `pad`; only the graph API supports it.
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

// Names the functions of one operation.
#define CONVOLUTION_API(Name, Short)                                                 \
  struct Name##Api {                                                                 \
    using Algorithm = cudnnConvolution##Short##Algo_t;                               \
    using Performance = cudnnConvolution##Short##AlgoPerf_t;                         \
    static constexpr auto kRun = cudnnConvolution##Name;                             \
    static constexpr auto kWorkspaceSize = cudnnGetConvolution##Name##WorkspaceSize; \
    static constexpr auto kGet = cudnnGetConvolution##Name##Algorithm_v7;            \
    static constexpr auto kFind = cudnnFindConvolution##Name##Algorithm;             \
    static constexpr auto kFindEx = cudnnFindConvolution##Name##AlgorithmEx;         \
  }
CONVOLUTION_API(Forward, Fwd);
CONVOLUTION_API(BackwardData, BwdData);
CONVOLUTION_API(BackwardFilter, BwdFilter);
#undef CONVOLUTION_API

template <class Descriptor>
struct Operand {
  Descriptor desc;
  void* data;
};

// Owns the handle, the descriptors and the tensors of a case.
class Convolution {
 public:
  explicit Convolution(const ConvolutionCase& c)
      : problem(c),
        x(c.x, c.layout, c.type),
        w(c.w, c.layout == Layout::kNhwc ? Layout::kNhwc : Layout::kNchw, c.type),
        y(c.Output(), c.layout, c.y_type.value_or(c.type)) {
    EXPECT_OK(cudnnCreate(&handle));
    cudnnCreateTensorDescriptor(&x_desc);
    cudnnCreateTensorDescriptor(&y_desc);
    cudnnCreateFilterDescriptor(&w_desc);
    cudnnCreateConvolutionDescriptor(&conv_desc);
    Describe(x_desc, x);
    Describe(y_desc, y);
    const auto w_dims = Pick(w.dims);
    const int axes = static_cast<int>(w_dims.size());
    EXPECT_OK(cudnnSetFilterNdDescriptor(
        w_desc, CudnnType(c.type),
        c.layout == Layout::kNhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, axes, w_dims.data()));
    const int from = 3 - c.spatial;
    EXPECT_OK(cudnnSetConvolutionNdDescriptor(
        conv_desc, c.spatial, c.pad.data() + from, c.stride.data() + from, c.dilation.data() + from,
        c.flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION, ComputeType(c.type)));
    cudnnSetConvolutionGroupCount(conv_desc, c.groups);
  }
  // Also fills the tensors with random values.
  Convolution(const ConvolutionCase& c, unsigned seed) : Convolution(c) {
    std::mt19937 random(seed);
    FillAll(random);
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

  // Returns use(functions, first input, second input, result) for the case's operation.
  template <class Use>
  cudnnStatus_t Dispatch(void* x_data, void* w_data, void* y_data, const Use& use) {
    const Operand<cudnnTensorDescriptor_t> image{x_desc, x_data}, output{y_desc, y_data};
    const Operand<cudnnFilterDescriptor_t> filter{w_desc, w_data};
    switch (problem.operation) {
      case Operation::kForward:
        return use(ForwardApi(), image, filter, output);
      case Operation::kBackwardData:
        return use(BackwardDataApi(), filter, output, image);
      default:
        return use(BackwardFilterApi(), image, output, filter);
    }
  }

  cudnnStatus_t WorkspaceSize(int algorithm, size_t* bytes) {
    const auto ask = [&](auto api, auto first, auto second, auto result) {
      return api.kWorkspaceSize(handle, first.desc, second.desc, conv_desc, result.desc,
                                static_cast<typename decltype(api)::Algorithm>(algorithm), bytes);
    };
    return Dispatch(x.data, w.data, y.data, ask);
  }

  cudnnStatus_t Run(int algorithm, void* workspace, size_t workspace_bytes) {
    return RunAt(algorithm, workspace, workspace_bytes, x.data, w.data, y.data);
  }

  // Runs the convolution on operands at the given addresses.
  cudnnStatus_t RunAt(int algorithm, void* workspace, size_t workspace_bytes, void* x_data,
                      void* w_data, void* y_data) {
    const float alpha32 = static_cast<float>(problem.alpha),
                beta32 = static_cast<float>(problem.beta);
    const bool wide = problem.type == DataType::kDouble;
    const void* alpha = wide ? static_cast<const void*>(&problem.alpha) : &alpha32;
    const void* beta = wide ? static_cast<const void*>(&problem.beta) : &beta32;
    const auto run = [&](auto api, auto first, auto second, auto result) {
      return api.kRun(handle, alpha, first.desc, first.data, second.desc, second.data, conv_desc,
                      static_cast<typename decltype(api)::Algorithm>(algorithm), workspace,
                      workspace_bytes, beta, result.desc, result.data);
    };
    return Dispatch(x_data, w_data, y_data, run);
  }

  DeviceTensor& Result() {
    return problem.operation == Operation::kForward        ? y
           : problem.operation == Operation::kBackwardData ? x
                                                           : w;
  }

  // Computes the expected result of a call, and writes it to the result's host copy.
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

  // Returns the numbers of `of`, without the depth if the problem has two spatial axes.
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
    EXPECT_OK(cudnnSetTensorNdDescriptor(descriptor, CudnnType(tensor.type),
                                         static_cast<int>(dims.size()), dims.data(),
                                         strides.data()));
  }
};

// Ends the process. The exit code is 0 if the call and a later correct call both failed as device
// faults.
[[noreturn]] inline void ExitByOutcome(cudnnStatus_t status, cudnnStatus_t later) {
  std::fprintf(stderr, "status %d, then %d\n", status, later);
  const auto fault = CUDNN_STATUS_EXECUTION_FAILED_CUDART;
  std::_Exit(status == fault && later == fault ? 0 : 1);
}

// Runs each death test in a new process, because a forked child would lack the threads of streams.
class DeviceFault : public testing::Test {
 protected:
  DeviceFault() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Holds workspace with a tail after the bytes that are needed. Nothing may write to the tail.
struct TailedWorkspace : DeviceMemory {
  explicit TailedWorkspace(size_t need) : DeviceMemory(need + kTail), needed(need) {
    EXPECT_OK(cudaMemset(data, kUnwritten, bytes));
  }
  void ExpectOnlyTheNeedIsWritten() const {
    std::vector<unsigned char> after(bytes);
    EXPECT_OK(cudaMemcpy(after.data(), data, bytes, cudaMemcpyDeviceToHost));
    const auto unwritten = std::count(after.begin() + needed, after.end(), kUnwritten);
    EXPECT_EQ(static_cast<size_t>(unwritten), bytes - needed) << "the tail was written";
    after.resize(needed);
    EXPECT_NE(after, std::vector<unsigned char>(needed, kUnwritten))
        << "the workspace was never used";
  }

  static constexpr size_t kTail = 4096;
  static constexpr unsigned char kUnwritten = 0x3C;
  const size_t needed, bytes = needed + kTail;
};

inline int AlgorithmCount(Operation operation) {
  return operation == Operation::kForward ? 8 : operation == Operation::kBackwardData ? 6 : 7;
}

}  // namespace hostgpu::test
