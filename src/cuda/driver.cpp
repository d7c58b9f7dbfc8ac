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
  // CUDA 12.0 is the oldest version in which the functions have these signatures. So a driver of
  // CUDA 12.0 suffices.
  constexpr int kAbi = 12000;
  const auto find = [&](const char* name, void** function) {
    if (get(name, function, kAbi, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) != CUDA_SUCCESS) {
      *function = nullptr;
    }
    return *function != nullptr;
  };
  const auto load = [&](const char* name, void** function) {
    if (!find(name, function)) missing = name;
  };
#define UCUDNN_LOAD(name) load(#name, reinterpret_cast<void**>(&driver->name));
  UCUDNN_DRIVER_FUNCTIONS(UCUDNN_LOAD)
#undef UCUDNN_LOAD
#define UCUDNN_TRY(name) find(#name, reinterpret_cast<void**>(&driver->name));
  UCUDNN_DRIVER_EXCHANGE_FUNCTIONS(UCUDNN_TRY)
  UCUDNN_DRIVER_GRAPH_FUNCTIONS(UCUDNN_TRY)
#undef UCUDNN_TRY
  load("cuStreamGetCaptureInfo", reinterpret_cast<void**>(&driver->cuStreamGetCaptureInfo));
  if (missing == nullptr) return driver;
  WarnOnce("driver", std::string("the CUDA driver lacks ") + missing);
  delete driver;
  return nullptr;
}

}  // namespace

#define UCUDNN_NAME_IF_NULL(name) \
  if (this->name == nullptr) return #name;

const char* Driver::MissingForExchange() const {
  UCUDNN_DRIVER_EXCHANGE_FUNCTIONS(UCUDNN_NAME_IF_NULL)
  return nullptr;
}

const char* Driver::MissingForGraphs() const {
  UCUDNN_DRIVER_GRAPH_FUNCTIONS(UCUDNN_NAME_IF_NULL)
  return nullptr;
}

#undef UCUDNN_NAME_IF_NULL

const Driver* GetDriver() {
  static const Driver* const driver = LoadDriver();
  return driver;
}

}  // namespace ucudnn::cuda
