#include "shim/host/cudart/runtime.h"
#include "shim/host/leaked.h"

#include <mutex>
#include <vector>

namespace hostgpu::runtime {
namespace {

thread_local int selected_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

// The reference that the runtime itself holds to each device's primary context.
struct Primaries {
  struct Primary {
    CUcontext context = nullptr;
    bool retained = false;
  };
  std::mutex mutex;
  std::vector<Primary> by_device;
};

Primaries& ThePrimaries() { return Leaked<Primaries>(); }

CUresult Retain(int device, CUcontext* context) {
  int count = 0;
  if (const CUresult result = cuDeviceGetCount(&count); result != CUDA_SUCCESS) return result;
  if (device < 0 || device >= count) return CUDA_ERROR_INVALID_DEVICE;
  Primaries& primaries = ThePrimaries();
  std::lock_guard lock(primaries.mutex);
  primaries.by_device.resize(count);
  auto& primary = primaries.by_device[device];
  if (!primary.retained) {
    const CUresult result = cuDevicePrimaryCtxRetain(&primary.context, device);
    if (result != CUDA_SUCCESS) return result;
    primary.retained = true;
  }
  *context = primary.context;
  return CUDA_SUCCESS;
}

// Returns the device whose primary context was `context` before ForgetContext was called for that
// device; -1 if there is none.
int Forgotten(CUcontext context) {
  Primaries& primaries = ThePrimaries();
  std::lock_guard lock(primaries.mutex);
  for (size_t device = 0; device < primaries.by_device.size(); ++device) {
    const auto& primary = primaries.by_device[device];
    if (primary.context == context && !primary.retained) return static_cast<int>(device);
  }
  return -1;
}

}  // namespace

cudaError_t Recorded(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

CUresult SelectDevice(int device) {
  CUcontext context = nullptr;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS) result = Retain(device, &context);
  if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS) selected_device = device;
  return result;
}

CUresult Bind() {
  CUresult result = cuInit(0);
  CUcontext current = nullptr;
  if (result == CUDA_SUCCESS) result = cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS) return result;
  if (!current) return SelectDevice(selected_device);
  const int forgotten = Forgotten(current);
  return forgotten < 0 ? CUDA_SUCCESS : Retain(forgotten, &current);
}

int SelectedDevice() {
  CUdevice device = 0;
  return cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : selected_device;
}

void ForgetContext(int device) {
  Primaries& primaries = ThePrimaries();
  std::lock_guard lock(primaries.mutex);
  if (static_cast<size_t>(device) < primaries.by_device.size()) {
    primaries.by_device[device].retained = false;
  }
}

}  // namespace hostgpu::runtime

cudaError_t cudaGetLastError() {
  const cudaError_t error = hostgpu::runtime::last_error;
  hostgpu::runtime::last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return hostgpu::runtime::last_error; }
