// Exports of the runtime that are not implemented. As every failed call, they become the thread's
// last error.
#include "shim/host/not_implemented.h"

#include "shim/host/cudart/runtime.h"

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "cudaErrorNotSupported");
  return hostgpu::runtime::Recorded(cudaErrorNotSupported);
}
