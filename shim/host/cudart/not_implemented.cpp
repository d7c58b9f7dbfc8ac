// Exports of the runtime that are not implemented. Their error becomes the thread's last error,
// like the error of every failed call.
#include "shim/host/not_implemented.h"

#include "shim/host/cudart/runtime.h"

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "cudaErrorNotSupported");
  return hostgpu::runtime::Recorded(cudaErrorNotSupported);
}
