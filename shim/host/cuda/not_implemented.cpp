// Answers calls of the driver's functions that are not implemented.
#include "shim/host/not_implemented.h"

#include <cuda.h>

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "CUDA_ERROR_NOT_SUPPORTED");
  return CUDA_ERROR_NOT_SUPPORTED;
}
