// Kernels that the stand-in computes itself and recognises by their names. They are Thrust's fill
// and copy on device memory, with which programs prepare tensors. All other kernels exist only as
// code for a GPU. Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "shim/host/cudart/runtime_api.h"

namespace hostgpu::runtime {

// Enqueues on `stream` the computation of a launch with these arguments, which have the form of
// cudaLaunchKernel's. Returns cudaErrorIllegalAddress if an operand is not device memory of the
// needed size.
using KnownKernel = std::function<cudaError_t(void** arguments, cudaStream_t stream)>;

// Returns the kernel with this demangled name; empty if the name is unknown.
KnownKernel FindKnownKernel(const std::string& name);

}  // namespace hostgpu::runtime
