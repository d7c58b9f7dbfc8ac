// Answers calls of the runtime's functions that are not implemented. Like the error of every failed
// call, their error becomes the thread's last error.
#include "shim/host/not_implemented.h"

#include "shim/host/cudart/runtime.h"

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "cudaErrorNotSupported");
  return hostgpu::runtime::Recorded(cudaErrorNotSupported);
}
