#include "convolution.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "convolution/partial_sums.h"
#include "libraries.h"
#include "shim/host/engines/element.h"
#include "tests/support/deviceless_cudnn.h"

namespace ucudnn::test {
namespace {

constexpr unsigned char kGap = 0x6D;

template <typename Body>
auto WithElement(DataType type, Body body) {
  switch (type) {
    case DataType::kHalf:
      return body(hostgpu::Half{});
    case DataType::kBfloat16:
      return body(hostgpu::Bfloat16{});
    case DataType::kDouble:
      return body(double{});
    case DataType::kFloat:
      break;
  }
  return body(float{});
}

Strides FilterStrides(const ConvolutionProblem& problem) {
  return PackedStrides(problem.layout, problem.c / problem.groups, problem.w);
}

Strides BiasStrides(int k) { return {k, 1, 1, 1, 1}; }

size_t Span(int images, int channels, const Spatial& extents, const Strides& strides) {
  int64_t last = (images - 1) * strides[0] + (channels - 1) * strides[1];
  for (int axis = 0; axis < kMaxSpatial; ++axis) last += (extents[axis] - 1) * strides[axis + 2];
  return static_cast<size_t>(last) + 1;
}

cudnn::OwnedDescriptors DescriptorsOf(const ConvolutionProblem& problem) {
  cudnn::OwnedDescriptors descriptors(DropIn());
  const Status status = descriptors.Create(problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return descriptors;
}

std::optional<size_t> NeedOf(const cudnn::Functions& library, const Convolution& convolution,
                             int algorithm) {
  size_t bytes = 0;
  if (cudnn::WorkspaceBytes(library, convolution.problem().operation, convolution.handle(),
                            convolution.descriptors(), algorithm, &bytes) != CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace

Operand::Operand(DataType type, int images, int channels, const Spatial& extents,
                 const Strides& strides, const Placement& placement)
    : type(type),
      images(images),
      channels(channels),
      extents(extents),
      strides(strides),
      content(images == 0 ? 0 : Span(images, channels, extents, strides) * ElementBytes(type),
              kGap),
      memory(content.size(), placement) {}

void Operand::ForEach(const std::function<void(size_t)>& body) const {
  for (int n = 0; n < images; ++n)
    for (int c = 0; c < channels; ++c)
      for (int d = 0; d < extents[0]; ++d)
        for (int h = 0; h < extents[1]; ++h)
          for (int v = 0; v < extents[2]; ++v) {
            body(static_cast<size_t>(n * strides[0] + c * strides[1] + d * strides[2] +
                                     h * strides[3] + v * strides[4]));
          }
}

double Operand::Get(const Bytes& from, size_t element) const {
  return WithElement(type, [&](auto value) -> double {
    std::memcpy(&value, &from[element * sizeof value], sizeof value);
    return hostgpu::Load(value);
  });
}

void Operand::Fill(const std::function<double()>& value) {
  WithElement(type, [&](auto element) {
    ForEach([&](size_t index) {
      hostgpu::Store(element, static_cast<hostgpu::Accumulator<decltype(element)>>(value()));
      std::memcpy(&content[index * sizeof element], &element, sizeof element);
    });
  });
}

Convolution::Convolution(const ConvolutionProblem& problem, Extra extra, bool z_is_y,
                         const Placements& at)
    : x(problem.type, problem.n, problem.c, problem.x, problem.x_strides, at.x),
      w(problem.type, problem.k, problem.c / problem.groups, problem.w, FilterStrides(problem),
        at.w),
      y(problem.type, problem.n, problem.k, OutputExtents(problem), problem.y_strides, at.y),
      z(problem.type, extra == Extra::kNone ? 0 : problem.n, problem.k, OutputExtents(problem),
        problem.y_strides, at.z),
      bias(problem.type, extra == Extra::kNone ? 0 : 1, problem.k, {1, 1, 1},
           BiasStrides(problem.k), at.bias),
      descriptors_(DescriptorsOf(problem)),
      extra_(extra),
      z_is_y_(z_is_y) {
  const char* const refused =
      cudnn::ReadProblem(DropIn(), problem.operation, descriptors_.get(), problem_);
  EXPECT_EQ(refused, nullptr) << refused;
  EXPECT_EQ(cudnnCreate(&own_handle_), CUDNN_STATUS_SUCCESS);
  handle_ = own_handle_;
  if (extra == Extra::kNone) return;
  const int rank = problem.spatial_rank + 2;
  const std::vector<int> ones(rank, 1);
  std::vector<int> extents = ones, strides = ones;
  extents[1] = strides[0] = problem.k;
  const cudnnDataType_t type = problem.type == DataType::kDouble     ? CUDNN_DATA_DOUBLE
                               : problem.type == DataType::kHalf     ? CUDNN_DATA_HALF
                               : problem.type == DataType::kBfloat16 ? CUDNN_DATA_BFLOAT16
                                                                     : CUDNN_DATA_FLOAT;
  EXPECT_EQ(cudnnCreateTensorDescriptor(&bias_descriptor_), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(
      cudnnSetTensorNdDescriptor(bias_descriptor_, type, rank, extents.data(), strides.data()),
      CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnCreateActivationDescriptor(&activation_), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(
      cudnnSetActivationDescriptor(
          activation_, extra == Extra::kRelu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
          CUDNN_NOT_PROPAGATE_NAN, 0),
      CUDNN_STATUS_SUCCESS);
}

Convolution::~Convolution() {
  if (activation_ != nullptr) cudnnDestroyActivationDescriptor(activation_);
  if (bias_descriptor_ != nullptr) cudnnDestroyTensorDescriptor(bias_descriptor_);
  if (own_handle_ != nullptr) cudnnDestroy(own_handle_);
}

std::vector<Operand*> Convolution::Operands() {
  std::vector<Operand*> operands = {&x, &w, &y};
  if (extra_ != Extra::kNone) operands.insert(operands.end(), {&z, &bias});
  return operands;
}

void Convolution::Fill(const std::function<double()>& value) {
  for (Operand* operand : Operands()) {
    operand->Fill(value);
    operand->Upload();
  }
}

void Convolution::FillIntegers(std::mt19937& random) {
  // Partial sums may be rounded to bfloat16, which has 8 significant bits, so they must stay below
  // 256.
  const int largest = SumsPartials(problem_) ? 1 : 2;
  std::uniform_int_distribution<int> values(-largest, largest);
  Fill([&]() -> double { return values(random); });
}

void Convolution::FillIntegers(unsigned seed) {
  std::mt19937 random(seed);
  FillIntegers(random);
}

Bytes Convolution::FillAndExpect(unsigned seed, const Scales& scales) {
  FillIntegers(seed);
  return Expected(scales);
}

void Convolution::SpoilOutput() {
  const size_t element = ElementBytes(output().type);
  output().ForEach(
      [&](size_t index) { std::memset(&output().content[index * element], 0xFF, element); });
  output().Upload();
}

Operand& Convolution::output() {
  switch (problem_.operation) {
    case Operation::kBackwardData:
      return x;
    case Operation::kBackwardFilter:
      return w;
    case Operation::kForward:
      break;
  }
  return y;
}

cudnnStatus_t Convolution::Run(const cudnn::Functions& library, int algorithm, void* workspace,
                               size_t workspace_bytes, const Scales& scales) {
  return RunOn(handle_, library, algorithm, workspace, workspace_bytes, scales);
}

cudnnStatus_t Convolution::RunOn(cudnnHandle_t handle, const cudnn::Functions& library,
                                 int algorithm, void* workspace, size_t workspace_bytes,
                                 const Scales& scales) {
  const float alpha = static_cast<float>(scales.alpha), beta = static_cast<float>(scales.beta);
  const bool wide = problem_.type == DataType::kDouble;
  cudnn::ConvolutionCall call;
  call.operation = problem_.operation;
  call.handle = handle;
  call.descriptors = descriptors_.get();
  call.alpha = wide ? static_cast<const void*>(&scales.alpha) : &alpha;
  call.beta = wide ? static_cast<const void*>(&scales.beta) : &beta;
  call.x = x.memory.data();
  call.w = w.memory.data();
  call.y = y.memory.data();
  call.algorithm = algorithm;
  call.workspace = workspace;
  call.workspace_bytes = workspace_bytes;
  const cudnn::BiasActivation epilogue{
      call.beta,        call.descriptors.y, z_is_y_ ? y.memory.data() : z.memory.data(),
      bias_descriptor_, bias.memory.data(), activation_};
  if (extra_ != Extra::kNone) call.bias = &epilogue;
  return cudnn::Convolve(library, call);
}

Bytes Convolution::TakeOutput() {
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  Bytes result = output().memory.Download();
  output().Upload();
  return result;
}

Bytes Convolution::Expected(const Scales& scales) {
  // cuDNN supports an identity activation only with algorithm 1.
  const int algorithm = extra_ == Extra::kIdentity ? 1 : 0;
  const GuardedMemory workspace(RealNeed(*this, algorithm).value_or(0));
  EXPECT_EQ(Run(Undivided(), algorithm, workspace.data(), workspace.bytes(), scales),
            CUDNN_STATUS_SUCCESS);
  return TakeOutput();
}

bool Convolution::OutputEquals(const Bytes& expected, const Bytes& actual) {
  const Operand& result = output();
  const size_t bytes = ElementBytes(result.type);
  Bytes expected_gaps = expected, actual_gaps = actual;
  bool equal = true;
  result.ForEach([&](size_t element) {
    // Compares values instead of bits, because a sum of parts may be -0 instead of +0.
    equal &= result.Get(expected, element) == result.Get(actual, element);
    std::memset(&expected_gaps[element * bytes], 0, bytes);
    std::memset(&actual_gaps[element * bytes], 0, bytes);
  });
  return equal && expected_gaps == actual_gaps;
}

bool Convolution::NothingElseWasWritten() {
  for (Operand* operand : Operands()) {
    if (!operand->memory.GuardsAreIntact()) return false;
    if (operand != &output() && !operand->IsUnchanged()) return false;
  }
  return true;
}

void Convolution::ExpectOutput(const Bytes& expected, const GuardedMemory* workspace) {
  EXPECT_TRUE(OutputEquals(expected, TakeOutput()));
  EXPECT_TRUE(NothingElseWasWritten());
  EXPECT_TRUE(workspace == nullptr || workspace->GuardsAreIntact());
}

std::optional<cudnn::BackendDescriptor> PackOf(const Convolution& convolution, void* workspace) {
  const std::array<int64_t, 3> uids = {kUidX, kUidW, kUidY};
  const std::array<void*, 3> pointers = {convolution.x.memory.data(), convolution.w.memory.data(),
                                         convolution.y.memory.data()};
  auto pack = cudnn::BackendDescriptor::Create(DropIn(), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const bool made =
      pack.ok() &&
      pack->Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, uids.data()).ok() &&
      pack->Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers.data())
          .ok() &&
      pack->Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace).ok() &&
      pack->Finalize().ok();
  if (!made) return std::nullopt;
  return std::move(*pack);
}

std::optional<size_t> RealNeed(const Convolution& convolution, int algorithm) {
  return NeedOf(Undivided(), convolution, algorithm);
}

std::optional<size_t> ReportedNeed(const Convolution& convolution, int algorithm) {
  return NeedOf(DropIn(), convolution, algorithm);
}

}  // namespace ucudnn::test
