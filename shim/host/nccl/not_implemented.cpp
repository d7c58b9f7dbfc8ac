// Answers calls of NCCL's functions that are not implemented. NCCL has no status for "not
// supported"; ncclInvalidUsage is the nearest one.
#include "shim/host/not_implemented.h"

#include "shim/host/nccl/api.h"

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "ncclInvalidUsage");
  return ncclInvalidUsage;
}
