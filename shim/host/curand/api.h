// The part of cuRAND's interface that is implemented. Declared here as curand.h does, because not
// every installation of CUDA's headers has that one; everything else in the library is hidden.
#pragma once

#include <library_types.h>

#include <cstddef>

struct CUstream_st;
struct curandGenerator_st;

extern "C" {

enum curandStatus_t {
  CURAND_STATUS_SUCCESS = 0,
  CURAND_STATUS_NOT_INITIALIZED = 101,
  CURAND_STATUS_ALLOCATION_FAILED = 102,
  CURAND_STATUS_TYPE_ERROR = 103,
  CURAND_STATUS_OUT_OF_RANGE = 104,
  CURAND_STATUS_LENGTH_NOT_MULTIPLE = 105,
  CURAND_STATUS_LAUNCH_FAILURE = 201,
  CURAND_STATUS_INITIALIZATION_FAILED = 203,
  CURAND_STATUS_ARCH_MISMATCH = 204,  // "GPU does not support requested feature"
};

#pragma GCC visibility push(default)
// `type` is a curandRngType_t, `ordering` a curandOrdering_t.
curandStatus_t curandCreateGenerator(curandGenerator_st** generator, int type);
curandStatus_t curandCreateGeneratorHost(curandGenerator_st** generator, int type);
curandStatus_t curandDestroyGenerator(curandGenerator_st* generator);
curandStatus_t curandGetVersion(int* version);
curandStatus_t curandGetProperty(libraryPropertyType type, int* value);
curandStatus_t curandSetStream(curandGenerator_st* generator, CUstream_st* stream);
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_st* generator,
                                                  unsigned long long seed);
curandStatus_t curandSetGeneratorOffset(curandGenerator_st* generator, unsigned long long offset);
curandStatus_t curandSetGeneratorOrdering(curandGenerator_st* generator, int ordering);
curandStatus_t curandGenerateSeeds(curandGenerator_st* generator);
curandStatus_t curandGenerate(curandGenerator_st* generator, unsigned* output, size_t count);
curandStatus_t curandGenerateUniform(curandGenerator_st* generator, float* output, size_t count);
curandStatus_t curandGenerateUniformDouble(curandGenerator_st* generator, double* output,
                                           size_t count);
curandStatus_t curandGenerateNormal(curandGenerator_st* generator, float* output, size_t count,
                                    float mean, float deviation);
curandStatus_t curandGenerateNormalDouble(curandGenerator_st* generator, double* output,
                                          size_t count, double mean, double deviation);
#pragma GCC visibility pop

}  // extern "C"
