#include "spatial/device_numbers.h"

#include <algorithm>
#include <array>

#include "cudnn/descriptors.h"

namespace ucudnn::spatial {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // elements in one call; extents are ints

}  // namespace

TensorAdd::~TensorAdd() {
  for (const cudnnTensorDescriptor_t descriptor : {numbers_, one_}) {
    if (descriptor != nullptr) functions_.cudnnDestroyTensorDescriptor(descriptor);
  }
}

Status TensorAdd::Create() {
  if (functions_.cudnnAddTensor == nullptr) {
    return Status::Error("the real cuDNN lacks cudnnAddTensor");
  }
  for (cudnnTensorDescriptor_t* const descriptor : {&numbers_, &one_}) {
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
        functions_, functions_.cudnnCreateTensorDescriptor(descriptor), "creating a descriptor"));
  }
  return Status::Ok();
}

Status TensorAdd::Describe(cudnnTensorDescriptor_t descriptor, DataType type, size_t count) const {
  const int numbers = static_cast<int>(count);
  const std::array<int, 4> extents = {1, 1, 1, numbers}, strides = {numbers, numbers, numbers, 1};
  return cudnn::CudnnStatus(
      functions_,
      functions_.cudnnSetTensorNdDescriptor(descriptor, cudnn::CudnnType(type), 4, extents.data(),
                                            strides.data()),
      "describing numbers to add");
}

Status TensorAdd::Run(cudnnHandle_t handle, DataType type, CUdeviceptr from, size_t count,
                      const void* beta, CUdeviceptr to) {
  const size_t element = ElementBytes(type);
  for (size_t begin = 0; begin < count; begin += kMostAtOnce) {
    UCUDNN_RETURN_IF_ERROR(Describe(numbers_, type, std::min(kMostAtOnce, count - begin)));
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
        functions_,
        functions_.cudnnAddTensor(handle, OneOf(type), numbers_, ToPointer(from + begin * element),
                                  beta, numbers_, ToPointer(to + begin * element)),
        "adding numbers"));
  }
  return Status::Ok();
}

Status TensorAdd::Spread(cudnnHandle_t handle, DataType type, CUdeviceptr number, size_t count,
                         CUdeviceptr to) {
  UCUDNN_RETURN_IF_ERROR(Describe(one_, type, 1));
  for (size_t begin = 0; begin < count; begin += kMostAtOnce) {
    UCUDNN_RETURN_IF_ERROR(Describe(numbers_, type, std::min(kMostAtOnce, count - begin)));
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
        functions_,
        functions_.cudnnAddTensor(handle, OneOf(type), one_, ToPointer(number), OneOf(type),
                                  numbers_, ToPointer(to + begin * ElementBytes(type))),
        "adding one number"));
  }
  return Status::Ok();
}

}  // namespace ucudnn::spatial
