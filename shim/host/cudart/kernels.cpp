// What nvcc puts into programs with kernels. Registering them is accepted, so that such programs
// start; launching one is refused by name: the stand-in runs no device code.
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "shim/host/cudart/runtime.h"

using namespace hostgpu::runtime;

namespace {

struct Kernels {
  std::mutex mutex;
  std::map<const void*, std::string> names;  // by host function; mangled
};

Kernels& TheKernels() {
  static Kernels* const kernels = new Kernels;
  return *kernels;
}

cudaError_t Refuse(const void* function) {
  Kernels& kernels = TheKernels();
  std::lock_guard lock(kernels.mutex);
  const auto found = kernels.names.find(function);
  std::fprintf(stderr, "hostgpu: kernel %s cannot run: the CPU stand-in runs no device code\n",
               found == kernels.names.end() ? "(unregistered)" : found->second.c_str());
  return Recorded(cudaErrorNotSupported);
}

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<CallConfiguration> configurations;

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void** __cudaRegisterFatBinary(void*) { return new void*(nullptr); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { delete handle; }
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  Kernels& kernels = TheKernels();
  std::lock_guard lock(kernels.mutex);
  kernels.names[host_function] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  configurations.push_back({grid, block, shared_bytes, static_cast<cudaStream_t>(stream)});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  if (configurations.empty()) return Recorded(cudaErrorMissingConfiguration);
  const CallConfiguration configuration = configurations.back();
  configurations.pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

// A kernel's handle is the address of its host function.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t, cudaStream_t) {
  return Refuse(kernel);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3, dim3, void**, size_t, cudaStream_t) {
  return Refuse(kernel);
}
cudaError_t cudaLaunchKernel_ptsz(const void* function, dim3, dim3, void**, size_t, cudaStream_t) {
  return Refuse(function);
}
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t*, const void* function, void**) {
  return Refuse(function);
}

}  // extern "C"
#pragma GCC visibility pop

cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void**, size_t, cudaStream_t) {
  return Refuse(function);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* function, void**) {
  return Refuse(function);
}
