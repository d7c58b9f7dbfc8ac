// The implemented part of cuRAND's interface. The declarations repeat curand.h, because some
// installations of CUDA's headers lack that file. Other symbols of the library, except for the
// stubs, are hidden.
#pragma once

#include <cstddef>

struct CUstream_st;
struct curandGenerator_st;

extern "C" {

enum curandStatus_t {
  CURAND_STATUS_SUCCESS = 0,
  CURAND_STATUS_NOT_INITIALIZED = 101,
  CURAND_STATUS_ALLOCATION_FAILED = 102,
  CURAND_STATUS_TYPE_ERROR = 103,
  CURAND_STATUS_LENGTH_NOT_MULTIPLE = 105,
  CURAND_STATUS_LAUNCH_FAILURE = 201,
  CURAND_STATUS_INITIALIZATION_FAILED = 203,
  CURAND_STATUS_ARCH_MISMATCH = 204,  // "GPU does not support requested feature"
};

#pragma GCC visibility push(default)
// `type` is a value of curandRngType_t.
curandStatus_t curandCreateGenerator(curandGenerator_st** generator, int type);
curandStatus_t curandDestroyGenerator(curandGenerator_st* generator);
curandStatus_t curandSetStream(curandGenerator_st* generator, CUstream_st* stream);
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_st* generator,
                                                  unsigned long long seed);
curandStatus_t curandGenerateUniform(curandGenerator_st* generator, float* output, size_t count);
curandStatus_t curandGenerateNormal(curandGenerator_st* generator, float* output, size_t count,
                                    float mean, float deviation);
#pragma GCC visibility pop

}  // extern "C"
