// Memory pools over the driver's.
#include "shim/host/cudart/runtime.h"

using namespace hostgpu::runtime;

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return Initialised([&] { return cuDeviceGetDefaultMemPool(pool, device); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return Initialised([&] {
    if (!properties) return CUDA_ERROR_INVALID_VALUE;
    CUmemPoolProps driver{};
    driver.allocType = static_cast<CUmemAllocationType>(properties->allocType);
    driver.handleTypes = static_cast<CUmemAllocationHandleType>(properties->handleTypes);
    driver.location.type = static_cast<CUmemLocationType>(properties->location.type);
    driver.location.id = properties->location.id;
    driver.maxSize = properties->maxSize;
    return cuMemPoolCreate(pool, &driver);
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return Initialised([&] { return cuMemPoolDestroy(pool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return Initialised([&] { return cuMemPoolTrimTo(pool, keep); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return Initialised([&] {
    return cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return Initialised([&] {
    return cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}
