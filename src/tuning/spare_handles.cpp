#include "tuning/spare_handles.h"

#include <map>
#include <utility>

#include "base/mutex.h"

namespace ucudnn::tuning {
namespace {

// Spare handles by the id of their context. Unlike an address, an id is never used for another
// context. So a handle whose context no longer exists is never returned for a new context.
struct SpareHandles {
  using Owner = std::pair<decltype(cudnn::Functions::cudnnCreate), unsigned long long>;
  Mutex mutex;
  std::multimap<Owner, cudnnHandle_t> handles UCUDNN_GUARDED_BY(mutex);
};

SpareHandles& TheSpareHandles() {
  static SpareHandles* const spare = new SpareHandles;
  return *spare;
}

bool FindOwner(const cuda::Driver& driver, const cudnn::Functions& functions,
               SpareHandles::Owner& owner) {
  owner.first = functions.cudnnCreate;
  return driver.cuCtxGetId(nullptr, &owner.second) == CUDA_SUCCESS;
}

}  // namespace

Result<cudnnHandle_t> TakeHandle(const cuda::Driver& driver, const cudnn::Functions& functions) {
  SpareHandles::Owner owner;
  if (FindOwner(driver, functions, owner)) {
    SpareHandles& spare = TheSpareHandles();
    MutexLock lock(spare.mutex);
    if (auto node = spare.handles.extract(owner)) return node.mapped();
  }
  cudnnHandle_t handle = nullptr;
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(functions, functions.cudnnCreate(&handle),
                                            "creating a handle for measuring"));
  return handle;
}

void KeepHandle(const cuda::Driver& driver, const cudnn::Functions& functions,
                cudnnHandle_t handle) noexcept {
  SpareHandles::Owner owner;
  if (!FindOwner(driver, functions, owner)) return;
  try {
    SpareHandles& spare = TheSpareHandles();
    MutexLock lock(spare.mutex);
    spare.handles.emplace(owner, handle);
  } catch (...) {
    // There is no memory to keep the handle. The handle is leaked, because destroying it would wait
    // for the device.
  }
}

}  // namespace ucudnn::tuning
