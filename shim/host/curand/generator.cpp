// Pseudo-random generators: on device memory, in stream order, or on host memory. One thread at a
// time uses a generator, as in the real library.
#include <cuda.h>

#include <new>

#include "shim/host/curand/api.h"
#include "shim/host/curand/numbers.h"
#include "shim/host/enqueue.h"

struct curandGenerator_st {
  bool on_host;
  CUstream_st* stream;
  hostgpu::random::Place place;
};

namespace {

constexpr int kFirstPseudo = 100, kFirstQuasi = 200;                     // curandRngType_t
constexpr int kVersionMajor = 10, kVersionMinor = 4, kVersionPatch = 0;  // CUDA 13.0's

curandStatus_t Create(curandGenerator_st** generator, int type, bool on_host) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  *generator = nullptr;
  if (type < kFirstPseudo) return CURAND_STATUS_TYPE_ERROR;
  if (type >= kFirstQuasi) return CURAND_STATUS_ARCH_MISMATCH;
  int devices = 0;
  if (!on_host &&
      (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices == 0)) {
    return CURAND_STATUS_INITIALIZATION_FAILED;
  }
  *generator = new (std::nothrow) curandGenerator_st{on_host, nullptr, {}};
  return *generator ? CURAND_STATUS_SUCCESS : CURAND_STATUS_ALLOCATION_FAILED;
}

// Has `fill(place, numbers)` write the next `count` numbers to `output`.
template <class T, class Fill>
curandStatus_t Generate(curandGenerator_st* generator, T* output, size_t count, const Fill& fill) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  if (count == 0) return CURAND_STATUS_SUCCESS;
  if (output == nullptr) return CURAND_STATUS_LAUNCH_FAILURE;
  const hostgpu::random::Place place = generator->place;
  if (generator->on_host) {
    fill(place, output);
  } else {
    const auto work = [=] { fill(place, static_cast<T*>(hostgpuHostAlias(output))); };
    if (hostgpuBytesFrom(output) < count * sizeof(T) ||
        !hostgpu::EnqueueOn(generator->stream, {output}, work)) {
      return CURAND_STATUS_LAUNCH_FAILURE;
    }
  }
  generator->place.first += count;
  return CURAND_STATUS_SUCCESS;
}

template <class T>
curandStatus_t GenerateNormal(curandGenerator_st* generator, T* output, size_t count, T mean,
                              T deviation) {
  if (count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return Generate(generator, output, count, [=](hostgpu::random::Place place, T* numbers) {
    hostgpu::random::Normal(place, mean, deviation, numbers, count);
  });
}

}  // namespace

curandStatus_t curandCreateGenerator(curandGenerator_st** generator, int type) {
  return Create(generator, type, false);
}
curandStatus_t curandCreateGeneratorHost(curandGenerator_st** generator, int type) {
  return Create(generator, type, true);
}

curandStatus_t curandDestroyGenerator(curandGenerator_st* generator) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  delete generator;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGetVersion(int* version) {
  if (version == nullptr) return CURAND_STATUS_OUT_OF_RANGE;
  *version = kVersionMajor * 1000 + kVersionMinor * 100 + kVersionPatch;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGetProperty(libraryPropertyType type, int* value) {
  constexpr int kParts[] = {kVersionMajor, kVersionMinor, kVersionPatch};
  if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL) {
    return CURAND_STATUS_OUT_OF_RANGE;
  }
  *value = kParts[type];
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetStream(curandGenerator_st* generator, CUstream_st* stream) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  generator->stream = stream;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_st* generator,
                                                  unsigned long long seed) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  generator->place = {seed, 0};
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetGeneratorOffset(curandGenerator_st* generator, unsigned long long offset) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  generator->place.first = offset;
  return CURAND_STATUS_SUCCESS;
}

// There is one order, and no state that would have to be prepared.
curandStatus_t curandSetGeneratorOrdering(curandGenerator_st* generator, int) {
  return generator == nullptr ? CURAND_STATUS_NOT_INITIALIZED : CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGenerateSeeds(curandGenerator_st* generator) {
  return generator == nullptr ? CURAND_STATUS_NOT_INITIALIZED : CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGenerate(curandGenerator_st* generator, unsigned* output, size_t count) {
  return Generate(generator, output, count, [=](hostgpu::random::Place place, unsigned* numbers) {
    hostgpu::random::Bits(place, numbers, count);
  });
}
curandStatus_t curandGenerateUniform(curandGenerator_st* generator, float* output, size_t count) {
  return Generate(generator, output, count, [=](hostgpu::random::Place place, float* numbers) {
    hostgpu::random::Uniform(place, numbers, count);
  });
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_st* generator, double* output,
                                           size_t count) {
  return Generate(generator, output, count, [=](hostgpu::random::Place place, double* numbers) {
    hostgpu::random::Uniform(place, numbers, count);
  });
}
curandStatus_t curandGenerateNormal(curandGenerator_st* generator, float* output, size_t count,
                                    float mean, float deviation) {
  return GenerateNormal(generator, output, count, mean, deviation);
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_st* generator, double* output,
                                          size_t count, double mean, double deviation) {
  return GenerateNormal(generator, output, count, mean, deviation);
}
