// Answers calls of the runtime's functions that are not implemented. The error also becomes the
// thread's last error, as after every failed call.
#include "shim/host/not_implemented.h"

#include "shim/host/cudart/runtime.h"

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "cudaErrorNotSupported");
  return hostgpu::runtime::Recorded(cudaErrorNotSupported);
}
