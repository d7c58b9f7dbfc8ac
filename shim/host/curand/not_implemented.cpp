// Answers calls of cuRAND's functions that are not implemented. cuRAND has no status for "not
// supported"; CURAND_STATUS_ARCH_MISMATCH is the nearest one.
#include "shim/host/not_implemented.h"

#include "shim/host/curand/api.h"

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "CURAND_STATUS_ARCH_MISMATCH");
  return CURAND_STATUS_ARCH_MISMATCH;
}
