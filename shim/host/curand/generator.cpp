// Generators of pseudo-random numbers, which write to device memory in stream order. As in the real
// library, only one thread at a time may use a generator.
#include <cuda.h>

#include <new>

#include "shim/host/curand/api.h"
#include "shim/host/curand/numbers.h"
#include "shim/host/enqueue.h"

struct curandGenerator_st {
  CUstream_st* stream;
  hostgpu::random::Place place;
};

namespace {

constexpr int kFirstPseudo = 100, kFirstQuasi = 200;  // values of curandRngType_t

// Enqueues fill(place, output), which writes the next `count` numbers.
template <class Fill>
curandStatus_t Generate(curandGenerator_st* generator, float* output, size_t count,
                        const Fill& fill) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  if (count == 0) return CURAND_STATUS_SUCCESS;
  const hostgpu::random::Place place = generator->place;
  const auto work = [=] { fill(place, static_cast<float*>(hostgpuHostAlias(output))); };
  if (hostgpuBytesFrom(output) < count * sizeof(float) ||
      !hostgpu::EnqueueOn(generator->stream, {output}, work)) {
    return CURAND_STATUS_LAUNCH_FAILURE;
  }
  generator->place.first += count;
  return CURAND_STATUS_SUCCESS;
}

}  // namespace

curandStatus_t curandCreateGenerator(curandGenerator_st** generator, int type) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  *generator = nullptr;
  if (type < kFirstPseudo) return CURAND_STATUS_TYPE_ERROR;
  if (type >= kFirstQuasi) return CURAND_STATUS_ARCH_MISMATCH;
  int devices = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices == 0) {
    return CURAND_STATUS_INITIALIZATION_FAILED;
  }
  *generator = new (std::nothrow) curandGenerator_st{nullptr, {}};
  return *generator ? CURAND_STATUS_SUCCESS : CURAND_STATUS_ALLOCATION_FAILED;
}

curandStatus_t curandDestroyGenerator(curandGenerator_st* generator) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  delete generator;
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

curandStatus_t curandGenerateUniform(curandGenerator_st* generator, float* output, size_t count) {
  return Generate(generator, output, count, [=](hostgpu::random::Place place, float* numbers) {
    hostgpu::random::Uniform(place, numbers, count);
  });
}
curandStatus_t curandGenerateNormal(curandGenerator_st* generator, float* output, size_t count,
                                    float mean, float deviation) {
  if (count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return Generate(generator, output, count, [=](hostgpu::random::Place place, float* numbers) {
    hostgpu::random::Normal(place, mean, deviation, numbers, count);
  });
}
