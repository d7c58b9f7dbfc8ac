// Kernels that the stand-in computes itself, known by their names: those of Thrust's fill and copy
// on device memory, with which programs prepare tensors. All other kernels' code is a GPU's.
// Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "shim/host/cudart/runtime_api.h"

namespace hostgpu::runtime {

// Enqueues on `stream` the computation of a launch with these arguments (in the form of
// cudaLaunchKernel's). cudaErrorIllegalAddress if an operand is no device memory of the needed
// size.
using KnownKernel = std::function<cudaError_t(void** arguments, cudaStream_t stream)>;

// Returns the kernel of this demangled name; empty if it is unknown.
KnownKernel FindKnownKernel(const std::string& name);

}  // namespace hostgpu::runtime
