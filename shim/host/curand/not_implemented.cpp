// Exports of cuRAND that are not implemented. It has no "not supported"; this is the nearest error.
#include "shim/host/not_implemented.h"

#include "shim/host/curand/api.h"

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "CURAND_STATUS_ARCH_MISMATCH");
  return CURAND_STATUS_ARCH_MISMATCH;
}
