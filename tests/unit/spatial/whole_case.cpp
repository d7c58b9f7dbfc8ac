#include "tests/unit/spatial/whole_case.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "cudnn/descriptors.h"
#include "tests/support/stand_in.h"

namespace ucudnn::test {
namespace {

constexpr size_t kMargin = 512;
constexpr unsigned char kPattern = 0xA5;

// Returns the fp16 bits of 0, or of a number that fp16 holds as a normal number.
uint16_t HalfOf(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<uint16_t>(std::lround(fraction * 2048) - 1024);
  return static_cast<uint16_t>((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 | mantissa);
}

double FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double mantissa = bits & 1023;
  if (exponent == 31) return std::nan("");
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

void Store(DataType type, double value, void* to) {
  const auto narrow = static_cast<float>(value);
  const auto bits = std::bit_cast<uint32_t>(narrow);
  const auto upper = static_cast<uint16_t>(bits >> 16);
  const uint16_t half = HalfOf(value);
  switch (type) {
    case DataType::kFloat:
      std::memcpy(to, &narrow, sizeof narrow);
      break;
    case DataType::kDouble:
      std::memcpy(to, &value, sizeof value);
      break;
    case DataType::kHalf:
      std::memcpy(to, &half, sizeof half);
      break;
    case DataType::kBfloat16:
      std::memcpy(to, &upper, sizeof upper);
      break;
  }
}

double Load(DataType type, const void* from) {
  if (type == DataType::kDouble) {
    double value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  if (type == DataType::kFloat) {
    float value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  if (type == DataType::kHalf) return FromHalf(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

Strides PackedStridesOf(Layout layout, const Extents5& extents) {
  const Spatial spatial = {static_cast<int32_t>(extents[2]), static_cast<int32_t>(extents[3]),
                           static_cast<int32_t>(extents[4])};
  return PackedStrides(layout, extents[1], spatial);
}

Extents5 ImageExtents(const ConvolutionProblem& p) { return {p.n, p.c, p.x[0], p.x[1], p.x[2]}; }
Extents5 FilterExtents(const ConvolutionProblem& p) {
  return {p.k, p.c / p.groups, p.w[0], p.w[1], p.w[2]};
}
Extents5 OutputTensorExtents(const ConvolutionProblem& p) {
  const Spatial y = OutputExtents(p);
  return {p.n, p.k, y[0], y[1], y[2]};
}

// Holds the descriptors of the fused operands and of the activation.
struct FusedDescriptors {
  cudnnTensorDescriptor_t bias = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;

  explicit FusedDescriptors(const WholeCase& whole) {
    const ConvolutionProblem& p = whole.problem;
    const int rank = p.spatial_rank + 2;
    std::array<int, 5> extents = {1, p.k, 1, 1, 1}, strides = {p.k, 1, 1, 1, 1};
    EXPECT_EQ(cudnnCreateTensorDescriptor(&bias), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetTensorNdDescriptor(bias, cudnn::CudnnType(p.type), rank, extents.data(),
                                         strides.data()),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateActivationDescriptor(&activation), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetActivationDescriptor(
                  activation,
                  whole.fused.has_activation ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
                  CUDNN_NOT_PROPAGATE_NAN, 0),
              CUDNN_STATUS_SUCCESS);
  }
  ~FusedDescriptors() {
    cudnnDestroyTensorDescriptor(bias);
    cudnnDestroyActivationDescriptor(activation);
  }
};

}  // namespace

HostTensor::HostTensor(const Extents5& of) : extents(of) {
  size_t elements = 1;
  for (const int64_t extent : of) elements *= static_cast<size_t>(extent);
  values.assign(elements, 0);
}

double& HostTensor::At(const Extents5& at) {
  int64_t index = 0;
  for (size_t axis = 0; axis < 5; ++axis) index = index * extents[axis] + at[axis];
  return values[static_cast<size_t>(index)];
}

HostTensor HostTensor::Box(const Box3& box) const {
  HostTensor part({extents[0], extents[1], box[0].Length(), box[1].Length(), box[2].Length()});
  size_t next = 0;
  for (int64_t n = 0; n < extents[0]; ++n) {
    for (int64_t c = 0; c < extents[1]; ++c) {
      for (int64_t d = box[0].begin; d < box[0].end; ++d) {
        for (int64_t h = box[1].begin; h < box[1].end; ++h) {
          for (int64_t w = box[2].begin; w < box[2].end; ++w) {
            part.values[next++] = At({n, c, d, h, w});
          }
        }
      }
    }
  }
  return part;
}

HostTensor RandomTensor(const Extents5& extents, int most, std::mt19937& random) {
  HostTensor tensor(extents);
  std::uniform_int_distribution<int> number(-most, most);
  for (double& value : tensor.values) value = number(random);
  return tensor;
}

DeviceTensor::DeviceTensor(const HostTensor& host, const Strides& strides, DataType type)
    : extents_(host.extents), strides_(strides), type_(type) {
  int64_t last = 0;
  for (size_t axis = 0; axis < 5; ++axis) last += (extents_[axis] - 1) * strides_[axis];
  bytes_ = 2 * kMargin + static_cast<size_t>(last + 1) * ElementBytes(type);
  EXPECT_EQ(cuMemAlloc(&address_, bytes_), CUDA_SUCCESS);
  std::vector<unsigned char> bytes(bytes_, kPattern);
  ForEach([&](const Extents5& at, size_t offset) { Store(type_, host.At(at), &bytes[offset]); });
  EXPECT_EQ(cuMemcpyHtoD(address_, bytes.data(), bytes_), CUDA_SUCCESS);
}

DeviceTensor::~DeviceTensor() { cuMemFree(address_); }

void* DeviceTensor::data() const { return reinterpret_cast<void*>(address_ + kMargin); }

void DeviceTensor::ForEach(const std::function<void(const Extents5&, size_t)>& visit) const {
  Extents5 at = {};
  const auto loop = [&](auto& self, size_t axis, int64_t offset) -> void {
    if (axis == 5) return visit(at, kMargin + static_cast<size_t>(offset) * ElementBytes(type_));
    for (at[axis] = 0; at[axis] < extents_[axis]; ++at[axis]) {
      self(self, axis + 1, offset + at[axis] * strides_[axis]);
    }
  };
  loop(loop, 0, 0);
}

std::vector<unsigned char> DeviceTensor::Bytes() const {
  std::vector<unsigned char> bytes(bytes_);
  EXPECT_EQ(cuMemcpyDtoH(bytes.data(), address_, bytes_), CUDA_SUCCESS);
  return bytes;
}

HostTensor DeviceTensor::Read() const {
  HostTensor host(extents_);
  const std::vector<unsigned char> bytes = Bytes();
  ForEach([&](const Extents5& at, size_t offset) { host.At(at) = Load(type_, &bytes[offset]); });
  return host;
}

bool DeviceTensor::IsIntact() const {
  std::vector<unsigned char> bytes = Bytes();
  ForEach([&](const Extents5&, size_t offset) {
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), ElementBytes(type_), kPattern);
  });
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b == kPattern; });
}

HostTensor& WholeCase::Output() {
  switch (problem.operation) {
    case Operation::kForward:
      return y;
    case Operation::kBackwardData:
      return x;
    case Operation::kBackwardFilter:
      break;
  }
  return w;
}

WholeCase WholeCase::Random(const ConvolutionProblem& problem, std::mt19937& random) {
  WholeCase whole;
  whole.problem = problem;
  // Sums stay small enough for bf16, which holds whole numbers up to 256.
  whole.x = RandomTensor(ImageExtents(problem), 1, random);
  whole.w = RandomTensor(FilterExtents(problem), 1, random);
  whole.y = RandomTensor(OutputTensorExtents(problem), 1, random);
  // The output's numbers are even, so that results are whole numbers with a beta of 0.5, too.
  for (double& value : whole.Output().values) value *= 2;
  whole.fused.z = RandomTensor(OutputTensorExtents(problem), 1, random);
  whole.fused.bias = RandomTensor({1, problem.k, 1, 1, 1}, 3, random);
  return whole;
}

Stripe WholeStripe(const ConvolutionProblem& whole) {
  const Spatial y = OutputExtents(whole);
  Stripe stripe = {whole, {}, {}};
  for (size_t axis = 0; axis < 3; ++axis) {
    stripe.elements[axis] = {0, whole.x[axis]};
    stripe.windows[axis] = {0, y[axis]};
  }
  return stripe;
}

StripeResult RunStripe(const WholeCase& whole, const Stripe& stripe, cudnnHandle_t handle,
                       const std::function<cudnnStatus_t(const cudnn::ConvolutionCall&)>& run) {
  const cudnn::Functions functions = StandIn();
  const ConvolutionProblem& p = stripe.problem;
  const HostTensor x_part = whole.x.Box(stripe.elements);
  const HostTensor y_part = whole.y.Box(stripe.windows);
  DeviceTensor x(x_part, p.x_strides, p.type);
  DeviceTensor w(whole.w, PackedStridesOf(p.layout, whole.w.extents), p.type);
  DeviceTensor y(y_part, p.y_strides, p.type);
  DeviceTensor z(whole.fused.z.Box(stripe.windows), p.y_strides, p.type);
  DeviceTensor bias(whole.fused.bias, {p.k, 1, 1, 1, 1}, p.type);
  cudnn::OwnedDescriptors descriptors(functions);
  EXPECT_TRUE(descriptors.Create(p).ok());
  const FusedDescriptors fused(whole);
  const Scalar alpha(whole.alpha), beta(whole.beta), alpha2(whole.fused.alpha2);
  cudnn::BiasActivation extra;
  cudnn::ConvolutionCall call;
  call.operation = p.operation;
  call.handle = handle;
  call.descriptors = descriptors.get();
  call.alpha = alpha.Of(p.type);
  call.beta = beta.Of(p.type);
  call.x = x.data();
  call.w = w.data();
  call.y = y.data();
  if (whole.fused.is_used) {
    extra = {alpha2.Of(p.type), descriptors.get().y, whole.fused.z_is_y ? y.data() : z.data(),
             fused.bias,        bias.data(),         fused.activation};
    call.bias = &extra;
    call.beta = nullptr;
    call.algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  }
  CUdeviceptr workspace = 0;
  size_t bytes = 0;
  EXPECT_EQ(cudnn::WorkspaceBytes(functions, p.operation, handle, descriptors.get(), call.algorithm,
                                  &bytes),
            CUDNN_STATUS_SUCCESS);
  if (bytes > 0) {
    EXPECT_EQ(cuMemAlloc(&workspace, bytes), CUDA_SUCCESS);
  }
  call.workspace = reinterpret_cast<void*>(workspace);
  call.workspace_bytes = bytes;
  StripeResult result;
  result.status = run(call);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudnnGetStream(handle, &stream), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(reinterpret_cast<CUstream>(stream)), CUDA_SUCCESS);
  const std::array<std::pair<const DeviceTensor*, const HostTensor*>, 3> tensors = {
      {{&x, &x_part}, {&w, &whole.w}, {&y, &y_part}}};
  const size_t output = p.operation == Operation::kForward        ? 2
                        : p.operation == Operation::kBackwardData ? 0
                                                                  : 1;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [device, host] = tensors[i];
    result.is_intact = result.is_intact && device->IsIntact();
    if (i == output) {
      result.output = device->Read();
    } else {
      result.is_intact = result.is_intact && device->Read() == *host;
    }
  }
  if (workspace != 0) cuMemFree(workspace);
  return result;
}

HostTensor Undivided(const WholeCase& whole) {
  cudnnHandle_t handle = nullptr;
  EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  const cudnn::Functions functions = StandIn();
  const StripeResult result =
      RunStripe(whole, WholeStripe(whole.problem), handle,
                [&](const cudnn::ConvolutionCall& call) { return Convolve(functions, call); });
  EXPECT_EQ(result.status, CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  return result.output;
}

}  // namespace ucudnn::test
