// Macros that end a program at the first CUDA or cuDNN call that fails, and print the call and the
// error.
#pragma once

#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstdio>
#include <cstdlib>

#define CHECK_CUDA(call)                                                  \
  do {                                                                    \
    const cudaError_t error = (call);                                     \
    if (error != cudaSuccess) {                                           \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
      std::exit(1);                                                       \
    }                                                                     \
  } while (0)
#define CHECK_CUDNN(call)                                                   \
  do {                                                                      \
    const cudnnStatus_t status = (call);                                    \
    if (status != CUDNN_STATUS_SUCCESS) {                                   \
      std::fprintf(stderr, "%s: %s\n", #call, cudnnGetErrorString(status)); \
      std::exit(1);                                                         \
    }                                                                       \
  } while (0)
