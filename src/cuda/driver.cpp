#include "cuda/driver.h"

#include <string>

#include "base/log.h"
#include "base/shared_library.h"

namespace ucudnn::cuda {
namespace {

const Driver* LoadDriver() {
  const Result<SharedLibrary> library = SharedLibrary::Open("libcuda.so.1");
  if (!library.ok()) {
    Log(LogLevel::kInfo, "the CUDA driver cannot be loaded: " + library.message());
    return nullptr;
  }
  using GetProcAddress =
      CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  const auto get = reinterpret_cast<GetProcAddress>(library->Symbol("cuGetProcAddress_v2"));
  if (get == nullptr) {
    WarnOnce("driver", "the CUDA driver is older than 12.0");
    return nullptr;
  }
  auto* driver = new Driver;
  const char* missing = nullptr;
  // The oldest ABI with these signatures, so that a CUDA 12 driver also serves.
  constexpr int kAbi = 12000;
  const auto load = [&](const char* name, void** function) {
    if (get(name, function, kAbi, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) != CUDA_SUCCESS ||
        *function == nullptr) {
      missing = name;
    }
  };
#define UCUDNN_LOAD(name) load(#name, reinterpret_cast<void**>(&driver->name));
  UCUDNN_DRIVER_FUNCTIONS(UCUDNN_LOAD)
#undef UCUDNN_LOAD
  load("cuStreamGetCaptureInfo", reinterpret_cast<void**>(&driver->cuStreamGetCaptureInfo));
  if (missing == nullptr) return driver;
  WarnOnce("driver", std::string("the CUDA driver lacks ") + missing);
  delete driver;
  return nullptr;
}

}  // namespace

const Driver* GetDriver() {
  static const Driver* const driver = LoadDriver();
  return driver;
}

}  // namespace ucudnn::cuda
