// The objects behind cuDNN's descriptor handles. Thread-compatible, owned by the application.
// Setters behave like the real 9.19 library's, including the state after a refused call. That
// behaviour was observed (tests/unit/host/cudnn/descriptor_conformance_test.cpp compares it), not
// read.
#pragma once

#include <array>
#include <cstdint>
#include <new>

#include "shim/host/cudnn/refusal.h"

namespace hostgpu {

// Returns the bytes of one element as cuDNN counts them (a vector type is one element); 0 for other
// types.
size_t ElementBytes(cudnnDataType_t type);

// Returns whether tensors and filters accept the type (the three vector types included).
bool IsTensorType(cudnnDataType_t type);
// Returns whether the type is one of those three; their elements hold this many channels.
bool IsVectorType(cudnnDataType_t type);
int ChannelsPerVector(cudnnDataType_t type);

}  // namespace hostgpu

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;  // only NCHW_VECT_C changes the reported values
  int dim_count = 0;
  std::array<int, CUDNN_DIM_MAX> dims{};  // with NCHW_VECT_C, channels are counted in vectors
  std::array<int, CUDNN_DIM_MAX> strides{};

  // Elements from the first to the last addressed one, both included; 0 for an unset descriptor,
  // and the earlier value after a refused call.
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
  cudnnNanPropagation_t nan_propagation = CUDNN_NOT_PROPAGATE_NAN;
  cudnnReduceTensorIndices_t indices = CUDNN_REDUCE_TENSOR_NO_INDICES;
  cudnnIndicesType_t indices_type = CUDNN_32BIT_INDICES;
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

// Writes the value of a getter, if the caller wants it.
template <class T>
void Give(T* to, T value) {
  if (to != nullptr) *to = value;
}

// 32-bit arithmetic that wraps as the real library's does.
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
