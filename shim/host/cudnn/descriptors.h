// The structs behind cuDNN's descriptor handles. Thread-compatible; the application owns them.
// Setters behave like the real 9.19 library's, and refused calls leave the same state. The real
// behaviour was found by experiment; tests/unit/host/cudnn/descriptor_conformance_test.cpp compares
// both libraries.
#pragma once

#include <array>
#include <cstdint>
#include <new>

#include "shim/host/cudnn/refusal.h"

namespace hostgpu {

// Returns the bytes of one element. An element of a vector type is a whole vector, as in cuDNN.
// Returns 0 for invalid types.
size_t ElementBytes(cudnnDataType_t type);

// Returns true if a tensor may have the type. The three vector types are allowed.
bool IsTensorType(cudnnDataType_t type);
// IsVectorType returns true for the three vector types. ChannelsPerVector returns the number of
// channels in one element.
bool IsVectorType(cudnnDataType_t type);
int ChannelsPerVector(cudnnDataType_t type);

}  // namespace hostgpu

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  // Getters only distinguish NCHW_VECT_C from all other formats.
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int dim_count = 0;
  std::array<int, CUDNN_DIM_MAX> dims{};  // with NCHW_VECT_C, dims[1] counts vectors of channels
  std::array<int, CUDNN_DIM_MAX> strides{};

  // The number of elements from the first to the last addressed one, both included. 0 if the
  // descriptor was never set; a refused call does not change it.
  int64_t span = 0;
};

struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int dim_count = 0;
  std::array<int, CUDNN_DIM_MAX> dims{};

  int64_t Elements() const;
};

struct cudnnConvolutionStruct {
  static constexpr int kMaxSpatial = CUDNN_DIM_MAX - 2;
  int spatial_count = 0;
  std::array<int, kMaxSpatial> pad{};
  std::array<int, kMaxSpatial> stride{};
  std::array<int, kMaxSpatial> dilation{};
  cudnnConvolutionMode_t mode = CUDNN_CONVOLUTION;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math_type = CUDNN_DEFAULT_MATH;
  int group_count = 1;
};

struct cudnnPoolingStruct {
  static constexpr int kMaxSpatial = CUDNN_DIM_MAX - 2;
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  cudnnNanPropagation_t nan_propagation = CUDNN_NOT_PROPAGATE_NAN;
  int spatial_count = 0;
  std::array<int, kMaxSpatial> window{};
  std::array<int, kMaxSpatial> pad{};
  std::array<int, kMaxSpatial> stride{};
};

struct cudnnOpTensorStruct {
  cudnnOpTensorOp_t operation = CUDNN_OP_TENSOR_ADD;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnNanPropagation_t nan_propagation = CUDNN_NOT_PROPAGATE_NAN;
};

struct cudnnReduceTensorStruct {
  cudnnReduceTensorOp_t operation = CUDNN_REDUCE_TENSOR_ADD;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
};

struct cudnnActivationStruct {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_SIGMOID;
  cudnnNanPropagation_t nan_propagation = CUDNN_NOT_PROPAGATE_NAN;
  double coefficient = 0;
};

namespace hostgpu {

template <class Struct>
cudnnStatus_t CreateDescriptor(Struct** descriptor) {
  HOSTGPU_REFUSE_IF(descriptor == nullptr, CUDNN_STATUS_BAD_PARAM);
  *descriptor = new (std::nothrow) Struct;
  HOSTGPU_REFUSE_IF(*descriptor == nullptr, CUDNN_STATUS_ALLOC_FAILED);
  return CUDNN_STATUS_SUCCESS;
}
template <class Struct>
cudnnStatus_t DestroyDescriptor(Struct* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

// Stores the value of a getter in `*to`, unless the caller passed null.
template <class T>
void Give(T* to, T value) {
  if (to != nullptr) *to = value;
}

// 32-bit arithmetic that wraps around, as the real library's does.
inline int Multiply(int a, int b) {
  return static_cast<int>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}
inline int Add(int a, int b) {
  return static_cast<int>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
inline int Subtract(int a, int b) {
  return static_cast<int>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}

}  // namespace hostgpu

// Defines cudnnCreate*Descriptor and cudnnDestroy*Descriptor.
#define HOSTGPU_CREATE_AND_DESTROY(Kind)                                               \
  cudnnStatus_t cudnnCreate##Kind##Descriptor(cudnn##Kind##Descriptor_t* descriptor) { \
    return hostgpu::CreateDescriptor(descriptor);                                      \
  }                                                                                    \
  cudnnStatus_t cudnnDestroy##Kind##Descriptor(cudnn##Kind##Descriptor_t descriptor) { \
    return hostgpu::DestroyDescriptor(descriptor);                                     \
  }
