// Kernels that the stand-in computes itself, known by their names: those of Thrust's fill and copy
// on device memory, which programs prepare tensors with. The code of every other kernel is a GPU's.
// Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "shim/host/cudart/runtime_api.h"

namespace hostgpu::runtime {

// Enqueues on `stream` what a launch with these arguments (as cudaLaunchKernel's) computes. An
// operand that is no device memory of the size it needs is cudaErrorIllegalAddress.
using KnownKernel = std::function<cudaError_t(void** arguments, cudaStream_t stream)>;

// What the kernel of this demangled name does; empty where that is not known.
KnownKernel FindKnownKernel(const std::string& name);

}  // namespace hostgpu::runtime
