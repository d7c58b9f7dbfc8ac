#include "spatial/channel_numbers.h"

#include <array>
#include <utility>

#include "cudnn/descriptors.h"
#include "spatial/device_numbers.h"

namespace ucudnn::spatial {

Result<std::unique_ptr<ChannelNumbers>> ChannelNumbers::Make(const cudnn::Functions& functions,
                                                             DataType type, int channels) {
  if (!functions.HasOpTensor() || functions.cudnnAddTensor == nullptr ||
      functions.cudnnSetTensor == nullptr ||
      functions.cudnnBatchNormalizationForwardInference == nullptr) {
    return Status::Error("the real cuDNN lacks functions that combine statistics");
  }
  std::unique_ptr<ChannelNumbers> made(new ChannelNumbers(functions, type, channels));
  UCUDNN_RETURN_IF_ERROR(made->Describe());
  return made;
}

ChannelNumbers::~ChannelNumbers() {
  if (numbers_ != nullptr) functions_.cudnnDestroyTensorDescriptor(numbers_);
  for (const cudnnOpTensorDescriptor_t operation : {add_, multiply_}) {
    if (operation != nullptr) functions_.cudnnDestroyOpTensorDescriptor(operation);
  }
}

Status ChannelNumbers::Describe() {
  const std::array<int, 4> extents = {1, channels_, 1, 1}, strides = {channels_, 1, 1, 1};
  const cudnnDataType_t type = cudnn::CudnnType(type_);
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
      functions_, functions_.cudnnCreateTensorDescriptor(&numbers_), "creating a descriptor"));
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
      functions_,
      functions_.cudnnSetTensorNdDescriptor(numbers_, type, 4, extents.data(), strides.data()),
      "describing a number for each channel"));
  for (const auto& [descriptor, operation] :
       {std::pair{&add_, CUDNN_OP_TENSOR_ADD}, std::pair{&multiply_, CUDNN_OP_TENSOR_MUL}}) {
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
        functions_, functions_.cudnnCreateOpTensorDescriptor(descriptor), "creating a descriptor"));
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
        functions_,
        functions_.cudnnSetOpTensorDescriptor(*descriptor, operation, type, CUDNN_PROPAGATE_NAN),
        "describing an operation"));
  }
  return Status::Ok();
}

size_t ChannelNumbers::bytes() const {
  constexpr size_t alignment = cudnn::kLegacyAlignment;
  const size_t bytes = static_cast<size_t>(channels_) * ElementBytes(type_);
  return (bytes + alignment - 1) / alignment * alignment;
}

Status ChannelNumbers::Set(cudnnHandle_t handle, double value, CUdeviceptr to) const {
  const Factor number(value);
  return cudnn::CudnnStatus(
      functions_, functions_.cudnnSetTensor(handle, numbers_, ToPointer(to), number.Of(type_)),
      "setting a number for each channel");
}

Status ChannelNumbers::Add(cudnnHandle_t handle, double alpha, CUdeviceptr from, double beta,
                           CUdeviceptr to) const {
  const Factor from_scale(alpha), to_scale(beta);
  return cudnn::CudnnStatus(
      functions_,
      functions_.cudnnAddTensor(handle, from_scale.Of(type_), numbers_, ToPointer(from),
                                to_scale.Of(type_), numbers_, ToPointer(to)),
      "adding a number for each channel");
}

Status ChannelNumbers::Sum(cudnnHandle_t handle, double a_scale, CUdeviceptr a, double b_scale,
                           CUdeviceptr b, CUdeviceptr to) const {
  const Factor first(a_scale), second(b_scale);
  return cudnn::CudnnStatus(
      functions_,
      functions_.cudnnOpTensor(handle, add_, first.Of(type_), numbers_, ToPointer(a),
                               second.Of(type_), numbers_, ToPointer(b), ZeroOf(type_), numbers_,
                               ToPointer(to)),
      "adding two numbers for each channel");
}

Status ChannelNumbers::Multiply(cudnnHandle_t handle, double scale, CUdeviceptr a, CUdeviceptr b,
                                double beta, CUdeviceptr to) const {
  const Factor first(scale), to_scale(beta);
  return cudnn::CudnnStatus(
      functions_,
      functions_.cudnnOpTensor(handle, multiply_, first.Of(type_), numbers_, ToPointer(a),
                               OneOf(type_), numbers_, ToPointer(b), to_scale.Of(type_), numbers_,
                               ToPointer(to)),
      "multiplying two numbers for each channel");
}

Status ChannelNumbers::InverseDeviation(cudnnHandle_t handle, double epsilon, CUdeviceptr variance,
                                        CUdeviceptr zeros, CUdeviceptr ones, CUdeviceptr to) const {
  return cudnn::CudnnStatus(
      functions_,
      functions_.cudnnBatchNormalizationForwardInference(
          handle, CUDNN_BATCHNORM_SPATIAL, OneOf(type_), ZeroOf(type_), numbers_, ToPointer(ones),
          numbers_, ToPointer(to), numbers_, ToPointer(ones), ToPointer(zeros), ToPointer(zeros),
          ToPointer(variance), epsilon),
      "computing inverse deviations");
}

}  // namespace ucudnn::spatial
