// The functions that nvcc's code calls in programs with kernels. Registering a kernel succeeds, so
// that such programs start. The stand-in cannot run device code. Launching a kernel that
// FindKnownKernel does not find fails, and the first such launch of each kernel prints its name.
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "shim/host/cudart/known_kernels.h"
#include "shim/host/cudart/runtime.h"
#include "shim/host/leaked.h"

using namespace hostgpu::runtime;

namespace {

struct Kernel {
  std::string name;  // mangled name
  bool was_launched = false;
  KnownKernel known;  // set at the first launch
};

struct Kernels {
  std::mutex mutex;
  std::map<const void*, Kernel> by_host_function;
};

Kernels& TheKernels() { return hostgpu::Leaked<Kernels>(); }

// Returns the name as in the source; a name that is not a mangled C++ name is returned unchanged.
std::string Demangled(const std::string& name) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), &std::free);
  return text ? text.get() : name;
}

bool IsRegistered(const void* function) {
  Kernels& kernels = TheKernels();
  std::lock_guard lock(kernels.mutex);
  return kernels.by_host_function.contains(function);
}

cudaError_t Launch(const void* function, void** arguments, cudaStream_t stream) {
  KnownKernel known;
  {
    Kernels& kernels = TheKernels();
    std::lock_guard lock(kernels.mutex);
    const auto found = kernels.by_host_function.find(function);
    if (found == kernels.by_host_function.end()) return Recorded(cudaErrorInvalidDeviceFunction);
    Kernel& kernel = found->second;
    if (!std::exchange(kernel.was_launched, true)) {
      const std::string name = Demangled(kernel.name);
      kernel.known = FindKnownKernel(name);
      if (!kernel.known) {
        std::fprintf(stderr,
                     "hostgpu: the kernel %s cannot run: the CPU stand-in runs no device code; "
                     "its launches return cudaErrorNotSupported\n",
                     name.c_str());
      }
    }
    if (!kernel.known) return Recorded(cudaErrorNotSupported);
    known = kernel.known;
  }
  const CUresult bound = Bind();
  return Recorded(bound == CUDA_SUCCESS ? known(arguments, stream)
                                        : static_cast<cudaError_t>(bound));
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
  kernels.by_host_function[host_function] = {name};
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
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void** arguments, size_t,
                               cudaStream_t stream) {
  return Launch(kernel, arguments, stream);
}

}  // extern "C"
#pragma GCC visibility pop

cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void** arguments, size_t,
                             cudaStream_t stream) {
  return Launch(function, arguments, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  if (!config) return Recorded(cudaErrorInvalidValue);
  return Launch(function, arguments, config->stream);
}

// Attributes that do not depend on the kernel's code get the device's values; all other attributes
// are 0.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return Bound([&] {
    if (!attributes) return CUDA_ERROR_INVALID_VALUE;
    if (!IsRegistered(function)) return static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
    const auto get = [](CUdevice_attribute attribute) {
      int value = 0;
      cuDeviceGetAttribute(&value, attribute, SelectedDevice());
      return value;
    };
    *attributes = {};
    attributes->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    attributes->binaryVersion = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                                get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    attributes->ptxVersion = attributes->binaryVersion;
    return CUDA_SUCCESS;
  });
}

// Returns the number of blocks whose threads fit on a multiprocessor. Registers and shared memory,
// which may allow fewer blocks, are not considered.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int block_size, size_t,
                                                                   unsigned) {
  return Bound([&] {
    if (!blocks || block_size < 1) return CUDA_ERROR_INVALID_VALUE;
    if (!IsRegistered(function)) return static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
    int threads = 0;
    cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
                         SelectedDevice());
    *blocks = threads / block_size;
    return CUDA_SUCCESS;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int block_size, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                shared_bytes, cudaOccupancyDefault);
}
