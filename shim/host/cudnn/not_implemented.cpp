// Answers calls of cuDNN's functions that are not implemented.
#include "shim/host/not_implemented.h"

#include "shim/host/cudnn/refusal.h"

int hostgpuNotImplemented(hostgpu::UnimplementedExport* stub) {
  hostgpu::SayNotImplemented(*stub, "CUDNN_STATUS_NOT_SUPPORTED");
  return hostgpu::Refuse(CUDNN_STATUS_NOT_SUPPORTED, "not implemented by the CPU stand-in");
}
