// cuGetProcAddress finds the driver's functions by their unversioned names. It does not find
// functions that the stand-in does not implement; a program that is linked against them gets a
// stub, which reports the missing function.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "shim/host/cuda/driver_api.h"

extern "C" {
// The section that contains the generated stubs; the linker defines symbols for its start and its
// end.
[[gnu::visibility("hidden")]] extern const char __start_hostgpu_stubs[];
[[gnu::visibility("hidden")]] extern const char __stop_hostgpu_stubs[];
}

namespace {

// An export, and the first CUDA version for which cuGetProcAddress returns it by the name without
// suffix. Exports that are as old as CUDA 3.2 need no entry.
struct Introduction {
  const char* name;
  int version;
};
constexpr Introduction kIntroductions[] = {
    {"cuDeviceGetUuid_v2", 11040},
    {"cuDevicePrimaryCtxRelease_v2", 11000},
    {"cuDevicePrimaryCtxReset_v2", 11000},
    {"cuEventElapsedTime_v2", 12080},
    {"cuGetProcAddress_v2", 12000},
    {"cuGraphExecUpdate_v2", 12000},
    {"cuGraphNodeGetDependencies_v2", 12030},
    {"cuGraphNodeGetDependentNodes_v2", 12030},
    {"cuMemHostRegister_v2", 6050},
    {"cuStreamBeginCapture_v2", 10010},
    {"cuStreamGetCaptureInfo_v2", 11030},
    {"cuStreamGetCaptureInfo_v3", 12030},
    {"cuStreamWaitValue32_v2", 11070},
    {"cuStreamWriteValue32_v2", 11070},
};

bool Introduced(const std::string& name, int version) {
  for (const Introduction& entry : kIntroductions) {
    if (name == entry.name) return version >= entry.version;
  }
  return true;
}

void* Self() {
  static void* const self = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&cuInit), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return self;
}

void* Implemented(const std::string& name) {
  void* address = Self() ? dlsym(Self(), name.c_str()) : nullptr;
  const auto* byte = static_cast<const char*>(address);
  return byte >= __start_hostgpu_stubs && byte < __stop_hostgpu_stubs ? nullptr : address;
}

void* Find(const std::string& symbol, int version, bool* too_new) {
  for (const char* suffix : {"_v3", "_v2", ""}) {
    const std::string name = symbol + suffix;
    void* const address = Implemented(name);
    if (!address) continue;
    if (Introduced(name, version)) return address;
    *too_new = true;
  }
  return nullptr;
}

}  // namespace

// The flags of cuGetProcAddress can ask for per-thread default streams. The stand-in ignores them
// and returns the functions of the legacy default stream. The functions of the legacy default
// stream wait for more work than those of per-thread streams.
CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t,
                             CUdriverProcAddressQueryResult* status) {
  if (!symbol || !function || version > CUDA_VERSION) return CUDA_ERROR_INVALID_VALUE;
  bool too_new = false;
  // The stand-ins' private symbols do not start with "cu", and must not be found.
  const bool driver_name = std::strncmp(symbol, "cu", 2) == 0;
  *function = driver_name ? Find(symbol, version, &too_new) : nullptr;
  if (status) {
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS
              : too_new ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

#undef cuGetProcAddress
extern "C" [[gnu::visibility("default")]] CUresult cuGetProcAddress(const char* symbol,
                                                                    void** function, int version,
                                                                    cuuint64_t flags) {
  const CUresult result = cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
  return result == CUDA_SUCCESS && !*function ? CUDA_ERROR_NOT_FOUND : result;
}

// A real CUDA runtime asks for an export table first. So the calling file contains its own copy of
// the runtime. Such a copy cannot work with the stand-in. Prints the name of each such file once.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  Dl_info caller{};
  dladdr(__builtin_return_address(0), &caller);
  const std::string file = caller.dli_fname ? caller.dli_fname : "this program";
  static std::mutex* const mutex = new std::mutex;
  // Never destroyed: threads may call this while the process exits.
  static auto* const told = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  if (told->insert(file).second) {
    std::fprintf(stderr,
                 "hostgpu: %s has a CUDA runtime of its own, which the CPU stand-in cannot serve: "
                 "its CUDA calls fail (a library of yours is served when it is linked with "
                 "`-cudart shared`)\n",
                 file.c_str());
  }
  if (table) *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
