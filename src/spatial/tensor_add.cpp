#include "spatial/tensor_add.h"

#include <algorithm>
#include <array>

namespace ucudnn::spatial {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // extents are ints

}  // namespace

TensorAdd::~TensorAdd() {
  if (numbers_ != nullptr) functions_.cudnnDestroyTensorDescriptor(numbers_);
}

Status TensorAdd::Create() {
  if (functions_.cudnnAddTensor == nullptr) {
    return Status::Error("the real cuDNN lacks cudnnAddTensor");
  }
  return cudnn::CudnnStatus(functions_, functions_.cudnnCreateTensorDescriptor(&numbers_),
                            "creating a descriptor");
}

Status TensorAdd::Run(cudnnHandle_t handle, cudnnDataType_t type, CUdeviceptr from, size_t count,
                      const void* beta, CUdeviceptr to) {
  static constexpr float kOne = 1;
  static constexpr double kWideOne = 1;
  const bool wide = type == CUDNN_DATA_DOUBLE;
  const size_t element = wide ? sizeof(double) : sizeof(float);
  const void* const alpha = wide ? static_cast<const void*>(&kWideOne) : &kOne;
  for (size_t begin = 0; begin < count; begin += kMostAtOnce) {
    const int part = static_cast<int>(std::min(kMostAtOnce, count - begin));
    const std::array<int, 4> extents = {1, 1, 1, part};
    const std::array<int, 4> strides = {part, part, part, 1};
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
        functions_,
        functions_.cudnnSetTensorNdDescriptor(numbers_, type, 4, extents.data(), strides.data()),
        "describing numbers to add"));
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
        functions_,
        functions_.cudnnAddTensor(handle, alpha, numbers_,
                                  reinterpret_cast<void*>(from + begin * element), beta, numbers_,
                                  reinterpret_cast<void*>(to + begin * element)),
        "adding numbers"));
  }
  return Status::Ok();
}

}  // namespace ucudnn::spatial
