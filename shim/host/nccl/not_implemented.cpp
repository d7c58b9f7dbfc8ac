// Exports of NCCL that are not implemented. NCCL has no "not supported"; it calls an unmet demand
// on the library invalid usage.
#include "shim/host/not_implemented.h"

#include "shim/host/nccl/api.h"

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "ncclInvalidUsage");
  return ncclInvalidUsage;
}
