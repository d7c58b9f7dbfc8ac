// Exports of NCCL that are not implemented. It has no "not supported": an unmet demand on the
// library is invalid usage in its words.
#include "shim/host/not_implemented.h"

#include "shim/host/nccl/api.h"

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "ncclInvalidUsage");
  return ncclInvalidUsage;
}
