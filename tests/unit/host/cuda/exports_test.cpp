// The stand-ins export exactly what the real libraries do, and what is not implemented says so.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <string>

namespace {

using Names = std::set<std::string>;

// What `tools/generate-host-stubs --exports` writes for a library, or what is in a committed list.
Names Read(FILE* file) {
  Names names;
  char line[256];
  while (std::fgets(line, sizeof line, file)) {
    std::string name(line);
    name.erase(name.find_last_not_of('\n') + 1);
    if (!name.empty() && name[0] != '#') names.insert(name);
  }
  return names;
}

Names ExportsOf(const std::string& library) {
  FILE* pipe = popen((SOURCE_DIR "/tools/generate-host-stubs --exports " + library).c_str(), "r");
  const Names names = Read(pipe);
  EXPECT_EQ(pclose(pipe), 0);
  return names;
}

Names Committed(const std::string& list) {
  FILE* file = std::fopen((SOURCE_DIR "/shim/host/" + list).c_str(), "r");
  const Names names = Read(file);
  std::fclose(file);
  return names;
}

void* RealRuntime() {
  // By path and local: the stand-in of the same name stays the one this program is linked with.
  static void* const library = dlopen(REAL_CUDART, RTLD_NOW | RTLD_LOCAL);
  return library;
}

TEST(Exports, RuntimeListIsTheRealLibrarys) {
  if (access(REAL_CUDART, R_OK) != 0) GTEST_SKIP() << "no " REAL_CUDART;
  EXPECT_EQ(Committed("cudart/exports.txt"), ExportsOf(REAL_CUDART));
}

TEST(Exports, DriverListIsTheToolkitStubs) {
  if (access(REAL_DRIVER_STUB, R_OK) != 0) GTEST_SKIP() << "no " REAL_DRIVER_STUB;
  EXPECT_EQ(Committed("cuda/exports.txt"), ExportsOf(REAL_DRIVER_STUB));
}

TEST(Exports, RuntimeExportsItsListAndNothingElse) {
  EXPECT_EQ(ExportsOf(HOST_DIR "/libcudart.so.13"), Committed("cudart/exports.txt"));
}

TEST(Exports, DriverExportsItsListAndThePrivateSymbols) {
  Names names = ExportsOf(HOST_DIR "/libcuda.so.1");
  EXPECT_EQ(names.erase("hostgpuHostAlias"), 1u);
  std::erase_if(names, [](const std::string& name) { return name.rfind("hostgpu", 0) == 0; });
  EXPECT_EQ(names, Committed("cuda/exports.txt"));
}

TEST(Exports, SymbolVersionsAreTheRealOnes) {
  void* runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(runtime, nullptr);
  ASSERT_NE(driver, nullptr);
  EXPECT_NE(dlvsym(runtime, "cudaMalloc", "libcudart.so.13"), nullptr);
  EXPECT_NE(dlvsym(driver, "hostgpuHostAlias", "HOSTGPU_PRIVATE"), nullptr);
  EXPECT_EQ(dlvsym(driver, "cuInit", "HOSTGPU_PRIVATE"), nullptr);
}

TEST(Exports, RuntimeErrorTextsAreTheRealOnes) {
  if (!RealRuntime()) GTEST_SKIP() << dlerror();
  const auto name =
      reinterpret_cast<decltype(&cudaGetErrorName)>(dlsym(RealRuntime(), "cudaGetErrorName"));
  const auto text =
      reinterpret_cast<decltype(&cudaGetErrorString)>(dlsym(RealRuntime(), "cudaGetErrorString"));
  ASSERT_NE(name, &cudaGetErrorName);
  for (int code = 0; code < 1100; ++code) {
    const auto error = static_cast<cudaError_t>(code);
    EXPECT_STREQ(cudaGetErrorName(error), name(error)) << code;
    EXPECT_STREQ(cudaGetErrorString(error), text(error)) << code;
  }
}

TEST(Exports, WhatIsNotImplementedIsAnErrorAndSaysItsNameOnce) {
  ::testing::internal::CaptureStderr();
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(cudaGraphAddEmptyNode(nullptr, nullptr, nullptr, 0), cudaErrorNotSupported);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
    EXPECT_EQ(cuLinkDestroy(nullptr), CUDA_ERROR_NOT_SUPPORTED);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hostgpu: cudaGraphAddEmptyNode is not implemented by the CPU stand-in: it returns "
            "cudaErrorNotSupported\n"
            "hostgpu: cuLinkDestroy is not implemented by the CPU stand-in: it returns "
            "CUDA_ERROR_NOT_SUPPORTED\n");
}

TEST(Exports, ChannelDescriptionIsWhatItWasMadeOf) {
  const cudaChannelFormatDesc made =
      cudaCreateChannelDesc(32, 16, 8, 4, cudaChannelFormatKindFloat);
  EXPECT_EQ(made.x, 32);
  EXPECT_EQ(made.y, 16);
  EXPECT_EQ(made.z, 8);
  EXPECT_EQ(made.w, 4);
  EXPECT_EQ(made.f, cudaChannelFormatKindFloat);
}

TEST(EntryPoints, UnversionedNamesMeanTheNewestTheCallerKnows) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  ASSERT_EQ(cuGetProcAddress("cuMemAlloc", &function, 13000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuMemAlloc));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  void* old = nullptr;
  ASSERT_EQ(cuGetProcAddress("cuEventElapsedTime", &old, 12000, 0, &status), CUDA_SUCCESS);
  ASSERT_EQ(cuGetProcAddress("cuEventElapsedTime", &function, 13000, 0, &status), CUDA_SUCCESS);
  EXPECT_NE(old, nullptr);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuEventElapsedTime));
  EXPECT_NE(old, function);
}

TEST(EntryPoints, PerThreadVariantIsGivenWhenAskedFor) {
  void* legacy = nullptr;
  void* own = nullptr;
  void* none = nullptr;
  const auto per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  cuGetProcAddress("cuMemcpyHtoDAsync", &legacy, 13000, 0, nullptr);
  cuGetProcAddress("cuMemcpyHtoDAsync", &own, 13000, per_thread, nullptr);
  EXPECT_NE(own, legacy);
  cuGetProcAddress("cuMemAlloc", &none, 13000, per_thread, nullptr);
  EXPECT_EQ(none, reinterpret_cast<void*>(&cuMemAlloc));
}

TEST(EntryPoints, UnimplementedAndPrivateNamesAreNotFound) {
  for (const char* name : {"cuGraphClone", "cuNoSuchFunction", "hostgpuHostAlias", "malloc"}) {
    void* function = this;
    CUdriverProcAddressQueryResult status;
    EXPECT_EQ(cuGetProcAddress(name, &function, 13000, 0, &status), CUDA_SUCCESS) << name;
    EXPECT_EQ(function, nullptr) << name;
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) << name;
  }
}

}  // namespace
